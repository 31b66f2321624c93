"""How far a broker has come with its services, by the files in which it notes that."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from reput.store_format.fate import known
from reput.store_format.fate.delays import Read
from reput.store_format.fate.gather import Gathered
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.notes import Notes
from reput.store_format.query.reader import NEWEST, OpenedStore
from reput.store_format.rocksdb.rows import HALVES, TIMERS, HalfRows
from tests.built import write
from tests.memory_storage import MemoryStorage
from tests.store_format.fate.logs import HALF, OP, T0, SmallLog
from tests.store_format.rocksdb.stores import make


def progress(**files: bytes) -> tuple[Read, Notes]:
    """Of a store with these files, `/` as `__`; and what is said of them."""
    stored = {f"store/{path.replace('__', '/')}": raw for path, raw in files.items()}
    noted = Notes()
    return known.read_progress(Folder(MemoryStorage(stored), "store"), noted), noted


def test_a_store_without_these_files_is_a_stopped_broker_s_that_noted_nothing() -> None:
    found, _ = progress()
    assert (found.levels, found.timer_position, found.timer_read) == (None, None, 0)
    assert found.stopped
    assert not progress(abort=b"")[0].stopped


@pytest.mark.parametrize(("raw", "levels", "notes"), [
    (b'{"offsetTable":{1:5,"3":0,18:7}}', {1: 5, 3: 0, 18: 7}, 0),
    (b'{"offsetTable":{-1:5,"x":6,"1.5":7,"2":"8","4":null}}', {}, 0), (b"{}", None, 1),
    (b"torn", None, 1),
])  # fmt: skip
def test_delayoffset_says_how_far_each_level_is_delivered(raw, levels, notes) -> None:
    found, noted = progress(**{"config__delayOffset.json": raw})
    assert (found.levels, len(noted.lines)) == (levels, notes)


@pytest.mark.parametrize(
    ("length", "position", "read"), [(4096, 9, 77), (32, 9, 77), (31, None, 0), (0, None, 0)]
)
def test_timercheck_says_how_far_the_wheel_has_read(length, position, read) -> None:
    raw = struct.pack(">qqqq", 77, 1, 9, 2).ljust(4096, b"\0")[:length]
    found, _ = progress(config__timercheck=raw)
    assert (found.timer_position, found.timer_read) == (position, read)


def test_what_the_wheel_has_is_asked_of_timerlog() -> None:
    units = b"".join(unit(place, written, 5) for written, place in ((72, 300), (71, 400), (90, 1)))
    check = struct.pack(">qqqq", 77, 1, 9, 2)
    found, _ = progress(**{f"timerlog__{0:020d}": units, "config__timercheck": check})
    assert found.in_wheel is not None
    places = np.array([1, 101, 300, 400, 1 << 60])
    assert found.in_wheel(places).tolist() == [True, False, True, False, False]


def test_half_messages_are_checked_up_to_the_broker_s_own_group_s_offset_in_queue_0() -> None:
    table = {f"{HALF}@other": {"0": 50}, "T@CID_RMQ_SYS_TRANS": {"0": 60}}
    for own, position in ({f"{HALF}@CID_RMQ_SYS_TRANS": {"0": 12, "1": 99}}, 12), ({}, 0):
        raw = json.dumps({"offsetTable": table | own}).encode()
        storage = MemoryStorage({"store/config/consumerOffset.json": raw})
        assert known.half_position(Folder(storage, "store"), Notes()) == position


# --- Marks of records whose places are known, against those that a walk of the log finds.
class OpQueue:
    """The op messages in the order of the log, as their queue has them."""

    def __init__(self, places: list[int]) -> None:
        self.places = places

    def maximum(self) -> int:
        return len(self.places)

    def entries(self, first: int, stop: int | None = None) -> Iterator[Any]:
        for position in range(first, self.maximum() if stop is None else stop):
            yield SimpleNamespace(position=position, physical_offset=self.places[position])


def few(log: SmallLog, halves: list[int], ops: list[int]) -> list[int]:
    """The places of the op messages that are found."""

    def queue(topic: str) -> Any:
        return OpQueue(ops if topic == OP else [])

    found = known.gather_few(log.reader(), halves, queue, split=False, near_end=0)
    assert sorted({*halves, *found.ended["physicalOffset"].tolist()}) == (
        found.marks["physicalOffset"].tolist()
    )
    return found.ended["physicalOffset"].tolist()  # type: ignore[no-any-return]


def test_ops_are_read_until_each_half_message_is_named(log: SmallLog) -> None:
    halves = [log.half("a"), log.half("b")]
    ops = [log.op(b"1,"), log.op(b"0,"), log.op(b"0,1,")]
    assert few(log, halves, ops) == ops[:2]
    assert few(log, halves[:1], ops) == ops[1:2]
    # It is of one that had the same queueOffset before; a walk of the log says so too.
    log = SmallLog()
    first = log.half("a")
    early = log.op(b"0,1,")
    second = log.half("b")
    late = log.op(b"1,")
    assert few(log, [first, second], [early, late]) == [early, late]
    assert few(log, [second], [early, late]) == [late]


# --- RocksDB is asked only where the log has what it may know of, and what it lacks is told.
UNREAD = Read({1: 2}, None, 0, True)


def logged() -> SmallLog:
    """A timer, then a half message of RocksDB's topic."""
    log = SmallLog()
    log.timer("t", T0 + 90_000)
    log.rocksdb_half("h")
    return log


def only(kept: Gathered, *numbers: int) -> Gathered:
    return kept._replace(marks=kept.marks[list(numbers)])


