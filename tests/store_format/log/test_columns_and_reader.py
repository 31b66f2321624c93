"""Columns of texts, hosts, words and pairs, laid out as Arrow lays them out."""

import struct
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from reput.store_format.faults import Fault
from reput.store_format.files.protocol import Files, FileState
from reput.store_format.log import columns
from reput.store_format.log import reader as module
from reput.store_format.log.columns import records_at
from reput.store_format.log.properties import new_spans
from reput.store_format.log.rules import Checks, RecordRules
from reput.store_format.log.segments import Segment
from tests.logs import Message, build_log, properties
from tests.logs.damage import record_places
from tests.memory_storage import WatchedStorage
from tests.store_format.log.windows import RULES, reader_of, window_of

V6 = bytes(range(20))


def cut(ends: Any, data: Any, count: int) -> list[str]:
    """The texts of a column."""
    raw = data.tobytes()
    return [raw[ends[i] : ends[i + 1]].decode() for i in range(count)]


def texts(*values: bytes) -> tuple[Any, Any, Any]:
    """A window with these bytes one after the other, and where each starts and stops."""
    stops = np.cumsum([len(value) for value in values])
    return np.frombuffer(b"".join(values), np.uint8), stops - [len(v) for v in values], stops


VALUES = (b"", b"ab", "é鍵\U0001f600".encode(), b"\xff", b"\xed\xa0\x80x", b"\xf0\x9f", b"\xc3")
DECODED = ["", "ab", "é鍵\U0001f600", "\ufffd", "\ufffdx", "\ufffd", "\ufffd"]


def test_texts_are_decoded_as_java_does_and_hosts_and_numbers_are_read() -> None:
    window, starts, stops = texts(*VALUES)
    ends = np.empty(len(VALUES) + 1, np.int32)
    out = np.empty(columns.text_room(len(window)), np.uint8)
    columns.put_texts(window, starts, stops, ends, out)
    assert cut(ends, out, len(VALUES)) == DECODED
    starts[1] = -1
    columns.put_texts(window, starts, stops, ends, out)
    assert cut(ends, out, len(VALUES)) == ["", "", *DECODED[2:]]
    one, other = host(10, 0, 255, 1, port=0), host(255, 255, 255, 255, port=-(1 << 31))
    messages = [
        Message(born_host=one, store_host=other), Message(born_host=one, store_host=one),
        Message(born_host=V6, store_host=one, sys_flag=0x10),
        Message(born_host=one, store_host=V6, sys_flag=0x20), Message(born_host=other),
    ]  # fmt: skip
    first, last = "10.0.255.1:0", "255.255.255.255:-2147483648"
    assert len(last) == columns.HOST_ROOM
    assert hosts(messages, False) == ([first, first, "", first, last], [0, 0, 1, 0, 0])
    assert hosts(messages, True) == ([last, first, first, "", "127.0.0.1:10911"], [0, 0, 0, 1, 0])
    message = Message(body=b"b", born_timestamp=-3, flag=-4, reconsume_times=5,
                      prepared_transaction_offset=1 << 50, born_host=V6, sys_flag=0x10)  # fmt: skip
    window, rows = window_of([message])
    out = np.empty(1, columns.NUMBERS)
    columns.read_numbers(window, rows, out)
    assert out[0].item() == (-3, 1 << 50, -4, 5)


def hosts(messages: list[Message], stored: bool) -> tuple[list[str], list[int]]:
    window, rows = window_of(messages)
    ends, hard = np.empty(len(rows) + 1, np.int32), np.zeros(len(rows), np.uint8)
    out = np.empty(columns.HOST_ROOM * len(rows), np.uint8)
    columns.put_hosts(window, rows, RULES, stored, ends, out, hard)
    return cut(ends, out, len(rows)), hard.tolist()


def host(*address: int, port: int) -> bytes:
    return bytes(address) + port.to_bytes(4, "big", signed=True)


def pairs(raw: list[bytes], split: bool) -> tuple[list[list[tuple[str, str]]], list[int]]:
    window, rows = window_of([Message(properties=one) for one in raw])
    size, room = sum(map(len, raw)), columns.list_room(sum(map(len, raw)), len(raw))
    lists, hard = np.empty(len(raw) + 1, np.int32), np.zeros(len(raw), np.uint8)
    ends = np.empty((2, room), np.int32)
    data = np.empty((2, columns.text_room(size)), np.uint8)
    columns.put_pairs(window, rows, split, lists, ends[0], data[0], ends[1], data[1], hard)
    names, values = (cut(ends[n], data[n], lists[-1]) for n in range(2))
    found = [*zip(names, values, strict=True)]
    return [found[a:b] for a, b in pairwise(lists.tolist())], hard.tolist()


