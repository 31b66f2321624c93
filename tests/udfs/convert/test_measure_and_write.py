"""A log's splits before it is written anew: each record's new size, and what each queue has."""

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import Fault, StoreChanged
from reput.store_format.files.protocol import FileState
from reput.store_format.log.segments import Segment, Splits
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.store_format.rewrite.changes import Changes
from reput.store_format.rewrite.placing import EarlierLog
from reput.udfs.convert import measure, write
from reput.udfs.staging import ENTRIES, Staging
from reput.udfs.staging import MESSAGES as STAGED_MESSAGES
from tests.damaged import START, messages
from tests.logs.damage import record_places
from tests.logs.encoder import Message, build_log, encode
from tests.memory_storage import MemoryStorage
from tests.udfs.table.parts import log_of
from tests.udfs.tables import rows_of

SEGMENT = 4096
Row = dict[str, Any]
# topic T has queues 0 and 1, topic Drop one; record 4 is prepared, and 7 is a commit
MESSAGES = [
    Message("Drop" if n % 3 == 2 else "T", queue_id=n % 2, queue_offset=n, body=b"b" * n,
            store_timestamp=50 - n, sys_flag={4: 0x4, 7: 0x8}.get(n, 0)) for n in range(9)
]  # fmt: skip
SIZES = [len(encode(message, 0)) for message in MESSAGES]
PLACES = record_places(build_log(MESSAGES, SEGMENT))
OF_T = [0, 1, 3, 4, 6, 7]


