"""What `check` says of a store's state beside its queues."""

import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import rocksdict

from reput.store_format import layouts
from reput.store_format.fate.delays import Read
from reput.store_format.fate.gather import MARK, OTHER, SCHEDULE, WHEEL, Gathered
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.state import timers
from reput.store_format.state.judge import database_faults, past_the_queues, unknown_files
from tests.memory_storage import MemoryStorage
from tests.store_format.rocksdb.stores import make
from tests.store_format.state.stores import IN_FLIGHT, TIMERS, faults, unpacked

# --- Files that the table does not have.
_STORE = ("abort", "abort.bak", "checkpoint", "lock", "timerwheel", "reput-cut/x", "manifest.json",
          "config/topics.json", "config/timercheck", "config/topics/CURRENT", "kvStore/LOCK",
          "compaction/compactionLog/T/0/00000000000000000000", "compaction/position-checkpoint",
          "commitlog/lost+found/x", "consumequeue/whatever", "index/20231114221320123",
          "timerlog/00000000000000000000")  # fmt: skip
_OF_OTHERS = ("notes.txt", "liteStore/CURRENT", "config/future.json", "config/backups/topics.json",
              "timerlog/old/00000000000000000000", "kvStore/x.txt")  # fmt: skip


def test_what_the_table_lacks_is_named_alone_and_a_cut_manifest_that_names_not_all(
    tmp_path,
) -> None:
    files = {f"store/{name}": b"" for name in (*_STORE, *_OF_OTHERS)}
    assert unknown_files(Folder(MemoryStorage(files), "store")) == [
        "config/backups/", "config/future.json", "kvStore/x.txt", "liteStore/", "notes.txt",
        "timerlog/old/",
    ]  # fmt: skip
    assert unknown_files(Folder(MemoryStorage({"store/commitlog/x": b""}), "store")) == []
    # The next broker to open it removes the others; an end that names no table is nothing.
    folder = tmp_path / "kvStore"
    with rocksdict.Rdict(str(folder), rocksdict.Options(raw_mode=True)) as database:
        for number in range(6):
            database[b"%d" % number] = b"v"
            database.flush()
    assert list(database_faults(Folder(LocalStorage(), str(tmp_path)))) == []
    (manifest,) = folder.glob("MANIFEST-*")
    raw = manifest.read_bytes()
    manifest.write_bytes(raw[: len(raw) // 2])
    (found,) = database_faults(Folder(LocalStorage(), str(tmp_path)))
    assert "its MANIFEST is cut, and names no 0000" in found.reason
    assert "no broker" not in found.reason
    manifest.write_bytes(raw[:-1])
    assert list(database_faults(Folder(LocalStorage(), str(tmp_path)))) == []


# --- Timers.
def said(store: Path, log_end: int | None = None) -> dict[str, str]:
    return {str(Path(each.path).relative_to(store)): each.reason for each in faults(store, log_end)}


def write_check(store: Path, **fields: int) -> None:
    path = store / "config" / "timercheck"
    raw = bytearray(path.read_bytes())
    check = np.frombuffer(raw, layouts.TIMER_CHECK, 1)
    for name, value in fields.items():
        check[name] = value
    path.write_bytes(raw)


@pytest.mark.parametrize("name", [TIMERS, IN_FLIGHT])
def test_nothing_is_said_of_a_broker_s_own_files(name: str, tmp_path: Path) -> None:
    assert said(unpacked(name, tmp_path)) == {}


def test_timers_without_units_are_never_delivered(tmp_path: Path) -> None:
    """As after a move of commitlog and config: a broker delivered 0 of the 20 that wait."""
    store = unpacked(TIMERS, tmp_path)
    shutil.rmtree(store / "timerlog")
    found = said(store)
    assert list(found) == ["timerlog"]
    assert "nothing of 20 timers that wait" in found["timerlog"]
    assert "pop's" not in found["timerlog"]


def test_a_pop_whose_check_points_have_no_units_does_not_come_again(tmp_path: Path) -> None:
    store = unpacked(IN_FLIGHT, tmp_path)
    shutil.rmtree(store / "timerlog")
    assert "(8 are pop's, so that messages in flight do not come" in said(store)["timerlog"]


def test_a_broker_that_has_read_nothing_yet_reads_all(tmp_path: Path) -> None:
    store = unpacked(TIMERS, tmp_path)
    shutil.rmtree(store / "timerlog")
    write_check(store, lastTimerQueueOffset=0, masterTimerQueueOffset=0)
    found = said(store)
    assert list(found) == ["config/timercheck"]
    assert "from 0 on, and timers were delivered (that at" in found["config/timercheck"]


FIRST = "timerlog/00000000000000000000"
LATE, MOVED, READ = 30, 52 * 30, 1795725379000  # a unit of 40, its place; lastReadTimeMs


def in_two_files(store: Path, chained: bool) -> int:
    """Moves the units after 30 of 40 into a second file. Returns a file's length."""
    raw = bytearray((store / FIRST).read_bytes())
    size = len(raw)
    units = np.frombuffer(raw, layouts.TIMER_UNIT)[LATE:40]
    units["previous"][1:] += size - MOVED
    if not chained:  # of another slot
        units["previous"][0] = -1
        units["delay"] += 1000
    (store / FIRST).write_bytes(raw[:MOVED].ljust(size - 16, b"\0") + _BLANK)
    (store / "timerlog" / f"{size:020d}").write_bytes(raw[MOVED:].ljust(size, b"\0"))
    return size


_BLANK = (
    (16).to_bytes(4, "big") + bytes(8) + layouts.MAGIC_TIMER_BLANK.to_bytes(4, "big", signed=True)
)


def wheel(slots: list[tuple[int, ...]]) -> bytes:
    """(time, first, last) of its slots."""
    raw = np.zeros(
        layouts.TIMER_WHEEL_FILE_BYTES // layouts.TIMER_SLOT.itemsize, layouts.TIMER_SLOT
    )
    for number, slot in enumerate(slots):
        raw[number] = (*slot, 1, 0)
    return raw.tobytes()


@pytest.mark.parametrize(("slots", "chained", "lost"), [
    (None, True, 0), (None, False, 10),
    ([], False, 10),  # of zeros
    ([(1, 0, 52 * (LATE - 1))], False, 0),
    ([(7, 0, 52 * (LATE - 1))], False, 10),  # another slot's
    ([(1, 0, 999_999)], False, 10),
])  # fmt: skip
def test_units_of_timerlog_s_earlier_files_are_found_by_the_wheel(
    slots: list[tuple[int, ...]] | None, chained: bool, lost: int, tmp_path: Path
) -> None:
    store = unpacked(TIMERS, tmp_path)
    (store / "timerwheel").unlink()
    assert said(store) == {}
    size = in_two_files(store, chained)
    write_check(store, lastTimerLogFlushPos=2 * size)
    if slots is not None:
        unit = np.frombuffer((store / FIRST).read_bytes()[:MOVED], layouts.TIMER_UNIT)[-1]
        second = int(unit["writeTime"] + unit["delay"]) // 1000
        times = [(second if time == 1 else time, *places) for time, *places in slots]
        (store / "timerwheel").write_bytes(wheel(times))
    found = said(store).get("timerlog", "nothing of 0 timers that wait")
    assert f"nothing of {lost} timers that wait" in found


@pytest.mark.parametrize(("unit", "changed", "file", "reason"), [
    (5, {"size": 53}, "timerlog", "has no unit at 260, where a broker cuts it: it reads"),
    (LATE, {"size": 53}, "", ""),  # what is taken again was not delivered
    (5, {"magic": 0x41}, "timerlog", "has no unit at 260, where a broker cuts it: it reads"),
    (5, {"previous": 9}, "", ""),  # its slot has been read
    (LATE, {"previous": 9}, "timerlog", "nothing of 10 timers that wait"),
    (LATE, {"physicalOffset": 9}, "timerlog", "nothing of 1 timers that wait"),
    (LATE, {"messageSize": 9}, "timerlog", "nothing of 1 timers that wait"),
])  # fmt: skip
def test_a_unit_of_timerlog_is_damaged(unit, changed, file, reason, tmp_path) -> None:
    store = unpacked(TIMERS, tmp_path)
    raw = bytearray((store / FIRST).read_bytes())
    for name, value in changed.items():
        np.frombuffer(raw, layouts.TIMER_UNIT)[name][unit] = value
    (store / FIRST).write_bytes(raw)
    found = said(store)
    assert list(found) == [file] * bool(file)
    assert reason in found.get(file, "")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"lastReadTimeMs": READ + 86_400_000}, "no broker will ever deliver 20 that are due"),
        ({"lastReadTimeMs": READ - 86_400_000}, "later ones were delivered (that at physical"),
        ({"masterTimerQueueOffset": 3}, "from 3 on, and timers were delivered (that at physical"),
        ({"masterTimerQueueOffset": 30}, ""),  # none of these is
        ({"lastTimerQueueOffset": 3}, ""),  # the last unit's message tells it
    ],
    ids=["future", "past", "master", "waiting", "own"],
)
def test_a_timercheck_that_does_not_go_with_the_log(fields, reason, tmp_path) -> None:
    store = unpacked(TIMERS, tmp_path)
    write_check(store, **fields)
    found = said(store)
    assert list(found) == ["config/timercheck"] * bool(reason)
    assert reason in found.get("config/timercheck", "")