def test_pairs_come_in_their_order_as_the_release_splits_them_and_values_are_found() -> None:
    raw = [b"b\x01x\x02a\x01y\x02", b"", b"a\x01x\x01\x02", b"\x01x\x02c\x01\xff"]
    first = [("b", "x"), ("a", "y")]
    assert pairs(raw, False) == ([first, [], [("a", "x\x01")], [("c", "\ufffd")]], [0] * 4)
    assert pairs(raw, True) == ([first, [], [("a", "x")], [("", "x"), ("c", "\ufffd")]], [0] * 4)
    raw = properties(("UNIQ_KEY", "u"), ("TAGS", "t"), ("TAGS", "tt"))
    window, rows = window_of([Message(properties=raw), Message()])
    found = np.empty((3, 2, 2), np.int64)
    columns.find_values(window, rows, False, new_spans(), found)
    spans = [[window[a:b].tobytes() for a, b in found[n].T if a >= 0] for n in range(3)]
    assert spans == [[b"tt"], [], [b"u"]]
    window, starts, stops = texts(b"a  b", b"", b"  ", b" \xff a", b"\tx")
    lists, room = np.empty(6, np.int32), columns.list_room(len(window), 5)
    ends, out = np.empty(room, np.int32), np.empty(columns.text_room(len(window)), np.uint8)
    columns.put_words(window, starts, stops, lists, ends, out)
    assert lists.tolist() == [0, 2, 2, 2, 4, 5]
    assert cut(ends, out, 5) == ["a", "b", "\ufffd", "a", "\tx"]


@pytest.mark.parametrize(
    ("hard", "names"), [(0, 48), (1, 49)], ids=["as many as there is room for", "one more"]
)
def test_many_pairs_or_one_name_twice_are_left_out(hard: int, names: int) -> None:
    many = properties(*((f"n{n}", "v") for n in range(names)))
    twice = b"a\x01x\x02\xff\x01y\x02\xfe\x01z\x02"  # two names that are decoded alike
    found, marks = pairs([b"a\x01x\x02", many, twice, b"a\x01x\x02"], False)
    assert marks == [0, hard, 1, 0]
    assert [len(one) for one in found] == [1, 0 if hard else 48, 0, 1]
    assert found[3] == [("a", "x")]


# --- The records at many places: those that are whole in the window, and those left to another.
SEGMENT = 1 << 15
MESSAGES = [Message(queue_offset=n, body=bytes(n % 7 * 40)) for n in range(500)]
LOG = build_log(MESSAGES, SEGMENT, SEGMENT)
PLACES = record_places(LOG)


def found(segments: dict[int, bytes], places: list[int]) -> tuple[list[int], list[int]]:
    """(the places that were read, the others), each in the order that they came."""
    log, _ = reader_of(segments)
    read, others = [], list[int]()
    with log:
        for records in records_at(log, np.array(places, np.int64)):
            read += records.rows["physicalOffset"].tolist()
            others += records.others
    return read, others


@pytest.mark.parametrize("step", [1, 2, 60, 499, 500])
def test_all_places_are_read_whatever_lies_between_them(step: int) -> None:
    assert len(LOG) > 2
    assert found(LOG, PLACES[::step]) == (PLACES[::step], [])


def test_a_place_of_none_or_of_a_long_record_is_left_to_another() -> None:
    end = max(LOG) + SEGMENT
    wrong = [0, SEGMENT - 1, PLACES[1] + 4, end - 3, end, 1 << 60]
    read, others = found(LOG, sorted([*wrong, PLACES[0], PLACES[1], PLACES[2]]))
    assert (read, sorted(others)) == (PLACES[:3], wrong)
    sizes = [2048 - 92, 2048 - 91, 10]
    log = build_log([Message(body=bytes(size)) for size in sizes], SEGMENT)
    first, second, third = record_places(log)
    assert (second - first, third - second) == (2048, 2049)
    assert found(log, [first]) == ([first], [])
    assert found(log, [second]) == ([], [second])
    assert found(log, [first, second, third]) == ([first, third], [second])
    assert found(LOG, []) == ([], [])


def test_neighbours_are_read_in_one_piece() -> None:
    log, storage = reader_of(LOG)
    asked = list[tuple[int, int]]()
    opened = storage.open

    def counted(path: str, state: Any = None) -> Any:
        reader = opened(path, state)
        read_into = reader.read_into

        def noted(offset: int, buffer: Any) -> None:
            asked.append((offset, len(buffer)))
            read_into(offset, buffer)

        reader.read_into = noted  # type: ignore[method-assign]
        return reader

    storage.open = counted  # type: ignore[method-assign]
    with log:
        list(records_at(log, np.array([*PLACES[:3], PLACES[100]])))
    wanted = PLACES[2] - PLACES[0] + 2048
    assert asked == [(0, wanted), (PLACES[100] - SEGMENT, 2048)]


