"""Finds the record that covers a physical offset of a log."""

from typing import Any, NamedTuple

from reput.jobs.comparing.side import Side
from reput.store_format.log.reader import NoRecord
from reput.store_format.log.rules import NO_CHECKS
from reput.store_format.query.reader import StoredMessage
from reput.udfs.compare.logs import message_line
from reput.udfs.damage.segments import padded
from reput.udfs.table.log_parts import new_walk


class There(NamedTuple):
    """The record of one store at the first offset at which it differs from the other store."""

    physical_offset: int  # begin of the record, or the offset itself if there is no record
    message: dict[str, Any] | None  # as from message_line; None if there is no record
    reason: str  # fault of the record; '' if it is sound


def record_there(side: Side, place: int) -> There:
    """The record of a side that covers a physical offset, with its CRCs checked.

    It walks the segment from its first record, so it finds the record that a broker would read.
    """
    segment = next((s for s in side.log.segments if s.start <= place < s.end), None)
    if segment is None or place >= side.end:
        return There(place, None, "the log has ended")
    at = _start_of_record(side, place)
    with side.reader() as log:
        try:
            record = log.record_at(at)
        except NoRecord as error:
            return There(at, _as_it_stands(side, at), f"{error.field}: {error.reason}")
        split = side.log.rules.dispatch.split_properties
        return There(at, message_line(StoredMessage(record, split, log.body)), "")


def _as_it_stands(side: Side, at: int) -> dict[str, Any] | None:
    """The record at an offset without a check of CRCs; None if it has another fault too."""
    log = side.reader()
    log.checks = NO_CHECKS
    with log:
        try:
            split = side.log.rules.dispatch.split_properties
            return message_line(StoredMessage(log.record_at(at), split, log.body))
        except NoRecord:
            return None


def _start_of_record(side: Side, place: int) -> int:
    """The begin of the record that covers a place; the place itself if there is no record."""
    segment = next(s for s in side.log.segments if s.start <= place < s.end)
    reader = side.log.storage.open(segment.path, segment.state)
    try:
        walk = new_walk(padded(reader, segment), segment, side.log.rules, NO_CHECKS)
        start = segment.start
        for step in walk.steps(segment.start, place + 1):
            if len(step.rows):
                last = step.rows[-1]
                start = int(last["physicalOffset"])
                if start + int(last["size"]) > place:
                    return start
            start = step.next
        return start if start <= place else place
    finally:
        reader.close()
