"""Why a log ends: an end with live records behind it is refused, or cut where the user says so."""

import io
import json
import struct
from dataclasses import replace

import pytest

from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.salvaging.judge_end import Crash, LogRead, judge_end, read_log
from reput.store_format.derived.checkpoint import Checkpoint
from reput.store_format.faults import REFUSE, SALVAGE, TRUNCATE, DamageFound
from tests.damaged import SEGMENT, START, Damaged, damaged, messages
from tests.jobs.found import found, job_of
from tests.logs.encoder import MAGIC_BLANK, Message, encode

ZEROS = "zeros: the rest of the log is not used yet"


def judged(
    log: Damaged, on_damage: str = REFUSE, crash: Crash | None = None, salvages: bool = True
) -> tuple[str, list[str]]:
    job = job_of(found(log.log, cut=Cut(1000)))
    linked = job.scan()
    reason, warnings = judge_end(job, linked, on_damage, crash, salvages)
    assert linked.firsts == on_damage
    return reason, warnings


def end(log: Damaged) -> int:
    return log.places[-1] + log.size(len(log.places) - 1)


def test_a_log_ends_in_zeros_or_with_its_last_segment_or_in_what_nothing_live_follows() -> None:
    log = damaged()
    assert judged(log) == (ZEROS, [])
    log.put(end(log), b"\0\0\0\x7fgarbage")
    reason, (warning,) = judged(log)
    assert reason == "not a record's magic number"
    assert warning.startswith(f"store/commitlog/{SEGMENT:020d}: offset {end(log) - SEGMENT} ")
    assert warning.endswith("nothing live follows: the log ends there")
    log = damaged()
    log.flip(59, 5)
    assert judged(log)[1][0].endswith("nothing live follows: the log ends there")
    del log.segments[SEGMENT]
    assert judged(log) == ("the last segment's end", [])


@pytest.mark.parametrize(
    ("change", "live"),
    [
        ({}, True),
        ({"store_timestamp": START + 58}, False),  # a millisecond before the log's last
        ({"store_timestamp": START + 59}, True),
        ({"queue_offset": 19}, False),  # its queue has that position
        ({"queue_offset": 0, "queue_id": 9}, True),  # a queue of its own
        ({"physical_offset": 77}, False),
        ({"body_crc": 1}, False),
    ],
)
def test_a_record_behind_the_end_is_live_by_its_place_its_time_and_its_queue(change, live) -> None:
    log = damaged()
    message = Message("T", 0, 20, b"one more", b"", START + 60)
    log.put(end(log), b"\1\1\1\1")
    log.put(end(log) + 40, encode(replace(message, **change), end(log) + 40))
    if live:
        with pytest.raises(DamageFound, match=f"the first at offset {end(log) + 40}"):
            judged(log)
    else:
        assert judged(log)[1][0].endswith("the log ends there")


def test_after_a_crash_only_what_was_durable_shows_that_a_fault_is_damage() -> None:
    log = damaged()
    log.flip(50, 5)
    for checkpoint in (None, Checkpoint(START + 52)):  # it may have been durable
        with pytest.raises(DamageFound):
            judged(log, crash=Crash(checkpoint))
    for checkpoint in (Checkpoint(), Checkpoint(START + 51)):  # when the first behind was stored
        _, (warning,) = judged(log, crash=Crash(checkpoint))
        assert warning.endswith("what follows was not durable before the crash")


def test_the_choices_are_named_and_what_rocketmq_does_there() -> None:
    log = damaged()
    log.flip(7, 35)  # the last byte of its physicalOffset
    for salvages in (True, False):
        with pytest.raises(DamageFound, match="ends the log here, where RocketMQ does not") as said:
            judged(log, salvages=salvages)
        assert ("salvage goes on there" in str(said.value)) == salvages
        assert ("salvage" in said.value.plain) == salvages
    log = damaged(messages(100))
    log.put(log.places[7], struct.pack(">iI", 8, MAGIC_BLANK))
    with pytest.raises(DamageFound, match="with the next segment as RocketMQ does"):
        judged(log)
    assert judged(log, TRUNCATE)[1][0].endswith("is passed over, as RocketMQ does")


# --- A log is read to its first damage, or past all of it; then its damage is told.
def read(log: Damaged, on_damage: str, ranges: io.BytesIO | None = None) -> LogRead:
    return read_log(job_of(found(log.log)), on_damage, ranges)


def records(done: LogRead) -> int:
    return sum(row["records"] for row in done.linked.accepted)


def test_a_damaged_log_is_refused_cut_or_read_past_its_damage() -> None:
    log = damaged()
    log.flip(7, 5)
    done = read(log, TRUNCATE)
    assert (records(done), done.linked.end, len(done.warnings)) == (7, log.places[7], 1)
    output = io.BytesIO()
    done = read(log, SALVAGE, output)  # record 7 is position 2 of queue 1
    assert (records(done), done.reason) == (59, "the end of the last live record")
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    found_range, found_gap = sorted(lines, key=lambda line: str(line["type"]), reverse=True)
    assert (found_range["type"], found_range["physical_offset"]) == ("range", log.places[7])
    assert (found_gap["topic"], found_gap["queue_id"]) == ("T", 1)
    assert (found_gap["first"], found_gap["count"]) == (2, 1)
    log = damaged(messages(20, crc_property=True))
    log.flip(7, 74)  # reconsumeTimes
    assert read(log, REFUSE).warnings == []
    done = read(log, SALVAGE)
    assert (records(done), len(done.warnings)) == (19, 1)
    assert "__CRC32#" in done.warnings[0]
