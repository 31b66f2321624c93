"""What became of each transaction, as far as the log tells.

A transaction is a half message and the copies that the broker appends of it as it asks the
producer (TransactionalMessageServiceImpl.check: putBackHalfMsgQueue, and
putImmunityMsgBackToHalfQueue within the immunity time). It ends

- by a record with the commit type, whose preparedTransactionOffset is the half message's place
  (EndTransactionProcessor.endMessageTransaction);
- by a record in TRANS_CHECK_MAX_TIME_TOPIC (resolveDiscardMsg);
- by an op message that names its queue offset. Op messages follow commits and rollbacks alike; as
  a committed record stands before its op message, an op message without one means a rollback.

From 5.1.0 on a broker collects ops for some seconds. Meanwhile it may check and discard a
transaction that the producer has ended: then what the producer decided counts.

From 5.4.0 on RocksDB may hold what is pending (transRocksDBEnable); the log shows it too. Such half
messages stand in a topic of their own and are never appended again. Their op messages name their
places in the log (TransMessageRocksDBStore). Only RocksDB knows how often a half message was
checked. If that was too often, the row there is deleted, without a record in the log
(TransactionalMessageRocksDBService).

Before 4.3.0 there were no such topics: a record with the prepared type stood in its own topic,
and a record with the commit or the rollback type followed.
"""

from collections import deque
from collections.abc import Iterator
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format import layouts
from reput.store_format.fate.gather import (
    DISCARDED,
    HALF,
    NONE,
    OP,
    OTHER,
    ROCKSDB_HALF,
    ROCKSDB_OP,
    Gathered,
    Marks,
)
from reput.store_format.rocksdb.rows import HalfRows

Numbers = npt.NDArray[np.int64]


class TransactionState(StrEnum):
    """How a transaction stands where the log ends."""

    PENDING = "pending"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    DISCARDED = "discarded"
    ABANDONED = "abandoned"  # not ended, and the broker has gone past it: it will not be checked


STATES = tuple(TransactionState)
PENDING, _COMMITTED, _ROLLED_BACK, _DISCARDED, _ABANDONED = range(len(STATES))
# by commit, rollback, op, discard, and how far the broker has checked: the first that there is
_BY_END = _COMMITTED, _ROLLED_BACK, _ROLLED_BACK, _DISCARDED, _ABANDONED


class Transaction(NamedTuple):
    state: TransactionState
    first: int  # physical offset of the half message
    last: int  # physical offset of its newest copy; the half message's own without a copy
    half_offset: int  # the queue offset of the record at `last`
    copies: int  # how often the broker has appended the half message again
    checks: int  # TRANSACTION_CHECK_TIMES: it counts during the immunity time too (#8311)
    end: int  # physical offset of the record that ended it, NONE without one
    op: int  # of the op message that names it, NONE without one
    key: int = 0  # hash of UNIQ_KEY (gather.hash_text), 0 without one
    # Queue offsets of half message and copies in RMQ_SYS_TRANS_HALF_TOPIC that no op names.
    open_offsets: tuple[int, ...] = ()
    in_rocksdb: bool = False  # its half message is in RocksDB's topic
    own_topic: bool = False  # before 4.3.0: it stands in its own topic, where no service ends it


def concerns(marks: Marks) -> npt.NDArray[np.bool_]:
    own: npt.NDArray[np.bool_] = np.isin(
        marks["kind"], (HALF, OP, DISCARDED, ROCKSDB_HALF, ROCKSDB_OP)
    )
    own |= marks["transaction"] != 0
    return own


# The same as a row, without the last three; state: its number in STATES.
_PLACES = ("first", "last", "halfOffset", "copies", "checks", "end", "op")
TRANSACTION = np.dtype(
    [("state", "u1"), *((each, "<i8") for each in _PLACES), ("key", "<u8"), ("kind", "u1")]
)
_FAR = np.iinfo(np.int64).max


def resolve(
    gathered: Gathered, half_position: int = 0, in_rocksdb: HalfRows | None = None
) -> Iterator[Transaction]:
    """The transactions that `judged` has, as objects."""
    rows, numbers, opens = judged(gathered, half_position, in_rocksdb)
    bounds = np.searchsorted(numbers, np.arange(len(rows) + 1)).tolist()
    offsets = opens.tolist()
    for (state, *row, kind), (start, stop) in zip(rows.tolist(), pairwise(bounds), strict=True):
        of_kind = tuple(offsets[start:stop]), kind == ROCKSDB_HALF, kind == OTHER
        yield Transaction._make((STATES[state], *row, *of_kind))


