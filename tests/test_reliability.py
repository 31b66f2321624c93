"""Cuts, holes and flipped bits: what is lost, what is named, and what no check can see."""

from collections.abc import Iterable

import pytest

from tests.reliability import derived, inputs
from tests.reliability.inputs import COUNT, Input, Small, small
from tests.reliability.outcome import Class, Outcome, classify, ours, refuse

# Each so many-th bit or byte; prime to 8, so that all bits of a byte come up. (Every one:
# `python -m tests.reliability`, beside RocketMQ's own answers.)
EVERY = pytest.mark.parametrize("every", [29, pytest.param(5, marks=pytest.mark.long)])

# A wrong queueOffset or queueId that nothing covers may move its queue's next position above
# the offsets that follow, which are then skipped: RocketMQ's rule (dispatch/runs.number_run).
# It is said, queue by queue.
MOVES_OTHERS = ("queueId", "queueOffset")
# A wrong topic takes its message alone to another queue. Its own queue then has a hole.
MOVES_ITSELF = ("topic",)


def judge(store: Small, sound: Outcome, given: Input) -> Class:
    """Both ways to rebuild; what holds whatever was damaged."""
    outcome = ours(store, given)
    found = classify(store, sound, outcome, given.number)
    said = refuse(store, given)
    # Salvage knows a record that has no place in its queue; refusing asks each record alone, as
    # RocketMQ does, whose bytes it gives.
    assert outcome.reported or not said, f"{given.field}, {given.what}: {said}"
    alone = given.field in (*MOVES_OTHERS, *MOVES_ITSELF) and not given.covered
    assert said or not outcome.reported or alone, f"{given.field}, {given.what}: only salvage says"
    if found in (Class.OTHERS_LOST, Class.ALL_LOST):
        assert given.field in MOVES_OTHERS, f"{given.field}, {given.what}: {found}"
        assert not given.covered
        assert outcome.reported, f"{given.field}, {given.what}: lost in silence"
    if given.field in MOVES_ITSELF and outcome.reported and not said:
        assert found == Class.NAMED_WRONG, f"{given.field}, {given.what}: {found}"
    if given.field and given.covered:
        assert outcome.reported, f"{given.field}, {given.what}: unseen"
        assert found in (Class.LOST, Class.SAME)
    if given.field in inputs.NOT_DERIVED and not given.covered:
        assert found == Class.SAME, f"{given.field}, {given.what}: {found}"
    return found


def judge_tail(
    kind: str, every: int, crc_property: bool, lengths: Iterable[int] = inputs.HOLES
) -> None:
    store = small(kind, crc_property)
    sound = ours(store)
    gone = store.segment[: store.places[-1]].rstrip(b"\0")
    for given in [*inputs.cuts(store)][::every]:
        found = judge(store, sound, given)
        assert found in ((Class.LOST,) if given.covered else (Class.WRONG, Class.SAME)), given.what
        # of a record of which nothing is there, nothing can be said
        there = given.segment.rstrip(b"\0") != gone
        assert ours(store, given).reported == (given.covered and there), given.what
    for given in [*inputs.holes(store, lengths)][::every]:
        found = judge(store, sound, given)
        assert not crc_property or found == Class.LOST, given.what


@pytest.mark.parametrize("crc_property", [False, True])
@pytest.mark.parametrize("place", inputs.PLACES)
@EVERY
def test_flipped_bits(place: str, crc_property: bool, every: int) -> None:
    """With `__CRC32#` and forceVerifyPropCRC every single one is seen, and costs its message."""
    store = small(crc_property=crc_property)
    sound = ours(store)
    assert sound.messages == COUNT
    assert not sound.reported
    for given in inputs.flips(store, inputs.PLACES[place], every):
        judge(store, sound, given)


@pytest.mark.parametrize("crc_property", [False, True])
@pytest.mark.parametrize("kind", inputs.LAST)
@EVERY
def test_a_torn_last_record(kind: str, crc_property: bool, every: int) -> None:
    judge_tail(kind, every, crc_property)


@pytest.mark.long
def test_holes_of_every_length() -> None:
    """Each at some of its places."""
    judge_tail("IPv6", 41, False, range(1, small("IPv6").size(COUNT - 1)))


def test_verify_names_every_flip_of_an_entry_or_a_header() -> None:
    """The field at fault, too. The checkpoint is not read, so that none of it is trusted."""
    store = small()
    sound = {("index/20231114221320000" if path == "index/0" else path): content
             for path, content in ours(store).files.items()}  # fmt: skip
    assert derived.verified(store, sound).same
    for wrong in derived.wrong_bits("index/20231114221320000", 7):
        report = derived.verified(store, sound, wrong)
        if wrong.part == "checkpoint":
            assert report.same
            continue
        (difference,) = report.differences
        assert difference.path.endswith(wrong.path)
        what = "header" if wrong.part == "index header" else "entry"
        assert what in difference.field
        assert difference.there != difference.wanted
