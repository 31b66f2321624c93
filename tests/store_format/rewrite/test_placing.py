"""Several logs in one: by store time, each log's order kept, and numbered anew."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.log.rules import NO_CHECKS, record_rules
from reput.store_format.log.segments import Segment
from reput.store_format.log.walk import Walk
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.store_format.rewrite import placing
from reput.store_format.rewrite.changes import Changes
from reput.store_format.rewrite.selection import RecordSelector
from tests.converted import records
from tests.logs import Message, build_log, encode, properties
from tests.memory_storage import MemoryStorage
from tests.store_format.damage.walked import reader

SEGMENT = 100


class Joined:
    """Logs of (store time, size, queue) records, and the new log's places and numbers so far.

    puts: for each record its (queue, messages); by default that queue, if any, and one.
    """

    def __init__(
        self, *logs: list[tuple[int, int, int]], following: tuple[int, ...] = (0,),
        puts: list[list[tuple[int, int]]] | None = None,
    ) -> None:  # fmt: skip
        records = np.array([each for log in logs for each in log], np.int64).reshape(-1, 3)
        self.times, self.sizes, queues = (np.ascontiguousarray(column) for column in records.T)
        puts = puts or [[(queue, 1)] for queue in queues.tolist()]
        self.stops = np.cumsum([len(each) for each in puts], dtype=np.int64)
        flat = np.array([put for each in puts for put in each], np.int64).reshape(-1, 2)
        self.queues, self.messages = (np.ascontiguousarray(column) for column in flat.T)
        self.ends = np.cumsum([len(log) for log in logs], dtype=np.int64)
        self.cursors = np.concatenate(([0], self.ends[:-1])).astype(np.int64)
        self.following = np.array(following, np.int64)
        self.places = np.full(len(records), -7, np.int64)
        self.numbers = np.full(len(flat), -7, np.int64)

    def run(self, at: int = 0, begun: bool = True) -> Any:
        return placing.interleave(
            self.times, self.sizes, self.stops, self.queues, self.messages, self.cursors,
            self.ends, self.following, at, SEGMENT, begun, self.places, self.numbers,
        )  # fmt: skip


def test_the_earliest_comes_first_and_queues_are_numbered_on() -> None:
    joined = Joined([(5, 10, 0), (7, 10, 0), (7, 10, 0)], [(5, 10, 0), (6, 10, 0), (9, 10, 0)])
    assert joined.run() == (placing.EXHAUSTED, 50)
    assert joined.places.tolist() == [0, 30, 40, 10, 20, -7]
    assert joined.numbers.tolist() == [0, 3, 4, 1, 2, -7]
    assert joined.cursors.tolist() == [3, 5]
    joined = Joined([(1, 10, 0)], [(2, 10, 0), (3, 10, 0)])
    joined.run()
    joined.ends[0] = joined.cursors[0] = -1  # the caller has nothing left of it
    assert joined.run(10) == (placing.EXHAUSTED, 30)
    joined.ends[1] = joined.cursors[1] = -1
    assert joined.run(30) == (placing.EXHAUSTED, 30)
    joined = Joined([(1, 60, 0)])
    assert joined.run(200, begun=False) == (placing.BEGINS, 200)
    assert joined.run(200, begun=True) == (placing.EXHAUSTED, 260)
    joined = Joined([(1, 9, 1), (2, 9, 0), (3, 9, -1), (4, 9, 1)], following=(70, 5))
    joined.run()
    assert joined.numbers.tolist() == [5, 70, -1, 6]
    assert joined.following.tolist() == [71, 7]
    puts = [[(0, 3), (2, 1)], [], [(1, 1), (2, 1), (-1, 1)]]
    log = [(1, 9, 0), (2, 9, 0), (3, 9, 0)]
    joined = Joined(log, log, following=(70, 5, 0), puts=[*puts, *puts])
    joined.run()
    assert joined.numbers.tolist() == [70, 0, 5, 2, -1, 73, 1, -7, -7, -7]
    assert joined.following.tolist() == [76, 6, 3]


@pytest.mark.parametrize(("size", "why", "end"), [
    (32, placing.EXHAUSTED, 92),  # 8 bytes are left for a BLANK
    (33, placing.BEGINS, 100),
])  # fmt: skip
def test_a_record_that_leaves_no_room_for_a_blank_begins_a_segment(size, why, end) -> None:
    joined = Joined([(1, 60, 0), (2, size, 0)])
    assert joined.run() == (why, end)
    if why == placing.BEGINS:
        assert joined.cursors.tolist() == [1]
        assert joined.run(end) == (placing.EXHAUSTED, end + size)
        assert joined.places.tolist() == [0, 100]


# --- Where the records of a new log stand: whole in a segment, with room for a BLANK behind.
@pytest.mark.parametrize(("sizes", "at", "places", "begins", "end"), [
    ([], 0, [], [], 0), ([30], 0, [0], [0], 30), ([30], 40, [40], [], 70),
    ([30, 62], 0, [0, 30], [0], 92),  # exactly the 8 bytes of a BLANK are left
    ([30, 63], 0, [0, 100], [0, 1], 163), ([92, 92, 92], 0, [0, 100, 200], [0, 1, 2], 292),
    ([10], 100, [100], [0], 110), ([10], 95, [100], [0], 110), ([10], 82, [82], [], 92),
    ([10], 83, [100], [0], 110),
])  # fmt: skip
def test_records_in_segments_of_100_bytes(sizes, at, places, begins, end) -> None:
    found, first = np.full(len(sizes), -1), np.full(len(sizes), -1)
    stop, count = placing.place(np.array(sizes, np.uint32), at, 100, found, first)
    assert (found.tolist(), first[:count].tolist(), stop) == (places, begins, end)


def test_places_are_longs_and_links_to_prepared_messages_are_read_and_counted() -> None:
    segment, at = 1 << 30, 5 << 40
    found, first = np.zeros(2, np.int64), np.zeros(2, np.int64)
    sizes = np.array([segment - 8, 4], np.uint32)
    assert placing.place(sizes, at, segment, found, first) == (at + segment + 4, 2)
    assert found.tolist() == [at, at + segment]
    for link, count in ((0, 0), (55, 1), (-1, 1)):
        window, rows = walked(replace(PLAIN, prepared_transaction_offset=link))
        found = np.full(1, -7, np.int64)
        assert placing.prepared_offsets(window, rows, found) == count
        assert found.tolist() == [link]


# --- Records at new places and with new names, against those that a broker would have written.
RULES = scan_rules(profile("5.3.3"), settings_from({}), ())
V6 = bytes(16) + b"\0\0\0\1"
PLAIN = Message(
    "A", 2, 7, b"body", properties(("RETRY_TOPIC", "A"), ("KEYS", "k"), ("REAL_TOPIC", "A")),
    prepared_transaction_offset=55,
)  # fmt: skip


def walked(message: Message, at: int = 0) -> tuple[Any, Any]:
    raw = np.frombuffer(encode(message, at), np.uint8)
    room = np.empty(len(raw), np.uint8)
    walk = Walk(reader(raw, at), at + len(raw), RULES.records, NO_CHECKS, room)
    (step,) = walk.steps(at, at + len(raw))
    return step.window, step.rows


def numbers(*values: int) -> Any:
    return np.array(values, np.int64)


@pytest.mark.parametrize(("changes", "fields"), [
    (Changes(renames=(("A", "Bcd"),)), {"topic": "Bcd"}),
    (Changes(renames=(("A", "b" * 128),)), {"topic": "b" * 128, "version": 2}),
    (Changes(shifts=(("A", 4),)), {"queue_id": 6}),
    (Changes(store_host=V6), {"store_host": V6, "sys_flag": 0x20}),
    (Changes(store_host=b"\1\2\3\4\0\0\0\5"), {"store_host": b"\1\2\3\4\0\0\0\5"}),
])  # fmt: skip
@pytest.mark.parametrize("sealed", [False, True])
def test_a_record_written_anew_is_as_if_it_had_been_sent_so(changes, fields, sealed) -> None:
    message = replace(PLAIN, crc_property=sealed)
    window, rows = walked(message)
    selector = RecordSelector(changes, RULES)
    ((selection, _),) = selector.select(window, rows)
    name = fields.get("topic", "A")
    text = properties(("RETRY_TOPIC", name), ("KEYS", "k"), ("REAL_TOPIC", name))
    wanted = encode(
        replace(message, queue_offset=3, prepared_transaction_offset=88, properties=text, **fields),
        5000,
    )
    out = np.zeros(len(wanted) + 10, np.uint8)
    host = np.frombuffer(changes.store_host, np.uint8)
    placing.rewrite(
        window, rows, selection,
        placing.To(numbers(5000), numbers(3), numbers(88), numbers(), numbers()),
        placing.Alike(selector.decided, selector.names, host, True, 0), out, 4990,
    )  # fmt: skip
    assert out.tobytes() == bytes(10) + wanted


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("prepared", [None, 88])
def test_a_copied_record_gets_its_place_and_a_new_seal(sealed: bool, prepared: int | None) -> None:
    message = replace(PLAIN, crc_property=sealed)
    window, rows = walked(message, 300)
    out = np.zeros(10 + len(window), np.uint8)
    placing.copy_rows(window, rows, numbers(5000), out, 4990)
    placing.stamp(
        out, 4990, rows, numbers(5000), numbers() if prepared is None else numbers(prepared)
    )
    link = 55 if prepared is None else prepared
    wanted = encode(replace(message, prepared_transaction_offset=link), 5000)
    assert out.tobytes() == bytes(10) + wanted


@pytest.mark.parametrize(("text", "sealed"), [
    (b"__CRC32#\x010123456789\x02", True), (b"a\x01b\x02__CRC32#\x010123456789\x02", True),
    (b"__CRC32#\x010123456789", False),
    (b"__CRC32#\x01012345678\x02\x02", True),  # only its frame is looked at
    (b"__crc32#\x010123456789\x02", False),
    (b"_CRC32#\x010123456789\x02", False),  # a byte too short
    (b"", False),
])  # fmt: skip
def test_a_seal_is_known_by_its_place_and_name(text: bytes, sealed: bool) -> None:
    buf = np.frombuffer(b"_" * 30 + text, np.uint8)
    assert placing.ends_in_crc(buf, 30, len(buf)) == sealed


# --- Which records an earlier log has too: the same bytes at the same place, before its log's
# end.
SEGMENT_SHARED = 4096
MESSAGES = [Message("T", 0, n, b"x" * (n * 40)) for n in range(20)]


def log_of(messages: list[Message]) -> tuple[MemoryStorage, tuple[Segment, ...]]:
    files = {f"log/{at:020d}": raw for at, raw in build_log(messages, SEGMENT_SHARED).items()}
    storage = MemoryStorage(files)
    listed = storage.list("log")
    return storage, tuple(
        Segment(f"log/{name}", int(name), state) for name, state in listed if state
    )


def marks(
    messages: list[Message], earlier: placing.EarlierLog, window: int = 1 << 16
) -> list[bool]:
    storage, segments = log_of(messages)
    shared, found = placing.SharedRecords((earlier,)), []
    for segment in segments:
        reader = storage.open(segment.path)
        walk = Walk(
            segment.read_by(reader), segment.end, record_rules(profile("5.3.3")), NO_CHECKS,
            np.empty(window, np.uint8),
        )  # fmt: skip
        for step in walk.steps(segment.start, segment.end):
            found += shared.of(step.window, step.rows).tolist()
    shared.close()
    return found


@pytest.mark.parametrize("window", [1 << 16, 500])  # of the smaller one longer bodies are left out
def test_each_record_that_is_there_too_is_marked(window: int) -> None:
    other = [*MESSAGES[:12], Message("T", 0, 12, b"y" * 480), *MESSAGES[13:]]
    storage, segments = log_of(other)
    found = marks(MESSAGES, placing.EarlierLog(storage, segments, 1 << 40), window)
    assert found == [n != 12 for n in range(20)]


def test_behind_the_end_of_the_earlier_log_and_before_its_beginning_nothing_counts() -> None:
    storage, segments = log_of(MESSAGES)
    place, record = records(build_log(MESSAGES, SEGMENT_SHARED))[4]
    for end, count in ((place + len(record), 5), (place + len(record) - 1, 4), (0, 0)):
        found = marks(MESSAGES, placing.EarlierLog(storage, segments, end))
        assert found == [n < count for n in range(20)]
    assert len(segments) > 2
    found = marks(MESSAGES, placing.EarlierLog(storage, segments[1:], 1 << 40))
    assert sum(found) < 20
    assert found == sorted(found)
    assert found[-1]
