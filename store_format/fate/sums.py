"""Counts transactions and delayed messages by their state at the log's end, in one pass over it."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.fate import delays, transactions
from reput.store_format.fate.broker_files import half_position, read_progress
from reput.store_format.fate.fate_rows import (
    ENDED,
    OPEN,
    DelayedRow,
    TransactionRow,
    delayed_row,
    gather_noted,
    level_delays,
    note_no_offsets,
    note_skipped,
    transaction_row,
)
from reput.store_format.fate.gather import Gathered, Marks
from reput.store_format.fate.rocksdb_rows import half_rows, with_timers
from reput.store_format.notes import Notes
from reput.store_format.query.reader import OpenedStore


class FateSums(NamedTuple):
    """Counts by state, and the first that have not ended well.

    delayed: by ("level" or "timer", state). last_timestamp: of the log's last record, milliseconds.
    """

    transactions: dict[str, int]
    open_transactions: list[TransactionRow]
    delayed: dict[tuple[str, str], int]
    open_delayed: list[DelayedRow]
    last_timestamp: int


def fate_sums(store: OpenedStore, most: int, notes: Notes) -> FateSums:
    """Count all, and list at most `most` of each kind that are open.

    Open are those that `reput transactions` and `reput delayed` list without --all. Raises
    StoreError where the store's files cannot be read.
    """
    read, levels = read_progress(store.storage, store.path, notes), level_delays(store, notes)
    position = half_position(store.storage, store.path, notes)
    gathered = gather_noted(store, _concerns, notes)
    read = with_timers(store, gathered, read, notes)
    rows = half_rows(store, gathered, notes)
    of_delays = _only(gathered, delays.concerns(gathered.marks))
    note_skipped(delays.unread(of_delays, levels), None, notes)
    now = gathered.last_timestamp
    states: dict[str, int] = {}
    open_transactions: list[TransactionRow] = []
    for found in transactions.resolve(
        _only(gathered, transactions.concerns(gathered.marks)), position, rows
    ):
        states[found.state] = states.get(found.state, 0) + 1
        if found.state in OPEN and len(open_transactions) < most:
            open_transactions.append(transaction_row(store, found, now))
    delayed: dict[tuple[str, str], int] = {}
    open_delayed: list[DelayedRow] = []
    for each in delays.resolve(of_delays, levels, read):
        by = "level" if each.level else "timer"
        delayed[by, each.state] = delayed.get((by, each.state), 0) + 1
        if each.state not in ENDED and len(open_delayed) < most:
            open_delayed.append(delayed_row(store, each, now))
    if read.levels is None and any(by == "level" and state not in ENDED for by, state in delayed):
        note_no_offsets(store, notes)
    return FateSums(states, open_transactions, delayed, open_delayed, now)


def _concerns(marks: Marks) -> npt.NDArray[np.bool_]:
    return transactions.concerns(marks) | delays.concerns(marks)


def _only(gathered: Gathered, wanted: npt.NDArray[np.bool_]) -> Gathered:
    return gathered._replace(marks=gathered.marks[wanted])
