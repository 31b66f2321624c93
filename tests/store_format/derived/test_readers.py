"""The readers of log, queues and index on what no broker leaves: cut, damaged and hostile files.

That they answer as RocketMQ does on sound stores, tests/rocketmq/test_readers.py shows.
"""

import struct
from pathlib import Path

import pytest

from reput.store_format.derived.index_reader import BadIndex, IndexFileReader, IndexReader, key_hash
from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.derived.queue_reader import NoEntry, QueueReader
from reput.store_format.faults import Fault
from reput.store_format.files.adapters import CountedReads
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.log.reader import LogReader, NoRecord, NotInLog
from reput.store_format.log.records import RecordRules
from reput.store_format.log.segments import find_segments
from reput.store_format.log.walk import Checks
from reput.store_format.names import segment_name
from reput.store_format.release.settings import settings_from
from tests.logs import Message, build_log
from tests.logs.index_bytes import pack_index
from tests.memory_storage import MemoryStorage
from tests.store_format.derived.made_files import ENTRY, QUEUE, entries, queue_of

SEGMENT = 4096
RULES = RecordRules(True, True)
BODY = bytes(range(1, 256)) * 8
STORE = "store"


def log_of(messages: list[Message], **at: bytes) -> LogReader:
    """A log over two folders; at: bytes put at physical offsets, as `at_5=b"..."`."""
    made = {start: bytearray(raw) for start, raw in build_log(messages, SEGMENT, SEGMENT).items()}
    for name, raw in at.items():
        place = int(name.removeprefix("at_"))
        segment = place - place % SEGMENT
        made[segment][place - segment : place - segment + len(raw)] = raw
    folders = [f"{STORE}/a", f"{STORE}/b"]
    storage = MemoryStorage()
    storage.window_bytes = 700  # less than a record with BODY
    storage.files = {f"{folders[number % 2]}/{segment_name(start)}": bytes(raw)
        for number, (start, raw) in enumerate(made.items())}  # fmt: skip
    storage.folders |= set(folders)
    return LogReader(
        storage, find_segments(storage, folders, SEGMENT), RULES, Checks(body=True, property=True)
    )


MESSAGES = [Message(queue_offset=i, body=BODY if i % 4 == 1 else b"b" * i, topic=f"T{i % 3}")
    for i in range(20)]  # fmt: skip


def test_a_record_that_is_none_says_where_and_why_and_ends_no_log() -> None:
    with log_of(MESSAGES) as log:
        first, second, *_ = every = list(log.records(log.start))
        assert [log.body(each) for each in every] == [message.body for message in MESSAGES]
        assert [log.record_at(each.physical_offset) for each in every] == every
        with pytest.raises(NoRecord) as caught:
            log.record_at(second.physical_offset + 1)
        error = caught.value
        assert error.place == second.physical_offset + 1
        assert error.path == f"{STORE}/a/{segment_name(SEGMENT)}"
        assert error.offset == error.place - SEGMENT
        assert error.fault == Fault.SIZE_PAST_END or error.fault == Fault.BAD_MAGIC
        assert str(error.place) in str(error)
        assert error.field in str(error)
        end = max(r.physical_offset + r.size for r in log.records(first.physical_offset))
        with pytest.raises(NoRecord, match="the rest of the log is not used yet"):
            log.record_at(end)
        for place in (0, SEGMENT - 1, log.end, 1 << 60):
            with pytest.raises(NotInLog):
                log.record_at(place)
            assert log.store_timestamp(place, 100) == -1
    with log_of(MESSAGES) as log:
        places = [r.physical_offset for r in log.records(log.start)]
    for number, fault in ((1, Fault.BODY_CRC), (2, Fault.BODY_CRC)):
        with log_of(MESSAGES, **{f"at_{places[number] + 88}": b"\0"}) as log:
            found = []
            with pytest.raises(NoRecord) as caught:
                found += [r.physical_offset for r in log.records(log.start)]
            assert (caught.value.place, caught.value.fault) == (places[number], fault)
            assert [r.physical_offset for r in log.records(log.start, places[number])] == (
                places[:number]
            )
    zeros = {f"at_{places[3]}": bytes(8)}  # in the first segment: others follow
    with log_of(MESSAGES, **zeros) as log, pytest.raises(NoRecord, match="zeros"):
        list(log.records(log.start))


