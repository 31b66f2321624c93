"""One pass over a log that takes the marks of the records in question, and what ops say."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.fate.marks import FLAWS, MARK, NAMED, OP, mark_records
from reput.store_format.layouts import PROPERTY_END
from reput.store_format.log.reader import LogReader
from reput.store_format.log.walk import Step

Marks = npt.NDArray[Any]
Keep = Callable[[Marks], npt.NDArray[np.bool_]]
Told = Callable[[int], None]  # is told how far the walk is, a physical offset

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
    skipped: list[Skipped]  # the first of them
    skips: int  # how many there are
    start: int  # the log's first physical offset
    last_timestamp: int  # the store time of its last record, 0 without one
    records: int


def gather(
    log: LogReader,
    keep: Keep,
    split: bool,
    stop: int | None = None,
    every: bool = False,
    told: Told | None = None,
) -> Gathered:
    """Walk a log and hold the marks that `keep` says, 96 bytes each.

    split: Profile.split_properties; stop: where the log ends; every: `keep` is asked of records
    of all kinds. Raises NoRecord where the log breaks off.
    """
    marks: list[Marks] = []
    ended: list[Marks] = []
    skipped: list[Skipped] = []
    skips = records = last = 0
    places = np.empty((NAMED, 2), np.int64)
    room = np.zeros(0, MARK)
    for step in log.steps(log.start, stop):
        if len(step.rows) > len(room):
            room = np.zeros(len(step.rows), MARK)
        count = mark_records(step.window, step.rows, split, every, places, room)
        found = room[:count]
        records += len(step.rows)
        last = int(step.rows["storeTimestamp"][-1])
        kept = found[keep(found)]
        if len(kept):
            marks.append(kept)
            flawed = kept[kept["flaws"] != 0]
            ops = kept[kept["kind"] == OP]
            told_by_ops, wrong = _ended(step, ops)
            ended.append(told_by_ops)
            wrong += [each for mark in flawed for each in _flaws(mark)]
            skips += len(wrong)
            skipped += wrong[: SKIPPED_MOST - len(skipped)]
        if told is not None:
            told(step.next)
    return Gathered(
        np.concatenate(marks) if marks else np.zeros(0, MARK),
        np.concatenate(ended) if ended else np.zeros(0, ENDED),
        skipped, skips, log.start, last, records,
    )  # fmt: skip


def _flaws(mark: Any) -> list[Skipped]:
    place, flaws = int(mark["physicalOffset"]), int(mark["flaws"])
    return [Skipped(place, *why) for bit, why in FLAWS.items() if flaws & bit]


def _ended(step: Step, ops: Marks) -> tuple[Marks, list[Skipped]]:
    """The half messages that op messages of a step name, and what in them names none."""
    found, wrong = [], []
    for mark in ops:
        place = int(mark["physicalOffset"])
        row = step.rows[int(np.searchsorted(step.rows["physicalOffset"], place))]
        at = int(row["propertiesAt"])
        properties = step.window[at : at + int(row["propertiesLength"])].tobytes()
        if _REMOVE not in _PAIR_END + properties + _PAIR_END:
            wrong.append(Skipped(place, "TAGS", "of an op message is not d"))
            continue
        if row["bodyElided"]:
            wrong.append(Skipped(place, "body", "of an op message is longer than a window"))
            continue
        at = int(row["bodyAt"])
        offsets, bad = op_offsets(step.window[at : at + int(row["bodyLength"])].tobytes())
        if bad:
            wrong.append(Skipped(place, "body", f"of an op message: {bad} of it are no numbers"))
        if len(offsets):
            named = np.zeros(len(offsets), ENDED)
            named["halfOffset"], named["physicalOffset"] = offsets, place
            named["storeTimestamp"] = mark["storeTimestamp"]
            found.append(named)
    return (np.concatenate(found) if found else np.zeros(0, ENDED)), wrong


def op_offsets(body: bytes) -> tuple[npt.NDArray[np.int64], int]:
    """The queue offsets of half messages in an op message's body, each once, and how many parts
    of it are no numbers.

    Up to 5.0.0 the body is one number, from 5.1.0 on several, each with a comma after it
    (TransactionalMessageServiceImpl.fillOpRemoveMap).
    """
    parts = body.split(b",")
    while parts and not parts[-1]:
        parts.pop()  # Java's split drops empty parts at the end
    numbers = [int(part) for part in parts if _LONG.fullmatch(part)]
    offsets = [number for number in numbers if 0 <= number < 1 << 63]
    return np.unique(np.array(offsets, np.int64)), len(parts) - len(numbers) or int(not parts)
