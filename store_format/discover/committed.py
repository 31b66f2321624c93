"""How far a DLedger group has agreed on the log that one of its members has; and what queues name
of a log without segments.

Consumers get nothing after that point (DLedgerCommitLog.getMaxOffset), and a new leader may cut the
rest away. A member writes the committed index to dledger-<id>/checkpoint when it is stopped and
about every three seconds (DLedgerMmapFileStore.persistCheckPoint). After a kill its queues may
reach further.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from typing import Any, NamedTuple

import numpy as np

from reput.store_format import layouts
from reput.store_format.derived.extent import queue_tails
from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.discover.config import consumer_offsets
from reput.store_format.faults import DamageFound, EmptyLog, StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import ANY_TIME, FileState, InputStorage
from reput.store_format.log.groups import heads_from
from reput.store_format.log.rules import record_rules
from reput.store_format.log.segments import Segment
from reput.store_format.names import ABORT, CHECKPOINT, INDEX, LMQ_PREFIX, segment_start
from reput.store_format.notes import Notes
from reput.store_format.release.profiles import RELEASES, profile
from reput.store_format.release.settings import parse_properties
from reput.store_format.rocksdb.queues import past_end_of

_INDEX = "committedIndex"
_WINDOW_BYTES = 1 << 20
Rows = Any  # RECORD_ROW


class Committed(NamedTuple):
    """The group agreed up to `end`. noted: the checkpoint's index; behind: whole entries after.

    missing: how many entries up to the noted one the log does not have; then it ends at `end`.
    """

    end: int
    noted: int
    behind: int
    missing: int = 0

    @property
    def text(self) -> str:
        """A line about the entries that are left out, or missing."""
        if self.missing:
            gone = "entry is" if self.missing == 1 else "entries are"
            return (
                f"the log ends at {self.end}, before the committed index {self.noted}: "
                f"{self.missing:,} committed {gone} missing; other members of the group have them"
            )
        entries = "1 entry" if self.behind == 1 else f"{self.behind:,} entries"
        return (
            f"{entries} from {self.end} on: behind the committed index {self.noted}, a new leader "
            f"may cut them away: left out; --set readUnCommitted=true takes them"
        )


def committed(store: Folder, segments: Sequence[Segment], derived: Folder) -> Committed | None:
    """None where the log is no DLedger log, or nothing tells how far the group has agreed.

    derived: where the queues are. Raises OSError.
    """
    own = [each for each in segments if each.has_heads]
    if not own:
        return None
    member = Folder(store.storage, own[0].path.rsplit("/", 2)[0])
    index = _noted(member)
    if index is None:
        return None
    end, missing = own[0].start, 0
    if index >= 0:
        found = _end_of(member / INDEX, own, index)
        if found is None:
            return None
        end, missing = found
    if missing:
        return Committed(end, index, 0, missing)
    if any(name == ABORT for name, _ in store.listed()):
        with suppress(BadQueue):  # whoever reads the queue reports it
            end = max([end, *(tail.end for tail in queue_tails(derived))])
    return Committed(end, index, _entries_from(store.storage, own, end))


def _noted(member: Folder) -> int | None:
    """The committed index in a member's checkpoint; None where there is none that can be read."""
    try:
        raw = member.read(CHECKPOINT)
    except FileNotFoundError:
        return None
    with suppress(ValueError, KeyError):
        return int(parse_properties(raw.decode("utf-8", "replace"))[_INDEX].strip())
    return None


def _end_of(folder: Folder, segments: Sequence[Segment], index: int) -> tuple[int, int] | None:
    """(where entry number `index` ends, 0); where the log ends before it, (the log's end, how many
    entries it lacks up to that one). None where damage hides whether it is there.

    The member's index files show it in one read; where they are lost or do not agree with the log,
    the segment that has the entry is walked.
    """
    at = _end_by_unit(folder, segments, index)
    if at is not None:
        return at, 0
    for segment in reversed(segments):
        first = _head(folder.storage, segment, segment.start)
        if first["magic"] == layouts.DLEDGER_NORMAL and 0 <= first["index"] <= index:
            left, end = index - int(first["index"]), segment.start
            for rows in _rows(folder.storage, segments, segment, segment.start):
                if left < len(rows):
                    return int(rows["physicalOffset"][left] + rows["size"][left]), 0
                left -= len(rows)
                if len(rows):
                    end = int(rows["physicalOffset"][-1] + rows["size"][-1])
            return (end, left + 1) if _ends_at(folder.storage, segments, segment, end) else None
    return None


