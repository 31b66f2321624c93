"""Records and drafts against the plain encoder of tests/logs, and the limits of a record."""

import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reput.store_format.message import bulk, encode, refusals
from reput.store_format.message.ids import UniqueIds
from reput.store_format.message.message import Message
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import writer_settings_from
from tests import logs
from tests.logs import properties

NOW = 1_700_000_000_000
V4, V6 = bytes((10, 0, 0, 2, 0, 0, 0x2A, 0x9F)), bytes([0] * 15 + [1, 0, 0, 0x2A, 0x9F])
TAGGED = logs.properties(("UNIQ_KEY", "U"))


def encoder(release: str = "5.3.3", /, **given: object) -> encode.Encoder:
    settings = writer_settings_from({name: str(value) for name, value in given.items()})
    ids = UniqueIds(lambda: NOW, "10.0.0.2:10911", 1, 1)
    return encode.Encoder(settings, profile(release), lambda: NOW, ids, "10.0.0.2:10911")


def record(made: encode.Encoder, **fields: Any) -> bytes:
    fields = {"topic": "T", "body": b"x", "properties": TAGGED, **fields}
    return encode.finish(made.draft(Message(**fields)), 5, 1 << 40, NOW + 9)


def wanted(**fields: Any) -> bytes:
    fields = {"body": b"x", "properties": TAGGED, "born_host": V4, "store_host": V4, **fields}
    return logs.encode(
        logs.Message(queue_offset=5, born_timestamp=NOW, store_timestamp=NOW + 9, **fields), 1 << 40
    )


def test_a_draft_becomes_the_record_that_the_layout_has_with_room_for_a_blank() -> None:
    made = record(encoder(), queue_id=7, flag=-1, reconsume_times=3, prepared_offset=99, sys_flag=1)
    assert made == wanted(
        queue_id=7, flag=-1, reconsume_times=3, prepared_transaction_offset=99, sys_flag=1
    )
    long = {"maxTopicLength": 255}
    assert record(encoder(**long), topic="T" * 127) == wanted(topic="T" * 127)
    assert record(encoder(**long), topic="T" * 128) == wanted(topic="T" * 128, version=2)
    for made in (encoder("5.0.0", **long), encoder(autoMessageVersionOnTopicLen="false", **long)):
        with pytest.raises(refusals.TopicTooLong, match="needs V2"):
            record(made, topic="T" * 128)
    assert encode.blank(479).hex() == "000001dfcbd43194"
    assert encode.message_id(V4, 1528) == "0A00000200002A9F00000000000005F8"
    assert encode.message_id(V6, 0) == "0" * 31 + "1" + "00002A9F" + "0" * 16
    made = encoder(enabledAppendPropCRC="true")
    assert record(made) == wanted(crc_property=True)
    assert record(made, properties=TAGGED[:-1]) == wanted(crc_property=True)  # the last 02 is added
    assert encode.crc_property_of(1234) == b"__CRC32#\x014321000000\x02"
    assert encode.crc_property(b"ab") == encode.crc_property_of(zlib.crc32(b"ab") & 0x7FFFFFFF)
    made = encoder(mappedFileSizeCommitLog=4096)
    fixed = 91 + 1 + len(TAGGED)
    assert len(record(made, body=bytes(4088 - fixed))) == 4088
    with pytest.raises(refusals.MessageTooLarge):
        record(made, body=bytes(4089 - fixed))


@pytest.mark.parametrize(
    ("born", "stored", "flag"), [(V6, V4, 0x10), (V4, V6, 0x20), (V6, V6, 0x30)]
)
def test_an_ipv6_host_sets_its_bit(born: bytes, stored: bytes, flag: int) -> None:
    text = {V4: "10.0.0.2:10911", V6: "[::1]:10911"}
    given = {"born_host": text[born], "store_host": text[stored]}
    assert record(encoder(), **given) == wanted(born_host=born, store_host=stored, sys_flag=flag)
    with pytest.raises(refusals.HostFamily):
        record(encoder("4.5.2"), **given)


