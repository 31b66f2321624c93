"""`LogReader`: records by their place, where the log starts and ends, and what files it holds."""

import struct

import numpy as np
import pytest

from reput.store_format.faults import Fault
from reput.store_format.files.protocol import Files, FileState
from reput.store_format.log.reader import (
    LogBytes,
    LogReader,
    NoRecord,
    NotInLog,
    late_records_of,
    segment_files,
)
from reput.store_format.log.rules import Checks, RecordRules
from reput.store_format.log.segments import Segment
from tests.logs import Message, build_log
from tests.logs.damage import record_places
from tests.memory_storage import WatchedStorage
from tests.store_format.log.windows import RULES, reader_of, window_of

SEGMENT = 1024
MESSAGES = [Message(f"T{n}", n, n, b"b" * n, b"a\x01%d\x02" % n) for n in range(60)]
LOG = build_log(MESSAGES, SEGMENT, SEGMENT)
PLACES = record_places(LOG)
END = SEGMENT * (len(LOG) + 1)


def changed(at: int, raw: bytes) -> dict[int, bytes]:
    base = at - at % SEGMENT
    segment = bytearray(LOG[base])
    segment[at - base : at - base + len(raw)] = raw
    return {**LOG, base: bytes(segment)}


def test_a_log_reaches_from_its_first_to_its_last_segment_and_a_store_time_needs_no_record() -> (
    None
):
    log, _ = reader_of(LOG)
    assert (log.start, log.end) == (SEGMENT, END)
    assert [log.segment_at(at).start for at in (SEGMENT, 2047, 2048, END - 1)] == [
        SEGMENT, SEGMENT, 2048, END - SEGMENT,
    ]  # fmt: skip
    for at in (-1, 0, SEGMENT - 1, END):
        with pytest.raises(NotInLog, match=rf"offset {at} is not in the log, \[{SEGMENT}, {END}\)"):
            log.segment_at(at)
    log, _ = reader_of(changed(PLACES[3] + 56, struct.pack(">q", -77)))
    assert log.store_timestamp(PLACES[3], 91) == -77
    assert log.store_timestamp(END - 91, 91) == 0
    for place, size in ((PLACES[3], 90), (END - 91, 92), (END, 91), (0, 91), (PLACES[3], -1)):
        assert log.store_timestamp(place, size) == -1


def test_records_stop_at_an_end_of_an_earlier_look_and_where_all_later_segments_are_zeros() -> None:
    log, _ = reader_of(LOG, end=PLACES[30])
    assert [record.physical_offset for record in log.records(log.start)] == PLACES[:30]
    assert log.record_at(PLACES[31]).queue_offset == 31  # by its place it can still be read
    zeros = {END: bytes(SEGMENT), END + SEGMENT: bytes(SEGMENT)}
    log, _ = reader_of({**LOG, **zeros})
    assert len(list(log.records(log.start))) == 60
    assert log.is_zero_from(END)
    assert not log.is_zero_from(END - SEGMENT)
    log, _ = reader_of({**LOG, **zeros, END + SEGMENT: b"\0" * 47 + b"\1" * 977})
    with pytest.raises(NoRecord):
        list(log.records(log.start))


@pytest.mark.parametrize("checks", [Checks(), Checks(body=True)])
def test_no_record_says_where_it_is_missed(checks: Checks) -> None:
    log, _ = reader_of(changed(PLACES[1], struct.pack(">i", -5)), checks)
    with pytest.raises(NoRecord, match=r"log/0+1024: offset 97 .*\(totalSize -5\)") as raised:
        log.record_at(PLACES[1])
    assert (raised.value.place, raised.value.fault) == (PLACES[1], Fault.BAD_SIZE)
    assert raised.value.field == "totalSize"


def test_at_most_eight_files_are_open_and_kept_records_outlive_their_window() -> None:
    log, storage = reader_of(LOG)
    assert len(LOG) > 8
    for start in sorted(LOG):
        log.read_into(start, np.empty(4, np.uint8))
    assert storage.closed == storage.opened[: len(LOG) - 8]
    log.close()
    assert sorted(storage.closed) == sorted(storage.opened) == sorted(storage.files)
    log, storage = reader_of(LOG)
    mixed = LogReader(storage, log.segments, RecordRules(True, True, False, 2048))
    assert mixed.start_of(SEGMENT + 100) == SEGMENT + 100
    assert mixed.start_of(2048 + 100) == 2048 + 52
    with pytest.raises(NoRecord, match="magic"):
        mixed.record_from(2048)
    window, rows = window_of(MESSAGES[:5])
    window = window.copy()
    kept = list(late_records_of(window, rows, RULES))
    window[:] = 0
    found = [make() for make in kept]
    assert [(each.topic, each.queue_offset) for each in found] == [(f"T{n}", n) for n in range(5)]
    assert [each.physical_offset for each in found] == rows["physicalOffset"].tolist()


# --- A plan's segments read as a writer reads its own: one file at a time, zeros behind its end.
SIZE = 100
WHOLE, SHORT = bytes(range(100)), b"\7" * 30


def counting() -> WatchedStorage:
    return WatchedStorage({"a/x": WHOLE, "b/y": SHORT})


def files(storage: WatchedStorage) -> Files:
    """Segments in two folders, of which the last is not whole."""
    lengths = {"a/x": len(WHOLE), "b/y": len(SHORT)}
    segments = [Segment(path, SIZE * n, FileState(lengths[path], 0, 0))
                for n, path in enumerate(lengths)]  # fmt: skip
    return segment_files(storage, segments, SIZE)


def test_segments_have_a_log_s_names_and_bytes_are_read_by_offset_with_one_file_open() -> None:
    found = files(counting())
    assert found.names("commitlog") == [f"{0:020d}", f"{SIZE:020d}"]
    assert found.names("consumequeue") == []
    storage = counting()
    log = LogBytes(files(storage), SIZE)
    buffer = np.zeros(2, np.uint8)
    read = []
    for at in (0, 98, 100, 128, 2):
        log.read(at, buffer)
        read.append(buffer.tolist())
        assert storage.open_now == 1
    assert read == [[0, 1], [98, 99], [7, 7], [7, 7], [2, 3]]
    assert storage.opened == ["a/x", "b/y", "a/x"]
    log.close()
    log.close()
    assert storage.open_now == 0


@pytest.mark.parametrize(
    ("at", "raw"),
    [(0, b"\7\7\7\7"), (26, b"\7\7\7\7"), (28, b"\7\7\0\0"), (30, bytes(4)), (96, bytes(4))],
)
def test_behind_a_file_s_end_there_are_zeros(at: int, raw: bytes) -> None:
    file = files(counting()).open_read(f"commitlog/{SIZE:020d}")
    buffer = np.full(4, 9, np.uint8)
    file.read_at(at, buffer)
    assert (buffer.tobytes(), file.length()) == (raw, SIZE)
