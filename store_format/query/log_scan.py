"""Reads the log itself, for messages that queues and index do not have."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from reput.store_format.log.reader import NoRecord, NotInLog, record_of, records_of
from reput.store_format.notes import Notes
from reput.store_format.query.opened_store import OpenedStore
from reput.store_format.query.stored_message import StoredMessage

if TYPE_CHECKING:
    from reput.store_format.filter.filters import Filter
    from reput.store_format.filter.rows import Verdicts
    from reput.store_format.log.walk import Step

_REPLACED = "\ufffd"  # Java's text for malformed bytes, which the text does not tell


def needle_of(text: str) -> bytes:
    """The bytes of this text in any record; empty if they are not known."""
    return b"" if _REPLACED in text else text.encode("utf-8", "surrogatepass")


def scan(
    store: OpenedStore, start: int, stop: int, needle: bytes, notes: Notes,
    chosen: "Filter | None" = None,
) -> Iterator[StoredMessage]:  # fmt: skip
    """The messages in [start, stop) whose records contain `needle`, in the log's order.

    chosen: only messages that this filter wants. Damage is noted. What follows it, up to the
    segment's end, is not read: it may be stale.
    """
    notes.to_scan += max(stop - start, 0)
    with notes.watching():
        at = start
        while at < stop:
            try:
                for step, verdicts in _steps(store, at, stop, chosen):
                    yield from _messages(store, step, verdicts, needle, chosen)
                    notes.scanned += step.next - at
                    at = step.next
                return
            except NoRecord as error:
                notes.note(
                    f"{error}; what follows in this segment is not read: `reput check` shows it"
                )
                at = store.log.segment_at(error.place).end
            except NotInLog:
                return


def _steps(
    store: OpenedStore, at: int, stop: int, chosen: "Filter | None"
) -> Iterator[tuple["Step", "Verdicts | None"]]:
    """The log's steps, with the filter's verdicts on their rows."""
    if chosen is None:
        for step in store.log.steps(at, stop):
            yield step, None
        return
    from reput.store_format.query.all_cores import judged_steps

    judge = partial(chosen.judge, split_properties=store.profile.split_properties)
    yield from judged_steps(store.log, at, stop, judge)


def _messages(
    store: OpenedStore, step: "Step", verdicts: "Verdicts | None", needle: bytes,
    chosen: "Filter | None",
) -> Iterator[StoredMessage]:  # fmt: skip
    if verdicts is None or chosen is None:
        for number in _rows_with(step, needle):
            yield store.message(record_of(step, number, store.log.rules))
        return
    from reput.store_format.filter.rows import Match

    numbers = np.flatnonzero(verdicts != Match.NO)
    if needle:
        numbers = np.intersect1d(numbers, np.array(list(_rows_with(step, needle)), np.int64))
    sure = (verdicts[numbers] == Match.YES).tolist()
    messages = map(store.message, records_of(step, numbers, store.log.rules))
    for message, yes in zip(messages, sure, strict=True):
        if yes or message.wanted_by(chosen):
            yield message


def _rows_with(step: "Step", needle: bytes) -> Iterator[int]:
    """The numbers of the rows whose records contain these bytes."""
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
