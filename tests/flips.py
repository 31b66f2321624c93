"""One bit flipped, a last record cut, or a hole in it: every such state of a small log.

What becomes of a state is one word:
`refused`: an error names the place, and nothing is made;
`cut`: the log ends before the record, and that is said;
`absent`: as if the record had never been written; there is no trace of it;
`same`: all derived bytes are as without the damage;
`said`: some derived bytes differ, and a warning says what was left out;
`other`: derived bytes differ, and nothing is said.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from store_format.faults import StoreError
from tests.in_process import rebuild_log
from tests.logs.encoder import HOST, Message, build_log, encode, properties
from tests.logs.strategies import Log

SEGMENT = 8192
SETTINGS = {
    "mappedFileSizeCommitLog": SEGMENT,
    "mappedFileSizeConsumeQueue": 1000,
    "maxHashSlotNum": 7,
    "maxIndexNum": 100,
}
COUNT = 20
PLACES = {"first": 0, "middle": COUNT // 2 - 1, "last": COUNT - 1}
_V6 = bytes(15) + b"\x01" + HOST[4:]
# The kinds of a last record that are cut.
KINDS: dict[str, dict[str, object]] = {
    "V1": {},
    "V2": {"version": 2, "topic": "L" * 130},
    "IPv6": {"sys_flag": 0x30, "born_host": _V6, "store_host": _V6},
    "prepared": {"sys_flag": 4},
    "commit": {"sys_flag": 8, "prepared_transaction_offset": 100},
    "rollback": {"sys_flag": 12, "prepared_transaction_offset": 100},
}


class State(NamedTuple):
    """A damaged log: which field was hit, and the segment's bytes."""

    field: str
    at: int  # in the record
    segment: bytes
    changed: frozenset[str] = frozenset()  # of a hole: all fields that it changes


def messages(crc: bool = False, last: dict[str, object] | None = None) -> list[Message]:
    made = [
        Message(
            queue_offset=number // 2,
            queue_id=number % 2,
            body=b"body %d" % number,
            store_timestamp=1_700_000_000_000 + 1000 * number,
            properties=properties(("KEYS", f"k{number}"), ("TAGS", "t")),
            crc_property=crc,
        )
        for number in range(COUNT)
    ]
    made[-1] = replace(made[-1], **(last or {}))  # type: ignore[arg-type]
    return made


def log_of(segment: bytes, crc: bool = False) -> Log:
    settings = {**SETTINGS, "forceVerifyPropCRC": True} if crc else SETTINGS
    return Log(segments={0: segment}, settings=settings, version="5.3.3", topic_attributes={})


def fields(message: Message) -> list[tuple[str, int]]:
    """Each field of a record and the byte after it."""
    sizes = [
        ("totalSize", 4), ("magic", 4), ("bodyCRC", 4), ("queueId", 4), ("flag", 4),
        ("queueOffset", 8), ("physicalOffset", 8), ("sysFlag", 4), ("bornTimestamp", 8),
        ("bornHost", len(message.born_host)), ("storeTimestamp", 8),
        ("storeHost", len(message.store_host)), ("reconsumeTimes", 4),
        ("preparedTransactionOffset", 8), ("bodyLength", 4), ("body", len(message.body)),
        ("topicLength", message.version), ("topic", len(message.topic)),
        ("propertiesLength", 2), ("properties", len(message.properties)),
        ("__CRC32#", 20 if message.crc_property else 0),
    ]  # fmt: skip
    ends, at = [], 0
    for name, size in sizes:
        at += size
        ends.append((name, at))
    return ends


def _place(made: list[Message], number: int) -> int:
    return sum(len(encode(message, 0)) for message in made[:number])


def _field_at(ends: list[tuple[str, int]], at: int) -> str:
    return next(name for name, end in ends if at < end)


def flips(number: int, crc: bool = False, every: int = 1) -> Iterator[State]:
    """Every bit of one record; every: only each so manieth, for a judge that is slow."""
    made = messages(crc)
    whole, start = build_log(made, SEGMENT)[0], _place(made, number)
    ends = fields(made[number])
    for bit in range(0, 8 * ends[-1][1], every):
        at = bit // 8
        damaged = bytearray(whole)
        damaged[start + at] ^= 1 << bit % 8
        yield State(_field_at(ends, at), at, bytes(damaged))


def cuts(kind: str) -> Iterator[State]:
    """The last record, written up to each of its bytes; zeros after."""
    made = messages(last=KINDS[kind])
    whole, start = build_log(made, SEGMENT)[0], _place(made, COUNT - 1)
    ends = fields(made[-1])
    for at in range(ends[-1][1]):
        yield State(_field_at(ends, at), at, whole[: start + at].ljust(SEGMENT, b"\0"))


def holes(kind: str) -> Iterator[State]:
    """Zeros from each byte of the last record to each later one; the end is there."""
    made = messages(last=KINDS[kind])
    whole, start = build_log(made, SEGMENT)[0], _place(made, COUNT - 1)
    ends = fields(made[-1])
    size = ends[-1][1]
    names = [_field_at(ends, at) for at in range(size)]
    for at in range(size):
        for end in range(at + 1, size):
            damaged = whole[: start + at] + bytes(end - at) + whole[start + end :]
            changed = frozenset(names[i] for i in range(at, end) if whole[start + i])
            if changed:
                yield State(names[at], at, damaged, changed)


class Outcomes:
    """Says what becomes of a state."""

    def __init__(self, crc: bool = False, last: dict[str, object] | None = None) -> None:
        self.crc = crc
        made = messages(crc, last)
        self._whole = rebuild_log(log_of(build_log(made, SEGMENT)[0], crc)).files
        self._prefix = rebuild_log(log_of(build_log(made[:-1], SEGMENT)[0], crc)).files

    def of(self, state: State) -> str:
        try:
            rebuilt = rebuild_log(log_of(state.segment, self.crc), on_damage="refuse")
        except StoreError:
            return "refused"
        summary = rebuilt.summary
        if rebuilt.files == self._whole and not summary.warnings:
            return "same"
        prefix = rebuilt.files == self._prefix
        if summary.warnings or summary.left_out:
            return "cut" if prefix else "said"
        return "absent" if prefix else "other"
