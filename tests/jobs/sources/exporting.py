"""What an export must keep of each message."""

from pathlib import Path

from tests.jobs.sources.reading import table

SAME = (
    "topic", "queueId", "tags", "keys", "uniqueKey", "properties", "flag", "sysFlag",
    "bornTimestampMillis", "bornHost", "storeHost", "reconsumeTimes", "bodyCRC", "body",
)  # fmt: skip


def topics(store: Path) -> list[str]:
    """Those that a producer may send to."""
    names = set(table(store, rocketmq="5.5.0", columns="topic")["topic"].to_pylist())
    return sorted(n for n in names if n.isascii() and n.replace("_", "").isalnum() and len(n) < 100)
