"""Which queues are numbered anew, and from where: those that lose or gain records."""

import pytest

from reput.jobs.converting.new_log import MeasuredLog, QueueKey
from reput.jobs.converting.ordered import Source, renumbered
from reput.jobs.opening.plan import make_plan
from reput.jobs.pipeline.pipeline import Cut, Pipeline
from reput.store_format.discover.purpose import CONVERT
from reput.store_format.discover.store import discover, store_at
from reput.store_format.notes import Progress
from reput.store_format.rewrite.changes import Changes
from reput.store_format.rewrite.selection import Tally
from reput.udfs.staging import Staging
from tests.converted import plain
from tests.in_process import STORE, Session, storage_of
from tests.logs.encoder import Message

Queues = dict[tuple[str, int], Tally]
NO_RECORD = Tally()


def tally(positions: int, counted: int, least: int) -> Tally:
    return Tally(positions=positions, counted=counted, least=least, greatest=least + positions - 1)


@pytest.fixture(scope="module")
def job() -> Pipeline:
    storage = storage_of(plain([Message("T")]))
    at = store_at(STORE, "5.3.3", {}, storage)
    return Pipeline(
        Session(), make_plan(at, discover(at, CONVERT), CONVERT), Staging(storage, "staging"),
        Cut(), Progress(),
    )  # fmt: skip


def source(job: Pipeline, queues: Queues, changes: Changes | None = None) -> Source:
    known = {QueueKey(*key): each for key, each in queues.items()}
    return Source(job, changes or Changes(), MeasuredLog([], 0, 0, known, []))


@pytest.mark.parametrize(
    ("stores", "wanted"),
    [
        ([], {}),
        ([{("A", 0): tally(9, 9, 5)}], {}),
        ([{("A", 0): tally(9, 8, 5), ("A", 1): tally(9, 9, 5)}], {("A", 0): 5}),
        ([{("A", 0): tally(9, 0, 5)}], {}),
        ([{("A", 0): NO_RECORD}], {}),
        ([{("A", 0): tally(9, 9, 5)}, {("A", 0): tally(1, 1, 3)}], {("A", 0): 3}),
        ([{("A", 0): tally(9, 9, 5)}, {("A", 0): tally(1, 1, 7)}], {("A", 0): 5}),
        ([{("A", 0): tally(9, 9, 5)}, {("A", 0): tally(4, 0, 3)}], {}),
        ([{("A", 0): tally(9, 9, 5)}, {("A", 1): tally(4, 4, 3)}], {}),
    ],
)
def test_a_queue_of_which_all_records_are_one_store_s_keeps_its_numbers(
    job: Pipeline, stores: list[Queues], wanted: dict[tuple[str, int], int]
) -> None:
    assert renumbered([source(job, queues) for queues in stores]) == wanted


def test_stores_meet_by_the_new_names_and_ids(job: Pipeline) -> None:
    one = source(job, {("A", 0): tally(9, 9, 5)}, Changes(renames=(("A", "B"),)))
    other = source(job, {("B", 0): tally(4, 4, 7)})
    assert renumbered([one, other]) == {("B", 0): 5}
    apart = source(job, {("B", 0): tally(4, 4, 7)}, Changes(shifts=(("B", 4),)))
    assert apart.new_queue(QueueKey("B", 0)) == ("B", 4)
    assert renumbered([one, apart]) == {}


def test_a_position_stays_unless_it_was_worked_out_anew(job: Pipeline) -> None:
    one = source(job, {})
    one.new_marks = {("A", 0, 7): 3, ("A", 1, 7): None}
    assert [one.offset("A", 0, 7), one.offset("A", 1, 7), one.offset("A", 0, 8)] == [3, None, 8]
