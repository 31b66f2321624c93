"""Who spoke of a damaged range, and how sure that makes it."""

import pytest

from reput.store_format.damage.evidence import StretchVerdict, Sureness, Witness, heard, packed
from reput.store_format.damage.ranges import Damage, DamageKind
from reput.store_format.faults import REASONS, Fault

TIME, BEFORE, BEHIND = Witness.TIME, Witness.OFFSETS, Witness.OFFSETS_BEHIND


def damage(kind: DamageKind, fault: Fault, value: int | None = None) -> Damage:
    return Damage(0, 100, kind, fault, 100, value, "record")


@pytest.mark.parametrize(
    ("spoke", "against", "sureness"),
    [
        (TIME | BEFORE, BEHIND, Sureness.LIKELY),
        (TIME, Witness.NONE, Sureness.LIKELY),
        (TIME, BEHIND, Sureness.EVEN),
        (BEFORE, TIME | Witness.FRAME, Sureness.EVEN),
        (Witness.NONE, Witness.NONE, Sureness.EVEN),
    ],
)
def test_of_stale_records_those_who_were_weighed(
    spoke: Witness, against: Witness, sureness: Sureness
) -> None:
    value = packed(StretchVerdict(False, spoke, against))
    found = heard(damage(DamageKind.STALE, Fault.NONE, value))
    assert (len(found.witnesses), len(found.against)) == (len(spoke), len(against))
    assert found.sureness == sureness


def test_each_witness_has_its_own_words() -> None:
    every = [
        heard(damage(DamageKind.STALE, Fault.NONE, packed(StretchVerdict(False, each, each))))
        for each in Witness
    ]
    assert all(found.witnesses == found.against for found in every)
    assert len({found.witnesses for found in every}) == len(Witness)
    assert len({word for found in every for word in found.witnesses}) == len(Witness)


def test_stale_records_of_which_nobody_spoke() -> None:
    assert heard(damage(DamageKind.STALE, Fault.NONE)) == ((), (), Sureness.EVEN)


@pytest.mark.parametrize(
    ("kind", "fault", "sureness", "word"),
    [
        (DamageKind.STALE, Fault.PLACE, Sureness.CERTAIN, "physicalOffset"),
        (DamageKind.CONTENT, Fault.BODY_CRC, Sureness.CERTAIN, "bodyCRC"),
        (DamageKind.DAMAGED, Fault.PROPERTY_CRC, Sureness.CERTAIN, "__CRC32#"),
        (DamageKind.DAMAGED, Fault.BAD_MAGIC, Sureness.CERTAIN, "magic"),
        (DamageKind.DAMAGED, Fault.LENGTHS, Sureness.CERTAIN, "lengths"),
        (DamageKind.DAMAGED, Fault.DELAY_LEVEL, Sureness.CERTAIN, "DELAY"),
        (DamageKind.DAMAGED, Fault.BATCH_NUMBERS, Sureness.CERTAIN, "INNER_NUM"),
        (DamageKind.DAMAGED, Fault.BLANK_SIZE, Sureness.CERTAIN, "segment's end"),
        (DamageKind.CONTENT, Fault.HEAD_MAGIC, Sureness.CERTAIN, "DLedger head's own magic"),
        (DamageKind.CONTENT, Fault.HEAD_SIZE, Sureness.CERTAIN, "DLedger head's lengths"),
        (DamageKind.CONTENT, Fault.HEAD_PLACE, Sureness.CERTAIN, "pos"),
        (DamageKind.CONTENT, Fault.HEAD_INDEX, Sureness.CERTAIN, "index of the DLedger entry"),
        (DamageKind.CONTENT, Fault.HEAD_TERM, Sureness.CERTAIN, "term of the DLedger entry"),
        (DamageKind.MISSING, Fault.MISSING, Sureness.CERTAIN, "segments"),
        (DamageKind.CONTENT, Fault.TIME, Sureness.LIKELY, "bornTimestamp"),
        (DamageKind.CONTENT, Fault.TAG, Sureness.EVEN, "ConsumeQueue"),
        (DamageKind.CONTENT, Fault.KEYS, Sureness.EVEN, "IndexFile"),
    ],
)
def test_of_other_ranges_those_of_their_fault(
    kind: DamageKind, fault: Fault, sureness: Sureness, word: str
) -> None:
    found = heard(damage(kind, fault, 5))
    assert found.sureness == sureness
    assert any(word in witness for witness in found.witnesses)


def test_what_is_only_likely_has_two_witnesses_and_what_is_even_one() -> None:
    for fault in REASONS:
        found = heard(damage(DamageKind.DAMAGED, fault))
        counted = {Sureness.LIKELY: 2, Sureness.EVEN: 1}.get(found.sureness, len(found.witnesses))
        assert len(found.witnesses) == counted, fault


def test_only_a_records_frame_is_its_own_witness() -> None:
    """What is wrong in such a record is one of the fields that make its frame."""
    frame = heard(damage(DamageKind.DAMAGED, Fault.BAD_MAGIC))
    by_frame = {fault for fault in REASONS if heard(damage(DamageKind.DAMAGED, fault)) == frame}
    assert {REASONS[fault][0] for fault in by_frame} == {
        "totalSize", "magic", "bodyLength", "topicLength", "propertiesLength",
    }  # fmt: skip
