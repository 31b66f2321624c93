"""What stands at one physical offset of a log: the record that covers it."""

from typing import Any, NamedTuple

from reput.jobs.comparing.side import Side
from reput.store_format.log.checks import NO_CHECKS
from reput.store_format.log.reader import NoRecord
from reput.store_format.query.stored_message import StoredMessage
from reput.udfs.comparing.messages import message_line
from reput.udfs.damage.damaged_segments import padded
from reput.udfs.table.log_parts import new_walk


class There(NamedTuple):
    """What one store has at the first offset at which it differs from the other."""

    physical_offset: int  # where the record that covers it begins, or the offset itself
    message: dict[str, Any] | None  # as message_line says it; None where there is no record
    reason: str  # what is wrong with it; '' for a sound record


def record_there(side: Side, place: int) -> There:
    """The record of a side that covers a physical offset, with its CRCs compared.

    Walks the segment from its first record, so the record is the one that a broker would read.
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
    """A record of which only a CRC is wrong."""
    log = side.reader()
    log.checks = NO_CHECKS
    with log:
        try:
            split = side.log.rules.dispatch.split_properties
            return message_line(StoredMessage(log.record_at(at), split, log.body))
        except NoRecord:
            return None


def _start_of_record(side: Side, place: int) -> int:
    """Where the record begins that covers a place; the place itself where none is known to."""
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
