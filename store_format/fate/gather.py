"""One pass over a log: takes the marks of the records in question, and what op messages name."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.fate.marks import FLAWS, MARK, NAMED, OP, mark_records
from reput.store_format.layouts import PROPERTY_END
from reput.store_format.log.reader import LogReader, NoRecord
from reput.store_format.log.walk import Step

Marks = npt.NDArray[Any]
Keep = Callable[[Marks], npt.NDArray[np.bool_]]
Watch = Callable[[int], None]  # gets how far the walk has come, a physical offset

# One half message that an op message names.
ENDED = np.dtype([("halfOffset", "<i8"), ("physicalOffset", "<i8"), ("storeTimestamp", "<i8")])
SKIPPED_MOST = 1000
_LONG = re.compile(rb"[+-]?[0-9]{1,19}")
_REMOVE = b"\x02TAGS\x01d\x02"  # TransactionalMessageUtil.REMOVE_TAG
_PAIR_END = bytes([PROPERTY_END])


class Skipped(NamedTuple):
    """A value that cannot be what it should be; the value itself is not shown."""

    physical_offset: int
    field: str
    reason: str

    def __str__(self) -> str:
        return f"physical {self.physical_offset}: {self.field} {self.reason}"


class Gathered(NamedTuple):
    """What a pass has taken from a log."""

    marks: Marks  # MARK, in the log's order
    ended: npt.NDArray[Any]  # ENDED, in the log's order
    skipped: list[Skipped]  # the first skipped values
    skips: int  # how many were skipped
    last_timestamp: int  # the store time of the log's last record, 0 without one
    breaks: list[NoRecord]  # where records break off: the segment is not read from there on
    unread_to: int  # where the last such segment ends, 0 without one


class _Taken:
    """What a pass has taken so far."""

    def __init__(self, keep: Keep, split: bool, every: bool) -> None:
        self._keep, self._split, self._every = keep, split, every
        self.marks, self.ended = [np.zeros(0, MARK)], [np.zeros(0, ENDED)]
        self.skipped: list[Skipped] = []
        self.skips = self.last = 0
        self._places = np.empty((NAMED, 2), np.int64)
        self._room = np.zeros(0, MARK)

    def add(self, step: Step) -> None:
        if len(step.rows) > len(self._room):
            self._room = np.zeros(len(step.rows), MARK)
        count = mark_records(
            step.window, step.rows, self._split, self._every, self._places, self._room
        )
        found = self._room[:count]
        kept = found[self._keep(found)]
        self.last = int(step.rows["storeTimestamp"][-1])
        if not len(kept):
            return
        named, wrong = _ended(step, kept[kept["kind"] == OP])
        wrong += [each for mark in kept[kept["flaws"] != 0] for each in _flaws(mark)]
        self.marks.append(kept)
        self.ended.append(named)
        self.skips += len(wrong)
        self.skipped += wrong[: SKIPPED_MOST - len(self.skipped)]


def gather(
    log: LogReader, keep: Keep, split: bool, every: bool = False, seen: Watch | None = None
) -> Gathered:
    """Walk a log and hold the marks that `keep` chooses, 96 bytes each.

    split: Profile.split_properties; every: `keep` chooses among all records; seen: is called with
    the physical offset that the walk has reached.
    """
    taken, breaks, at, unread_to = _Taken(keep, split, every), [], log.start, 0
    while at < log.end:
        try:
            for step in log.steps(at):
                taken.add(step)
                if seen is not None:
                    seen(step.next)
            break
        except NoRecord as error:
            breaks.append(error)
            at = unread_to = log.segment_at(error.place).end
    return Gathered(
        np.concatenate(taken.marks), np.concatenate(taken.ended), taken.skipped, taken.skips,
        taken.last, breaks, unread_to,
    )  # fmt: skip


def _flaws(mark: Any) -> list[Skipped]:
    place, flaws = int(mark["physicalOffset"]), int(mark["flaws"])
    return [Skipped(place, *why) for bit, why in FLAWS.items() if flaws & bit]


def _ended(step: Step, ops: Marks) -> tuple[Marks, list[Skipped]]:
    """The half messages that op messages of a step name, and the values that name none."""
    found, wrong = [np.zeros(0, ENDED)], []
    for mark in ops:
        place = int(mark["physicalOffset"])
        row = step.rows[int(np.searchsorted(step.rows["physicalOffset"], place))]
        at, body_at = int(row["propertiesAt"]), int(row["bodyAt"])
        properties = step.window[at : at + int(row["propertiesLength"])].tobytes()
        if row["bodyElided"]:
            wrong.append(Skipped(place, "body", "of an op message is longer than a window"))
            continue
        body = step.window[body_at : body_at + int(row["bodyLength"])].tobytes()
        named, bad = named_by_op(place, int(mark["storeTimestamp"]), properties, body)
        found.append(named)
        wrong += bad
    return np.concatenate(found), wrong


def named_by_op(
    place: int, store_timestamp: int, properties: bytes, body: bytes
) -> tuple[Marks, list[Skipped]]:
    """The half messages (ENDED) that one op message names, and the values that name none."""
    if _REMOVE not in _PAIR_END + properties + _PAIR_END:
        return np.zeros(0, ENDED), [Skipped(place, "TAGS", "of an op message is not d")]
    offsets, bad = op_offsets(body)
    named = np.zeros(len(offsets), ENDED)
    named["halfOffset"], named["physicalOffset"] = offsets, place
    named["storeTimestamp"] = store_timestamp
    reason = f"of an op message: {bad} of its parts are no numbers"
    return named, [Skipped(place, "body", reason)] if bad else []


def op_offsets(body: bytes) -> tuple[npt.NDArray[np.int64], int]:
    """The queue offsets of half messages in an op message's body, each once, and how many parts
    of the body are no numbers.

    Up to 5.0.0 the body is one number, from 5.1.0 on several, each with a comma after it
    (TransactionalMessageServiceImpl.fillOpRemoveMap).
    """
    parts = body.split(b",")
    while parts and not parts[-1]:
        parts.pop()  # Java's split drops empty parts at the end
    numbers = [int(part) for part in parts if _LONG.fullmatch(part)]
    offsets = [number for number in numbers if 0 <= number < 1 << 63]
    return np.unique(np.array(offsets, np.int64)), len(parts) - len(numbers) or int(not parts)
