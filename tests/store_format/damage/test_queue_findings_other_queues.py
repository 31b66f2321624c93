"""Records that name a wrong queue: three witnesses, and each of them must speak."""

from typing import Any

import pytest

from reput.store_format.damage.queue_ends import LossReader
from reput.store_format.damage.queue_findings import (
    KINDS,
    ContradictedRecord,
    Gap,
    LoneRecord,
    OutvotedRecord,
    QueueClaim,
    QueueFindings,
    StrayRecord,
    TwinRecord,
    UnexplainedGap,
    bits_between,
    claimed_records,
    displaced_records,
)
from tests.store_format.damage.staged import lost

NOTHING = lost()
# Queue 1 misses position 5 between the places 400 and 600; it goes on well otherwise.
MISSED = UnexplainedGap("T", 1, False, 5, 1, 400, 600, entries_a_break=32)


def findings(*found: Any) -> QueueFindings:
    return QueueFindings({kind: [f for f in found if type(f) is kind] for kind in KINDS})


def alone(queue: int = 3, place: int = 500, offset: int = 5, own: bool = False) -> LoneRecord:
    return LoneRecord("T", queue, place, 100, offset, own)


@pytest.mark.parametrize(
    ("record", "found"),
    [
        (alone(), True),
        (alone(queue=2), False),  # two bits from queue 1
        (alone(queue=1 - (1 << 31)), True),  # the sign's bit
        (alone(offset=6), False),
        (alone(place=400), False),
        (alone(place=600), False),
        (alone(place=401), True),
        (TwinRecord("T", 3, 500, 100, 5), True),
        (OutvotedRecord("T", 3, 500, 100, 5, 90), True),
        (StrayRecord("T", 3, 500, 100, 5), False),  # no place at all: nobody doubts its queue
    ],
)
def test_another_queue_misses_just_this_position_around_the_record(
    record: Any, found: bool
) -> None:
    wanted = [(record, MISSED)] if found else []
    assert displaced_records(findings(record, MISSED), NOTHING) == wanted


@pytest.mark.parametrize(
    ("record", "log", "is_displaced"),
    [
        (alone(own=False), NOTHING, True),
        (alone(own=True), NOTHING, True),  # no loss took the five before it
        (alone(own=True), lost((0, 5 * 92)), False),  # one did: 91 bytes and the topic, five times
        (alone(own=True), lost((0, 5 * 92 - 1)), True),
        (alone(own=True), lost((0, 230), (300, 230)), True),  # several small ranges did not
        (alone(own=True), lost((0, 1), from_start=False), False),  # who knows what was before
        (TwinRecord("T", 3, 500, 100, 5), NOTHING, False),
        (OutvotedRecord("T", 3, 500, 100, 5, 90), NOTHING, True),
        (OutvotedRecord("T", 3, 500, 100, 5, 4), NOTHING, False),  # one bit from its own place
    ],
)
def test_where_the_gap_may_be_a_loss_a_record_that_may_be_of_its_queue_stays(
    record: Any, log: LossReader, is_displaced: bool
) -> None:
    for gap in (
        Gap("T", 1, False, 5, 1, 400, 600),
        UnexplainedGap("T", 1, False, 5, 1, 400, 600, entries_a_break=31),
    ):
        assert bool(displaced_records(findings(record, gap), log)) is is_displaced


@pytest.mark.parametrize(("count", "compared"), [(1, True), (64, True), (65, False)])
def test_a_long_loss_is_not_compared(count: int, compared: bool) -> None:
    gap = Gap("T", 1, False, 5, count, 400, 600)
    last = alone(offset=5 + count - 1)
    assert displaced_records(findings(last, gap), NOTHING) == ([(last, gap)] if compared else [])


@pytest.mark.parametrize(
    ("topic", "queue", "bits"),
    [
        ("Topic", 1, 0), ("Topic", 0, 1), ("Topic", -1, 31), ("Uopic", 3, 2), ("Topics", 1, 64),
        ("T\ufffdpic", 1, 1),  # bytes that are no UTF-8
    ],
)  # fmt: skip
def test_bits_between_two_queues(topic: str, queue: int, bits: int) -> None:
    gap = Gap("Topic", 1, False, 5, 1, 400, 600)
    assert bits_between(StrayRecord(topic, queue, 500, 100, 5), gap) == bits


def test_an_entry_elsewhere_claims_a_record_whose_own_position_has_another() -> None:
    claim = QueueClaim("U", 0, 500, 100, 7)
    contradicted = ContradictedRecord("T", 3, 500, 100, 5, False)
    of_tag = ContradictedRecord("T", 3, 500, 100, 5, True)
    longer = ContradictedRecord("T", 3, 500, 101, 5, False)
    assert claimed_records(findings(claim, contradicted)) == [(contradicted, claim)]
    assert claimed_records(findings(claim, alone())) == [(alone(), claim)]
    assert claimed_records(findings(claim, of_tag, longer, TwinRecord("T", 3, 500, 100, 5))) == []
