"""A log is read to its first damage, or past all of it; then its damage is told."""

import io
import json

import pytest

from reput.jobs.salvaging.judge_end import LogRead, read_log
from reput.store_format.faults import REFUSE, SALVAGE, TRUNCATE, DamageFound
from tests.damaged import Damaged, damaged, messages
from tests.jobs.found import found, job_of


def read(log: Damaged, on_damage: str, ranges: io.BytesIO | None = None) -> LogRead:
    return read_log(job_of(found(log.log)), on_damage, ranges)


def records(done: LogRead) -> int:
    return sum(row["records"] for row in done.linked.accepted)


@pytest.mark.parametrize("on_damage", [REFUSE, TRUNCATE, SALVAGE])
def test_a_sound_log_is_read_to_its_end(on_damage: str) -> None:
    log = damaged()
    done = read(log, on_damage)
    assert (records(done), done.linked.end) == (60, log.places[59] + log.size(59))
    assert done.warnings == []
    assert (done.damage is None) == (on_damage != SALVAGE)
    assert (done.reason == "undamaged") == (on_damage == SALVAGE)


def test_a_damaged_log_is_refused_cut_or_read_past_its_damage() -> None:
    log = damaged()
    log.flip(7, 5)
    with pytest.raises(DamageFound):
        read(log, REFUSE)
    done = read(log, TRUNCATE)
    assert (records(done), done.linked.end, len(done.warnings)) == (7, log.places[7], 1)
    done = read(log, SALVAGE)
    assert (records(done), done.linked.end) == (59, log.places[59] + log.size(59))
    assert done.reason == "the end of the last live record"
    assert done.damage is not None
    assert done.damage.count == 1
    assert "magic" in done.warnings[0]


def test_ranges_and_gaps_are_written_where_they_are_asked_for() -> None:
    log = damaged()
    log.flip(7, 5)  # position 2 of queue 1
    output = io.BytesIO()
    read(log, SALVAGE, output)
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    found_range, found_gap = sorted(lines, key=lambda line: str(line["type"]), reverse=True)
    assert (found_range["type"], found_range["physical_offset"]) == ("range", log.places[7])
    assert (found_gap["topic"], found_gap["queue_id"]) == ("T", 1)
    assert (found_gap["first"], found_gap["count"]) == (2, 1)


def test_only_a_salvage_checks_what_covers_whole_records() -> None:
    log = damaged(messages(20, crc_property=True))
    log.flip(7, 74)  # reconsumeTimes
    assert read(log, REFUSE).warnings == []
    done = read(log, SALVAGE)
    assert (records(done), len(done.warnings)) == (19, 1)
    assert "__CRC32#" in done.warnings[0]
