"""A small store that is written at known times, and asked as a broker's clients ask it."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reput.jobs.sockets.opened import ServedSource, open_broker
from reput.store_format.message.message import Message
from tests.broker.writer.stores import TINY, Clock, open_writer
from tests.jobs.sockets.asked import Asked

T0 = 1_700_000_000_000
STEP = 1000  # milliseconds between two messages
_ENTRY = re.compile(
    rb'\{"brokerName":"reput","queueId":(\d+),"topic":"([^"]*)"\}:(\{[^}]*\}|-?\d+)')  # fmt: skip
FIXED = 91  # bytes of a record without topic, body and properties


def message(number: int, topic: str = "T", queue_id: int = 0, tag: str = "",
            size: int = 9) -> Message:  # fmt: skip
    """A message of FIXED + 1 + size bytes, and those of its tag."""
    raw = f"TAGS\x01{tag}\x02".encode() if tag else b""
    return Message(topic, b"%0*d" % (size, number), queue_id, properties=raw)


def served(
    root: Path, messages: Iterable[Message], release: str = "5.3.3",
    topics: dict[str, Any] | None = None, step: int = STEP, **settings: object,
) -> Asked:  # fmt: skip
    """A broker on a store with these messages, the first stored at T0; step: ms between two."""
    clock = Clock(T0)
    with open_writer(root, clock, release=release, **settings) as writer:
        for each in messages:
            writer.append(each)
            clock.now += step
    if topics is not None:
        (root / "config").mkdir()
        (root / "config/topics.json").write_text(json.dumps({"topicConfigTable": topics}))
    given = {name: str(value) for name, value in (TINY | settings).items()}
    return Asked(open_broker(ServedSource(str(root), release, given), lambda _: None))


def by_queue(body: bytes) -> dict[tuple[str, int], Any]:
    """The values of a map whose keys are MessageQueues, by topic and queue id."""
    return {(topic.decode(), int(queue)): json.loads(value) for queue, topic,
            value in _ENTRY.findall(body)}  # fmt: skip