@pytest.fixture(scope="module")
def gathered() -> Gathered:
    return logged().gather(lambda marks: marks["kind"] >= 0)


@pytest.fixture
def store_rocksdb(tmp_path: Path) -> OpenedStore:
    root = write(tmp_path, logged().files()) / "store"
    return OpenedStore(Folder(LocalStorage(), str(root)), NEWEST, {}, Notes())


def put_rows(store_rocksdb: OpenedStore) -> Path:
    """A row for the timer at 0, and one for the half message at 100, checked 3 times."""
    folder = Path(store_rocksdb.path) / "rocksdbstore"
    timer = {(T0).to_bytes(8, "big") + b"t": bytes(4) + (0).to_bytes(8, "big")}
    half = {(100).to_bytes(8, "big") + b"@Orders@h": (3).to_bytes(4, "big") + bytes(4)}
    return make(folder, {TIMERS: timer, HALVES: half})


def test_a_log_with_both_gets_both_where_there_is_a_database(store_rocksdb, gathered) -> None:
    notes = Notes()
    assert known.half_rows(store_rocksdb, gathered, notes) is None
    assert known.with_timers(store_rocksdb, gathered, UNREAD, notes) == UNREAD
    assert notes.lines == []
    put_rows(store_rocksdb)
    notes = Notes()
    assert known.half_rows(store_rocksdb, gathered, notes) == HalfRows({100: 3}, 100)
    read = known.with_timers(store_rocksdb, gathered, UNREAD, notes)
    assert read.timers is not None
    assert read.timers.waiting.tolist() == [0]
    assert read._replace(timers=None) == UNREAD
    assert notes.lines == []


def test_a_log_without_such_messages_leaves_it_closed(store_rocksdb, gathered) -> None:
    folder = put_rows(store_rocksdb)
    for file in folder.iterdir():
        file.write_bytes(b"no RocksDB")
    notes = Notes()
    assert known.half_rows(store_rocksdb, only(gathered, 0), notes) is None
    assert known.with_timers(store_rocksdb, only(gathered, 1), UNREAD, notes) is UNREAD
    assert known.half_rows(store_rocksdb, only(gathered), notes) is None
    assert notes.lines == []


def test_what_cannot_be_read_is_noted_and_the_rest_goes_on(store_rocksdb, gathered) -> None:
    folder = put_rows(store_rocksdb)
    for file in folder.glob("MANIFEST-*"):
        file.write_bytes(b"damaged")
    notes = Notes()
    assert known.half_rows(store_rocksdb, gathered, notes) is None
    assert known.with_timers(store_rocksdb, gathered, UNREAD, notes) == UNREAD
    assert [line.rpartition(": ")[2] for line in notes.lines] == [
        "which half messages of transRocksDBEnable were checked or given up is not known",
        "which timers of timerRocksDBEnable are delivered for good is not known",
    ]


# --- The units of timerlog: which timers stand in the wheel, and since when.
UNIT = struct.Struct(">iqiqiqiiq")  # TimerLog: 52 bytes
BLANK = struct.pack(">iqI", 16, 0, 0xBBCCDDEE ^ (1880681586 + 8))
NAME = "{:020d}".format
NOW = 1_700_000_000_000


def unit(place: int, written: int = NOW, delay: int = 0) -> bytes:
    return UNIT.pack(52, -1, 1, written, delay, place, 100, 7, 0)


def store_timer(*files: bytes) -> MemoryStorage:
    """A timerlog of these files, each of 5,200 bytes."""
    return MemoryStorage(
        {f"store/timerlog/{NAME(5200 * n)}": raw.ljust(5200, b"\0") for n, raw in enumerate(files)}
    )


def waiting(storage: MemoryStorage, read_time: int = NOW) -> list[int]:
    return [int(place) for place in known.waiting_units(Folder(storage, "store"), read_time)]


@pytest.mark.parametrize(("written", "delay", "waits"), [
    (NOW, 0, True), (NOW - 1, 0, False), (NOW - 5000, 5000, True), (NOW - 5000, 4999, False),
    (NOW + 1000, -1001, False), (NOW, (1 << 31) - 1, True),
])  # fmt: skip
def test_a_unit_waits_whose_slot_has_not_been_read(written: int, delay: int, waits: bool) -> None:
    assert waiting(store_timer(unit(300, written, delay))) == [300] * waits


def test_units_come_in_the_order_of_their_messages_and_a_blank_or_no_unit_ends_a_file() -> None:
    first = b"".join(unit(place) for place in (900, 300, 300)) + BLANK
    assert waiting(store_timer(first, unit(100) + unit(300))) == [100, 300, 900]
    other = UNIT.pack(53, -1, 1, NOW, 0, 400, 100, 7, 0)
    storage = store_timer(unit(300) + other + unit(500), bytes(5200), unit(600))
    storage.files["store/timerlog/notes"] = unit(700)
    storage.files[f"store/timerlog/{NAME(20_000)}"] = unit(800) + unit(900)[:-1]  # torn
    storage.folders.add(f"store/timerlog/{NAME(30_000)}")
    assert waiting(storage) == [300, 500, 600, 800]
    assert known.timer_log_names(Folder(storage, "store")) == [(NAME(0), 5200), (NAME(5200), 5200),
        (NAME(10_400), 5200), (NAME(20_000), 103)]  # fmt: skip


def test_of_a_timer_that_is_put_into_the_wheel_again_the_last_time_counts() -> None:
    storage = store_timer(unit(300, 1) + unit(400, 2), unit(300, 3) + unit(500, 4))
    wanted = np.array([300, 500, 700])
    assert known.write_times(Folder(storage, "store"), wanted) == {300: 3, 500: 4}
