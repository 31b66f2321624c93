"""The spans in which two logs differ, in physical offsets."""

import pytest

from reput.jobs.comparing.logs import Parting, Side, Tail, There, open_side, record_there
from reput.store_format.discover.store import store_at
from tests.damaged import SEGMENT as PLACE_SEGMENT
from tests.damaged import Damaged, damaged, messages
from tests.in_process import STORE, storage_of
from tests.jobs.comparing.pairs import COMMON, MASTER, SEGMENT, places, store
from tests.logs.encoder import Message, encode
from tests.memory_storage import MemoryStorage

Spans = tuple[tuple[int, int], ...]


@pytest.mark.parametrize(("unlike", "ours", "theirs", "spans"), [
    ((), (), (), []), (((10, 20),), ((20, 30),), (), [(10, 30)]),
    (((10, 20),), ((21, 30),), (), [(10, 20), (21, 30)]),
    (((10, 50),), ((20, 30),), ((5, 11),), [(5, 50)]),
])  # fmt: skip
def test_spans_that_meet_are_one(unlike: Spans, ours: Spans, theirs: Spans, spans) -> None:
    parting = Parting(unlike, ours, theirs)
    assert parting.spans == spans
    assert parting.first == (spans[0][0] if spans else None)


# --- The record that covers a place: as a walk from its segment's start finds it.
BODY = 88  # where a record's body begins


def place_side(log: Damaged) -> Side:
    settings = {"mappedFileSizeCommitLog": str(PLACE_SEGMENT)}
    return open_side(store_at(STORE, "5.3.3", settings, storage_of(log.log)))


def test_any_byte_of_a_record_leads_to_it() -> None:
    log = damaged()
    at, size = log.places[7], log.size(7)
    opened = place_side(log)
    for place, number in ((at - 1, 6), (at, 7), (at + size - 1, 7), (at + size, 8)):
        found = record_there(opened, place)
        assert (found.physical_offset, found.reason) == (log.places[number], "")
        assert found.message is not None
        assert (found.message["queueId"], found.message["queueOffset"]) == queue_of(number)


def queue_of(number: int) -> tuple[int, int]:
    """Message n of `messages` is in queue n mod 3, at position n // 3."""
    return number % 3, number // 3


def test_bytes_in_a_body_that_look_like_a_record_are_none() -> None:
    whole = damaged(messages(3, 1))
    inner = bytes(whole.record(whole.segments, 0))
    log = damaged([*messages(2, 1), Message(topic="T", queue_offset=2, body=inner)])
    found = record_there(place_side(log), log.places[2] + BODY + 3)
    assert found.physical_offset == log.places[2]


def test_a_damaged_record_is_told_as_it_stands_and_behind_the_end_is_none() -> None:
    log = damaged(messages(9))
    opened = place_side(log)
    for place in (-1, PLACE_SEGMENT, 1 << 40):
        assert record_there(opened, place) == There(place, None, "the log has ended")
    assert record_there(opened, opened.end).reason == "the log has ended"
    assert record_there(opened, opened.end - 1).physical_offset == log.places[8]
    log.flip(4, BODY)
    found = record_there(place_side(log), log.places[4] + BODY)
    assert found.reason == "bodyCRC: does not match the body"
    assert found.message is not None
    assert found.message["physicalOffset"] == log.places[4]
    log.flip(4, 4)  # of its magic number: without a frame nothing is told
    for byte in (0, 4):
        found = record_there(place_side(log), log.places[4] + byte)
        assert (found.physical_offset, found.message) == (log.places[4], None)
        assert found.reason.startswith("magic: ")


# --- One of the compared stores: what its log has, and what follows its last record.
COUNT = 5
PLACES = places(COMMON[:COUNT])
END = PLACES[-1] + len(encode(COMMON[COUNT - 1], 0))
LAST = f"{MASTER}/commitlog/{0:020d}"


def opened(files: dict[str, bytes], **settings: str) -> Side:
    return open_side(store_at(MASTER, "5.3.3", settings, MemoryStorage(files)))


@pytest.mark.parametrize(
    ("behind", "tail"),
    [
        (b"", None), (b"\0\0\1", Tail(END + 3, -1)),
        (encode(COMMON[COUNT], END + 9).rjust(9 + len(encode(COMMON[COUNT], 0)), b"\0"),
         Tail(END + 9 + len(encode(COMMON[COUNT], 0)), END + 9)),
        (b"\0" * 9 + encode(COMMON[COUNT], END), Tail(END + 9 + len(encode(COMMON[COUNT], 0)), -1)),
    ],
    ids=["zeros", "a byte", "a record in its place", "a record of another place"],
)  # fmt: skip
def test_what_follows_the_last_record_is_told(behind: bytes, tail: Tail | None) -> None:
    files = store(MASTER, COMMON[:COUNT])
    files[LAST] = files[LAST][:END] + behind.ljust(SEGMENT - END, b"\0")
    side = opened(files)
    assert (side.start, side.end, side.tail) == (0, END, tail)


def test_a_log_has_the_bytes_of_its_segments_up_to_its_last_record() -> None:
    first = 7 * SEGMENT
    files = store(MASTER, COMMON, first=first)
    side = opened(files)
    second = first + SEGMENT
    assert side.spans == [(first, second), (second, side.end)]
    wanted = {first - 1: False, first: True, second - 1: True, second: True,
              side.end - 1: True, side.end: False}  # fmt: skip
    assert {place: side.has(place) for place in wanted} == wanted
    files = store(MASTER, COMMON * 2)
    del files[f"{MASTER}/commitlog/{SEGMENT:020d}"]
    side = opened(files, mappedFileSizeCommitLog=str(SEGMENT))
    assert [side.has(SEGMENT + n) for n in (-1, 0, SEGMENT - 1, SEGMENT)] == [
        True, False, False, True,
    ]  # fmt: skip
    assert any("a hole before it" in note for note in side.notes)
    side = opened(store(MASTER, []), mappedFileSizeCommitLog=str(SEGMENT))
    assert (side.spans, side.has(0), side.end) == ([], False, 0)
