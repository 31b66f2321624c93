"""Where records go in a new log: in the old order, in whole segments, not before the old start."""

import struct

import pytest

from reput.jobs.converting import new_log
from reput.jobs.pipeline.pipeline import Pipeline
from reput.store_format.faults import DamageFound, StoreError
from reput.store_format.rewrite.changes import Changes
from tests.converted import PLAIN, SEGMENT, job_of, records, written
from tests.damaged import damaged, messages
from tests.in_process import STORE, storage_of
from tests.logs import Log
from tests.logs.encoder import Message, build_log, properties

SAME = Changes()
FIXED = 91  # bytes of a record with nothing in it: 4+4+4+4+4+8+8+4+8+8+8+8+4+8+4+1+2
BLANK = 8


def measured(
    log: Log, changes: Changes = SAME, splits: int = 2
) -> tuple[Pipeline, new_log.MeasuredLog]:
    given = {**log.settings, "checkCRCOnRecover": "false"}  # all are checked none the less
    segment = log.settings["mappedFileSizeCommitLog"]
    job = job_of(storage_of(log), given, split_bytes=segment // splits)
    return job, new_log.measure(job, changes)


def log_of(bodies: list[int], first: int = 0) -> Log:
    made = [Message("T", 0, n, bytes(size)) for n, size in enumerate(bodies)]
    return Log(build_log(made, SEGMENT, first), PLAIN, "5.3.3", {})


def test_a_log_starts_at_a_segment_and_not_before_any_old_one() -> None:
    for starts, size, wanted in [
        ([0], 100, 0), ([1], 100, 100), ([100], 100, 100), ([101], 100, 200),
        ([0, 250, 90], 100, 300), ([1 << 40], 1 << 30, 1 << 40),
    ]:  # fmt: skip
        assert new_log.start_of(iter(starts), size) == wanted


@pytest.mark.parametrize("size", [300, SEGMENT, 8 * SEGMENT])
def test_segments_have_the_records_as_a_broker_would_have_written_them(size: int) -> None:
    log = log_of([10, 0, 100, 100, 192, 1, 50, 120, 90, 3] * 2, first=3 * SEGMENT)
    job, looked = measured(log)
    new = new_log.place_records(job, looked, SAME, size)
    start = -(-3 * SEGMENT // size) * size
    wanted = written(records(dict(log.segments)), start, size)
    assert [segment.start for segment in new.segments] == sorted(wanted)
    assert [segment.last for segment in new.segments] == [False] * (len(wanted) - 1) + [True]
    place, last = records(wanted)[-1]
    assert new.end == place + len(last)
    rows = new_log.write_log(job, new, size, job.rules)
    assert [row["start"] for row in rows] == sorted(wanted)
    for row in rows:
        content = job.staging.storage.read_bytes(job.staging.path(row["name"]))
        assert content == wanted[row["start"]]


def test_a_record_needs_room_and_a_log_without_records_is_one_empty_segment() -> None:
    job, looked = measured(Log({SEGMENT: bytes(SEGMENT)}, PLAIN, "5.3.3", {}))
    new = new_log.place_records(job, looked, SAME, SEGMENT * 2)
    assert [(each.start, each.parts, each.last) for each in new.segments] == [
        (2 * SEGMENT, (), True)
    ]
    assert new.end == 2 * SEGMENT
    longest = FIXED + len("T") + 200
    job, looked = measured(log_of([10, 200, 20]))
    assert new_log.place_records(job, looked, SAME, longest + BLANK).end > 0
    at = FIXED + 1 + 10  # behind the first record
    raw = job.plan.storage.read_bytes(f"{STORE}/commitlog/{0:020d}")
    assert struct.unpack_from(">i", raw, at) == (longest,)
    with pytest.raises(StoreError) as refused:
        new_log.place_records(job, looked, SAME, longest + BLANK - 1)
    said = str(refused.value)
    assert f"the record at physical offset {at}: totalSize {longest}: does not fit" in said
    assert f"={longest + 7} takes {longest - 1}: choose a greater size" in said


# --- A log measured before it is written anew: what each queue has of it, and that it is whole.
@pytest.mark.parametrize("splits", [1, 5])
def test_each_queue_s_records_are_counted_over_all_splits(splits: int) -> None:
    log = damaged(messages(50, 3))  # queues 0 and 1 have 17 of them, queue 2 has 16
    found = measured(log.log, splits=splits)[1]
    end = log.places[-1] + log.size(49)
    assert (found.start, found.end, found.warnings) == (0, end, [])
    for queue_id, count in ((0, 17), (1, 17), (2, 16)):
        tally = found.queues[new_log.QueueKey("T", queue_id)]
        assert tally[:2] == (count, count)
        assert (tally.positions, tally.least, tally.greatest) == (count, 0, count - 1)
        sizes = [log.size(n) for n in range(50) if n % 3 == queue_id]
        assert tally.bytes == sum(sizes)
    assert len(found.queues) == 3


def test_an_empty_log_ends_where_it_begins_and_a_torn_one_with_no_word_of_damage() -> None:
    log = damaged([Message("T")])
    log.put(0, bytes(log.size(0)))
    found = measured(log.log)[1]
    assert (found.start, found.end, found.queues, found.warnings) == (0, 0, {}, [])
    log = damaged(messages(9))
    log.put(log.places[8] + 20, bytes(log.size(8) - 20))
    found = measured(log.log)[1]
    assert found.end == log.places[8]
    assert sum(tally.records for tally in found.queues.values()) == 8


@pytest.mark.parametrize(("number", "byte", "field"), [(4, 4, "magic"), (4, 88, "bodyCRC")])
def test_live_records_behind_damage_are_refused_with_what_to_do(number, byte, field) -> None:
    log = damaged(messages(50))
    log.flip(number, byte)
    with pytest.raises(DamageFound) as refused:
        measured(log.log)
    said = str(refused.value)
    assert field in said
    assert str(log.places[number]) in said
    assert "--on-damage" not in said + refused.value.plain  # an option that convert lacks
    assert "`reput repair STORE --output DIR` makes a sound copy" in said
    assert "`reput repair STORE --output DIR`" in refused.value.plain
    log = damaged(messages(50))
    log.flip(4, log.size(4) - len(properties(("KEYS", "k4"))) - 1)  # propertiesLength
    with pytest.raises(DamageFound, match="propertiesLength the lengths of the parts") as refused:
        measured(log.log)
    assert len(refused.value.plain) <= 280  # and `reput: error: ` before it