def test_files_of_timers_of_other_lengths(tmp_path: Path) -> None:
    store = unpacked(TIMERS, tmp_path)
    in_two_files(store, True)
    (store / FIRST).write_bytes((store / FIRST).read_bytes()[:-52])
    (store / "timerwheel").write_bytes(bytes(640))
    found = said(store)
    assert "has 8,268 bytes, expected 8,320: no broker" in found["timerlog"]
    assert "has 640 bytes, expected 38,707,200: no broker" in found["timerwheel"]


@pytest.mark.parametrize("left", [None, bytes(4096)])
def test_timers_that_no_timercheck_tells_of_come_again(left: bytes | None, tmp_path: Path) -> None:
    """A broker delivered the 20 of Soon again."""
    store = unpacked(TIMERS, tmp_path)
    (store / "config" / "timercheck").unlink()
    if left is not None:
        (store / "config" / "timercheck").write_bytes(left)
    found = said(store)
    assert list(found) == ["config/timercheck"]
    assert "a broker delivers them again" in found["config/timercheck"]


def test_that_timers_were_delivered_is_shown_by_the_index(tmp_path: Path) -> None:
    """A log that no broker served has timers, and neither timercheck nor deliveries."""
    store = unpacked(TIMERS, tmp_path)
    (store / "config" / "timercheck").unlink()
    shutil.rmtree(store / "index")
    assert said(store) == {}


