"""Keys of queues in RocksDB, byte by byte (docs/formats/rocksdb.md)."""

import pytest

from reput.store_format.rocksdb.queues import (
    CHECKPOINT_KEY,
    MAX,
    MIN,
    QueueOffset,
    behind_queue,
    entry_key,
    offset_key,
    parse_entry_key,
    parse_offset_key,
    queue_key,
    topic_of,
)

ENTRY = bytes.fromhex("00000005014c6976653001000000000100000000 00000005")  # Live0, queue 0, 5
OFFSET = bytes.fromhex("00000005014c69766530016d61780100000000")
CHECKPOINT = bytes.fromhex("0000001001434845434b504f494e545f544f504943016d61780100000000")


def test_keys_are_those_of_the_page() -> None:
    assert entry_key(queue_key("Live0", 0), 5) == ENTRY
    assert offset_key("Live0", 0, MAX) == OFFSET
    assert CHECKPOINT_KEY == CHECKPOINT
    assert parse_entry_key(ENTRY) == (ENTRY[:-8], 5)
    assert parse_offset_key(OFFSET) == QueueOffset("Live0", 0, MAX)
    assert topic_of(ENTRY[:-8]) == ("Live0", 0)


@pytest.mark.parametrize(
    ("topic", "queue_id", "kind"),
    [("\u00e9", -1, MIN), ("t" * 255, (1 << 31) - 1, MAX), ("a\x01b", -(1 << 31), MIN)],
)
def test_any_topic_and_queue_id_is_read_back(topic: str, queue_id: int, kind: bytes) -> None:
    assert parse_offset_key(offset_key(topic, queue_id, kind)) == (topic, queue_id, kind)
    queue = queue_key(topic, queue_id)
    assert topic_of(queue) == (topic, queue_id)
    assert parse_entry_key(entry_key(queue, 7)) == (queue, 7)


def test_positions_are_kept_within_a_long_and_ascend() -> None:
    queue = queue_key("T", 3)
    positions = [-5, 0, 1, 255, 256, (1 << 63) - 1, 1 << 64]
    keys = [entry_key(queue, position) for position in positions]
    assert keys == sorted(keys)
    assert keys[0] == keys[1]
    assert keys[-1] == keys[-2] == queue + b"\x7f" + b"\xff" * 7
    assert keys[-1] < behind_queue(queue) <= queue_key("T", 4)


@pytest.mark.parametrize(
    "key",
    [
        b"", ENTRY[:-1], ENTRY + b"\0", b"\xff\xff\xff\xff" + ENTRY[4:],
        ENTRY[:4] + b"\2" + ENTRY[5:], ENTRY[:10] + b"\2" + ENTRY[11:],
        ENTRY[:15] + b"\2" + ENTRY[16:],
    ],
)  # fmt: skip
def test_what_is_no_entrys_key_is_none(key: bytes) -> None:
    assert parse_entry_key(key) is None


@pytest.mark.parametrize(
    "key",
    [
        b"",
        OFFSET[:-1],
        OFFSET.replace(b"max", b"mux"),
        OFFSET[:4] + b"\2" + OFFSET[5:],
        OFFSET[:-5] + b"\2" + OFFSET[-4:],
        OFFSET.replace(b"Live0", b"Liv\xff0"),
        OFFSET.replace(b"Live0", b"../e0"),  # no topic that can name a folder
    ],
)
def test_what_is_no_offsets_key_is_none(key: bytes) -> None:
    assert parse_offset_key(key) is None