# --- queues
def test_entries_by_position_and_those_that_point_to_no_place() -> None:
    blank = ENTRY.pack(0, 0x7FFFFFFF, 0) * 3
    storage = queue_of((200, blank + entries(13, 20, 140)), (400, entries(20, 25, 200)), (600, b""))
    queue = QueueReader(Folder(storage, QUEUE))
    assert [e.position for e in queue.entries(0)] == list(range(13, 25))
    assert [e.tags_code for e in queue.entries(15, 22)] == list(range(15, 22))
    assert queue.entry(24).physical_offset == 2400
    assert queue.maximum() == 25
    assert queue.last() == queue.entry(24)
    for position in (-1, 3, 12, 25, 1 << 40):
        with pytest.raises(NoEntry) as caught:
            queue.entry(position)
        assert (caught.value.position, caught.value.end) == (position, 25)
    assert list(queue.entries(25)) == []
    assert list(queue.entries(30, 20)) == []
    for entry, field, value in [(ENTRY.pack(-1, 100, 0), "physicalOffset", -1),
        (ENTRY.pack(1300, -5, 0), "size", -5), (bytes(20), "size", 0)]:  # fmt: skip
        raw = bytearray(entries(10, 20, 200))
        raw[60:80] = entry
        queue = QueueReader(Folder(queue_of((200, bytes(raw)), (400, entries(20, 25, 200))), QUEUE))
        assert [e.position for e in queue.entries(14)] == list(range(14, 25))
        with pytest.raises(BadQueue) as caught:
            list(queue.entries(10))
        error = caught.value
        assert (error.offset, error.field, error.value) == (60, field, value)
        assert error.path == f"{QUEUE}/{segment_name(200)}"


# --- index files
SLOTS, MOST = 4, 9
HEADER, INDEX_ENTRY = struct.Struct(">qqqqii"), struct.Struct(">iqii")
HASH = key_hash("T", "k")


def index_of(slots: dict[int, int], rows: list[tuple[int, ...]], count: int | None = None) -> bytes:
    """One index file; rows: keyHash, physicalOffset, timeDiff, previous of entries 1, 2, ..."""
    count = len(rows) + 1 if count is None else count
    header = 1000, 9000, rows[0][1], rows[-1][1], len(slots), count
    return pack_index(header, [slots.get(n, 0) for n in range(SLOTS)], rows, MOST)


def index_file(raw: bytes) -> IndexFileReader:
    return IndexFileReader(MemoryStorage({"f": raw}), "f", SLOTS, MOST)


SLOT = HASH % SLOTS
ROWS = [(HASH, 10, 0, 0), (HASH + SLOTS, 20, 1, 1), (HASH, 30, 2, 2), (HASH, 40, 5, 3)]


def test_a_chain_leads_from_the_newest_to_the_oldest_in_whole_files() -> None:
    with index_file(index_of({SLOT: 4}, ROWS)) as file:
        assert [e.number for e in file.chain(HASH)] == [4, 3, 2, 1]
        assert [h.physical_offset for h in file.select(HASH, 0, 99_999)] == [40, 30, 10]
        assert [h.timestamp for h in file.select(HASH, 0, 99_999)] == [6000, 3000, 1000]
        # the first entry that is older ends the look-up, though it has another key
        assert [h.physical_offset for h in file.select(HASH, 2001, 99_999)] == [40, 30]
        assert [h.physical_offset for h in file.select(HASH, 0, 5999)] == [30, 10]
        assert file.header.entries == 4
    # also where one follows whose time, measured against the file before, is too late
    with index_file(index_of({SLOT: 4}, [(HASH, 10, 9, 0), *ROWS[1:]])) as file:
        assert [h.physical_offset for h in file.select(HASH, 2001, 99_999)] == [40, 30]
        assert [h.physical_offset for h in file.select(HASH, 2000, 99_999)] == [40, 30, 10]
    storage = MemoryStorage({"f": index_of({SLOT: 3}, ROWS[:3])})
    with IndexFileReader(storage, "f", SLOTS, MOST) as file:
        grown = index_of({SLOT: 4}, ROWS)
        file._reader = IndexFileReader(MemoryStorage({"f": grown}), "f", SLOTS, MOST)._reader
        assert file.header.entries == 3
        assert [e.number for e in file.chain(HASH)] == [4, 3, 2, 1]
    raw = index_of({SLOT: 4}, ROWS)
    for cut in (raw[:-1], raw[:40], b"", raw + b"\0"):
        with pytest.raises(BadIndex) as caught:
            index_file(cut)
        assert (caught.value.field, caught.value.value) == ("length", len(cut))


