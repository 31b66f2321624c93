"""Queues in RocksDB: an entry counts up to the queue's max row, holes and all."""

import re
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from reput.store_format import layouts
from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.derived.queue_reader import NoEntry
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.release.profiles import profile
from reput.store_format.rocksdb import queues as module
from reput.store_format.rocksdb.database import open_database
from tests.format_pages import FIELD_ROW, fields, text_of
from tests.store_format.fate.stores import IN_ROCKSDB
from tests.store_format.fate.stores import unpack as unpack_fates
from tests.store_format.rocksdb.stores import make, unpack

RULES = profile("5.3.3")


def queue(topic: bytes, queue_id: int) -> bytes:
    """docs/formats/rocksdb.md."""
    return (
        struct.pack(">i", len(topic)) + b"\1" + topic + b"\1" + struct.pack(">i", queue_id) + b"\1"
    )


def entry(place: int, size: int = 100, tags: int = 7, time: int = 0) -> bytes:
    return struct.pack(">qiqq", place, size, tags, time)


def offset(topic: bytes, kind: bytes, queue_id: int) -> bytes:
    return (struct.pack(">i", len(topic)) + b"\1" + topic + b"\1" + kind + b"\1"
            + struct.pack(">i", queue_id))  # fmt: skip


# positions 2, 3, 5 and 6; 7 is behind the max row
PLACES = {2: 200, 3: 300, 5: 500, 6: 600, 7: 700}
ENTRIES = {queue(b"T", 1) + struct.pack(">q", n): entry(at) for n, at in PLACES.items()}
OTHERS = {queue(b"T", 0) + struct.pack(">q", 9): entry(1),
          queue(b"T", 2) + struct.pack(">q", 0): entry(50, -1),
          queue(b"T", 2) + struct.pack(">q", 1): entry(51)[:-1]}  # fmt: skip