# --- `LogReader`: records by their place, where the log starts and ends, and what files it holds.
SEGMENT_READER = 1024
MESSAGES_READER = [Message(f"T{n}", n, n, b"b" * n, b"a\x01%d\x02" % n) for n in range(60)]
LOG_READER = build_log(MESSAGES_READER, SEGMENT_READER, SEGMENT_READER)
PLACES_READER = record_places(LOG_READER)
END = SEGMENT_READER * (len(LOG_READER) + 1)


def changed(at: int, raw: bytes) -> dict[int, bytes]:
    base = at - at % SEGMENT_READER
    segment = bytearray(LOG_READER[base])
    segment[at - base : at - base + len(raw)] = raw
    return {**LOG_READER, base: bytes(segment)}


def test_a_log_reaches_from_its_first_segment_to_an_earlier_end_or_the_zeros_behind_it() -> None:
    log, _ = reader_of(LOG_READER, end=PLACES_READER[30])
    assert [record.physical_offset for record in log.records(log.start)] == PLACES_READER[:30]
    assert log.record_at(PLACES_READER[31]).queue_offset == 31  # by its place it can still be read
    zeros = {END: bytes(SEGMENT_READER), END + SEGMENT_READER: bytes(SEGMENT_READER)}
    log, _ = reader_of({**LOG_READER, **zeros})
    assert len(list(log.records(log.start))) == 60
    assert log.is_zero_from(END)
    assert not log.is_zero_from(END - SEGMENT_READER)
    log, _ = reader_of({**LOG_READER, **zeros, END + SEGMENT_READER: b"\0" * 47 + b"\1" * 977})
    with pytest.raises(module.NoRecord):
        list(log.records(log.start))
    log, _ = reader_of(LOG_READER)
    assert (log.start, log.end) == (SEGMENT_READER, END)
    assert [log.segment_at(at).start for at in (SEGMENT_READER, 2047, 2048, END - 1)] == [
        SEGMENT_READER, SEGMENT_READER, 2048, END - SEGMENT_READER,
    ]  # fmt: skip
    for at in (-1, 0, SEGMENT_READER - 1, END):
        with pytest.raises(
            module.NotInLog, match=rf"offset {at} is not in the log, \[{SEGMENT_READER}, {END}\)"
        ):
            log.segment_at(at)
    log, _ = reader_of(changed(PLACES_READER[3] + 56, struct.pack(">q", -77)))
    assert log.store_timestamp(PLACES_READER[3], 91) == -77
    assert log.store_timestamp(END - 91, 91) == 0
    for place, size in ((PLACES_READER[3], 90), (END - 91, 92), (END, 91), (0, 91),
                        (PLACES_READER[3], -1)):  # fmt: skip
        assert log.store_timestamp(place, size) == -1


@pytest.mark.parametrize("checks", [Checks(), Checks(body=True)])
def test_no_record_says_where_it_is_missed(checks: Checks) -> None:
    log, _ = reader_of(changed(PLACES_READER[1], struct.pack(">i", -5)), checks)
    with pytest.raises(
        module.NoRecord, match=r"log/0+1024: offset 97 .*\(totalSize -5\)"
    ) as raised:
        log.record_at(PLACES_READER[1])
    assert (raised.value.place, raised.value.fault) == (PLACES_READER[1], Fault.BAD_SIZE)
    assert raised.value.field == "totalSize"


def test_at_most_eight_files_are_open_and_kept_records_outlive_their_window() -> None:
    log, storage = reader_of(LOG_READER)
    assert len(LOG_READER) > 8
    for start in sorted(LOG_READER):
        log.read_into(start, np.empty(4, np.uint8))
    assert storage.closed == storage.opened[: len(LOG_READER) - 8]
    log.close()
    assert sorted(storage.closed) == sorted(storage.opened) == sorted(storage.files)
    log, storage = reader_of(LOG_READER)
    mixed = module.LogReader(storage, log.segments, RecordRules(True, True, False, 2048))
    assert mixed.start_of(SEGMENT_READER + 100) == SEGMENT_READER + 100
    assert mixed.start_of(2048 + 100) == 2048 + 52
    with pytest.raises(module.NoRecord, match="magic"):
        mixed.record_from(2048)
    window, rows = window_of(MESSAGES_READER[:5])
    window = window.copy()
    kept = list(module.late_records_of(window, rows, RULES))
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
    return module.segment_files(storage, segments, SIZE)


def test_segments_have_a_log_s_names_and_bytes_are_read_by_offset_with_one_file_open() -> None:
    found = files(counting())
    assert found.names("commitlog") == [f"{0:020d}", f"{SIZE:020d}"]
    assert found.names("consumequeue") == []
    storage = counting()
    log = module.LogBytes(files(storage), SIZE)
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
