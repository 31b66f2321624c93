"""One part of a log, as a task reads it: the records that start in it, however the log is cut."""

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from reput.jobs.opening.questions import open_store
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import DamageFound
from reput.store_format.files.protocol import FileState
from reput.store_format.log.segments import Segment, find_segments
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.udfs.table import queue_parts
from reput.udfs.table.log_parts import LogPart, LogParts, live_behind
from reput.udfs.table.queue_parts import QueuedParts, TopicQueue
from tests.damaged import SEGMENT, SETTINGS, START, Damaged, damaged, messages
from tests.in_process import STORE, as_text, storage_of
from tests.logs.damage import record_places
from tests.logs.encoder import MAGIC_BLANK, Message, build_log, encode
from tests.memory_storage import MemoryStorage
from tests.store_format.fate.logs import SEGMENT as LARGE
from tests.store_format.fate.logs import SmallLog
from tests.udfs.table.parts import log_of, part

RULES = scan_rules(profile("5.3.3"), settings_from(as_text(SETTINGS)), ())


def parts(log: Damaged, on_damage: str = "fail", **more: bool) -> LogParts:
    files = {f"log/{start}": bytes(raw) for start, raw in log.segments.items()}
    segments = [Segment(path, start, FileState(len(files[path]), 0, 0))
                for start, path in zip(log.segments, files, strict=True)]  # fmt: skip
    return LogParts(MemoryStorage(files), tuple(segments), RULES, on_damage, **more)


def read(log: LogParts, number: int = 0, start: int = 0, stop: int | None = None) -> list[int]:
    """The places of a part's records; start and stop: physical offsets, by default a segment's."""
    segment = log.segments[number]
    part = LogPart(number, segment.start, max(start, segment.start), stop or segment.end)
    steps = log.steps(part, lambda _: None)
    return [place for step in steps for place in step.rows["physicalOffset"].tolist()]


