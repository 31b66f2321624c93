"""Records made from columns are those that the plain encoder of tests/logs makes one by one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reput.store_format.message import bulk
from tests.logs import Message, encode, properties

NOW, PLACE = 1_700_000_000_000, 1 << 40
HOST = bytes((10, 0, 0, 2, 0, 0, 0x2A, 0x9F))
TOPICS = (b"T", b"L" * 127, b"L" * 128)
NUMBERS: dict[str | bytes, int] = {topic: number for number, topic in enumerate(TOPICS)}
KEY = "0A0000020001000000020000ABCD"
ROWS = [
    Message(TOPICS[0], 0, 5, b"x", properties((b"UNIQ_KEY", KEY + "FFFF"), (b"KEYS", "k0"),
            (b"TAGS", "t0")), flag=-1, born_timestamp=7),
    Message(TOPICS[1], 1, 9, b"", properties((b"UNIQ_KEY", KEY + "0000"), (b"TAGS", "t1"))),
    Message(TOPICS[2], 1, 10, bytes(300), properties((b"UNIQ_KEY", KEY + "0001")), version=2),
    Message(TOPICS[0], 0, 6, b"y", properties((b"a", "given"))),
]  # fmt: skip
TAGS, KEYS, GIVEN = (b"t0", b"t1", b"", b"t3"), (b"k0", b"", b"", b"k3"), ROWS[3].properties


def texts(*values: bytes) -> bulk.Texts:
    ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
    return bulk.Texts(ends, np.frombuffer(b"".join(values), np.uint8))


def encoded(
    wanted: list[Message], rows: range, order: tuple[int, ...] = (0, 1, 2), **alike: Any
) -> bytes:
    """Rows of the columns of ROWS, which shall become the records `wanted`."""
    sizes = np.zeros(len(ROWS), np.int64)
    sizes[rows.start : rows.stop] = [len(encode(each, 0)) for each in wanted]
    columns = bulk.BulkRows(
        np.array([NUMBERS[row.topic] for row in ROWS], np.int32),
        np.array([row.queue_id for row in ROWS], np.int32),
        np.array([row.flag for row in ROWS], np.int32),
        np.array([7, 0, 0, -1], np.int64),  # a time that is not positive means now
        texts(*[row.body for row in ROWS]), texts(*TAGS), texts(*KEYS), texts(b"", b"", b"", GIVEN),
        sizes, np.array([row.queue_id for row in ROWS], np.int64),
    )  # fmt: skip
    prefix = np.frombuffer(KEY[:20].encode(), np.uint8)
    ends, crc = alike.get("text_ends", True), alike.get("crc", False)
    same = bulk.Alike(np.frombuffer(HOST, np.uint8), 0, prefix, np.array(order), ends, crc)
    offsets = np.array([ROWS[rows.start].queue_offset, 9], np.int64)
    to = bulk.Destination(PLACE, NOW, offsets, 0xABCD, 0xFFFF + rows.start)
    out = np.zeros(int(sizes.sum()), np.uint8)
    assert bulk.encode_rows(rows.start, rows.stop, columns, texts(*TOPICS), same, to, out) == len(
        out
    )
    return out.tobytes()


def joined(messages: list[Message]) -> bytes:
    raw = b""
    for each in messages:
        raw += encode(replace(each, born_host=HOST, store_host=HOST), PLACE + len(raw))
    return raw


def test_each_row_is_one_record_and_queues_go_on() -> None:
    assert encoded(ROWS, range(4)) == joined(ROWS)
    assert encoded(ROWS[1:3], range(1, 3)) == joined(ROWS[1:3])
    assert encoded([], range(0)) == b""
    made = properties(("TAGS", "t0"), ("KEYS", "k0"), ("UNIQ_KEY", KEY + "FFFF"))
    wanted = [replace(ROWS[0], properties=made)]
    assert encoded(wanted, range(1), order=(2, 1, 0)) == joined(wanted)
    wanted = [replace(row, properties=row.properties[:-1]) for row in ROWS[:3]]
    assert encoded(wanted, range(3), text_ends=False) == joined(wanted)
    wanted = [replace(row, crc_property=True) for row in ROWS]
    assert encoded(wanted, range(4), crc=True) == joined(wanted)


@pytest.mark.parametrize(("covered", "digits"), [(b"", b"0000000000"), (b"a", b"9522786571")])
def test_digits_of_a_crc_have_the_lowest_first(covered: bytes, digits: bytes) -> None:
    """The CRC-32 of `a` is E8B7BE43: without its highest bit 1756872259 in decimal."""
    out = np.zeros(3 + len(covered) + 20, np.uint8)
    out[3 : 3 + len(covered)] = np.frombuffer(covered, np.uint8)
    assert bulk.put_crc_property(out, 3, 3 + len(covered)) == len(out)
    assert out[-20:].tobytes() == b"__CRC32#\x01" + digits + b"\x02"
