"""One part of a log, as a task reads it: the records that start in it, however the log is cut."""

from collections.abc import Sequence

import pytest

from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import DamageFound, StoreChanged
from reput.store_format.files.protocol import FileState
from reput.store_format.log.segments import Segment
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.udfs.table.log_parts import LogPart, LogParts
from tests.damaged import SEGMENT, SETTINGS, START, Damaged, damaged, messages
from tests.in_process import as_text
from tests.memory_storage import MemoryStorage

RULES = scan_rules(profile("5.3.3"), settings_from(as_text(SETTINGS)), ())
BODY = 88  # where a record's body begins


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


def test_each_record_is_of_the_part_that_it_starts_in() -> None:
    log = damaged(messages(100))
    whole = parts(log)
    third = log.places[2]
    for cut in (third - 1, third, third + 1):
        first, rest = read(whole, 0, 0, cut), read(whole, 0, cut)
        assert first + rest == in_segment(log.places, 0)
        assert (third in first) == (cut > third)


def test_what_a_task_gets_is_its_segment_and_the_next() -> None:
    log = parts(damaged(messages(100)))
    assert len(log.segments) == 3
    few, part = log.around(LogPart(1, SEGMENT, SEGMENT, 2 * SEGMENT))
    assert ([s.start for s in few.segments], part.segment) == ([SEGMENT, 2 * SEGMENT], 0)
    salvaging = parts(damaged(messages(100)), "salvage")
    assert salvaging.around(part._replace(segment=1)) == (salvaging, part._replace(segment=1))


@pytest.mark.parametrize(("on_damage", "kept"), [("skip", [0, 1, 2]), ("salvage", [0, 1, 2, 4, 5])])
def test_behind_damage_the_segment_is_skipped_or_salvaged(on_damage: str, kept: list[int]) -> None:
    log = damaged(messages(100))
    log.flip(3, 4)  # of its magic number
    found = parts(log, on_damage)
    assert read(found)[: len(kept)] == [log.places[n] for n in kept]
    assert (len(read(found)) == 3) == (on_damage == "skip")
    assert read(found, 1) == in_segment(log.places, 1)


def test_damage_that_live_records_follow_fails_and_only_from_its_place_on() -> None:
    log = damaged(messages(100))
    log.flip(3, 4)
    found = parts(log)
    assert read(found, 0, 0, log.places[3]) == log.places[:3]
    with pytest.raises(DamageFound, match=rf"\(physical {log.places[3]}\): magic .*the first at "
                                          rf"offset {log.places[4]}: "):  # fmt: skip
        read(found)
    # the part before reports it
    assert read(found, 0, log.places[5]) == []


@pytest.mark.parametrize(
    ("on_damage", "kept"), [("fail", None), ("skip", False), ("salvage", True)]
)
def test_a_wrong_body_is_damage_where_bodies_are_checked(on_damage: str, kept: bool | None) -> None:
    log = damaged(messages(100))
    log.flip(3, BODY)
    assert log.places[3] in read(parts(log, on_damage))
    checked = parts(log, on_damage, check_body=True)
    if kept is None:
        with pytest.raises(DamageFound, match="bodyCRC does not match"):
            read(checked)
    else:
        places = read(checked)
        assert (log.places[3] in places) is kept
        assert log.places[4] in places


def test_a_log_ends_at_zeros_unless_a_later_segment_is_written() -> None:
    log = damaged(messages(100))
    assert read(parts(log), 2) == in_segment(log.places, 2)
    end = log.places[4]
    log.segments[0][end:] = bytes(SEGMENT - end)
    with pytest.raises(DamageFound, match="but a later segment is written"):
        read(parts(log))
    for start in (SEGMENT, 2 * SEGMENT):
        log.segments[start][:] = bytes(SEGMENT)
    assert read(parts(log)) == log.places[:4]
    assert not parts(log).is_written_from(1)


def test_a_segment_that_is_gone_is_an_error_unless_it_may_be() -> None:
    found = parts(damaged(messages(100)))
    assert isinstance(found.storage, MemoryStorage)
    del found.storage.files[f"log/{SEGMENT}"]
    with pytest.raises((FileNotFoundError, StoreChanged)):
        read(found, 1)
    gone = LogParts(found.storage, found.segments, RULES, may_miss=True)
    assert read(gone, 1) == []


def test_what_is_known_before_a_segment() -> None:
    log = damaged(messages(100))
    found = parts(log)
    before = len(in_segment(log.places, 0))
    assert found.last_time(0) is None
    assert found.last_time(1) == START + before - 1
    assert found.queues_before(0) == {}
    last = {("T", n % 3): n // 3 for n in range(before)}
    assert {key: each.last for key, each in found.queues_before(1).items()} == last


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
