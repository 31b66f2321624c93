"""Which positions a store gets of groups that only another one knows."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from reput.jobs.converting.new_log import MeasuredLog, QueueKey
from reput.jobs.converting.ordered import Source, complete_groups
from reput.store_format.files.folder import Folder
from reput.store_format.rewrite.changes import Changes
from reput.store_format.rewrite.selection import Tally
from tests.in_process import STORE
from tests.memory_storage import MemoryStorage

NONE_TAKEN = Tally(records=5, positions=5, least=3)


def of_queue(least: int, shared_end: int = 0) -> Tally:
    return Tally(records=9, taken=9, positions=9, counted=9, least=least, shared_end=shared_end)


def source(seen: Tally | None, offset: int | None, shift: int = 0) -> Source:
    """A store whose log has queue 0 of topic T, and in which group g has an offset there."""
    table = {} if offset is None else {"T@g": {"0": offset}}
    raw = json.dumps({"offsetTable": table}).encode()
    storage = MemoryStorage({f"{STORE}/config/consumerOffset.json": raw})
    job: Any = SimpleNamespace(plan=SimpleNamespace(folder=Folder(storage, STORE)))
    changes = Changes(merges=True, shifts=(("T", shift),) if shift else ())
    queues = {} if seen is None else {QueueKey("T", 0): seen}
    return Source(job, changes, MeasuredLog([], 0, 0, queues, []))


@pytest.mark.parametrize(
    ("sources", "given"),
    [
        ([source(of_queue(2), 7), source(of_queue(3), None)], [None, 3]),
        ([source(of_queue(2), None), source(of_queue(3), 7)], [2, None]),
        ([source(of_queue(2), 7), source(of_queue(3), 5)], [None, None]),
        ([source(None, 7), source(of_queue(3), None)], [None, 3]),
        # without records that are taken nothing waits
        ([source(of_queue(2), 7), source(NONE_TAKEN, None)], [None, None]),
        ([source(of_queue(2), 7), source(None, None)], [None, None]),
        # queues of their own
        ([source(of_queue(2), 7), source(of_queue(3), None, shift=4)], [None, None]),
        # what is shared with the first store is known, whatever the third one has
        ([source(of_queue(2), 7), source(of_queue(3, shared_end=9), None)], [None, 7]),
        ([source(of_queue(2), 7), source(of_queue(3, shared_end=6), None)], [None, 6]),
        ([source(of_queue(2), 7), source(of_queue(3, 6), None), source(of_queue(1), None)],
         [None, 6, 1]),
    ],
)  # fmt: skip
def test_a_group_that_a_store_does_not_know_has_consumed_only_what_is_shared(
    sources: list[Source], given: list[int | None]
) -> None:
    complete_groups(sources)
    assert [each.groups for each in sources] == [
        {} if offset is None else {("T", "g"): {0: offset}} for offset in given
    ]
