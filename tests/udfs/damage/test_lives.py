"""The pieces of a damaged segment, as a task lists them, and what another says of them all."""

from dataclasses import replace

import pyarrow as pa

from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.files.protocol import FileState
from reput.store_format.log.segments import Segment
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.udfs.damage.lives import JudgeLives, ListPieces
from reput.udfs.staging import Staging
from tests.damaged import SEGMENT, SETTINGS, Damaged, damaged, messages
from tests.in_process import as_text
from tests.memory_storage import MemoryStorage

RULES = scan_rules(profile("5.3.3"), settings_from(as_text(SETTINGS)), ())


def judged(log: Damaged) -> list[dict[str, object]]:
    """VERDICTS rows of a log of one segment."""
    files = {"log/0": bytes(log.segments[0])}
    staging = Staging(MemoryStorage(files), "staging")
    segment = Segment("log/0", 0, FileState(SEGMENT, 0, 0))
    task = ListPieces(staging.storage, staging, ((0, segment),), SEGMENT, RULES)
    ids = pa.RecordBatch.from_pylist([{"id": 0}])
    (listed,) = [row for batch in task(iter([ids])) for row in batch.to_pylist()]
    assert listed["segment"] == 0
    judge = JudgeLives(staging, (listed["lines"],), ())
    return [row for batch in judge(iter([ids])) for row in batch.to_pylist()]


def test_a_damaged_record_between_pieces_of_one_life_makes_nothing_stale() -> None:
    log = damaged(messages(30))
    log.flip(10, 4)
    assert judged(log) == []


def test_a_piece_that_is_older_than_those_around_it_is_stale_up_to_the_next() -> None:
    """Records 10 to 19 are of an hour before, and of positions that others have."""
    made = messages(30)
    made[10:20] = [
        replace(m, store_timestamp=m.store_timestamp - 3_600_000, queue_offset=m.queue_offset - 2)
        for m in made[10:20]
    ]
    log = damaged(made)
    for number in (9, 19):  # where its page begins and ends
        log.flip(number, 4)
    rows = judged(log)
    starts = [0, log.places[10], log.places[20]]
    assert [row["start"] for row in rows] == starts
    assert [row["live"] for row in rows] == [True, False, True]
    assert [row["end"] for row in rows][:2] == [log.places[9], log.places[19]]
