"""Reads the log itself, where queues and index do not answer."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from reput.store_format.log.reader import NoRecord, NotInLog, record_of
from reput.store_format.query.opened import OpenedStore
from reput.store_format.query.stored import StoredMessage
from reput.store_format.query.told import Told

if TYPE_CHECKING:
    from reput.store_format.filter.filters import Filter
    from reput.store_format.log.walk import Step

_REPLACED = "\ufffd"  # what Java makes of malformed bytes: the text does not tell the bytes


def needle_of(text: str) -> bytes:
    """Bytes that stand in each record which holds this text; none where that cannot be told."""
    return b"" if _REPLACED in text else text.encode("utf-8", "surrogatepass")


def scan(
    store: OpenedStore, start: int, stop: int, needle: bytes, told: Told,
    chosen: "Filter | None" = None,
) -> Iterator[StoredMessage]:  # fmt: skip
    """The messages at [start, stop) whose records hold `needle` somewhere, in the log's order.

    chosen: only those that it wants. What stands behind damage is not read, up to the segment's
    end: it may be stale. Both are told.
    """
    told.to_scan += max(stop - start, 0)
    with told.watching():
        at = start
        while at < stop:
            try:
                for step in store.log.steps(at, stop):
                    yield from _messages(store, step, needle, chosen)
                    told.scanned += step.next - at
                    at = step.next
                return
            except NoRecord as error:
                told.note(
                    f"{error}; what follows in this segment is not read: `reput check` shows it"
                )
                at = store.log.segment_at(error.place).end
            except NotInLog:
                return


def _messages(
    store: OpenedStore, step: "Step", needle: bytes, chosen: "Filter | None"
) -> Iterator[StoredMessage]:
    rules = store.log.rules
    if chosen is None:
        for number in _rows_with(step, needle):
            yield store.message(record_of(step, number, rules))
        return
    from reput.store_format.filter.rows import Verdict

    verdicts = chosen.judge(step, store.profile.split_properties)
    numbers = _rows_with(step, needle) if needle else np.flatnonzero(verdicts).tolist()
    for number in numbers:
        if verdicts[number] != Verdict.NO:
            message = store.message(record_of(step, number, rules))
            if verdicts[number] == Verdict.YES or message.wanted_by(chosen):
                yield message


def _rows_with(step: "Step", needle: bytes) -> Iterator[int]:
    """The numbers of the rows whose records hold these bytes."""
    if not needle:
        yield from range(len(step.rows))
        return
    starts, raw = step.rows["at"], step.window.tobytes()
    found = raw.find(needle, int(starts[0]))
    while found >= 0:
        number = int(np.searchsorted(starts, found, side="right")) - 1
        yield number
        if number + 1 == len(starts):
            return
        found = raw.find(needle, int(starts[number + 1]))
