"""Logs to damage in tests: records of a few queues, with what each test may ask of them."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import SALVAGE
from tests.built import SIZES, Built
from tests.built import T0 as START
from tests.in_process import Rebuilt, Session, rebuild_log
from tests.logs import Log
from tests.logs.encoder import Message, encode, properties

SEGMENT = 4096
SETTINGS: dict[str, Any] = {**SIZES, "mappedFileSizeCommitLog": SEGMENT}
ENTRY = struct.Struct(">qiq")


def messages(count: int = 60, queues: int = 3, **over: Any) -> list[Message]:
    """A queue's offsets go on by one, and time with every message."""
    return [
        Message(
            **{
                "topic": "T", "queue_id": n % queues, "queue_offset": n // queues,
                "body": b"body %03d" % n, "store_timestamp": START + n,
                "properties": properties(("KEYS", f"k{n}")), **over,
            }
        )
        for n in range(count)
    ]  # fmt: skip


@dataclass
class Damaged:
    """A log that may be changed, and where its records stood while it was whole."""

    messages: list[Message]
    segments: dict[int, bytearray]
    places: list[int]
    settings: dict[str, Any] = field(default_factory=lambda: dict(SETTINGS))
    version: str = "5.3.3"

    @property
    def log(self) -> Log:
        return Log({a: bytes(s) for a, s in self.segments.items()}, self.settings, self.version, {})

    def put(self, place: int, raw: bytes) -> None:
        """Write over the log at a physical offset, over segment borders too."""
        size = len(next(iter(self.segments.values())))
        for i, byte in enumerate(raw):
            self.segments[(place + i) // size * size][(place + i) % size] = byte

    def flip(self, number: int, byte: int, bit: int = 0) -> None:
        """Flip a bit of record `number`."""
        place = self.places[number] + byte
        base = max(start for start in self.segments if start <= place)
        self.segments[base][place - base] ^= 1 << bit

    def record(self, segments: Mapping[int, bytes | bytearray], number: int) -> bytes:
        """The bytes where record `number` stood."""
        place = self.places[number]
        base = max(start for start in self.segments if start <= place)
        length = len(encode(self.messages[number], place))
        return bytes(segments[base][place - base : place - base + length])

    def size(self, number: int) -> int:
        base = max(start for start in self.segments if start <= self.places[number])
        at = self.places[number] - base
        return int(struct.unpack_from(">i", self.segments[base], at)[0])


def damaged(made: list[Message] | None = None, segment: int = SEGMENT, **more: Any) -> Damaged:
    """The log of these messages, still whole."""
    built = Built({**SETTINGS, "mappedFileSizeCommitLog": segment}, **more)
    built.add(messages() if made is None else made)
    whole = {at: bytearray(content) for at, content in built.log().segments.items()}
    return Damaged(built.messages, whole, built.places(), built.settings)


def salvage(log: Log, splits: int = 1, seed: int = 0) -> Rebuilt:
    """Rebuild with --on-damage salvage, each segment cut into so many splits, queues in shares
    where that is an even number."""
    partitions = 2 if splits % 2 else None
    cut = Cut(-(-log.settings["mappedFileSizeCommitLog"] // splits), 2, partitions)
    return rebuild_log(log, cut, Session(seed), SALVAGE)


def entries(rebuilt: Rebuilt, topic: str, queue_id: int) -> list[int]:
    """The physical offsets in a queue, by position; -1 for a pre-blank unit."""
    prefix = f"consumequeue/{topic}/{queue_id}/"
    raw = b"".join(rebuilt.files[path] for path in sorted(rebuilt.files) if path.startswith(prefix))
    found = [ENTRY.unpack_from(raw, at) for at in range(0, len(raw), ENTRY.size)]
    while found and found[-1][1] == 0:
        found.pop()
    return [-1 if size == 0x7FFFFFFF and not place else place for place, size, _ in found]
