"""A log measured before it is written anew: what each queue has of it, and that it is whole."""

import pytest

from reput.jobs.converting.new_log import MeasuredLog, QueueKey, measure
from reput.jobs.opening.plan import make_plan
from reput.jobs.pipeline.pipeline import Cut, Pipeline
from reput.store_format.discover.purpose import CONVERT
from reput.store_format.discover.store import StoreAt, discover
from reput.store_format.faults import DamageFound
from reput.store_format.notes import Progress
from reput.store_format.rewrite.changes import Changes
from reput.udfs.staging import Staging
from tests.damaged import Damaged, damaged, messages
from tests.in_process import STORE, Session, as_text, storage_of
from tests.logs.encoder import Message, properties

BODY = 88  # where a record's body begins


def measured(log: Damaged, changes: Changes | None = None, splits: int = 1) -> MeasuredLog:
    storage = storage_of(log.log)
    storage.make_folders("staging")
    given = {**as_text(log.settings), "checkCRCOnRecover": "false"}  # all are checked none the less
    at = StoreAt(storage, STORE, log.version, given)
    plan = make_plan(at, discover(at, CONVERT), CONVERT, split_bytes=4096 // splits)
    job = Pipeline(Session(), plan, Staging(storage, "staging"), Cut(), Progress())
    return measure(job, changes or Changes())


@pytest.mark.parametrize("splits", [1, 5])
def test_each_queue_s_records_are_counted_over_all_splits(splits: int) -> None:
    log = damaged(messages(50, 3))  # queues 0 and 1 have 17 of them, queue 2 has 16
    found = measured(log, splits=splits)
    end = log.places[-1] + log.size(49)
    assert (found.start, found.end, found.warnings) == (0, end, [])
    for queue_id, count in ((0, 17), (1, 17), (2, 16)):
        tally = found.queues[QueueKey("T", queue_id)]
        assert tally[:2] == (count, count)
        assert (tally.positions, tally.least, tally.greatest) == (count, 0, count - 1)
        sizes = [log.size(n) for n in range(50) if n % 3 == queue_id]
        assert tally.bytes == sum(sizes)
    assert len(found.queues) == 3


def test_what_is_dropped_is_counted_and_not_taken_and_a_longer_name_lengthens_records() -> None:
    log = damaged([Message("A", 0, 5), Message("B", 0, 0), Message("A", 0, 6)])
    found = measured(log, Changes(dropped=("B",), renames=(("A", "Longer"),)))
    (one, other) = (found.queues[QueueKey(topic, 0)] for topic in "AB")
    assert (other.records, other.taken, other.bytes) == (1, 0, 0)
    assert (one.records, one.taken, one.least, one.greatest) == (2, 2, 5, 6)
    assert one.bytes == 2 * (log.size(0) + len("Longer") - len("A"))


def test_an_empty_log_ends_where_it_begins() -> None:
    found = measured(empty())
    assert (found.start, found.end, found.queues, found.warnings) == (0, 0, {}, [])


def empty() -> Damaged:
    log = damaged([Message("T")])
    log.put(0, bytes(log.size(0)))
    return log


@pytest.mark.parametrize(("number", "byte", "field"), [(4, 4, "magic"), (4, BODY, "bodyCRC")])
def test_live_records_behind_damage_are_refused_with_what_to_do(
    number: int, byte: int, field: str
) -> None:
    log = damaged(messages(50))
    log.flip(number, byte)
    with pytest.raises(DamageFound) as refused:
        measured(log)
    said = str(refused.value)
    assert field in said
    assert str(log.places[number]) in said
    assert "--on-damage" not in said + refused.value.plain  # an option that convert lacks
    assert "`reput repair STORE --output DIR` makes a sound copy" in said
    assert "`reput repair STORE --output DIR`" in refused.value.plain


def test_the_longest_reason_makes_no_wall_of_an_error() -> None:
    log = damaged(messages(50))
    log.flip(4, log.size(4) - len(properties(("KEYS", "k4"))) - 1)  # propertiesLength
    with pytest.raises(DamageFound, match="propertiesLength the lengths of the parts") as refused:
        measured(log)
    assert len(refused.value.plain) <= 280  # and `reput: error: ` before it


def test_a_torn_last_record_ends_the_log_with_no_word_of_damage() -> None:
    log = damaged(messages(9))
    log.put(log.places[8] + 20, bytes(log.size(8) - 20))
    found = measured(log)
    assert found.end == log.places[8]
    assert sum(tally.records for tally in found.queues.values()) == 8
