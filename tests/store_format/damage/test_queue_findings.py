"""What one queue's runs show of damage, each kind of finding by itself."""

from collections.abc import Sequence
from typing import Any

from reput.store_format.damage.contradictions import OldQueue, OldQueues
from reput.store_format.damage.queue_ends import NO_QUEUE_DAMAGE, LossReader, QueueDamage
from reput.store_format.damage.queue_findings import (
    KINDS,
    ContradictedRecord,
    Gap,
    LoneRecord,
    OutvotedRecord,
    QueueClaim,
    QueueFindings,
    QueueGaps,
    QueueSearch,
    Renumbering,
    RunGaps,
    StrayRecord,
    TwinRecord,
    UnexplainedGap,
    bits_between,
    claimed_records,
    displaced_records,
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


def test_gaps_outvoted_and_stray_records_and_twins_are_named() -> None:
    assert found(queue(*SOUND)) == []
    assert found(queue(*SOUND), log=ELSEWHERE) == []
    assert found() == []
    entries = queue(*SOUND[:40], *SOUND[42:])
    assert found(entries, log=lost((39_500, 182))) == [Gap("T", 0, False, 40, 2, 39_000, 40_000)]
    (gap,) = found(entries)
    assert gap == UnexplainedGap("T", 0, False, 40, 2, 39_000, 40_000, entries_a_break=98)
    for most, counted in [(2, [49, 49]), (1, [0, 49]), (0, [0, 0])]:
        gaps = found(queue(*SOUND[:40], *SOUND[41:60], *SOUND[61:]), most=most)
        assert [gap.entries_a_break for gap in gaps] == counted
    wrong = 1 << 40
    assert found(queue(*SOUND[:50], wrong, *SOUND[51:])) == [
        OutvotedRecord("T", 0, 50_000, SIZE, wrong, counts_as=50),
        Renumbering("T", 0, 50, 1, 50_000, wrong, opens=False),
    ]
    entries = queue(1 << 62, -1, *SOUND[2:])
    for runs in ([entries], [entries[:1], entries[1:]]):
        assert found(*runs) == [Renumbering("T", 0, 0, 2, 0, 1 << 62, opens=True)]
    assert found(queue(*SOUND[:50], 30, *SOUND[50:])) == [StrayRecord("T", 0, 50_000, SIZE, 30)]
    for cut in [None, 51]:
        runs = [TWINS] if cut is None else [TWINS[:cut], TWINS[cut:]]
        pair = [TwinRecord("T", 0, 50_000, SIZE, 50), TwinRecord("T", 0, 51_000, SIZE, 50)]
        assert found(*runs, log=ELSEWHERE) == pair
        assert found(*runs) == []  # a log that lost nothing is as its broker wrote it
    sound = [pair for n, pair in enumerate(TWINS) if n != 51]
    twins = found(TWINS, log=ELSEWHERE, old=old_queue(entries_of(sound)))
    assert [each.place for each in twins if type(each) is TwinRecord] == [51_000]


TWINS = queue(*SOUND[:51], *SOUND[50:])  # the records 50 and 51 have the queueOffset 50


def entries_of(pairs: Pairs) -> list[tuple[int, int, int]]:
    return [(place, SIZE, 0) for _, place in pairs]


def test_an_old_queue_contradicts_a_record_or_claims_it() -> None:
    entries = entries_of(queue(*SOUND))
    entries[7], entries[30] = (77, SIZE, 0), (30_000, SIZE, 5)
    assert found(queue(*SOUND), old=old_queue(entries)) == [
        ContradictedRecord("T", 0, 7000, SIZE, 7, tag_only=False),
        ContradictedRecord("T", 0, 30_000, SIZE, 30, tag_only=True),
    ]
    entries = entries_of(queue(*SOUND))
    mine = [pair for pair in queue(*SOUND) if pair[0] not in (40, 41)]
    entries[41] = (0, 0, 0)
    gap, claim = found(mine, log=lost((39_500, 182)), old=old_queue(entries))
    assert (gap.first, gap.count) == (40, 2)
    assert claim == QueueClaim("T", 0, 40_000, SIZE, 40)
    # Two of a run, and one for each eight entries: 14 of a hundred.
    for unlike, named in [(14, 14), (15, 0), (100, 0)]:
        entries = [(1, SIZE, 0)] * unlike + entries_of(queue(*SOUND))[unlike:]
        assert len(found(queue(*SOUND), old=old_queue(entries))) == named


# --- Records that name a wrong queue: three witnesses, and each of them must speak.
# Queue 1 misses position 5 between the places 400 and 600; it goes on well otherwise.
MISSED = UnexplainedGap("T", 1, False, 5, 1, 400, 600, entries_a_break=32)


def findings(*found: Any) -> QueueFindings:
    return QueueFindings({kind: [f for f in found if type(f) is kind] for kind in KINDS})


def alone(queue: int = 3, place: int = 500, offset: int = 5, own: bool = False) -> LoneRecord:
    return LoneRecord("T", queue, place, 100, offset, own)


def test_another_queue_misses_just_this_position_around_the_record() -> None:
    for record, found in [(alone(), True),
        (alone(queue=2), False),  # two bits from queue 1
        (alone(queue=1 - (1 << 31)), True),  # the sign's bit
        (alone(offset=6), False), (alone(place=400), False), (alone(place=600), False),
        (alone(place=401), True), (TwinRecord("T", 3, 500, 100, 5), True),
        (OutvotedRecord("T", 3, 500, 100, 5, 90), True),
        (StrayRecord("T", 3, 500, 100, 5), False)  # no place at all: nobody doubts its queue
        ]:  # fmt: skip
        wanted = [(record, MISSED)] if found else []
        assert displaced_records(findings(record, MISSED), NOTHING) == wanted
    for record, log, is_displaced in [
        (alone(own=False), NOTHING, True),
        (alone(own=True), NOTHING, True),  # no loss took the five before it
        (alone(own=True), lost((0, 5 * 92)), False),  # one did: 91 bytes and the topic, five times
        (alone(own=True), lost((0, 5 * 92 - 1)), True),
        (alone(own=True), lost((0, 230), (300, 230)), True),  # several small ranges did not
        (alone(own=True), lost((0, 1), from_start=False), False),  # who knows what was before
        (TwinRecord("T", 3, 500, 100, 5), NOTHING, False),
        (OutvotedRecord("T", 3, 500, 100, 5, 90), NOTHING, True),
        (OutvotedRecord("T", 3, 500, 100, 5, 4), NOTHING, False),  # one bit from its own place
    ]:
        for gap in (Gap("T", 1, False, 5, 1, 400, 600),
            UnexplainedGap("T", 1, False, 5, 1, 400, 600, entries_a_break=31)):  # fmt: skip
            assert bool(displaced_records(findings(record, gap), log)) is is_displaced


def test_bits_between_two_queues_and_a_long_loss_that_is_not_compared() -> None:
    for topic, queue, bits in [("Topic", 1, 0), ("Topic", 0, 1), ("Topic", -1, 31), ("Uopic", 3, 2),
        ("Topics", 1, 64),
        ("T\ufffdpic", 1, 1)  # bytes that are no UTF-8
        ]:  # fmt: skip
        gap = Gap("Topic", 1, False, 5, 1, 400, 600)
        assert bits_between(StrayRecord(topic, queue, 500, 100, 5), gap) == bits
    for count, compared in [(1, True), (64, True), (65, False)]:
        gap = Gap("T", 1, False, 5, count, 400, 600)
        last = alone(offset=5 + count - 1)
        assert displaced_records(findings(last, gap), NOTHING) == (
            [(last, gap)] if compared else []
        )
    claim = QueueClaim("U", 0, 500, 100, 7)
    contradicted = ContradictedRecord("T", 3, 500, 100, 5, False)
    of_tag = ContradictedRecord("T", 3, 500, 100, 5, True)
    longer = ContradictedRecord("T", 3, 500, 101, 5, False)
    assert claimed_records(findings(claim, contradicted)) == [(contradicted, claim)]
    assert claimed_records(findings(claim, alone())) == [(alone(), claim)]
    assert claimed_records(findings(claim, of_tag, longer, TwinRecord("T", 3, 500, 100, 5))) == []


# --- Positions that a queue lost: a gap counts where the log lost enough bytes for its messages.
Found = list[tuple[int, int, int, int, int]]
Runs = list[list[tuple[int, int]]]
BIG = 1 << 62  # no queueOffset that could be believed


def listed(gaps: RunGaps) -> Found:
    """(before which entry, how many, first position, place before, place behind)"""
    columns = gaps.counts["index"], gaps.counts["count"], gaps.first, gaps.after, gaps.before
    return list(zip(*(each.tolist() for each in columns), strict=True))


def gaps_found(
    runs: Runs, log: LossReader, damage: QueueDamage = NO_QUEUE_DAMAGE
) -> tuple[Found, Found]:
    """(lost positions, unexplained gaps) of all runs of a queue."""
    files, rows = staged(*runs, damage=damage)
    gaps = QueueGaps(files, log)
    surely, perhaps = zip(*(gaps.of(row) for row in rows), strict=True)
    return [g for each in surely for g in listed(each)], [
        g for each in perhaps for g in listed(each)
    ]


AT_ONCE: Runs = [[(0, 0), (1, 100), (4, 900), (5, 1000)]]
IN_TWO: Runs = [[(0, 0), (1, 100)], [(4, 900), (5, 1000)]]


def test_a_lost_message_takes_91_bytes_at_least_and_a_batch_22_for_each() -> None:
    for runs, index in [(AT_ONCE, 2), (IN_TWO, 0)]:
        for bytes_lost, surely, perhaps in [(182, True, False), (181, False, True),
            (0, False, True)]:  # fmt: skip
            gap = [(index, 2, 2, 100, 900)]
            log = lost((200, bytes_lost)) if bytes_lost else lost()
            assert gaps_found(runs, log) == (gap * surely, gap * perhaps)
    assert gaps_found(IN_TWO, lost((50, 500), (900, 500)))[0] == []
    assert gaps_found(IN_TWO, lost((100, 182)))[0] == [(0, 2, 2, 100, 900)]
    assert gaps_found([[(0, 0)], [(3, 100)]], lost())[1] == [(0, 2, 1, 0, 100)]
    assert gaps_found([[(0, 0)], [(4, 100)]], lost()) == ([], [])
    for from_start, gaps in [(True, [(0, 5, 0, -1, 500)]), (False, [])]:
        runs: Runs = [[(5, 500), (6, 600)]]
        assert gaps_found(runs, lost((0, 455), from_start=from_start)) == (gaps, [])
    # Its entries' numbers are no queueOffsets, so no entry is added.
    files, (row,) = staged([(0, 0), (3, 100), (9, 900)], batch=3)
    assert listed(QueueGaps(files, lost((200, 700))).of(row)[0]) == [(2, 3, 6, 100, 900)]
    assert len(QueueGaps(files, lost((200, 700)))(row)) == 0
    for bytes_lost, surely in [(91 + 24 * 22, True), (90 + 24 * 22, False)]:
        files, (row,) = staged([(0, 0), (3, 100), (30, 900)], batch=3)
        gaps = QueueGaps(files, lost((200, bytes_lost))).of(row)[0]
        assert listed(gaps) == [(2, 24, 6, 100, 900)] * surely
    # Queue offset 3 counts from the highest before it.
    runs: Runs = [[(0, 0), (1, 100), (2, 200)], [(0, 900), (1, 1000)], [(3, 1100)]]
    assert gaps_found(runs, lost((300, 600))) == ([], [])
    assert gaps_found([*runs, [(5, 1200)]], lost((1150, 91)))[0] == [(0, 1, 4, 1100, 1200)]
    for odd in [-1, -(1 << 63), BIG, (1 << 63) - 1]:
        runs: Runs = [[(0, 0)], [(odd, 100)], [(2, 300)]]
        assert gaps_found(runs, lost((200, 91))) == ([(0, 1, 1, 100, 300)], [])
        assert gaps_found([[pair for run in runs for pair in run]], lost((200, 91)))[0] == [
            (2, 1, 1, 100, 300)
        ]
    kept = QueueDamage(no_room=frozenset({("T", 0, 900)}))
    assert gaps_found(AT_ONCE, lost(), kept) == ([(2, 2, 2, 100, 900)], [])
    other = QueueDamage(no_room=frozenset({("T", 1, 900)}))
    assert gaps_found(AT_ONCE, lost(), other)[0] == []
