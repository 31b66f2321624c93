"""What one queue's runs show of damage, each kind of finding by itself."""

from collections.abc import Sequence
from typing import Any

import pytest

from reput.store_format.damage.contradictions import OldQueue, OldQueues
from reput.store_format.damage.queue_ends import LossReader
from reput.store_format.damage.queue_findings import (
    ContradictedRecord,
    Gap,
    OutvotedRecord,
    QueueClaim,
    QueueSearch,
    Renumbering,
    StrayRecord,
    TwinRecord,
    UnexplainedGap,
)
from reput.store_format.files.folder import Folder
from tests.damaged import ENTRY
from tests.memory_storage import MemoryStorage
from tests.store_format.damage.staged import SIZE, lost, staged

NOTHING = lost()
ELSEWHERE = lost((1 << 39, 50))  # the log lost something, but nothing here
Pairs = list[tuple[int, int]]


def queue(*offsets: int) -> Pairs:
    """(queueOffset, place) of each record."""
    return [(offset, 1000 * n) for n, offset in enumerate(offsets)]


def old_queue(entries: Sequence[tuple[int, int, int]]) -> OldQueue:
    raw = b"".join(ENTRY.pack(*each) for each in entries)
    storage = MemoryStorage({f"store/consumequeue/T/0/{0:020d}": raw})
    return OldQueues(Folder(storage, "store")).of("T", 0)


def found(
    *runs: Pairs, log: LossReader = NOTHING, old: OldQueue | None = None, most: int = 9,
    batch: int = 0,
) -> list[Any]:  # fmt: skip
    files, rows = staged(*runs, batch=batch)
    return list(QueueSearch(files, log, old, most).findings(iter(rows)))


SOUND = list(range(100))


def test_a_sound_queue_shows_nothing() -> None:
    assert found(queue(*SOUND)) == []
    assert found(queue(*SOUND), log=ELSEWHERE) == []
    assert found() == []


def test_a_gap_is_lost_or_unexplained() -> None:
    entries = queue(*SOUND[:40], *SOUND[42:])
    assert found(entries, log=lost((39_500, 182))) == [Gap("T", 0, False, 40, 2, 39_000, 40_000)]
    (gap,) = found(entries)
    assert gap == UnexplainedGap("T", 0, False, 40, 2, 39_000, 40_000, entries_a_break=98)


@pytest.mark.parametrize(("most", "counted"), [(2, [49, 49]), (1, [0, 49]), (0, [0, 0])])
def test_few_unexplained_gaps_wait_until_the_queue_is_known(most: int, counted: list[int]) -> None:
    gaps = found(queue(*SOUND[:40], *SOUND[41:60], *SOUND[61:]), most=most)
    assert [gap.entries_a_break for gap in gaps] == counted


def test_an_outvoted_record_is_named_with_what_it_counts_as() -> None:
    wrong = 1 << 40
    assert found(queue(*SOUND[:50], wrong, *SOUND[51:])) == [
        OutvotedRecord("T", 0, 50_000, SIZE, wrong, counts_as=50),
        Renumbering("T", 0, 50, 1, 50_000, wrong, opens=False),
    ]


def test_a_queues_first_records_are_renumbered_over_runs() -> None:
    entries = queue(1 << 62, -1, *SOUND[2:])
    for runs in ([entries], [entries[:1], entries[1:]]):
        assert found(*runs) == [Renumbering("T", 0, 0, 2, 0, 1 << 62, opens=True)]


def test_a_stray_is_in_no_queue_and_makes_no_gap() -> None:
    assert found(queue(*SOUND[:50], 30, *SOUND[50:])) == [StrayRecord("T", 0, 50_000, SIZE, 30)]


TWINS = queue(*SOUND[:51], *SOUND[50:])  # the records 50 and 51 have the queueOffset 50


@pytest.mark.parametrize("cut", [None, 51])
def test_of_two_records_with_one_queue_offset_both_are_named(cut: int | None) -> None:
    runs = [TWINS] if cut is None else [TWINS[:cut], TWINS[cut:]]
    pair = [TwinRecord("T", 0, 50_000, SIZE, 50), TwinRecord("T", 0, 51_000, SIZE, 50)]
    assert found(*runs, log=ELSEWHERE) == pair
    assert found(*runs) == []  # a log that lost nothing is as its broker wrote it


def entries_of(pairs: Pairs) -> list[tuple[int, int, int]]:
    return [(place, SIZE, 0) for _, place in pairs]


def test_unless_the_old_queue_has_one_of_them_there() -> None:
    sound = [pair for n, pair in enumerate(TWINS) if n != 51]
    twins = found(TWINS, log=ELSEWHERE, old=old_queue(entries_of(sound)))
    assert [each.place for each in twins if type(each) is TwinRecord] == [51_000]


def test_an_old_queue_contradicts_a_record_or_its_tag() -> None:
    entries = entries_of(queue(*SOUND))
    entries[7], entries[30] = (77, SIZE, 0), (30_000, SIZE, 5)
    assert found(queue(*SOUND), old=old_queue(entries)) == [
        ContradictedRecord("T", 0, 7000, SIZE, 7, tag_only=False),
        ContradictedRecord("T", 0, 30_000, SIZE, 30, tag_only=True),
    ]


@pytest.mark.parametrize(("unlike", "named"), [(14, 14), (15, 0), (100, 0)])
def test_one_that_contradicts_many_is_no_witness(unlike: int, named: int) -> None:
    """Two of a run, and one for each eight entries: 14 of a hundred."""
    entries = [(1, SIZE, 0)] * unlike + entries_of(queue(*SOUND))[unlike:]
    assert len(found(queue(*SOUND), old=old_queue(entries))) == named


def test_an_old_queue_claims_records_for_positions_that_are_missing() -> None:
    entries = entries_of(queue(*SOUND))
    mine = [pair for pair in queue(*SOUND) if pair[0] not in (40, 41)]
    entries[41] = (0, 0, 0)
    gap, claim = found(mine, log=lost((39_500, 182)), old=old_queue(entries))
    assert (gap.first, gap.count) == (40, 2)
    assert claim == QueueClaim("T", 0, 40_000, SIZE, 40)
