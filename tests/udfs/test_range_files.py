"""Damage by the thousand: what is kept and crosses is bounded, sums are right, no range is lost."""

import io
import json
import struct
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any
from unittest import mock

import pytest

from reput.jobs.judging.shown import text
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import SALVAGE
from reput.jobs.salvaging.damage_map import RANGES_LISTED
from reput.jobs.salvaging.damage_search import map_damage
from reput.jobs.verify import verify
from reput.store_format.damage import queue_ends, tolerant
from reput.udfs import range_files
from reput.udfs.damage import segments as damaged_segments
from reput.udfs.staging import past_of
from tests.damaged import START, Damaged, damaged, entries, messages, salvage
from tests.in_process import OUTPUT, STORE, Session, as_text, run, storage_of
from tests.jobs.checking import run_check
from tests.seeds import seeds
from tests.store_format.damage.salvaged import check_queues

COUNT = 2600
SEGMENT = 1 << 16  # so that there are several


@cache
def halved() -> Damaged:
    """Every second message damaged: by turns its magic number, its size, its place, or its body."""
    log = damaged(messages(COUNT), SEGMENT)
    for number in range(1, COUNT - 4, 2):
        log.flip(number, (5, 3, 35, 90)[number // 2 % 4])
    return log


def gone() -> set[int]:
    return {n for n in range(1, COUNT - 4, 2) if n // 2 % 4 != 3}


def cut_in(splits: int) -> Cut:
    return Cut(-(-SEGMENT // splits), 2, 2)


def report_and_lines(splits: int, session: Session) -> tuple[Any, list[dict[str, Any]]]:
    output = io.BytesIO()
    log = halved()
    with mock.patch("tests.jobs.checking.Session", return_value=session):
        report = run_check(
            STORE, log.version, log.settings, cut=cut_in(splits), storage=storage_of(log.log),
            ranges=output,
        )  # fmt: skip
    return report, [json.loads(line) for line in output.getvalue().splitlines()]


def test_every_second_record_is_damaged_and_small_pieces_give_the_same(monkeypatch) -> None:
    log = halved()
    made = [salvage(log.log, splits) for splits in (1, 7)]
    assert made[0].files == made[1].files
    assert made[0].summary.messages == COUNT - len(gone())
    check_queues(log, made[0], gone())
    # Files of ranges are written and read in pieces, of few segments at a time.
    whole = salvage(halved().log)
    monkeypatch.setattr(range_files, "_ROWS_A_PIECE", 3)
    monkeypatch.setattr(queue_ends, "_SEGMENTS_HELD", 1)
    small = salvage(halved().log)
    assert small.files == whole.files
    assert small.summary.damage == whole.summary.damage


def test_the_report_is_bounded_the_file_has_all_and_no_row_a_range_crosses() -> None:
    sessions = [Session(1), Session(2)]
    got = [report_and_lines(splits, s) for splits, s in zip((1, 7), sessions, strict=True)]
    report, lines = got[0]
    found = [line for line in lines if line["type"] == "range"]
    missing = [line for line in lines if line["type"] == "missing"]
    assert len(found) == report.damage["range_count"] == COUNT // 2 - 2
    assert len(report.damage["ranges"]) == RANGES_LISTED < len(found)
    hurt = [halved().places[n] for n in range(1, COUNT - 4, 2)]
    assert [each["physical_offset"] for each in found] == hurt
    for listed, line in zip(report.damage["ranges"], found, strict=False):
        assert line == {
            "type": "range", **{name: got for name, got in listed.items() if name != "missing"}
        }  # fmt: skip
    causes = report.damage["causes"]
    assert sum(each["ranges"] for each in causes) == len(found)
    for each in causes:
        mine = [f for f in found if (f["kind"], f["field"]) == (each["kind"], each["field"])]
        assert (each["ranges"], each["bytes"]) == (len(mine), sum(f["length"] for f in mine))
    content = sum(f["length"] for f in found if f["kind"] == "content")
    assert report.damage["bytes_lost"] == sum(f["length"] for f in found) - content
    assert sum(each["count"] for each in missing) == report.damage["messages_missing"]
    assert report.damage["messages_missing"] == len(gone())
    assert len(report.damage["missing"]) + report.damage["missing_unlisted"] == len(missing)
    # the same, however the log is cut
    assert got[1][0].damage == report.damage
    assert sorted(map(str, got[1][1])) == sorted(map(str, lines))
    assert "cause" in text(report, whole=True)
    session = Session(1)
    report, _ = report_and_lines(1, session)
    segments = len(halved().segments)
    assert report.damage["range_count"] > 200 * segments
    # the first gaps of two tasks, and a few rows a segment and a queue, are all that comes
    assert session.rows_collected <= 2 * 1000 + 40 * segments
    assert session.rows_shuffled < 100 * segments  # runs are not cut at ranges


def test_gaps_and_ranges_are_listed_first_of_all_queues() -> None:
    with (mock.patch("reput.jobs.salvaging.damage_search.RANGES_LISTED", 7),
          mock.patch.object(map_damage, "__defaults__", (10**6, 5, False))):  # fmt: skip
        made = [report_and_lines(splits, Session(splits))[0].damage for splits in (1, 7)]
    assert made[0] == made[1]
    assert len(made[0]["ranges"]) == 7
    before = [each["before"] for each in made[0]["missing"]]
    assert before == sorted(before)
    assert len(made[0]["missing"]) == 5


def test_too_many_in_a_segment_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_damage, "__defaults__", (50, 1000, False))
    rebuilt = salvage(halved().log)
    assert rebuilt.summary.damage
    given_up = [w for w in rebuilt.summary.warnings if "too much damage" in w]
    assert len(given_up) == len(halved().segments)
    assert rebuilt.summary.damage["range_count"] <= 55 * len(given_up)


def test_verify_of_a_set_with_more_than_is_listed() -> None:
    log = halved()
    storage = storage_of(log.log)
    got: dict[str, Any] = {"rocketmq": log.version, "settings": as_text(log.settings),
                            "storage": storage}  # fmt: skip
    run(STORE, OUTPUT, on_damage=SALVAGE, cut=cut_in(1), **got)
    report = verify(Session(), STORE, against=OUTPUT, cut=cut_in(7), **got)  # type: ignore[arg-type]
    assert report.same, report.text()


@pytest.mark.explore
@pytest.mark.parametrize("seed", seeds(range(3)))
def test_random_ranges(seed: int) -> None:
    """Positions follow queueOffset, whichever records are damaged, in runs however long."""
    rng = Random(seed)
    made = messages(300, queues=rng.choice([1, 3, 7]))
    log = damaged(made, 1 << 14)
    lost_ones = set(rng.sample(range(295), rng.randrange(1, 200)))
    for number in lost_ones:
        base = log.places[number] // (1 << 14) * (1 << 14)
        struct.pack_into(">i", log.segments[base], log.places[number] - base + 4, 0x11111111)
    rebuilt = salvage(log.log, rng.choice([1, 7, 64]), seed)
    check_queues(log, rebuilt, lost_ones)
    assert len(entries(rebuilt, "T", 0)) > 0


def hurt(seed: int) -> Damaged:
    """Every second message damaged in some way, a few moved in time or to a queueOffset again."""
    rng = Random(seed)
    made = messages(300, queues=rng.choice([1, 3]))
    for number in rng.sample(range(300), rng.choice([0, 30])):
        stored, position = START + rng.randrange(300), rng.randrange(100)
        made[number] = replace(
            made[number], store_timestamp=stored, queue_offset=position,
            topic=rng.choice(["T", "Other"]),
        )  # fmt: skip
    log = damaged(made, rng.choice([1 << 12, 1 << 16]))
    ways = rng.choice([(5,), (5, 35), (5, 35, 90), (5, 35, 90, 3)])
    for number in range(1, 300, rng.choice([2, 3])):
        log.flip(number, rng.choice(ways))
    return log


@pytest.mark.explore
@pytest.mark.parametrize("seed", seeds((0, 5, 6)))
def test_strides_find_what_one_by_one_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ordinary ranges are taken thousands at a time; nothing may depend on it."""
    log = hurt(seed)
    by_strides = salvage(log.log)
    monkeypatch.setattr(tolerant, "_LEAST_STRIDE", 2)
    shorter = salvage(log.log)
    monkeypatch.setattr(tolerant, "stride", lambda *_: 0)
    one_by_one = salvage(log.log)
    for made in (by_strides, shorter):
        assert made.files == one_by_one.files
        assert made.summary.damage == one_by_one.summary.damage
        assert made.summary.warnings == one_by_one.summary.warnings


def test_ordinary_ranges_are_not_taken_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 0.1 ms a range a million of them take minutes, so that few may go by Python."""
    log = damaged(messages(COUNT), 1 << 19)
    for number in range(1, COUNT, 2):
        log.flip(number, 5)
    one_by_one: list[int] = []
    whole = tolerant.TolerantScan._damaged

    def counted(self: tolerant.TolerantScan, at: int, fault: Any) -> Any:
        one_by_one.append(at)
        return whole(self, at, fault)

    monkeypatch.setattr(tolerant.TolerantScan, "_damaged", counted)
    rebuilt = salvage(log.log)
    assert rebuilt.summary.damage["range_count"] == COUNT // 2
    assert len(one_by_one) < 20


def test_progress_moves_within_a_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    noted_at: list[tuple[int, int]] = []
    whole = damaged_segments.past_name

    def noted(run: str, done: int, found: int) -> str:
        noted_at.append((done, found))
        return whole(run, done, found)

    monkeypatch.setattr(damaged_segments, "NOTED_EVERY_SECONDS", 0.0)
    monkeypatch.setattr(damaged_segments, "past_name", noted)
    log = damaged(messages(COUNT), 1 << 19)
    for number in range(1, COUNT - 4, 2):
        log.flip(number, 3)
    salvage(log.log)
    assert noted_at == sorted(noted_at)
    assert len({done for done, _ in noted_at}) > 1
    assert noted_at[-1] == (1 << 19, COUNT // 2 - 2)
    names = [whole("scan-00000003-ab", *each) for each in noted_at]
    names += ["scan-00000003-ab.runs", whole("scan-00000004-cd", 5, 1)]
    assert past_of(names) == ((1 << 19) + 5, COUNT // 2 - 1)


def test_a_record_for_which_two_speak_is_lost_once() -> None:
    """Of queues 1 and 4, one flipped bit of queueId each: two records of a queue 5, which has
    nothing else, with one queueOffset. Each is a lone record, and the other one's twin.
    """
    log = damaged([replace(m, queue_id=(1, 4)[m.queue_id]) for m in messages(300, 2)], SEGMENT)
    log.flip(30, 15, 2)
    log.flip(31, 15, 0)
    log.flip(200, 5)  # of its magic: only in a damaged log twins are looked for
    output = io.BytesIO()
    report = run_check(STORE, log.version, log.settings, storage=storage_of(log.log), ranges=output)
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    found = [line for line in lines if line["type"] == "range"]
    places = [line["physical_offset"] for line in found]
    hurt = (30, 31, 200)
    assert places == [log.places[n] for n in hurt]
    assert report.damage["bytes_lost"] == sum(log.size(n) for n in hurt)