def test_chains_that_lead_forward_or_round() -> None:
    for previous, newest in [({1: 4}, 4), ({2: 3}, 4), ({1: 3}, 3), ({3: 4}, 3), ({4: 1, 1: 2}, 4)]:
        around = [(*row[:3], previous.get(n, row[3])) for n, row in enumerate(ROWS, 1)]
        with index_file(index_of({SLOT: newest}, around)) as file:
            seen: list[int] = []
            with pytest.raises(BadIndex) as caught:
                seen.extend(entry.number for entry in file.chain(HASH))
            assert len(set(seen)) == len(seen) > 0
            last = list(previous)[-1]
            assert caught.value.offset == 40 + 4 * SLOTS + 20 * last
            assert (caught.value.field, caught.value.value) == ("previous", previous[last])
    for rows, slot, found, wrong in [(ROWS, -5, [], ("slot", -5)),
        ([*ROWS, (HASH, 50, 6, 4)], 5, [5, 4, 3, 2, 1], ("slot", 5)), (ROWS, 6, [], ("slot", 6)),
        ([(HASH, 10, 0, 1)], 1, [1], ("previous", 1)), ([(HASH, 10, 0, 99)], 1, [1],
        ("previous", 99)), ([(HASH, 10, 0, -1)], 1, [1], ("previous", -1)),
        ([(HASH, 10, 0, 0), (HASH + 1, 20, 1, 1), (HASH, 30, 2, 2)], 3, [3, 2, 1],
        ("keyHash", HASH + 1))]:  # fmt: skip
        # of a fifth entry the header does not know
        with index_file(index_of({SLOT: slot}, rows, count=min(len(rows), 4) + 1)) as file:
            assert [e.number for e in file.chain_as_broker(HASH)] == found
            with pytest.raises(BadIndex) as caught:
                list(file.chain(HASH))
            assert (caught.value.field, caught.value.value) == wrong
    with index_file(index_of({}, ROWS[:1], count=1)) as file:
        assert list(file.chain(HASH)) == list(file.chain_as_broker(HASH)) == []
    with index_file(index_of({SLOT: 1}, ROWS[:1], count=1)) as file:
        assert list(file.chain_as_broker(HASH)) == []
        with pytest.raises(BadIndex, match="slot 1: not in"):
            list(file.chain(HASH))
    with index_file(index_of({SLOT: 30}, ROWS, count=1 << 30)) as file:
        for chain in (file.chain, file.chain_as_broker):
            with pytest.raises(BadIndex):
                list(chain(HASH))
        with pytest.raises(BadIndex, match=r"not in 1\.\.8"):
            file.entry(9)


def index_store(*files: bytes) -> IndexReader:
    named = {f"{STORE}/index/2026010100000000{n}": raw for n, raw in enumerate(files)}
    settings = settings_from({"maxHashSlotNum": str(SLOTS), "maxIndexNum": str(MOST)})
    return IndexReader(Folder(MemoryStorage(named), STORE), settings)


def test_all_hits_are_those_of_a_query_and_more_where_times_are_loose() -> None:
    newer = [(row[0], row[1] + 1000, *row[2:]) for row in ROWS]
    index = index_store(index_of({SLOT: 4}, ROWS), index_of({SLOT: 4}, newer))
    assert index.query("T", "other", 64, 0, 99_999).hits == []
    assert list(index.all_hits("T", "k")) == index.query("T", "k", 64, 0, 99_999).hits
    late = [h.physical_offset for h in index.all_hits("T", "k", 3001)]
    assert late == [1040, 1030, 1010, 40, 30, 10]  # 3000 may be 3999; a first entry's time is loose
    assert [h.physical_offset for h in index.all_hits("T", "k", 4000)] == [1040, 1010, 40, 10]


def test_a_look_up_reads_no_whole_file(tmp_path: Path) -> None:
    """Of a file of RocketMQ's own size: header, slot and the entries of one chain."""
    settings, storage = settings_from({}), CountedReads(LocalStorage())
    (tmp_path / "index").mkdir()
    path = tmp_path / "index" / "20260101000000000"
    length = 40 + 4 * settings.max_hash_slot_num + 20 * settings.max_index_num
    assert length == 420_000_040
    with path.open("wb") as file:
        file.write(HEADER.pack(1000, 9000, 10, 40, 2, 5))
        file.seek(40 + 4 * (HASH % settings.max_hash_slot_num))
        file.write((4).to_bytes(4, "big"))
        file.seek(40 + 4 * settings.max_hash_slot_num + 20)
        file.write(b"".join(INDEX_ENTRY.pack(*row) for row in ROWS))
        file.truncate(length)
    found = IndexReader(Folder(storage, str(tmp_path)), settings).query("T", "k", 64, 0, 99_999)
    assert [h.physical_offset for h in found.hits] == [40, 30, 10]
    assert storage.read == 40 + 4 + 4 * 20