def measured(changes: Changes, splits: int = 1, messages: list[Message] = MESSAGES, **more: Any
             ) -> tuple[Staging, list[Row]]:  # fmt: skip
    log = log_of(messages, SEGMENT)
    staging = Staging(MemoryStorage(), "s")
    cut = Splits(list(log.segments), -(-SEGMENT // splits), SEGMENT)
    groups = tuple(range(splits))
    task = measure.MeasureSplits(
        log.storage, staging, cut, log.rules, range(splits), groups, {}, changes, **more
    )
    return staging, rows_of(task, *groups, schema=measure.MEASURED)


def taken(staging: Staging, row: Row) -> list[tuple[int, int]]:
    """(offset in the split, new size) of each record that is taken."""
    found: list[tuple[int, int]] = measure.measured_records(
        staging, row["run"], row["taken"]
    ).tolist()
    return found


def test_each_queue_has_its_sums_without_what_an_earlier_log_has() -> None:
    staging, (row,) = measured(Changes(dropped=("Drop",)))
    queues = {(q["topic"], q["queue_id"]): q for q in measure.split_queues(staging, row["run"])}
    names = ("records", "taken", "bytes", "positions", "counted", "least", "greatest", "sys_flags")
    assert {key: [q[name] for name in names] for key, q in queues.items()} == {
        ("T", 0): [3, 3, SIZES[0] + SIZES[4] + SIZES[6], 2, 2, 0, 6, 0x4],
        ("T", 1): [3, 3, SIZES[1] + SIZES[3] + SIZES[7], 3, 3, 1, 7, 0x8],
        ("Drop", 0): [2, 0, 0, 2, 0, 2, 8, 0],
        ("Drop", 1): [1, 0, 0, 1, 0, 5, 5, 0],
    }
    staging, (row,) = measured(Changes(), ordered=True)
    order = measure.measured_order(staging, row["run"], row["taken"])
    number = {(q["topic"], q["queue_id"]): q["number"]
              for q in measure.split_queues(staging, row["run"])}  # fmt: skip
    # a prepared record has no position
    assert order.tolist() == [(50 - n, int(n != 4)) for n in range(len(MESSAGES))]
    assert measure.measured_puts(staging, row["run"], order).tolist() == [
        (number[m.topic, m.queue_id], n, 1) for n, m in enumerate(MESSAGES) if n != 4
    ]
    files = measured(Changes())[0].storage.list("s")
    assert not any(file.name.endswith(".order") for file in files)
    other = log_of(MESSAGES[:4], SEGMENT)
    end = PLACES[3]  # of the other log, before its last record
    earlier = (EarlierLog(other.storage, other.segments, end),)
    staging, (row,) = measured(Changes(merges=True), earlier=earlier)
    assert [at for at, _ in taken(staging, row)] == PLACES[3:]
    assert sum(queue["shared"] for queue in measure.split_queues(staging, row["run"])) == 3
    half = [Message("RMQ_SYS_TRANS_HALF_TOPIC", queue_offset=n) for n in range(3)]
    places = record_places(build_log(half, SEGMENT))
    staging, (row,) = measured(Changes(dropped=("X",)), messages=half, waiting=(places[1],))
    assert [at for at, _ in taken(staging, row)] == [places[1]]
    assert measured(Changes(), messages=half)[1][0]["taken"] == 3


@pytest.mark.parametrize("splits", [5, 8, 30])
def test_a_record_is_in_the_split_that_it_begins_in_counted_from_its_start(splits: int) -> None:
    staging, rows = measured(Changes(dropped=("Drop",)), splits)
    size = -(-SEGMENT // splits)
    found = [(row["split"], *each) for row in rows if row["taken"] for each in taken(staging, row)]
    wanted = [(PLACES[n] // size, PLACES[n] % size, SIZES[n]) for n in OF_T]
    assert found == wanted


# --- A new segment's records, dispatched from memory as a scan would dispatch them from disk.
SEGMENT_WRITE, BASE = 4096, 8192
RULES = scan_rules(profile("5.3.3"), settings_from({}), ())
LOG = build_log(messages(10, 1), SEGMENT_WRITE, BASE)[BASE]
PLACES_OF_LOG = record_places({BASE: LOG})
SIZE = PLACES_OF_LOG[1] - BASE
END = PLACES_OF_LOG[-1] + SIZE


def put(raw: bytes, *cuts: int, last: bool = True) -> tuple[dict[str, Any], MemoryStorage]:
    """The SCANNED row of a segment whose records are put in windows, cut at these places."""
    storage = MemoryStorage()
    new = write.NewRecords(Staging(storage, "s"), RULES, 2, BASE, SEGMENT_WRITE, 1 << 16)
    for start, stop in zip((BASE, *cuts), (*cuts, END), strict=True):
        new.put(np.frombuffer(raw[start - BASE : stop - BASE], np.uint8).copy(), start)
    return new.finish(last), storage


def content(row: dict[str, Any], storage: MemoryStorage, kind: str) -> bytes:
    return storage.files.get(f"s/{row['run']}{kind}", b"")


@pytest.mark.parametrize(
    "cuts", [(), (PLACES_OF_LOG[1],), (PLACES_OF_LOG[3], PLACES_OF_LOG[4], PLACES_OF_LOG[9])]
)
def test_any_windows_of_whole_records_give_the_same_entries(cuts: tuple[int, ...]) -> None:
    row, storage = put(LOG, *cuts)
    raw = content(row, storage, ENTRIES)
    entries = [struct.unpack_from(">qiq", raw, at) for at in range(0, 200, 20)]
    assert entries == [(place, SIZE, 0) for place in PLACES_OF_LOG]
    assert content(row, storage, STAGED_MESSAGES) == b"".join(
        struct.pack("=qq", place, START + n) for n, place in enumerate(PLACES_OF_LOG)
    )
    told = ("split", "records", "index_puts", "first", "last_record", "last_timestamp")
    assert [row[name] for name in told] == [2, 10, 10, BASE, PLACES_OF_LOG[-1], START + 9]


@pytest.mark.parametrize(
    ("last", "fault", "end"), [(True, Fault.ZEROS, END), (False, Fault.BLANK, BASE + SEGMENT_WRITE)]
)
def test_a_segment_ends_with_a_blank_unless_it_is_the_last(last, fault, end) -> None:
    row, _ = put(LOG, last=last)
    assert (row["fault"], row["next"]) == (int(fault), end)


@pytest.mark.parametrize("cuts", [(), (PLACES_OF_LOG[3], PLACES_OF_LOG[5])])
@pytest.mark.parametrize(("at", "raw", "fault"), [
    (4, b"\0", Fault.BAD_MAGIC), (28, b"\1", Fault.PLACE),
    (0, struct.pack(">i", 90), Fault.BAD_SIZE),
    (0, struct.pack(">i", SEGMENT_WRITE), Fault.SIZE_PAST_END),
])  # fmt: skip
def test_it_stops_for_good_at_the_first_record_that_a_scan_refuses(at, raw, fault, cuts) -> None:
    wrong = bytearray(LOG)
    place = PLACES_OF_LOG[4] - BASE
    wrong[place + at : place + at + len(raw)] = raw
    row, storage = put(bytes(wrong), *cuts, last=False)
    assert (row["records"], row["next"], row["fault"]) == (4, PLACES_OF_LOG[4], int(fault))
    assert row["size"] == struct.unpack_from(">i", wrong, place)[0]
    assert len(content(row, storage, ENTRIES)) == 4 * 20


# --- Where the records of an old log go, and what becomes of links to them.
SEGMENT_PLACED = 1000
OLD_START, OLD_END = 5000, 7000
# Two splits; each record's offset in its split, and its new size.
SPLITS = ([(0, 300), (400, 92)], [(100, 601)])
AT = (3000, 3392)  # where the new log ends before each


def measured_write(records: list[tuple[int, int]]) -> Any:
    return np.array(records, measure.MEASURED_RECORD)


def old_log(ordered: bool) -> tuple[Staging, write.OldLog]:
    files: dict[str, bytes] = {}
    pieces = []
    for n, records in enumerate(SPLITS):
        start = OLD_START + n * SEGMENT_PLACED
        files[f"staging/s{n}.records"] = measured_write(records).tobytes()
        # As if the second split's record came first.
        places = np.array([[3600, 4000], [3000]][n], np.int64)
        files[f"staging/s{n}.places"] = places.tobytes()
        # each record is in two queues
        files[f"staging/s{n}.numbers"] = np.repeat(places - 3000, 2).tobytes()
        order = np.array([(0, 2)] * len(places), measure.MEASURED_ORDER)
        files[f"staging/s{n}.order"] = order.tobytes()
        segment = Segment(f"log/{start}", start, FileState(SEGMENT_PLACED, 0, 0))
        pieces.append(
            write.Piece(start, start + records[0][0], f"s{n}", len(records), AT[n], segment, 601)
        )
    storage = MemoryStorage(files)
    rules = scan_rules(profile("5.3.3"), settings_from({}), ())
    log = write.OldLog(storage, rules, Changes(), tuple(pieces), OLD_START, OLD_END, ordered)
    return Staging(storage, "staging"), log


def records(ordered: bool = False) -> write.PlacedRecords:
    return write.PlacedRecords(*old_log(ordered), SEGMENT_PLACED)


def test_records_go_one_behind_the_other_or_as_ordered_and_a_0_is_no_link_even_from_0() -> None:
    first, second = (records().of(n) for n in (0, 1))
    assert first.offsets.tolist() == [5000, 5400]
    assert (first.places.tolist(), second.places.tolist()) == ([3000, 3300], [4000])
    assert first.own.tolist() == [-1, -1]
    ordered = records(ordered=True)
    assert [ordered.of(n).places.tolist() for n in (0, 1)] == [[3600, 4000], [3000]]
    assert ordered.of(0).own.tolist() == [600, 1000]
    assert ordered.of(0).between(1, 2).firsts.tolist() == [2]
    assert first.between(1, 2).sizes.tolist() == [92]
    staging, log = old_log(False)
    piece = log.pieces[0]._replace(start=0, first=0)
    moved = write.PlacedRecords(
        staging,
        write.OldLog(log.storage, log.rules, Changes(), (piece,), 0, OLD_END),
        SEGMENT_PLACED,
    )
    assert moved.links(np.array([0, 400], np.int64)).tolist() == [0, 3300]
    places, sizes = moved.found(np.array([0, 400], np.int64))  # as a timerlog's unit names it
    assert (places.tolist(), sizes.tolist()) == ([3000, 3300], [300, 92])


@pytest.mark.parametrize(("old", "new", "size"), [
    (0, 0, 0), (-1, -1, 0), (4999, 4999, 0), (5000, 3000, 300), (5001, 0, 0), (5400, 3300, 92),
    (5999, 0, 0), (6000, 0, 0), (6100, 4000, 601), (6999, 0, 0), (7000, 7000, 0),
    ((1 << 63) - 1, (1 << 63) - 1, 0),
])  # fmt: skip
def test_a_link_leads_to_the_same_record_or_nowhere(old: int, new: int, size: int) -> None:
    links = np.array([6100, old, 5000], np.int64)
    places, sizes = records().found(links)
    assert places.tolist() == [4000, new, 3000]
    assert sizes.tolist() == [601, size, 300]
    assert links.tolist() == [6100, old, 5000]


# --- The segments of a new log: each record at its new place, blanks, and what is dispatched.
OLD, NEW = 4096, 512  # bytes of a segment
MESSAGES_WRITE = [Message(queue_offset=n, body=b"%0100d" % n) for n in range(5)]
PLACES_WRITE = record_places(build_log(MESSAGES_WRITE, OLD))
SIZE_WRITE = len(encode(MESSAGES_WRITE[0], 0))  # so two records and a blank fill a new segment
RULES_WRITE: Any = log_of(MESSAGES_WRITE).rules


def old_log_write(
    files: dict[str, bytes], kept: Sequence[int], changes: Changes, sizes: Sequence[int], at: int,
    name: str = "a",
) -> write.OldLog:  # fmt: skip
    """One piece of some records, the first of which is placed at or behind `at`."""
    records = [(PLACES_WRITE[n], size) for n, size in zip(kept, sizes, strict=True)]
    files[f"s/{name}.records"] = np.array(records, measure.MEASURED_RECORD).tobytes()
    storage = MemoryStorage({"old": build_log(MESSAGES_WRITE, OLD)[0]})
    segment = Segment("old", 0, FileState(OLD, 0, 0))
    piece = write.Piece(
        0, PLACES_WRITE[kept[0]], name, len(kept), at, segment, max(SIZE_WRITE, *sizes)
    )
    end = PLACES_WRITE[-1] + SIZE_WRITE
    return write.OldLog(storage, RULES_WRITE, changes, (piece,), 0, end)


def written(
    segments: Sequence[write.NewSegment], logs: Sequence[write.OldLog], files: dict[str, bytes]
) -> tuple[list[dict[str, Any]], dict[int, bytes]]:
    storage = MemoryStorage(files)
    task = write.WriteSegments(
        Staging(storage, "s"), tuple(logs), tuple(segments), NEW, RULES_WRITE
    )
    rows = rows_of(task, *range(len(segments)), schema=write.SEGMENT_WRITTEN)
    return rows, {row["start"]: storage.files[f"s/{row['name']}"] for row in rows}


def parts(*stops: int, start: int = 0) -> list[write.NewSegment]:
    """Segments that end behind so many of the log's records."""
    begins = [0, *stops[:-1]]
    return [
        write.NewSegment(start + n * NEW, (write.Part(0, 0, begin, 0, stop),), n == len(stops) - 1)
        for n, (begin, stop) in enumerate(zip(begins, stops, strict=True))
    ]


def test_a_log_may_begin_anywhere_with_some_records_and_several_come_by_their_new_places() -> None:
    files: dict[str, bytes] = {}
    kept = [MESSAGES_WRITE[n] for n in (0, 2, 4)]
    changes = Changes(dropped=("X",))
    log = old_log_write(files, (0, 2, 4), changes, [SIZE_WRITE] * 3, 3 * NEW)
    _, made = written(parts(2, 3, start=3 * NEW), [log], files)
    assert made == build_log(kept, NEW, 3 * NEW)
    files = {"s/a.places": np.array([0, 2 * SIZE_WRITE], np.int64).tobytes(),
             "s/b.places": np.array([SIZE_WRITE], np.int64).tobytes(),
             "s/a.numbers": np.array([7, 9], np.int64).tobytes(),
             "s/b.numbers": np.array([8], np.int64).tobytes(),
             "s/a.order": np.array([(0, 1)] * 2, measure.MEASURED_ORDER).tobytes(),
             "s/b.order": np.array([(0, 1)], measure.MEASURED_ORDER).tobytes()}  # fmt: skip
    ordered = Changes(merges=True)
    logs = [
        replace(
            old_log_write(files, kept, ordered, [SIZE_WRITE] * len(kept), 0, name), ordered=True
        )
        for name, kept in (("a", (0, 4)), ("b", (2,)))
    ]
    segment = write.NewSegment(0, (write.Part(0, 0, 0, 0, 2), write.Part(1, 0, 0, 0, 1)), True)
    storage, big = MemoryStorage(files), 1024
    task = write.WriteSegments(Staging(storage, "s"), tuple(logs), (segment,), big, RULES_WRITE)
    (row,) = rows_of(task, 0)
    wanted = [Message(queue_offset=offset, body=b"%0100d" % n)
              for offset, n in ((7, 0), (8, 2), (9, 4))]  # fmt: skip
    assert storage.files[f"s/{row['name']}"] == build_log(wanted, big)[0]


@pytest.mark.parametrize(("byte", "number", "said"), [(4, 3, 2), (3, 3, 2), (28, 0, 0), (4, 0, 0)])
def test_a_log_that_was_changed_meanwhile_is_an_error_that_says_where(byte, number, said) -> None:
    """It names the first record that the segment still needs."""
    files: dict[str, bytes] = {}
    log = old_log_write(files, range(5), Changes(), [SIZE_WRITE] * 5, 0)
    raw = bytearray(build_log(MESSAGES_WRITE, OLD)[0])
    raw[PLACES_WRITE[number] + byte] ^= 1
    log.storage.files["old"] = bytes(raw)  # type: ignore[attr-defined]
    with pytest.raises(
        StoreChanged, match=f"old: changed .* offset {PLACES_WRITE[said]} are others"
    ):
        written(parts(2, 4, 5), [log], files)