def test_units_past_the_log_s_end_lost_ones_and_an_epoch_file_that_cannot_be_read_are_told(
    tmp_path,
) -> None:
    store = unpacked(TIMERS, tmp_path)
    found = said(store, 2000)
    assert "timers are of messages past the log's end, 2,000" in found["timerlog"]
    assert "has read rmq_sys_wheel_timer up to" in found["config/timercheck"]
    (store / FIRST).write_bytes((store / FIRST).read_bytes()[: 52 * 10])
    assert said(store) == {}  # a file that is full
    (store / FIRST).write_bytes((store / FIRST).read_bytes().ljust(52 * 20, b"\0"))
    assert "has no unit at 520, where a broker cuts it" in said(store)["timerlog"]
    (store / "epochFileCheckpoint").write_text("1\n99\n1-0\n")
    assert "no epochs can be read" in said(store)["epochFileCheckpoint"]


# --- Positions, and epochs.
def config(**files: object) -> MemoryStorage:
    return MemoryStorage({f"store/config/{name}.json": json.dumps(content).encode()
                          for name, content in files.items()})  # fmt: skip


def mapped(**item: object) -> dict[str, object]:
    """A static topic whose queue 4 is this broker's queue 0."""
    one = {"gen": 0, "queueId": 0, "bname": "b", "logicOffset": 0, "startOffset": 0,
           "endOffset": -1, **item}  # fmt: skip
    return {"topicQueueMappingInfoMap": {"T": {"bname": "b", "hostedQueues": {"4": [one]}}}}


@pytest.mark.parametrize(("file", "content", "past"), [
    ("consumerOffset", {"offsetTable": {"T@g": {"0": 11}}}, "by group 'g'"),
    ("consumerOffset", {"offsetTable": {"T@g": {"0": 10}, "Gone@g": {"0": 99}}}, ""),
    ("delayOffset", {"offsetTable": {"3": 11}}, "by delay level 3"),
    ("delayOffset", {"offsetTable": {"3": 10, "4": 99}}, ""),
    ("consumerOrderInfo", {"table": {"T@g": {"0": {"popTime": 1, "o": [5, 6]}}}}, "ordered"),
    ("consumerOrderInfo", {"table": {"T@g": {"0": {"popTime": 1, "o": [5, 4]}}}}, ""),
    ("topicQueueMapping", mapped(startOffset=11), "by queue 4 of the static topic"),
    ("topicQueueMapping", mapped(endOffset=11), "by queue 4 of the static topic"),
    ("topicQueueMapping", mapped(startOffset=10), ""),
    ("topicQueueMapping", mapped(startOffset=11, bname="other"), ""),
])  # fmt: skip
def test_positions_past_the_queue_s_end(file: str, content: object, past: str) -> None:
    ends = {("T", 0): 10, ("SCHEDULE_TOPIC_XXXX", 2): 10}
    found = past_the_queues(Folder(config(**{file: content}), "store"), ends)
    assert [past in each.reason for each in found] == [True] * bool(past)
    assert [each.path for each in found] == [f"store/config/{file}.json"] * bool(past)


