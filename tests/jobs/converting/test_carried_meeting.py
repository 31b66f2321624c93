"""A queue that several stores have: refused, kept apart, or made one."""

import json

import pytest

from reput.jobs.converting.carried import APART, MEET_REFUSE, RENUMBER, meet
from reput.jobs.converting.new_log import MeasuredLog, QueueKey
from reput.jobs.converting.ordered import Source
from reput.jobs.opening.plan import make_plan
from reput.jobs.pipeline.pipeline import Cut, Pipeline
from reput.store_format.discover.purpose import CONVERT
from reput.store_format.discover.store import discover, store_at
from reput.store_format.faults import StoreError
from reput.store_format.notes import Progress
from reput.store_format.rewrite.changes import Changes
from reput.store_format.rewrite.selection import Tally
from reput.udfs.staging import Staging
from tests.converted import plain
from tests.in_process import STORE, Session, storage_of
from tests.logs.encoder import Message

TAKEN, LEFT_OUT = Tally(records=3, taken=3), Tally(records=3)


def source(
    queues: dict[tuple[str, int], Tally], counts: dict[str, int] | None = None,
    changes: Changes | None = None,
) -> Source:  # fmt: skip
    """A store with these queues. counts: writeQueueNums of its topics."""
    storage = storage_of(plain([Message("T")]))
    table = {name: {"writeQueueNums": count} for name, count in (counts or {}).items()}
    storage.files[f"{STORE}/config/topics.json"] = json.dumps({"topicConfigTable": table}).encode()
    at = store_at(STORE, "5.3.3", {}, storage)
    plan = make_plan(at, discover(at, CONVERT), CONVERT)
    job = Pipeline(Session(), plan, Staging(storage, "staging"), Cut(), Progress())
    known = {QueueKey(*key): each for key, each in queues.items()}
    return Source(job, changes or Changes(), MeasuredLog([], 0, 0, known, []))


@pytest.mark.parametrize(
    ("one", "other", "meets"),
    [
        ({("A", 0): TAKEN}, {("A", 0): TAKEN}, True),
        ({("A", 0): TAKEN}, {("A", 1): TAKEN}, False),
        ({("A", 0): TAKEN}, {("A", 0): LEFT_OUT}, False),
        ({("Old", 0): TAKEN}, {("New", 0): TAKEN}, True),
        ({("SCHEDULE_TOPIC_XXXX", 2): TAKEN}, {("SCHEDULE_TOPIC_XXXX", 2): TAKEN}, False),
        ({("rmq_sys_wheel_timer", 0): TAKEN}, {("rmq_sys_wheel_timer", 0): TAKEN}, False),
    ],
)
def test_queues_meet_where_both_are_taken_under_one_name(
    one: dict[tuple[str, int], Tally], other: dict[tuple[str, int], Tally], meets: bool
) -> None:
    sources = [source(one, changes=Changes(renames=(("Old", "New"),))), source(other)]
    if meets:
        with pytest.raises(StoreError, match="queue 0 of topic"):
            meet(sources, MEET_REFUSE)
    else:
        meet(sources, MEET_REFUSE)
    meet(sources, RENUMBER)
    assert [each.changes.shifts for each in sources] == [(), ()]


def test_kept_apart_a_later_store_s_ids_follow_all_before() -> None:
    sources = [
        source({("A", 0): TAKEN, ("B", 1): TAKEN}, {"A": 4}),
        source({("A", 5): TAKEN}, {"A": 2}),
        source({("A", 0): TAKEN, ("B", 0): TAKEN, ("C", 0): TAKEN}),
    ]
    meet(sources, APART)
    assert [dict(each.changes.shifts) for each in sources] == [{}, {"A": 4}, {"A": 10, "B": 2}]


def test_kept_apart_topics_go_by_their_new_names_and_waiting_ones_are_joined() -> None:
    waiting = {("SCHEDULE_TOPIC_XXXX", 2): TAKEN}
    sources = [
        source({("Old", 0): TAKEN, **waiting}, {"Old": 3}, Changes(renames=(("Old", "New"),))),
        source({("New", 0): TAKEN, **waiting}),
    ]
    meet(sources, APART)
    assert [dict(each.changes.shifts) for each in sources] == [{}, {"New": 3}]