def judged(
    gathered: Gathered, half_position: int = 0, in_rocksdb: HalfRows | None = None
) -> tuple[Marks, Numbers, Numbers]:
    """(TRANSACTION of all whose half message the log has, by the half messages' places; for each
    open offset the number of its row; the open offsets)

    half_position: up to where the broker has checked the queue of half messages; the offset of
    the group CID_RMQ_SYS_TRANS. in_rocksdb: RocksDB's rows of the half messages in its topic; None:
    not known. Holds what was gathered, and some numbers a half message.
    """
    marks = gathered.marks
    prepared = (marks["kind"] == OTHER) & (marks["transaction"] == layouts.SYS_TRANSACTION_PREPARED)
    halves = marks[np.isin(marks["kind"], (HALF, ROCKSDB_HALF)) | prepared]
    commits, backs = (
        _by_place(halves, marks[(marks["transaction"] == each) & (marks["kind"] != HALF)])
        for each in (layouts.SYS_TRANSACTION_COMMIT, layouts.SYS_TRANSACTION_ROLLBACK)
    )
    _by_key(halves, marks[marks["transaction"] == layouts.SYS_TRANSACTION_COMMIT], commits)
    ops = np.maximum(
        _by_op(halves, gathered.ended), _by_place(halves, marks[marks["kind"] == ROCKSDB_OP])
    )
    dropped = np.full(len(halves), NONE, np.int64)
    _by_key(halves, marks[marks["kind"] == DISCARDED], dropped)
    firsts = _firsts(halves, (ops != NONE) | (commits != NONE))
    order = np.argsort(firsts, kind="stable")
    heads, starts, counts = np.unique(firsts[order], return_index=True, return_counts=True)
    last, found = halves[order[starts + counts - 1]], np.zeros(len(heads), TRANSACTION)
    found["first"], found["last"] = halves["physicalOffset"][heads], last["physicalOffset"]
    found["halfOffset"], found["key"], found["kind"] = (
        last[name] for name in ("queueOffset", "key", "kind")
    )
    found["copies"], own = counts - 1, last["kind"] == HALF
    found["checks"] = np.maximum.reduceat(halves["checks"][order], starts)
    ends = [_least(each[order], starts) for each in (commits, backs, ops, dropped)]
    had = [each != NONE for each in ends]
    found["op"], found["end"] = ends[2], np.select(had, ends, NONE)
    had.append(own & (last["queueOffset"] < half_position))
    found["state"] = np.select(had, _BY_END, PENDING)
    if in_rocksdb is not None:
        _by_rows(found, in_rocksdb)
    numbers = np.repeat(np.arange(len(heads)), counts)
    opens = own[numbers] & (ops[order] == NONE)
    return found, numbers[opens], halves["queueOffset"][order[opens]]


def _by_rows(found: Marks, rows: HalfRows) -> None:
    """Give transactions of RocksDB's topic their rows' checks; abandoned is one without a row."""
    theirs = np.flatnonzero(found["kind"] == ROCKSDB_HALF)
    for number, first in zip(theirs.tolist(), found["first"][theirs].tolist(), strict=True):
        checks = rows.checks.get(first)
        if checks is not None:
            found["checks"][number] = checks
        elif found["state"][number] == PENDING and first <= rows.last:
            found["state"][number] = _ABANDONED


def _least(ends: Numbers, starts: Numbers) -> Numbers:
    found = np.minimum.reduceat(np.where(ends == NONE, _FAR, ends), starts)
    return np.where(found == _FAR, NONE, found)


def _by_place(halves: Marks, ends: Marks) -> Numbers:
    """For each half message the place of the record that names its place, or NONE."""
    found = np.full(len(halves), NONE, np.int64)
    if len(halves):
        at = np.searchsorted(halves["physicalOffset"], ends["prepared"])
        at = np.minimum(at, len(halves) - 1)
        same = (halves["physicalOffset"][at] == ends["prepared"]) & (
            halves["key"][at] == ends["key"]
        )
        # backwards, so that the first record stays
        found[at[same][::-1]] = ends["physicalOffset"][same][::-1]
    return found


