"""Flipped bits, cuts and holes: what is told of each, field by field (docs/reliability.md)."""

import pytest

from store_format.writer.options import writer_settings_from
from tests.faults.memory_files import MemoryFiles
from tests.flips import KINDS, PLACES, SETTINGS, Outcomes, State, cuts, flips, holes, messages
from tests.logs.encoder import encode
from tests.writer.crashes import open_memory
from tests.writer.stores import Clock

# What a flip in a field may lead to besides being told: no checksum covers these.
UNTOLD = {
    "queueId": {"other", "said"},
    "flag": {"same"},
    "queueOffset": {"same", "other", "said"},
    "sysFlag": {"same", "other"},
    "bornTimestamp": {"same"},
    "bornHost": {"same"},
    "storeTimestamp": {"same", "other"},
    "storeHost": {"same"},
    "reconsumeTimes": {"same"},
    "preparedTransactionOffset": {"same"},
    "topic": {"other", "said"},
    "properties": {"same", "other"},
}


def _told(place: str) -> str:
    return "cut" if place == "last" else "refused"


@pytest.mark.parametrize("place", PLACES)
def test_each_flipped_bit_is_told_where_a_checksum_or_a_length_covers_it(place: str) -> None:
    outcomes, told, seen = Outcomes(), _told(place), 0
    for state in flips(PLACES[place], every=3):
        became = outcomes.of(state)
        untold = UNTOLD.get(state.field, set())
        assert became == told or became in untold, (state.field, state.at, became)
        assert became != "same" or state.field in UNTOLD
        seen += 1
    assert seen > 280


@pytest.mark.parametrize("place", PLACES)
def test_with_record_crcs_each_flipped_bit_is_told(place: str) -> None:
    """enabledAppendPropCRC and forceVerifyPropCRC: nothing is left that no checksum covers."""
    outcomes = Outcomes(crc=True)
    for state in flips(PLACES[place], crc=True, every=5):
        assert outcomes.of(state) == _told(place), (state.field, state.at)


@pytest.mark.long
@pytest.mark.parametrize("crc", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_every_flipped_bit(place: str, crc: bool) -> None:
    outcomes, told = Outcomes(crc=crc), _told(place)
    for state in flips(PLACES[place], crc):
        became = outcomes.of(state)
        untold = set() if crc else UNTOLD.get(state.field, set())
        assert became == told or became in untold, (state.field, state.at, became)


def _start(kind: str) -> int:
    return sum(len(encode(message, 0)) for message in messages(last=KINDS[kind])[:-1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_rebuild_tells_of_a_cut_record_up_to_its_properties(kind: str) -> None:
    """Of these no checksum tells; up to 3 bytes of totalSize are zeros, so nothing is there."""
    outcomes = Outcomes(last=KINDS[kind])
    for state in cuts(kind):
        became = outcomes.of(state)
        if state.field == "totalSize":
            # a rolled back message that is the last leaves nothing in queues and index
            assert became in {"absent", "same"}, (state.at, became)
        elif state.field == "properties":
            assert became in {"same", "absent", "other"}, (state.at, became)
        else:
            assert became == "cut", (state.field, state.at, became)


def _assert_hole(state: State, outcomes: Outcomes) -> None:
    became = outcomes.of(state)
    if state.changed <= UNTOLD.keys():
        assert became in {"same", "other", "said"}, (state.changed, state.at, became)
    else:
        told = {"absent"} if state.changed >= {"totalSize", "magic"} and state.at < 4 else {"cut"}
        assert became in told | {"cut"}, (state.changed, state.at, became)


def test_a_hole_is_told_where_a_checksum_or_a_length_covers_it() -> None:
    outcomes = Outcomes()
    for state in list(holes("V1"))[::23]:
        _assert_hole(state, outcomes)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["V1", "V2", "IPv6"])
def test_every_hole(kind: str) -> None:
    outcomes = Outcomes(last=KINDS[kind])
    for state in holes(kind):
        _assert_hole(state, outcomes)


def _end_after_crash(segment: bytes) -> int:
    """Where the log ends as the writer opens a store that was not closed."""
    files = MemoryFiles(
        names_of={f"commitlog/{0:020d}": 1, "abort": 2},
        contents={1: bytearray(segment), 2: bytearray()},
        folders={"", "commitlog"},
    )
    given = writer_settings_from({name: str(value) for name, value in SETTINGS.items()})
    writer = open_memory(files, given, Clock(1_900_000_000_000))
    end = writer.log.end
    writer.abandon()
    return end


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_crash_each_cut_record_goes(kind: str) -> None:
    """Also one cut within its properties: no text ends with a NUL."""
    start = _start(kind)
    for state in cuts(kind):
        assert _end_after_crash(state.segment) == start, (state.field, state.at)
