"""A record put once more: what belongs to the message stays, and the sysFlag's own bits are new."""

from pathlib import Path

import pytest

from reput.broker.writer.copies import properties_of, put_again, text_of
from reput.store_format.layouts import SYS_TRANSACTION_COMMIT
from reput.store_format.log.record import Record
from tests.broker.writer.stores import open_writer, stored_records

V4, V6 = bytes((10, 0, 0, 1, 0, 0, 0x2A, 0x9F)), bytes(range(16)) + bytes((0, 0, 0x2A, 0x9F))
COMPRESSED, MULTI_TAGS, PREPARED, BORN_V6, STORE_V6 = 1, 2, 4, 0x10, 0x20


def record(**more: object) -> Record:
    given = {
        "topic_bytes": b"Half", "queue_id": 9, "queue_offset": 8, "physical_offset": 7, "size": 6,
        "magic": 5, "body_crc": 4, "flag": 3, "sys_flag": 0, "born_timestamp": 2, "born_host": V4,
        "store_timestamp": 1, "store_host": V4, "reconsume_times": 12, "prepared_offset": 11,
        "body_at": 0, "body_length": 4, "properties": b"A\x01b\x02", "body": b"body",
    } | more  # fmt: skip
    return Record(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sys_flag", "born", "store", "written"),
    [
        (0, V4, V4, SYS_TRANSACTION_COMMIT),
        (COMPRESSED | MULTI_TAGS | PREPARED, V4, V4, COMPRESSED | MULTI_TAGS | 8),
        (BORN_V6, V6, V4, BORN_V6 | 8), (STORE_V6 | BORN_V6, V4, V6, STORE_V6 | 8),
    ],
)  # fmt: skip
def test_flags_are_the_messages_own_and_hosts_and_type_are_as_they_are_now(
    tmp_path: Path, sys_flag: int, born: bytes, store: bytes, written: int
) -> None:
    with open_writer(tmp_path) as writer:
        given = record(sys_flag=sys_flag, born_host=born, store_host=store)
        put_again(writer, given, "Real", 2, b"C\x01d\x02", SYS_TRANSACTION_COMMIT, 77)
        now = writer.clock()
    (made,) = stored_records(tmp_path / "commitlog")
    assert (made.topic, made.queue_id, made.queue_offset, made.physical_offset) == ("Real", 2, 0, 0)
    assert (made.sys_flag, made.born_host, made.store_host) == (written, born, store)
    assert (made.body, made.properties, made.prepared_offset) == (b"body", b"C\x01d\x02", 77)
    assert (made.flag, made.born_timestamp, made.reconsume_times) == (3, 2, 12)
    assert made.store_timestamp == now


@pytest.mark.parametrize(("adds", "names"), [("true", ["A"]), ("false", ["A", "__CRC32#"])])
def test_a_crc_is_left_out_where_the_append_makes_it_anew(
    tmp_path: Path, adds: str, names: list[str]
) -> None:
    with open_writer(tmp_path, enabledAppendPropCRC=adds) as writer:
        given = record(properties=b"A\x01b\x02__CRC32#\x010123456789\x02")
        assert list(properties_of(writer, given)) == names
        assert text_of(writer, {"A": "b"}) == b"A\x01b\x02"
