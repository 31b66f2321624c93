"""A log of twelve messages, and every cut, hole and flipped bit of its records."""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tests.damaged import SETTINGS, START
from tests.logs import Log
from tests.logs.damage import record_places
from tests.logs.encoder import Message, build_log, encode, properties

VERSION = "5.4.0"
COUNT = 12
SEGMENT = 4096
PLACES = {"first": 0, "middle": 5, "last": COUNT - 1}
HOLES = (1, 8, 32)  # bytes
_IPV6 = bytes(range(16)) + struct.pack(">i", 10911)

# What the last record is, for cuts and holes.
LAST: dict[str, dict[str, Any]] = {
    "V1": {}, "V2": {"version": 2, "topic": "long" * 40},
    "IPv6": {"sys_flag": 0x30, "born_host": _IPV6, "store_host": _IPV6},
    "prepared": {"sys_flag": 0x4}, "commit": {"sys_flag": 0x8, "prepared_transaction_offset": 115},
    "rollback": {"sys_flag": 0xC, "prepared_transaction_offset": 115},
}  # fmt: skip

# Fields that no check covers while there is no `__CRC32#`: a flip stays unseen there.
UNCOVERED = ("queueId", "flag", "queueOffset", "sysFlag", "bornTimestamp", "bornHost",
             "storeTimestamp", "storeHost", "reconsumeTimes", "preparedTransactionOffset", "topic",
             "properties")  # fmt: skip
# Of these nothing is derived: a flip there changes no file.
NOT_DERIVED = (
    "flag", "bornTimestamp", "bornHost", "storeHost", "reconsumeTimes", "preparedTransactionOffset",
)  # fmt: skip
_HOST_FLAGS = 0x30  # of sysFlag: they say how long hosts are, so that the lengths no longer fit
_HEAD = (("totalSize", 4), ("magic", 4), ("bodyCRC", 4), ("queueId", 4), ("flag", 4),
         ("queueOffset", 8), ("physicalOffset", 8), ("sysFlag", 4), ("bornTimestamp", 8),
         ("bornHost", 8), ("storeTimestamp", 8), ("storeHost", 8), ("reconsumeTimes", 4),
         ("preparedTransactionOffset", 8), ("bodyLength", 4))  # fmt: skip


@dataclass(frozen=True)
class Small:
    """The undamaged log."""

    messages: list[Message]
    segment: bytes
    places: list[int]
    settings: dict[str, Any]

    def log(self, segment: bytes | None = None) -> Log:
        return Log({0: self.segment if segment is None else segment}, self.settings, VERSION, {})

    @property
    def sealed(self) -> bool:
        """Whether each record has a `__CRC32#` that counts."""
        return bool(self.settings.get("forceVerifyPropCRC"))

    def size(self, number: int) -> int:
        return len(encode(self.messages[number], 0))


class Input(NamedTuple):
    """One damaged log: what was done to which message, and in which field, if in one."""

    what: str
    number: int
    field: str
    segment: bytes
    covered: bool = True  # by a length, a magic number, a place or a CRC


def small(last: str = "V1", crc_property: bool = False) -> Small:
    """Twelve messages in two queues, with keys and tags."""
    made = [
        Message(
            topic="T", queue_id=n % 2, queue_offset=n // 2, body=b"body %02d" % n,
            store_timestamp=START + n, born_timestamp=START + n,
            properties=properties(("KEYS", f"k{n}"), ("TAGS", "a")), crc_property=crc_property,
        )
        for n in range(COUNT)
    ]  # fmt: skip
    made[-1] = replace(made[-1], **LAST[last])
    segments = build_log(made, SEGMENT)
    settings = {**SETTINGS, "mappedFileSizeCommitLog": SEGMENT}
    if crc_property:
        settings["forceVerifyPropCRC"] = True
    return Small(made, segments[0], record_places(segments), settings)


def flips(store: Small, number: int, every: int = 1) -> Iterator[Input]:
    """Every bit of a record, or each `every`-th one."""
    place = store.places[number]
    fields = _fields(store.messages[number])
    for bit in range(0, 8 * store.size(number), every):
        byte, shift = divmod(bit, 8)
        name, within, length = fields[byte]
        wrong = bytearray(store.segment)
        wrong[place + byte] ^= 1 << shift
        host = name == "sysFlag" and within == length - 1 and bool(_HOST_FLAGS >> shift & 1)
        covered = store.sealed or host or name not in UNCOVERED
        yield Input(f"bit {shift} of byte {byte}", number, name, bytes(wrong), covered)


def cuts(store: Small) -> Iterator[Input]:
    """The last record ended at each of its bytes: zeros follow.

    Where all of its lengths are still there, nothing covers the properties that are gone."""
    place, size = store.places[-1], store.size(COUNT - 1)
    whole = size - len(store.messages[-1].properties)
    before = store.segment
    for at in reversed(range(size)):
        cut = store.segment[: place + at].ljust(SEGMENT, b"\0")
        if cut != before:
            yield Input(f"cut at {at}", COUNT - 1, "", cut, store.sealed or at < whole)
        before = cut


def holes(store: Small, lengths: Iterable[int] = HOLES) -> Iterator[Input]:
    """Zeros in the last record, of each of these lengths and at each place."""
    place, size = store.places[-1], store.size(COUNT - 1)
    for length in lengths:
        for at in range(place, place + size - length + 1):
            wrong = store.segment[:at] + bytes(length) + store.segment[at + length :]
            if wrong != store.segment:
                yield Input(f"{length} zeros at {at - place}", COUNT - 1, "", wrong)


def _fields(message: Message) -> list[tuple[str, int, int]]:
    """Of each byte of a V1 record with IPv4 hosts: (field, place in it, its length)."""
    topic = len(message.topic)
    text = len(message.properties) + 20 * message.crc_property
    parts = (*_HEAD, ("body", len(message.body)), ("topicLength", 1), ("topic", topic),
             ("propertiesLength", 2), ("properties", text))  # fmt: skip
    return [(name, at, length) for name, length in parts for at in range(length)]