def _ends_at(
    storage: InputStorage, segments: Sequence[Segment], segment: Segment, end: int
) -> bool:
    """Whether a log ends where the walk of a segment has ended: no damage is there, no entry."""
    later = [each for each in segments if each.start > segment.start]
    if any(_head(storage, each, each.start)["size"] for each in later):
        return False
    return end == segment.end or _head(storage, segment, end)["magic"] in (0, layouts.DLEDGER_BLANK)


def _end_by_unit(folder: Folder, segments: Sequence[Segment], index: int) -> int | None:
    place, size = index * layouts.DLEDGER_INDEX_UNIT.itemsize, layouts.DLEDGER_INDEX_UNIT.itemsize
    for name, state in folder.listed():
        start = segment_start(name)
        if start is None or state is None or not start <= place <= start + state.size - size:
            continue
        raw = np.zeros(size, np.uint8)
        with closing(folder.open(name)) as reader:
            reader.read_into(place - start, raw)
        unit = raw.view(layouts.DLEDGER_INDEX_UNIT)[0]
        pos = int(unit["pos"])
        segment = next((each for each in segments if each.start <= pos < each.end), None)
        if segment is None or unit["magic"] != layouts.DLEDGER_NORMAL or unit["index"] != index:
            return None
        head = _head(folder.storage, segment, pos)
        agree = head["index"] == index and head["pos"] == pos and head["size"] == unit["size"]
        return pos + int(unit["size"]) if agree else None
    return None


def _entries_from(storage: InputStorage, segments: Sequence[Segment], end: int) -> int:
    """How many whole entries the log has from `end` on, where an entry may begin."""
    count = 0
    for segment in segments:
        if segment.end <= end:
            continue
        at = max(end, segment.start)
        if _head(storage, segment, at)["magic"] == layouts.DLEDGER_NORMAL:
            count += sum(map(len, _rows(storage, segments, segment, at)))
    return count


def _rows(
    storage: InputStorage, segments: Sequence[Segment], segment: Segment, at: int
) -> Iterator[Rows]:
    """RECORD_ROWs of a segment from the DLedger head at `at` on, while records are whole."""
    from reput.store_format.log.walk import NO_CHECKS, Walk  # a query may do without numba

    rules = record_rules(profile(RELEASES[-1]), heads_from(segments))
    with closing(storage.open(segment.path, _any_time(segment))) as reader:
        buffer = np.empty(min(_WINDOW_BYTES, segment.state.size), np.uint8)
        walk = Walk(segment.read_by(reader), segment.end, rules, NO_CHECKS, buffer)
        for step in walk.steps(at, segment.end):
            yield step.rows


def _head(storage: InputStorage, segment: Segment, at: int) -> Any:
    """The bytes at a place as a DLedger head; zeros after the segment's end."""
    raw = np.zeros(layouts.DLEDGER_HEAD_BYTES, np.uint8)
    with closing(storage.open(segment.path, _any_time(segment))) as reader:
        segment.read_by(reader)(at, raw[: segment.end - at])
    return raw.view(layouts.DLEDGER_HEAD)[0]


def _any_time(segment: Segment) -> FileState:
    return segment.state._replace(mtime=ANY_TIME)  # a broker may be writing to it


# ---
# A log without segments, of which queues name what it had.

_READERS = 5  # groups that are named


def emptied(store: Folder, error: EmptyLog) -> StoreError:
    """The error of a log without segments: DamageFound where queues name its messages."""
    past = list(past_end_of(store, 0))
    if not past:
        return error
    offsets = consumer_offsets(store, Notes())
    readers = sorted({group for (group, _), read in offsets.items() if any(read.values())})
    whose = f"1 group has read in it ({readers[0]})" if len(readers) == 1 else (
        f"{len(readers):,} groups have read in it ({', '.join(readers[:_READERS])})"
    )  # fmt: skip
    messages = sum(each.count for each in past if not each.topic.startswith(LMQ_PREFIX))
    return DamageFound(
        f"{error}, but {len(past):,} queues name {messages:,} messages that it had"
        f"{f'; {whose}' if readers else ''}; put its segments back before a broker starts here: it "
        "would delete the queues, and begin at 0"
    )
