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


def judged(log: Damaged, last_first: bool = False) -> list[dict[str, object]]:
    """VERDICTS rows of a log; last_first: its segments' pieces come in the other order."""
    files = {f"log/{start}": bytes(raw) for start, raw in log.segments.items()}
    staging = Staging(MemoryStorage(files), "staging")
    segments = tuple(
        (n, Segment(f"log/{start}", start, FileState(SEGMENT, 0, 0)))
        for n, start in enumerate(log.segments)
    )
    task = ListPieces(staging.storage, staging, segments, SEGMENT, RULES)
    ids = pa.RecordBatch.from_pylist([{"id": n} for n in range(len(segments))])
    listed = [row for batch in task(iter([ids])) for row in batch.to_pylist()]
    assert [row["segment"] for row in listed] == list(range(len(segments)))
    lines = tuple(row["lines"] for row in listed)[:: -1 if last_first else 1]
    judge = JudgeLives(staging, lines, ())
    one = pa.RecordBatch.from_pylist([{"id": 0}])
    return [row for batch in judge(iter([one])) for row in batch.to_pylist()]


def with_older(count: int) -> Damaged:
    """So many messages: 10 to 19 are of an hour before, and of positions that others have."""
    made = messages(count)
    made[10:20] = [
        replace(m, store_timestamp=m.store_timestamp - 3_600_000, queue_offset=m.queue_offset - 2)
        for m in made[10:20]
    ]
    return damaged(made)


def test_pieces_are_judged_in_the_logs_order_however_they_come() -> None:
    log = with_older(60)
    assert len(log.segments) > 1
    for number in (9, 19, 50):
        log.flip(number, 4)
    rows = judged(log)
    assert [row["live"] for row in rows].count(False) == 1
    assert judged(log, last_first=True) == rows


def test_a_damaged_record_between_pieces_of_one_life_makes_nothing_stale() -> None:
    log = damaged(messages(30))
    log.flip(10, 4)
    assert judged(log) == []


def test_a_piece_that_is_older_than_those_around_it_is_stale_up_to_the_next() -> None:
    log = with_older(30)
    for number in (9, 19):  # where its page begins and ends
        log.flip(number, 4)
    rows = judged(log)
    starts = [0, log.places[10], log.places[20]]
    assert [row["start"] for row in rows] == starts
    assert [row["live"] for row in rows] == [True, False, True]
    assert [row["end"] for row in rows][:2] == [log.places[9], log.places[19]]