def _by_key(halves: Marks, ends: Marks, found: Numbers) -> None:
    """Add to `found` the places of `ends`, each at the newest half message before with its key.

    Nothing is added for a UNIQ_KEY of which a half message has an end in `found` already.
    """
    ended = np.unique(halves["key"][found != NONE])
    ends = ends[(ends["key"] != 0) & ~np.isin(ends["key"], ended)]
    ends = ends[np.isin(ends["key"], halves["key"])]
    if not len(ends):
        return
    named = newest_before(halves["key"], halves["physicalOffset"], ends["key"], ends)
    good = named != NONE
    found[named[good][::-1]] = ends["physicalOffset"][good][::-1]


def _by_op(halves: Marks, ended: Marks) -> Numbers:
    """For each half message the place of the op message that names its queue offset, or NONE.

    The queue offsets of a store may begin anew, so an op names the newest half message before it.
    """
    found = np.full(len(halves), NONE, np.int64)
    own = np.flatnonzero(halves["kind"] == HALF)
    if len(own) and len(ended):
        named = newest_before(
            halves["queueOffset"][own], halves["physicalOffset"][own], ended["halfOffset"], ended
        )
        good = named != NONE
        found[own[named[good]][::-1]] = ended["physicalOffset"][good][::-1]
    return found


def newest_before(what: Any, places: Any, named: Any, later: Marks) -> Numbers:
    """For each of `later` the last index of `places` before it with what it names, or NONE."""
    both = np.concatenate([what, named])
    order = np.lexsort((np.concatenate([places, later["physicalOffset"]]), both))
    many = len(what)
    # the last of `what` up to here, in that order; it must have the same value
    at = np.where(order < many, np.arange(len(order)), -1)
    newest = order[np.maximum(np.maximum.accumulate(at), 0)]
    good = (np.maximum.accumulate(at) >= 0) & (both[newest] == both[order])
    found = np.full(len(order), NONE, np.int64)
    found[order] = np.where(good, newest, NONE)
    return found[many:]


def _firsts(halves: Marks, ended: npt.NDArray[np.bool_]) -> Numbers:
    """For each half message and copy the index of the half message of its transaction.

    A copy has the UNIQ_KEY of the half message and counts one check more than the record it was
    made of. A producer that sends again after a timeout makes a second half message with the same
    UNIQ_KEY and no checks. Both half messages may then have copies, made in the queue's order.
    """
    found = np.arange(len(halves))
    order = np.argsort(halves["key"], kind="stable")
    keys = halves["key"][order]
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))[: len(keys)]
    stops = np.append(starts[1:], len(keys))[: len(keys)]
    several = (stops - starts > 1) & (keys[starts] != 0)
    if several.any():
        numbers, ends = halves[["checks", "prepared", "queueOffset"]].tolist(), ended.tolist()
        for start, stop in zip(starts[several].tolist(), stops[several].tolist(), strict=True):
            for chain in _of_one_key(numbers, order[start:stop].tolist(), ends):
                found[chain] = chain[0]
    return found


class _Heads:
    """The chains of one key by the checks that their newest record counts, oldest first."""

    def __init__(self) -> None:
        self._by_checks: dict[int, deque[tuple[list[int], int]]] = {}

    def add(self, checks: int, chain: list[int]) -> None:
        self._by_checks.setdefault(checks, deque()).append((chain, len(chain)))

    def take(self, checks: int) -> list[int] | None:
        """The oldest chain whose newest record counts these checks."""
        heads = self._by_checks.get(checks, deque())
        while heads:
            chain, length = heads.popleft()
            if len(chain) == length:  # it has not grown since
                return chain
        return None


def _of_one_key(
    numbers: list[tuple[int, int, int]], group: list[int], ended: list[bool]
) -> list[list[int]]:
    """The chains of one UNIQ_KEY. Each record is looked at once, as a store may be hostile.

    numbers: checks, prepared and queueOffset of each half message.
    """
    chains: list[list[int]] = []
    by_offset: dict[int, list[int]] = {}  # by the queue offset of the half message
    open_heads, ended_heads = _Heads(), _Heads()
    for i in group:
        checks, named, offset = numbers[i]
        chain = None
        if checks > 0:
            # a copy made within the immunity time names its half message; any other copy is rather
            # of a half message that has not ended
            chain = by_offset.get(named) if named != NONE else None
            chain = chain or open_heads.take(checks - 1) or ended_heads.take(checks - 1)
            if chain is None and len(chains) == 1:
                chain = chains[0]
        if chain is None:
            chain = []
            chains.append(chain)
            by_offset[offset] = chain
        chain.append(i)
        (ended_heads if ended[i] else open_heads).add(checks, chain)
    return chains
