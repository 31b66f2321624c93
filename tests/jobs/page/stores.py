"""Stores for pages: healthy, damaged, hostile, large."""

import json
from collections.abc import Iterable
from pathlib import Path

from tests import golden_stores
from tests.built import write_log
from tests.logs.encoder import Message, build_log, properties

AT = 1_700_000_000_000
HOUR = 3_600_000
# Names that would do something if they were anything but text.
HOSTILE = (
    "<script>document.title='broken'</script>", "</script><script>document.title='broken'</script>",
    "<img src=x onerror=\"document.title='broken'\">", "'\"><svg onload=alert(1)>",
    "</title><h1>broken</h1>", "{{7*7}} ${7*7} datum.label", "\u202egnp.exe", "a\nb\tc\x00\x1b[31m",
    "&lt;b&gt; &amp;", "__proto__", "constructor", "-->", "x" * 120,
)  # fmt: skip


def healthy(to: Path) -> Path:
    """A store as a broker left it, with the files that RocketMQ derived."""
    return golden_stores.whole("small_all_5.3.3", to, (*golden_stores.DERIVED, "checkpoint"))[0]


def damaged(to: Path) -> Path:
    """A log with one damaged record, and nothing derived from it."""
    return golden_stores.copy_input(golden_stores.unpack("middle_magic_5.3.3"), to / "store")


def of_messages(messages: Iterable[Message], to: Path, segment: int = 1 << 20) -> Path:
    """A log of these messages in `to/store`."""
    return write_log(to / "store", build_log(list(messages), segment))


def hostile(to: Path) -> Path:
    """Topics, groups, keys and times that nobody should trust."""
    messages = [Message(topic=name, queue_offset=n, store_timestamp=AT + n * 60_000)
                for name in HOSTILE for n in range(3)]  # fmt: skip
    messages += [
        Message(topic="RMQ_SYS_TRANS_HALF_TOPIC", queue_offset=n, store_timestamp=AT + HOUR,
                properties=properties(("REAL_TOPIC", name), ("REAL_QID", "0"), ("UNIQ_KEY", name),
                                      ("PGROUP", name)))
        for n, name in enumerate(HOSTILE) if "\x01" not in name
    ]  # fmt: skip
    messages += [
        Message(topic="SCHEDULE_TOPIC_XXXX", queue_id=2, queue_offset=n, store_timestamp=AT + HOUR,
                properties=properties(("REAL_TOPIC", name), ("REAL_QID", "0"), ("UNIQ_KEY", name)))
        for n, name in enumerate(HOSTILE)
    ]  # fmt: skip
    messages.append(Message(topic="late", store_timestamp=(1 << 63) - 1))
    messages.append(Message(topic="early", store_timestamp=-(1 << 63)))
    store = of_messages(messages, to)
    (store / "config").mkdir()
    table = {f"{name}@{name}": {"0": 1, "1": (1 << 63) - 1} for name in HOSTILE if "@" not in name}
    (store / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": table}))
    return store


def many_topics(to: Path, topics: int = 10_000) -> Path:
    """So many topics, each with some messages over a day, and a queue of each."""
    messages = (Message(topic=f"topic-{n:05d}", queue_offset=k,
                        store_timestamp=AT + (n + k * 7919) % 86_400 * 1000)
                for n in range(topics) for k in range(1 + n % 3))  # fmt: skip
    return of_messages(messages, to, 1 << 24)
