"""What a scan gives of a small log."""

from typing import Any

import numpy as np

from reput.store_format.dispatch.dispatch import firsts, unpacked
from reput.store_format.dispatch.scan import (
    Buffers,
    Bytes,
    End,
    IndexPuts,
    Runs,
    Stretch,
    scan,
    scan_rules,
)
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import Settings
from tests.logs import Message, build_log, properties

SEGMENT = 1 << 17


def log_of(count: int) -> bytes:
    messages = [
        Message(
            topic=f"T{i % 3}", queue_id=i % 2, queue_offset=i // 6,
            properties=properties(("KEYS", " ".join(f"k{n}" for n in range(i % 5)))),
        )
        for i in range(count)
    ]  # fmt: skip
    return build_log(messages, SEGMENT)[0]


def outcome(segment: bytes, most_queue_puts: int) -> tuple[list[Any], dict[Any, bytes], End, int]:
    """(index puts, each queue's entries, the end, how often either was given)."""

    def read(offset: int, buffer: Bytes) -> None:
        buffer[:] = np.frombuffer(segment, np.uint8, len(buffer), offset)

    puts: list[Any] = []
    entries: dict[Any, bytes] = {}
    given = 0
    rules = scan_rules(profile("5.3.3"), Settings(), ())
    buffers = Buffers(SEGMENT, most_queue_puts)
    for part in scan(read, Stretch(0, SEGMENT, 0, SEGMENT, 0), rules, buffers):
        match part:
            case IndexPuts(hashes, messages):
                assert len(messages) == firsts(hashes)
                puts += unpacked(hashes, messages).tolist()
                given += 1
            case Runs(queues, runs):
                given += 1
                for number, key in enumerate(queues):
                    at, count = int(runs.entries_at[number]), int(runs.count[number])
                    entry = runs.entries[at : at + 20 * count].tobytes()
                    entries[key] = entries.get(key, b"") + entry
            case End():
                return puts, entries, part, given
    raise AssertionError("no End")