# --- RocksDBs of the broker's own.
def test_a_pop_in_rocksdb_past_its_queue_s_end_does_not_come_again(tmp_path: Path) -> None:
    store = str(tmp_path)
    record = {"popTime": 1, "groupId": "g", "topicId": "T", "queueId": 0, "invisibleTime": 9}
    rows = {b"%d" % n: json.dumps({**record, "offset": n}).encode() for n in (9, 10)}
    make(tmp_path / "kvStore", {"popState": rows})
    (found,) = past_the_queues(Folder(LocalStorage(), store), {("T", 0): 10})
    assert "up to 11 by a pop of group 'g'" in found.reason
    (found,) = past_the_queues(Folder(LocalStorage(), store), {})  # the log lost the whole queue
    assert "the log has it up to 0" in found.reason
    assert past_the_queues(Folder(LocalStorage(), store), {}, log_start=1) == []
    assert list(database_faults(Folder(LocalStorage(), store))) == []
    (table,) = (tmp_path / "kvStore").glob("*.sst")
    raw = table.read_bytes()
    table.write_bytes(b"x" + raw[1:])
    (found,) = database_faults(Folder(LocalStorage(), store))
    assert "block checksum mismatch" in found.reason


@pytest.mark.parametrize("folder", ["kvStore", "config/topics", "rocksdbstore"])
def test_a_rocksdb_that_has_lost_how_it_is_opened(folder: str) -> None:
    files = {f"store/{folder}/000004.sst": b"x"}
    (found,) = database_faults(Folder(MemoryStorage(files), "store"))
    assert (found.path, "begins with an empty one" in found.reason) == (f"store/{folder}", True)


# --- Which timers wait by the log, and the timerlog, timercheck and delay offsets that say so.
UNIT = struct.Struct(">iqiqiqiiq")  # TimerLog.UNIT_SIZE: 52 bytes
TICKS = 1_700_000_000_000  # now, at the beginning of its tick
SEEN = TICKS - 10_000
TURNED = timers.Turned(SEEN, SEEN - 5000, 42, TICKS + 500, 1000)
WINDOW = 2 * 24 * 3600 * 1000  # timerRollWindowSlot of a second each
INT_MAX = (1 << 31) - 1


def mark(place: int, size: int, out: int, topic_hash: int, recalls: bool = False) -> np.ndarray:
    made = np.zeros(1, MARK)
    made["kind"], made["physicalOffset"], made["size"], made["out"] = WHEEL, place, size, out
    made["topicHash"], made["deletes"] = topic_hash, recalls
    return made


LAST = mark(9000, 200, TICKS, 5)


def waiting(out: int, recalls: bool = False) -> np.ndarray:
    return mark(100, 150, out, -7, recalls)


