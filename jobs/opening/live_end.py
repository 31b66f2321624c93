"""The end of a log that a broker is writing to, at the time when a job began.

RocketMQ only appends, so bytes before that end do not change. Only the segment with the end and
those after it may change while the job runs.
"""

import time
from typing import NamedTuple

from reput.store_format.dispatch.scan import End, ScanRules, scan
from reput.store_format.faults import Fault
from reput.store_format.files.protocol import ANY_TIME, InputStorage, Reader, read_part
from reput.store_format.log.segments import Segment, Stretch

_TRIES = 20
_PAUSE = 0.05  # seconds: a record is copied into the log in microseconds


class LiveEnd(NamedTuple):
    """The end of a growing log. sure: the bytes after it are no damage, but being written."""

    at: int  # physical offset
    sure: bool


def log_end_now(storage: InputStorage, segments: list[Segment], rules: ScanRules) -> LiveEnd:
    """Walk the last segment with data up to the log's end.

    A record that is being written looks damaged for a moment, and so do stale bytes that the next
    record will cover. So the walk is repeated; if the end moves, the log is growing there.
    """
    segment = _last_written(storage, segments)
    if segment is None:
        return LiveEnd(segments[0].start, True)
    first = end = _walk(storage, segment, segment.start, rules)
    for _ in range(_TRIES):
        if end.fault in (Fault.ZEROS, Fault.BLANK) or end.next > first.next:
            return LiveEnd(end.next, True)
        time.sleep(_PAUSE)
        end = _walk(storage, segment, end.next, rules)
    return LiveEnd(end.next, False)


def states_now(storage: InputStorage, segments: list[Segment]) -> list[Segment]:
    """The segments with their present states: the last listed segment may be full by now."""
    folders = dict.fromkeys(segment.path.rpartition("/")[0] for segment in segments)
    now = {f"{folder}/{name}": state for folder in folders for name, state in storage.list(folder)}
    return [s._replace(state=now.get(s.path) or s.state) for s in segments]


def _open(storage: InputStorage, segment: Segment) -> Reader:
    return storage.open(segment.path, segment.state._replace(mtime=ANY_TIME))


def _last_written(storage: InputStorage, segments: list[Segment]) -> Segment | None:
    """The last segment with data; a segment that is only prepared is all zeros."""
    for segment in reversed(segments):
        if read_part(storage, segment.path, 0, 8, segment.state._replace(mtime=ANY_TIME)).any():
            return segment
    return None


def _walk(storage: InputStorage, segment: Segment, at: int, rules: ScanRules) -> End:
    end = End()
    reader = _open(storage, segment)
    stretch = Stretch(segment.start, segment.end, at, segment.end, at)
    for part in scan(segment.read_by(reader), stretch, rules):
        if isinstance(part, End):
            end = part
    reader.close()
    return end