@pytest.mark.parametrize(("crc", "most"), [("false", 32_767), ("true", 32_747)])
def test_properties_take_a_short_with_the_crc_in_it(crc: str, most: int) -> None:
    made = encoder(enabledAppendPropCRC=crc)
    record(made, properties=b"a\x01" + b"v" * (most - 3) + b"\x02")
    with pytest.raises(refusals.PropertiesTooLarge):
        record(made, properties=b"a\x01" + b"v" * (most - 2) + b"\x02")


@pytest.mark.parametrize(
    ("bodies", "fits"), [((500, 434), True), ((500, 435), False), ((935,), True)]
)
def test_maxmessagesize_is_of_a_batch_as_the_client_sent_it(bodies: list[int], fits: bool) -> None:
    """Each message has 22 bytes besides body and properties (MessageDecoder.encodeMessage)."""
    assert 2 * (22 + len(TAGGED)) + 934 == 1000
    messages = [Message("T", bytes(body), properties=TAGGED) for body in bodies]
    if fits:
        assert len(encoder(maxMessageSize=1000).batch(messages)) == len(bodies)
    else:
        with pytest.raises(refusals.MessageTooLarge, match="a batch of 1001 bytes"):
            encoder(maxMessageSize=1000).batch(messages)


# --- Records made from columns are those that the plain encoder of tests/logs makes one by one.
PLACE = 1 << 40
TOPICS = (b"T", b"L" * 127, b"L" * 128)
NUMBERS: dict[str | bytes, int] = {topic: number for number, topic in enumerate(TOPICS)}
KEY = "0A0000020001000000020000ABCD"
ROWS = [
    logs.Message(TOPICS[0], 0, 5, b"x", properties((b"UNIQ_KEY", KEY + "FFFF"), (b"KEYS", "k0"),
            (b"TAGS", "t0")), flag=-1, born_timestamp=7),
    logs.Message(TOPICS[1], 1, 9, b"", properties((b"UNIQ_KEY", KEY + "0000"), (b"TAGS", "t1"))),
    logs.Message(TOPICS[2], 1, 10, bytes(300), properties((b"UNIQ_KEY", KEY + "0001")), version=2),
    logs.Message(TOPICS[0], 0, 6, b"y", properties((b"a", "given"))),
]  # fmt: skip
TAGS, KEYS, GIVEN = (b"t0", b"t1", b"", b"t3"), (b"k0", b"", b"", b"k3"), ROWS[3].properties


def texts(*values: bytes) -> bulk.Texts:
    ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
    return bulk.Texts(ends, np.frombuffer(b"".join(values), np.uint8))


def encoded(
    wanted: list[logs.Message], rows: range, order: tuple[int, ...] = (0, 1, 2), **alike: Any
) -> bytes:
    """Rows of the columns of ROWS, which shall become the records `wanted`."""
    sizes = np.zeros(len(ROWS), np.int64)
    sizes[rows.start : rows.stop] = [len(logs.encode(each, 0)) for each in wanted]
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
    same = bulk.Alike(np.frombuffer(V4, np.uint8), 0, prefix, np.array(order), ends, crc)
    offsets = np.array([ROWS[rows.start].queue_offset, 9], np.int64)
    to = bulk.Destination(PLACE, NOW, offsets, 0xABCD, 0xFFFF + rows.start)
    out = np.zeros(int(sizes.sum()), np.uint8)
    assert bulk.encode_rows(rows.start, rows.stop, columns, texts(*TOPICS), same, to, out) == len(
        out
    )
    return out.tobytes()


def joined(messages: list[logs.Message]) -> bytes:
    raw = b""
    for each in messages:
        raw += logs.encode(replace(each, born_host=V4, store_host=V4), PLACE + len(raw))
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
