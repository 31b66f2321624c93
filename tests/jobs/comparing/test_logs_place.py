"""The record that covers a place: as a walk from its segment's start finds it."""

import pytest

from reput.jobs.comparing.logs import Side, There, open_side, record_there
from reput.store_format.discover.store import store_at
from tests.damaged import SEGMENT, Damaged, damaged, messages
from tests.in_process import STORE, storage_of
from tests.logs.encoder import Message

BODY = 88  # where a record's body begins


def side(log: Damaged) -> Side:
    settings = {"mappedFileSizeCommitLog": str(SEGMENT)}
    return open_side(store_at(STORE, "5.3.3", settings, storage_of(log.log)))


def test_any_byte_of_a_record_leads_to_it() -> None:
    log = damaged()
    at, size = log.places[7], log.size(7)
    opened = side(log)
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
    found = record_there(side(log), log.places[2] + BODY + 3)
    assert found.physical_offset == log.places[2]


@pytest.mark.parametrize("place", [-1, SEGMENT, 1 << 40])
def test_where_no_segment_is_the_log_has_ended(place: int) -> None:
    log = damaged(messages(9))
    assert record_there(side(log), place) == There(place, None, "the log has ended")


def test_the_first_byte_behind_the_last_record_is_behind_the_end() -> None:
    log = damaged(messages(9))
    opened = side(log)
    assert record_there(opened, opened.end).reason == "the log has ended"
    assert record_there(opened, opened.end - 1).physical_offset == log.places[8]


def test_a_record_with_a_wrong_body_is_told_as_it_stands() -> None:
    log = damaged(messages(9))
    log.flip(4, BODY)
    found = record_there(side(log), log.places[4] + BODY)
    assert found.reason == "bodyCRC: does not match the body"
    assert found.message is not None
    assert found.message["physicalOffset"] == log.places[4]


def test_of_a_record_without_a_frame_nothing_is_told() -> None:
    log = damaged(messages(9))
    log.flip(4, 4)  # of its magic number
    opened = side(log)
    for byte in (0, 4):
        found = record_there(opened, log.places[4] + byte)
        assert (found.physical_offset, found.message) == (log.places[4], None)
        assert found.reason.startswith("magic: ")