@pytest.mark.parametrize(("out", "written", "write", "slot", "magic"), [
    (TICKS + 3000, None, TICKS, TICKS + 3000, 1),
    (TICKS + 3000, TICKS - 60_000, TICKS - 60_000, TICKS + 3000, 1),
    (SEEN - 1, None, SEEN, SEEN, 1),  # due before what is read: in the first slot to be read
    (TICKS + WINDOW - 1, None, TICKS, TICKS + WINDOW - 1, 1),
    (TICKS + WINDOW, None, TICKS, TICKS + WINDOW // 2, 3),
    (TICKS + WINDOW + WINDOW // 3 - 1, None, TICKS, TICKS + WINDOW // 2, 3),
    (TICKS + WINDOW + WINDOW // 3, None, TICKS, TICKS + WINDOW, 3),
    (TICKS, TICKS - INT_MAX, TICKS - INT_MAX, TICKS, 1),
    (TICKS, TICKS - INT_MAX - 1, TICKS, TICKS, 1),  # a delay is an int
    (TICKS + 3000, TICKS + 9000, TICKS, TICKS + 3000, 1),  # a later clock wrote it
])  # fmt: skip
def test_a_unit_is_in_the_slot_where_a_broker_puts_it(out, written, write, slot, magic) -> None:
    """TimerMessageStore.doEnqueue: what is due after the window is to be rolled."""
    times = {} if written is None else {100: written}
    unit, _ = timers.units_of(waiting(out), LAST, times, TURNED)
    assert UNIT.unpack(unit.tobytes()) == (52, 0, magic, write, slot - write, 100, 150, -7, 0)
    (recalling, _) = timers.units_of(waiting(out, True), LAST, times, TURNED)
    assert recalling["magic"] == magic | 4


def test_the_last_unit_is_of_the_topics_last_message_and_a_full_file_ends_with_a_blank() -> None:
    """If that does not wait, its unit is in the slot before those that are to be read."""
    (alone,) = timers.units_of(LAST[:0], LAST, {}, TURNED)
    read = SEEN - 5000 - 1000
    assert UNIT.unpack(alone.tobytes()) == (52, 0, 1, read, 0, 9000, 200, 5, 0)
    both = timers.units_of(np.concatenate([waiting(TICKS), LAST]), LAST, {}, TURNED)
    assert both["physicalOffset"].tolist() == [100, 9000]
    (early,) = timers.units_of(LAST[:0], LAST, {}, TURNED._replace(read_time=0))
    assert early["writeTime"] == 0
    units = np.zeros(5, layouts.TIMER_UNIT)
    units["writeTime"] = TICKS
    units["delay"] = [1000, 2000, 1999, 1000, 5000]  # three slots of a second
    file_bytes = 2 * 52 + 16
    files = dict(timers.timer_log_files(units, file_bytes, 1000))
    assert list(files) == [f"{n * file_bytes:020d}" for n in range(3)]
    blank = struct.pack(">iqI", 16, 0, 0xCBD43194)  # 0xBBCCDDEE ^ (1880681586 + 8)
    assert [raw[104:] for raw in files.values()] == [blank, blank, b""]
    found = [UNIT.unpack_from(raw, at) for raw in files.values()
             for at in range(0, len(raw) - 51, 52)]  # fmt: skip
    assert [unit[1] for unit in found] == [-1, -1, 0, file_bytes, -1]
    longer = dict(timers.timer_log_files(units[:3], file_bytes + 51, 1000))
    assert longer[f"{0:020d}"][104:] == struct.pack(">iqI", 67, 0, 0xCBD43194)
    assert list(timers.timer_log_files(units[:0], file_bytes, 1000)) == []


def of_log(marks: np.ndarray, last: int = TICKS) -> Gathered:
    return Gathered(marks, marks[:0], [], 0, last, [], 0)


def log_of(*each: tuple[int, int, int, int]) -> np.ndarray:
    """(kind, home, TIMER_OUT_MS, whether it recalls) of marks at places 100, 200, ..."""
    marks = np.zeros(len(each), MARK)
    for number, (kind, home, out, recalls) in enumerate(each):
        marks[number]["physicalOffset"], marks[number]["queueOffset"] = 100 * number + 100, number
        marks[number]["kind"], marks[number]["home"], marks[number]["out"] = kind, home, out
        marks[number]["sentOn"], marks[number]["key"] = 1, home
        marks[number]["deletes"] = home if recalls else 0
    return marks


def test_what_waits_is_what_the_log_does_not_show_as_delivered() -> None:
    """Without a timercheck the wheel was read up to the last record; a delivery may be lost."""
    log = log_of(
        (WHEEL, 1, TICKS - 5000, 0), (WHEEL, 2, TICKS - 5000, 0), (WHEEL, 3, TICKS + 9000, 0),
        (WHEEL, 4, TICKS + 9000, 0), (WHEEL, 4, TICKS + 9000, 1), (OTHER, 1, 0, 0),
    )  # fmt: skip
    log["home"][4] = 9
    never = Read(None, None, 0, True)
    found = timers.derived_timers(of_log(log), never, lambda _: {}, TICKS + 500, 1000)
    assert found is not None
    assert found.units["physicalOffset"].tolist() == [200, 300, 400, 500]
    assert (found.units["writeTime"] + found.units["delay"]).tolist() == [
        TICKS, TICKS + 9000, TICKS + 9000, TICKS + 9000,
    ]  # fmt: skip
    assert found.check == {
        "lastReadTimeMs": TICKS, "lastTimerLogFlushPos": 0, "lastTimerQueueOffset": 5,
        "masterTimerQueueOffset": 5,
    }  # fmt: skip
    passed = Read(None, 5, TICKS + 4000, True)  # an older log: the first two are gone past
    late = timers.derived_timers(
        of_log(log, TICKS + 60_000), passed, lambda _: {}, TICKS + 500, 1000
    )
    assert late is not None
    assert late.units["physicalOffset"].tolist() == [300, 400, 500]
    assert timers.derived_timers(of_log(log[5:]), never, lambda _: {}, TICKS, 1000) is None
    log = log_of(*((SCHEDULE, home, 0, 0) for home in (1, 2, 3)), (OTHER, 2, 0, 0))
    log["queueId"] = [1, 1, 4, 0]
    assert timers.derived_levels(of_log(log)) == {2: 2, 5: 2}
    assert timers.derived_levels(of_log(log[3:])) == {}
