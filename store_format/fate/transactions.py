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
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

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
from reput.store_format.layouts import (
    SYS_TRANSACTION_COMMIT,
    SYS_TRANSACTION_PREPARED,
    SYS_TRANSACTION_ROLLBACK,
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
    """Which marks are of transactions."""
    own: npt.NDArray[np.bool_] = np.isin(
        marks["kind"], (HALF, OP, DISCARDED, ROCKSDB_HALF, ROCKSDB_OP)
    )
    own |= marks["transaction"] != 0
    return own


def resolve(
    gathered: Gathered, half_position: int = 0, in_rocksdb: HalfRows | None = None
) -> Iterator[Transaction]:
    """All transactions whose half message the log has, by the half messages' places.

    half_position: up to where the broker has checked the queue of half messages; the offset of
    the group CID_RMQ_SYS_TRANS. in_rocksdb: RocksDB's rows of the half messages in its topic; None:
    not known. Holds what was gathered, and some numbers a half message.
    """
    marks = gathered.marks
    prepared = (marks["kind"] == OTHER) & (marks["transaction"] == SYS_TRANSACTION_PREPARED)
    halves = marks[np.isin(marks["kind"], (HALF, ROCKSDB_HALF)) | prepared]
    commits, backs = (
        _by_place(halves, marks[(marks["transaction"] == each) & (marks["kind"] != HALF)])
        for each in (SYS_TRANSACTION_COMMIT, SYS_TRANSACTION_ROLLBACK)
    )
    _by_key(halves, marks[marks["transaction"] == SYS_TRANSACTION_COMMIT], commits)
    ops = np.maximum(
        _by_op(halves, gathered.ended), _by_place(halves, marks[marks["kind"] == ROCKSDB_OP])
    )
    dropped = np.full(len(halves), NONE, np.int64)
    _by_key(halves, marks[marks["kind"] == DISCARDED], dropped)
    for chain in _chains(halves, ops, commits):
        found = _transaction(halves, chain, commits, backs, ops, dropped, half_position)
        if found.in_rocksdb and in_rocksdb is not None:
            found = _by_row(found, in_rocksdb)
        yield found


def _by_row(found: Transaction, rows: HalfRows) -> Transaction:
    """A transaction of RocksDB's topic with its row's checks; abandoned if its row is gone."""
    checks = rows.checks.get(found.first)
    if checks is not None:
        return found._replace(checks=checks)
    if found.state == TransactionState.PENDING and found.first <= rows.last:
        return found._replace(state=TransactionState.ABANDONED)
    return found


def _transaction(
    halves: Marks, chain: list[int], commits: Numbers, backs: Numbers, ops: Numbers,
    dropped: Numbers, half_position: int,
) -> Transaction:  # fmt: skip
    last = halves[chain[-1]]
    offset, kind = int(last["queueOffset"]), int(last["kind"])
    own = kind == HALF
    commit, back, op, drop = (_first(each, chain) for each in (commits, backs, ops, dropped))
    if commit != NONE:
        state, end = TransactionState.COMMITTED, commit
    elif back != NONE:
        state, end = TransactionState.ROLLED_BACK, back
    elif op != NONE:
        state, end = TransactionState.ROLLED_BACK, op
    elif drop != NONE:
        state, end = TransactionState.DISCARDED, drop
    else:
        gone = own and offset < half_position
        state, end = TransactionState.ABANDONED if gone else TransactionState.PENDING, NONE
    return Transaction(
        state, int(halves["physicalOffset"][chain[0]]), int(last["physicalOffset"]), offset,
        len(chain) - 1, max(int(halves["checks"][i]) for i in chain), end, op, int(last["key"]),
        tuple(int(halves["queueOffset"][i]) for i in chain if own and ops[i] == NONE),
        kind == ROCKSDB_HALF, kind == OTHER,
    )  # fmt: skip


def _first(ends: Numbers, chain: Iterable[int]) -> int:
    return min((int(ends[i]) for i in chain if ends[i] != NONE), default=NONE)


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


def _chains(halves: Marks, ops: Numbers, commits: Numbers) -> Iterator[list[int]]:
    """The indices of each transaction's half message and its copies, in the log's order.

    A copy has the UNIQ_KEY of the half message and counts one check more than the record it was
    made of. A producer that sends again after a timeout makes a second half message with the same
    UNIQ_KEY and no checks. Both half messages may then have copies, made in the queue's order.
    """
    order = np.lexsort((halves["physicalOffset"], halves["key"]))
    keys = halves["key"][order]
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))[: len(keys)]
    stops = np.append(starts[1:], len(keys))[: len(keys)]
    chains: list[list[int]] = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        group = order[start:stop].tolist()
        if keys[start] == 0:
            chains += [[i] for i in group]
        elif len(group) == 1:
            chains.append(group)
        else:
            chains += _of_one_key(halves, group, (ops != NONE) | (commits != NONE))
    chains.sort(key=lambda chain: chain[0])
    yield from chains


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


def _of_one_key(halves: Marks, group: list[int], ended: Any) -> list[list[int]]:
    """The chains of one UNIQ_KEY. Each record is looked at once, as a store may be hostile."""
    chains: list[list[int]] = []
    by_offset: dict[int, list[int]] = {}  # by the queue offset of the half message
    open_heads, ended_heads = _Heads(), _Heads()
    for i in group:
        checks, named = int(halves["checks"][i]), int(halves["prepared"][i])
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
            by_offset[int(halves["queueOffset"][i])] = chain
        chain.append(i)
        (ended_heads if ended[i] else open_heads).add(checks, chain)
    return chains