OFFSETS = {
    offset(b"T", b"max", 1): struct.pack(">qq", 600, 6),
    offset(b"T", b"min", 1): struct.pack(">qq", 200, 2),
    offset(b"T", b"max", 2): struct.pack(">qq", 51, 1),
    offset(b"U", b"max", 0): struct.pack(">q", 5),  # too short
    offset(b"CHECKPOINT_TOPIC", b"max", 0): struct.pack(">q", 700),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("store")
    return make(store / "consumequeue", {"default": ENTRIES | OTHERS, "offset": OFFSETS}).parent


@pytest.fixture(scope="module")
def queues(store: Path) -> Iterator[module.RocksDBQueues]:
    found = module.RocksDBQueues(str(store), Folder(LocalStorage(), f"{store}/consumequeue"))
    yield found
    found.close()


@pytest.fixture
def one(queues: module.RocksDBQueues) -> module.RocksDBQueue:
    return queues.open("T", 1, False)


@pytest.mark.parametrize(("first", "stop", "positions"), [
    (0, None, [2, 3, 5, 6]), (3, 6, [3, 5]), (4, 5, []), (6, 99, [6]), (7, None, []), (-5, 3, [2]),
])  # fmt: skip
def test_entries_are_of_positions_up_to_the_max(one, first, stop, positions) -> None:
    found = list(one.entries(first, stop))
    assert [(each.position, each.physical_offset) for each in found] == [
        (position, PLACES[position]) for position in positions
    ]
    assert one.maximum() == 7


def test_a_queue_is_there_with_its_max_row_and_a_hole_or_a_bad_entry_is_none(
    one, queues, store
) -> None:
    assert one.entry(5).physical_offset == 500
    for position in (0, 4, 7):
        with pytest.raises(NoEntry):
            one.entry(position)
    bad = queues.open("T", 2, False)
    with pytest.raises(BadQueue, match="expected 28 bytes"):
        list(bad.entries(0))
    with pytest.raises(BadQueue, match="is no place"):
        list(bad.entries(0, 1))
    assert queues.topics() == ["T"]
    assert queues.of("T") == [(1, False), (2, False)]
    assert queues.dispatched_to() == 700
    assert queues.open("T", 0, False).maximum() == 0
    assert str(module.queues_folder(Folder(LocalStorage(), str(store)))) == f"{store}/consumequeue"
    assert module.queues_folder(Folder(LocalStorage(), f"{store}/none")) is None


def test_a_queue_with_a_hole_begins_and_ends_with_messages_that_the_log_has_whole(one) -> None:
    starts = (0, 200, 201, 301, 501, 601, 9999)
    assert [one.minimum(start, RULES) for start in starts] == [2, 2, 3, 5, 6, 7, 7]
    limits = (9999, 700, 699, 600, 599, 300, 299, 0)
    assert [one.end_within(limit) for limit in limits] == [7, 7, 6, 6, 4, 3, 0, 0]


# --- Keys of queues in RocksDB, byte by byte (docs/formats/rocksdb.md).
ENTRY = bytes.fromhex("00000005014c6976653001000000000100000000 00000005")  # Live0, queue 0, 5
OFFSET = bytes.fromhex("00000005014c69766530016d61780100000000")


@pytest.mark.parametrize(("topic", "queue_id", "kind"), [
    ("\u00e9", -1, module.MIN), ("t" * 255, (1 << 31) - 1, module.MAX),
    ("a\x01b", -(1 << 31), module.MIN),
])  # fmt: skip
def test_any_topic_and_queue_id_is_read_back(topic: str, queue_id: int, kind: bytes) -> None:
    assert module.parse_offset_key(module.offset_key(topic, queue_id, kind)) == (
        topic, queue_id, kind,
    )  # fmt: skip
    queue = module.queue_key(topic, queue_id)
    assert module.topic_of(queue) == (topic, queue_id)
    assert module.parse_entry_key(module.entry_key(queue, 7)) == (queue, 7)


def test_the_tables_of_fields_are_the_layouts_keys_those_of_the_examples_and_ascend() -> None:
    queue = module.queue_key("T", 3)
    positions = [-5, 0, 1, 255, 256, (1 << 63) - 1, 1 << 64]
    keys = [module.entry_key(queue, position) for position in positions]
    assert keys == sorted(keys)
    assert keys[0] == keys[1]
    assert keys[-1] == keys[-2] == queue + b"\x7f" + b"\xff" * 7
    assert keys[-1] < module.behind_queue(queue) <= module.queue_key("T", 4)
    rows = [FIELD_ROW.fullmatch(line) for line in text_of("rocksdb").splitlines()]
    found = [(int(row[1]), int(row[2]), row[3]) for row in rows if row]
    assert found == [*fields(layouts.ROCKSDB_ENTRY), *fields(layouts.ROCKSDB_OFFSET)]
    entry, most, checkpoint = (bytes.fromhex(row[3]) for row in EXAMPLES[:3])
    queue = module.queue_key("Live0", 0)
    assert module.entry_key(queue, 5) == entry
    assert module.parse_entry_key(entry) == (queue, 5)
    assert module.topic_of(queue) == ("Live0", 0)
    assert module.offset_key("Live0", 0, module.MAX) == most
    assert module.parse_offset_key(most) == module.QueueOffset("Live0", 0, module.MAX)
    assert checkpoint == module.CHECKPOINT_KEY
    row = np.frombuffer(bytes.fromhex(EXAMPLES[0][4]), layouts.ROCKSDB_ENTRY)[0]
    assert row.item()[:3] == (19330, 353, 65)


@pytest.mark.parametrize("key", [
    b"", ENTRY[:-1], ENTRY + b"\0", b"\xff\xff\xff\xff" + ENTRY[4:],
    ENTRY[:4] + b"\2" + ENTRY[5:], ENTRY[:10] + b"\2" + ENTRY[11:], ENTRY[:15] + b"\2" + ENTRY[16:],
])  # fmt: skip
def test_what_is_no_entrys_key_is_none(key: bytes) -> None:
    assert module.parse_entry_key(key) is None


@pytest.mark.parametrize("key", [
    b"", OFFSET[:-1], OFFSET.replace(b"max", b"mux"), OFFSET[:4] + b"\2" + OFFSET[5:],
    OFFSET[:-5] + b"\2" + OFFSET[-4:], OFFSET.replace(b"Live0", b"Liv\xff0"),
    OFFSET.replace(b"Live0", b"../e0"),  # no topic that can name a folder
])  # fmt: skip
def test_what_is_no_offsets_key_is_none(key: bytes) -> None:
    assert module.parse_offset_key(key) is None


# --- The examples of docs/formats/rocksdb.md are rows of real stores, and its tables the layouts.
EXAMPLES = re.findall(r"^```rocksdb (\S+) (\S+) (\S+)\n(.*)\n(.*)\n```$", text_of("rocksdb"), re.M)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_is_a_row_of_its_store(number: int, tmp_path: Path) -> None:
    name, folder, family, key, value = EXAMPLES[number]
    store = (unpack_fates if name == IN_ROCKSDB else unpack)(name, tmp_path)[0]
    with closing(open_database(Folder(LocalStorage(), f"{store}/{folder}"))) as database:
        assert database.get(family, bytes.fromhex(key)) == bytes.fromhex(value)