def in_segment(places: Sequence[int], number: int) -> list[int]:
    return [place for place in places if place // SEGMENT == number]


def test_damage_fails_only_from_its_place_on_and_stale_records_before_it_are_left_out() -> None:
    log = damaged(messages(100))
    log.flip(3, 4)
    found = parts(log)
    assert read(found, 0, 0, log.places[3]) == log.places[:3]
    with pytest.raises(DamageFound, match=rf"\(physical {log.places[3]}\): magic .*the first at "
                                          rf"offset {log.places[4]}: "):  # fmt: skip
        read(found)
    # the part before reports it
    assert read(found, 0, log.places[5]) == []
    whole = damaged(messages(100))
    first = len(in_segment(whole.places, 0))
    made = [
        replace(m, queue_offset=m.queue_offset - 12, store_timestamp=START - 10_000_000 + n)
        if first <= n < first + 8 else m for n, m in enumerate(whole.messages)
    ]  # fmt: skip
    log = damaged(made)
    log.flip(first + 8, 4)
    found = parts(log, "salvage")
    live = in_segment(log.places[first + 9 :], 1)
    assert read(found, 1) == live
    for cut in (log.places[first + 3], log.places[first + 8]):
        assert read(found, 1, 0, cut) + read(found, 1, cut) == live


def test_a_task_gets_the_parts_segment_and_those_behind_it_unless_it_salvages() -> None:
    log = parts(damaged(messages(100)))
    few, part = log.around(LogPart(1, SEGMENT, SEGMENT, 2 * SEGMENT))
    assert ([s.start for s in few.segments], part.segment) == ([SEGMENT, 2 * SEGMENT], 0)
    salvaging = parts(damaged(messages(100)), "salvage")
    assert salvaging.around(part._replace(segment=1)) == (salvaging, part._replace(segment=1))


def told(log: LogParts) -> list[str]:
    """What all parts of a log tell, each of half a segment."""
    lines: list[str] = []
    for number, segment in enumerate(log.segments):
        half = segment.start + SEGMENT // 2
        for start, stop in ((segment.start, half), (half, segment.end)):
            for _ in log.steps(LogPart(number, segment.start, start, stop), lines.append):
                pass
    return lines


def test_salvage_tells_of_each_hole_in_the_log() -> None:
    log = damaged(messages(150))
    assert len(log.segments) == 5
    assert told(parts(log, "salvage")) == []
    del log.segments[2 * SEGMENT]
    assert told(parts(log, "salvage")) == [
        f"log/{SEGMENT}: physical {2 * SEGMENT}: {SEGMENT:,} bytes up to physical {3 * SEGMENT} "
        "are missing"
    ]
    end = log.places[60]  # where a record begins
    del log.segments[SEGMENT][end - SEGMENT :]
    assert told(parts(log, "salvage")) == [
        f"log/{SEGMENT}: physical {end}: {3 * SEGMENT - end:,} bytes up to physical {3 * SEGMENT} "
        "are missing"
    ]


@pytest.mark.parametrize("on_damage", ["skip", "salvage"])
@pytest.mark.parametrize("fill", [b"\0", b"x"], ids=["zeros", "garbage"])
def test_a_lost_end_of_a_segment_is_told_where_the_log_goes_on(on_damage: str, fill: bytes) -> None:
    log = damaged(messages(100))
    at = log.places[30] - log.places[30] // SEGMENT * SEGMENT
    for start in (0, 2 * SEGMENT):
        log.segments[start][at:] = fill * (SEGMENT - at)
    found = told(parts(log, on_damage))
    assert f"{SEGMENT - at:,} bytes" in found[0]
    assert len(found) == (2 if fill == b"x" and on_damage == "skip" else 1)  # the log's end is none


# --- Behind damage the records of a segment go on, from any offset and only as far as is asked.
def behind(
    log: Damaged, place: int, limit: int | None = None, batch_topics: Sequence[str] = ()
) -> list[int]:
    storage = storage_of(log.log)
    settings = settings_from(as_text(log.settings))
    segments = find_segments(storage, [f"{STORE}/commitlog"], SEGMENT)
    steps = live_behind(storage, segments, profile(log.version), settings, batch_topics, limit)
    return [int(at) for step in steps(place) for at in step.rows["physicalOffset"]]


def in_segment_records(log: Damaged, number: int) -> list[int]:
    return [at for at in log.places if at // SEGMENT == number]


def test_a_sound_segment_has_its_records_from_the_offset_to_its_end_or_the_limit() -> None:
    log = damaged()
    first, second = in_segment_records(log, 0), in_segment_records(log, 1)
    assert (len(first) > 20, len(second) > 20) == (True, True)
    assert behind(log, 0) == first
    assert behind(log, first[5]) == first[5:]
    assert behind(log, first[5] + 1) == first[6:]
    assert behind(log, SEGMENT) == second
    assert behind(log, SEGMENT - 1) == []
    log = damaged()
    log.flip(7, 90)  # in the body, which begins 88 bytes into a record
    assert behind(log, log.places[7]) == in_segment_records(log, 0)[7:]
    log = damaged()
    log.flip(3, 1)
    for limit, last in ((log.places[9], 8), (log.places[9] + 1, 9), (SEGMENT * 2, None)):
        wanted = in_segment_records(log, 0)[4:]
        end = len(wanted) if last is None else last - 3
        assert behind(log, log.places[3] + 1, limit) == wanted[:end]
    log = damaged()
    with pytest.raises(StopIteration):
        behind(log, (max(log.segments) // SEGMENT + 1) * SEGMENT)


@pytest.mark.parametrize(("of", "left"), [("5.3.3", False), ("5.1.4", True)])
def test_a_checksum_of_the_whole_record_counts_where_the_release_has_it(of, left) -> None:
    log = damaged(messages(20, crc_property=True))
    log.version = of
    log.flip(7, 74)  # reconsumeTimes: nothing else covers it
    assert (log.places[7] in behind(log, 0)) == left


def _two_segments() -> tuple[SmallLog, dict[str, bytes]]:
    """Two half messages; the first is committed in the same segment after a message, the second,
    and a delayed one delivered, in the next.
    """
    log, later = SmallLog(), SmallLog(start=LARGE)
    first, second = log.half("a"), log.half("b")
    log.put("Orders")
    log.commit(first, "a")
    log.delay("d", 1)
    later.positions, later.now = log.positions, log.now
    later.commit(second, "b")
    later.deliver("d")
    later.put("Orders")
    offsets = {"store/config/delayOffset.json": b'{"offsetTable":{1:1}}'}
    return log, {**log.files(), **later.files(), **offsets}


def _asked(files: dict[str, bytes]) -> tuple[list[str], list[str]]:
    """The states of transactions and delayed messages, and what was noted."""
    settings = {"mappedFileSizeCommitLog": str(LARGE), "messageDelayLevel": "1s 5s 1m"}
    with open_store("store", settings=settings, storage=MemoryStorage(files)) as store:
        fates = store.transactions(everything=True), store.delayed(everything=True)
        assert "Orders" in [count.topic for count in store.stats(["topic"])]
    return [row.state for rows in fates for row in rows], [n for rows in fates for n in rows.notes]


def test_transactions_and_delayed_messages_are_read_past_damage() -> None:
    log, files = _two_segments()
    wanted = ["committed", "committed", "delivered"]
    assert _asked(files)[0] == wanted
    name = f"store/commitlog/{0:020d}"
    raw = bytearray(files[name])
    magic = [at for at in range(len(log.raw)) if raw[at : at + 4] == b"\xda\xa3\x20\xa7"]
    raw[magic[2]] = 0
    states, notes = _asked({**files, name: bytes(raw)})
    assert states == wanted
    assert any("live records behind it are read" in line for line in notes)


@pytest.mark.parametrize("short", [True, False], ids=["short", "gone"])
def test_a_short_or_missing_segment_in_the_middle_ends_no_answer(short: bool) -> None:
    """What it may have held is said, where the segment before it is full as well."""
    log, files = _two_segments()
    log.raw += struct.pack(">iI", LARGE - len(log.raw), MAGIC_BLANK)
    files |= log.files()
    last = SmallLog(start=2 * LARGE, positions=log.positions, now=log.now + 9000)
    last.put("Orders")
    middle = f"store/commitlog/{LARGE:020d}"
    files = {**files, **last.files(), middle: files[middle][:100]}
    if not short:
        del files[middle]
    states, notes = _asked(files)
    assert states == ["committed", "pending", "not delivered in this log"]
    assert any(f"before physical {2 * LARGE} the log has lost records" in line for line in notes)


# --- One topic's records by its queues: each entry is checked, and in doubt the log is walked.
SEGMENT_QUEUE_PARTS, FILE = 4096, 100  # a queue file has five entries
QUEUES = (TopicQueue(0, "consumequeue/A/0"), TopicQueue(1, "consumequeue/A/1"))
MESSAGES = [
    Message("B" if n % 5 else "A", queue_id=n // 5 % 2, queue_offset=7 + n // 10, body=b"b" * 40)
    for n in range(60)
]
PLACES = record_places(build_log(MESSAGES, SEGMENT_QUEUE_PARTS))
OF_A = PLACES[::5]  # two segments have them; queue 0 has every second one
SIZE = len(encode(MESSAGES[0], 0))


def queue(number: int) -> list[tuple[int, int, int]]:
    """Positions 5 to 12: two pre-blanks, then the queue's records."""
    return [(0, 0x7FFFFFFF, 0)] * 2 + [(place, SIZE, 0) for place in OF_A[number::2]]


def log(second: list[tuple[int, int, int]] | None = None, **more: Any) -> Any:
    """Both queues in files; second: other entries of queue 1."""
    made = log_of(MESSAGES, SEGMENT_QUEUE_PARTS, kind=QueuedParts, topic="A", queues=QUEUES, **more)
    files = made.storage.files
    for each, entries in zip(QUEUES, (queue(0), second or queue(1)), strict=True):
        raw = b"".join(struct.pack(">qiq", *entry) for entry in entries)
        for at in range(0, len(raw), FILE):
            files[f"{each.folder}/{100 + at:020d}"] = raw[at : at + FILE].ljust(FILE, b"\0")
    return made


@pytest.fixture(autouse=True)
def always_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_parts, "WORTH_BYTES", 0)


def read_queue_parts(made: QueuedParts, number: int = 0, start: int | None = None,
                     stop: int | None = None
                     ) -> tuple[list[int], list[str]]:  # fmt: skip
    """(places of the records, what was told)"""
    told: list[str] = []
    steps = made.steps(part(made, number, start, stop), told.append)
    return [place for step in steps for place in step.rows["physicalOffset"].tolist()], told


@pytest.mark.parametrize(("entry", "instead"), [
    (2, (OF_A[1], SIZE - 1, 0)), (3, (OF_A[3], 0, 0)), (3, (OF_A[3], -(1 << 31), 0)),
    (3, (OF_A[3] + 1, SIZE, 0)), (3, (OF_A[1], SIZE, 0)),
    (3, (PLACES[16], SIZE, 0)),  # of the other topic
    (3, (OF_A[4], SIZE, 0)),  # of the other queue
    (3, (OF_A[5], SIZE, 0)),  # of another position
    (3, (1 << 62, SIZE, 0)), (3, (-1, SIZE, 0)),
])  # fmt: skip
def test_a_wrong_entry_makes_the_log_be_walked(entry: int, instead: tuple[int, int, int]) -> None:
    entries = queue(1)
    entries[entry] = instead
    found, told = read_queue_parts(log(entries), 0)
    assert found == [place for place in PLACES if place < SEGMENT_QUEUE_PARTS]
    assert [line[:26] for line in told] == [f"the log is read from 0 to {SEGMENT_QUEUE_PARTS}"[:26]]


@pytest.mark.parametrize("beside", [3, 5])
def test_the_entries_just_before_and_behind_the_part_are_checked_too(beside: int) -> None:
    start, stop = OF_A[4], OF_A[6]  # queue 1 has OF_A[5] there, its entry 4
    entries = queue(1)
    assert read_queue_parts(log(entries), 0, start, stop) == (OF_A[4:6], [])
    entries[beside] = (entries[beside][0], SIZE + 1, 0)
    found, told = read_queue_parts(log(entries), 0, start, stop)
    assert found == [place for place in PLACES if start <= place < stop]
    assert len(told) == 1


def test_the_log_is_walked_where_a_checked_body_is_wrong() -> None:
    for check in (False, True):
        made = log(check_body=check, on_damage="skip")
        files = made.storage.files
        raw = bytearray(files["log/0"])
        raw[OF_A[1] + 90] ^= 1
        files["log/0"] = bytes(raw)
        found, told = read_queue_parts(made)
        assert ([place for place in found if place in OF_A], len(told)) == (
            [place for place in OF_A
             if place < SEGMENT_QUEUE_PARTS and not (check and place == OF_A[1])], 2 * check,
        )  # fmt: skip
