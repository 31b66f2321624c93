"""Ends pending transactions by the user's decisions, as EndTransactionProcessor and
TransactionalMessageServiceImpl do.

A commit puts the message into its real topic, a rollback puts nothing. An op message then names the
half message, so that no broker asks about it. A half message that was checked transactionCheckMax
times is put into TRANS_CHECK_MAX_TIME_TOPIC, as check() does it, and gets no op message. At last
config/consumerOffset.json says up to where the queue of half messages is done (CID_RMQ_SYS_TRANS):
a broker discards half messages older than fileReservedTime before it has read all op messages.

After a kill the log shows what was done: the next run adds op messages that are missing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from reput.broker.services.files import integer_key, read_offsets, write_json
from reput.broker.writer.copies import properties_of, put_again, stored_at, text_of
from reput.broker.writer.writer import AppendResult, CommitLogWriter
from reput.store_format.fate.gather import hash_text
from reput.store_format.fate.transactions import Transaction, TransactionState
from reput.store_format.faults import StoreError
from reput.store_format.layouts import SYS_TRANSACTION_COMMIT
from reput.store_format.log.reader import LogReader
from reput.store_format.log.record import Record
from reput.store_format.message import message
from reput.store_format.message.refusals import NotPrepared, Refused, Unavailable
from reput.store_format.names import CONFIG, OFFSETS
from reput.store_format.query.reader import OpenedStore

# ---
# Decisions to commit or roll back transactions: one for all, or a file with a line for each.

_LINES_MOST = 10_000_000
_SHOWN = 60


class Outcome(StrEnum):
    COMMIT = "commit"
    ROLLBACK = "rollback"


class Decisions(NamedTuple):
    """default: for transactions that are not named; None: they stay as they are.
    named: by UNIQ_KEY, or by the half message's physical offset.
    """

    default: Outcome | None
    named: Mapping[str | int, Outcome]


def read_decisions(name: str, text: str) -> Decisions:
    """The decisions of a file: lines `UNIQ_KEY commit`, or `PHYSICAL_OFFSET rollback`.

    Empty lines and lines that begin with `#` are left out. A name of at most 20 decimal digits,
    which is shorter than a UNIQ_KEY, is a physical offset. Raises StoreError, which names file,
    line and field.
    """
    found: dict[str | int, Outcome] = {}
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{name}: line {number}"
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if number > _LINES_MOST:
            raise StoreError(f"{where}: more than {_LINES_MOST} lines")
        if len(words) != 2:
            raise StoreError(f"{where}: {len(words)} words; expected `UNIQ_KEY commit`")
        try:
            decision = Outcome(words[1].lower())
        except ValueError:
            raise StoreError(
                f"{where}: decision {words[1][:_SHOWN]!r}: expected commit or rollback"
            ) from None
        whole = words[0].isascii() and words[0].isdigit() and len(words[0]) <= 20
        key = int(words[0]) if whole else words[0]
        if found.setdefault(key, decision) != decision:
            raise StoreError(f"{where}: {words[0][:_SHOWN]!r} was decided otherwise before")
    return Decisions(None, found)


# ---
# Transactions as the broker does them: through the half and the op topic.
#
# TransactionalMessageBridge.putHalfMessage, EndTransactionProcessor.endMessageTransaction,
# TransactionalMessageServiceImpl.deletePrepareMessage. Only a broker checks back half messages that
# were never ended.

_OP_MAP_CAPACITY = 16  # of Message's own map: no client has sent an op message
_REMOVE_TAG = "d"  # TransactionalMessageUtil.REMOVE_TAG
_REAL_PLACE = ("REAL_TOPIC", "REAL_QID")
_NO_REAL_PLACE = (*_REAL_PLACE, "TRAN_MSG")


class Transactions:
    """Ends the half messages of a writer's store."""

    def __init__(self, writer: CommitLogWriter) -> None:
        self.writer = writer

    def put_committed(self, half: Record, properties: Mapping[str, str]) -> AppendResult:
        """Append a half message to its real queue (EndTransactionProcessor.endMessageTransaction).

        properties: what `copies.properties_of` read. Raises Refused, WriterFailed.
        """
        # Up to 5.3.4 the broker makes the property text before it removes REAL_TOPIC, so a
        # committed message keeps it. The text is made anew only for a message with a delay.
        left_out = () if self.writer.profile.commit_keeps_place else _REAL_PLACE
        text = text_of(self.writer, {n: v for n, v in properties.items() if n not in left_out})
        place = properties["REAL_TOPIC"], int(properties["REAL_QID"])
        kept = {n: v for n, v in properties.items() if n not in _NO_REAL_PLACE}
        topic, queue_id = self.writer.encoder.place(*place, kept)
        if (topic, queue_id) != place:
            text = text_of(self.writer, kept)
        return put_again(
            self.writer, half, topic, queue_id, text, SYS_TRANSACTION_COMMIT, half.physical_offset
        )

    def end(self, queue_id: int, half_offsets: Sequence[int]) -> AppendResult:
        """Append the op message that ends half messages of a queue, by their queue offsets.

        half_offsets: one alone up to 5.0.0. Raises WriterFailed.
        """
        writer = self.writer
        rules = writer.profile
        comma = "," if rules.op_message_lists else ""
        op = message.Message(
            topic=message.OP_TOPIC,
            queue_id=queue_id,
            body="".join(f"{offset}{comma}" for offset in half_offsets).encode(),
            properties=message.encode_properties(
                {"TAGS": _REMOVE_TAG, "WAIT": "true"}, _OP_MAP_CAPACITY, rules.property_text_ends
            ),
            wait=False,
        )
        return writer.put(writer.encoder.draft(op))


_OFFSETS_FILE = f"{CONFIG}/{OFFSETS}"
# ConsumerOffsetManager's key of the group that checks
_CHECKER = f"{message.HALF_TOPIC}@CID_RMQ_SYS_TRANS"
_ENDED = {
    TransactionState.COMMITTED: Outcome.COMMIT,
    TransactionState.ROLLED_BACK: Outcome.ROLLBACK,
}
# no broker asks about these any more
_GIVEN_UP = (TransactionState.DISCARDED, TransactionState.ABANDONED)


class ResolutionPlan(NamedTuple):
    """What is to be done, in the log's order, and the other transactions found."""

    commits: list[Transaction]
    rollbacks: list[Transaction]
    discards: list[Transaction]
    unfinished: list[Transaction]  # ended already, but an op message is missing
    undecided: list[Transaction]  # stay pending
    given_up: int  # discarded or abandoned by a broker, and not ended here
    ended_otherwise: list[str]  # names whose transaction has ended otherwise than decided
    half_position: int  # queueOffset up to which the broker has checked half messages
    behind: bool  # whether that position can move, though nothing else is to be done

    @property
    def needed(self) -> bool:
        return bool(
            self.commits or self.rollbacks or self.discards or self.unfinished or self.behind
        )


class Resolved(NamedTuple):
    """What was done. Counts are of transactions."""

    committed: int
    rolled_back: int
    discarded: int
    finished: int
    refused: list[str]


def plan_resolution(
    log: LogReader, found: Iterable[Transaction], decisions: Decisions, discarded: bool,
    checks_most: int, half_position: int, split: bool,
) -> ResolutionPlan:  # fmt: skip
    """The plan for the transactions that `fate.transactions.resolve` has found.

    discarded: also decide those that a broker has given up, or would discard now.
    checks_most: transactionCheckMax. half_position: queueOffset up to which the broker has checked.
    Raises StoreError for a name that no transaction has, or that two have.
    """
    plan = ResolutionPlan([], [], [], [], [], 0, [], half_position, False)
    names = _Names(log, decisions, split)
    given_up, behind = 0, False
    for each in found:
        if each.own_topic:
            names.tell_of(each)  # before 4.3.0: no broker's service ends it any more
            continue
        named = names.decision(each)
        decision = named or decisions.default
        if each.state in _ENDED:
            if named not in (None, _ENDED[each.state]):
                plan.ended_otherwise.append(f"physical {each.first}: is {each.state}: it stays so")
            if any(offset >= half_position for offset in each.open_offsets):
                plan.unfinished.append(each)
        elif each.state in _GIVEN_UP and not (discarded or named):
            given_up += 1
            # the discarded message was put, but the broker has not noted it
            behind |= each.state == TransactionState.DISCARDED and each.half_offset >= half_position
        elif decision is None:
            plan.undecided.append(each)
        elif each.in_rocksdb:  # which alone has the number of checks that a commit keeps
            raise StoreError(
                f"physical {each.first}: a {each.state} half message of transRocksDBEnable, which "
                "only its broker or producer can end; --decide FILE decides the others"
            )
        elif (
            each.state == TransactionState.PENDING
            and each.checks >= checks_most
            and not (discarded or named)
        ):
            plan.discards.append(each)
        else:
            (plan.commits if decision == Outcome.COMMIT else plan.rollbacks).append(each)
    names.refuse_unknown()
    return plan._replace(given_up=given_up, behind=behind and not plan.undecided)


class _Names:
    """The transactions that are decided by name; each name must be that of one transaction."""

    def __init__(self, log: LogReader, decisions: Decisions, split: bool) -> None:
        self._log, self._split = log, split
        self._places = {k: d for k, d in decisions.named.items() if isinstance(k, int)}
        keys = [(key, d) for key, d in decisions.named.items() if isinstance(key, str)]
        self._keys = {hash_text(key.encode("utf-8", "replace")): (key, d) for key, d in keys}
        self._open: dict[str | int, int] = {}  # by name: its open transaction's physical offset
        self._unknown: set[str | int] = set(decisions.named)

    def decision(self, each: Transaction) -> Outcome | None:
        """The decision for a transaction by name; None if there is none.

        Raises StoreError where two have the name, or the decisions by key and by offset differ.
        """
        named: dict[str | int, Outcome] = {
            place: self._places[place] for place in (each.first, each.last) if place in self._places
        }
        key, decision = self._keys.get(each.key, ("", None))
        if decision is not None and self._has_key(each, key):
            named[key] = decision
            taken = each.state in _ENDED or self._open.setdefault(key, each.first) == each.first
            if not taken:
                raise StoreError(
                    f"{key!r} names two transactions, at physical {self._open[key]} and "
                    f"{each.first}: name them by these"
                )
        self._unknown -= named.keys()
        if len(set(named.values())) > 1:
            names = " and ".join(f"{name!r}" for name in named)
            raise StoreError(f"{names} name one transaction, and decide it otherwise")
        return next(iter(named.values()), None)

    def _has_key(self, each: Transaction, key: str) -> bool:
        """Whether a transaction has the key itself, and not only a key with the same hash."""
        record = self._log.record_at(each.first)
        return message.parse_properties(record.properties, self._split).get("UNIQ_KEY") == key

    def tell_of(self, each: Transaction) -> None:
        """Raise StoreError where a half message of a release before 4.3.0 is named."""
        if self.decision(each) is not None and each.state not in _ENDED:
            raise StoreError(
                f"physical {each.first}: a half message of a release before 4.3.0, which no "
                "service ends"
            )

    def refuse_unknown(self) -> None:
        """Raise StoreError for a name that no half message of the log has."""
        if self._unknown:
            one = sorted(self._unknown, key=str)[0]
            raise StoreError(
                f"{one!r} names no half message in the log"
                + (f", nor do {len(self._unknown) - 1} more" if len(self._unknown) > 1 else "")
            )


def resolve_planned(
    writer: CommitLogWriter, store: OpenedStore, plan: ResolutionPlan, go_on: Callable[[], bool]
) -> Resolved:
    """End transactions as planned, and note it in the broker's file.

    store: the writer's, open for reading. go_on: called after each transaction; False ends the run,
    and the rest stays as it is. Raises StoreError (WriterFailed), OSError.
    """
    read_offsets(writer.store.files, _OFFSETS_FILE)  # raises before anything is put
    ends = _Ends(Transactions(writer), plan.half_position)
    refused: list[str] = []
    left = list(plan.undecided)
    planned = {"commit": plan.commits, "rollback": plan.rollbacks, "discard": plan.discards}
    counts = dict.fromkeys(planned, 0)
    work = [(what, each) for what, some in planned.items() for each in some]
    work.sort(key=lambda item: item[1].last)
    for each in plan.unfinished:
        ends.add(each)
    stopped = False
    for what, each in work:
        if stopped:
            left.append(each)
            continue
        record = stored_at(store.log, each.last)
        try:
            if what == "commit":
                _commit(ends.transactions, record)
            elif what == "discard":  # DefaultTransactionalMessageCheckListener: one queue
                text = text_of(writer, properties_of(writer, record))
                put_again(writer, record, message.CHECK_MAX_TOPIC, 0, text, record.transaction)
        except Refused as error:
            refused.append(f"physical {each.last}: {error} ({type(error).__name__})")
            left.append(each)
            stopped = isinstance(error, Unavailable)
            continue
        if what != "discard":
            ends.add(each)
        counts[what] += 1
        stopped = not go_on()
    ends.write()
    writer.flush()
    writer.dispatch()
    _tell_position(writer, left, plan.half_position)
    return Resolved(
        counts["commit"], counts["rollback"], counts["discard"], len(plan.unfinished), refused
    )


class _Ends:
    """Gathers half messages for one op message, as a broker from 5.1.0 on does for some seconds."""

    def __init__(self, transactions: Transactions, half_position: int) -> None:
        self.transactions = transactions
        self._half_position = half_position
        writer = transactions.writer
        lists = writer.profile.op_message_lists
        self._most = writer.settings.transaction_op_msg_max_size if lists else 1
        self._offsets: list[int] = []
        self._bytes = 0

    def add(self, each: Transaction) -> None:
        """Add a half message, and those of its copies that a broker would still check."""
        offsets = {each.half_offset} if each.op < 0 else set()
        offsets |= {offset for offset in each.open_offsets if offset >= self._half_position}
        for offset in sorted(offsets):
            self._offsets.append(offset)
            self._bytes += len(str(offset)) + 1
            if self._bytes >= self._most:
                self.write()

    def write(self) -> None:
        """Put the op message of what was gathered; all half messages are in queue 0."""
        if self._offsets:
            self.transactions.end(0, self._offsets)
        self._offsets, self._bytes = [], 0


def _commit(transactions: Transactions, half: Record) -> None:
    properties = properties_of(transactions.writer, half)
    queue_id = properties.get("REAL_QID", "")
    if "REAL_TOPIC" not in properties or not (queue_id.isascii() and queue_id.isdigit()):
        raise NotPrepared("REAL_TOPIC is missing, or REAL_QID is not a number")
    transactions.put_committed(half, properties)


def _tell_position(writer: CommitLogWriter, left: list[Transaction], before: int) -> None:
    """Write config/consumerOffset.json, if the broker need not check some half messages again."""
    still = [
        offset
        for each in left if not each.in_rocksdb
        for offset in (*each.open_offsets, each.half_offset)
    ]  # fmt: skip
    end = writer.store.positions().get((message.HALF_TOPIC, 0), 0)
    position = min((offset for offset in still if offset >= before), default=end)
    if position <= before:
        return
    files = writer.store.files
    whole, table = read_offsets(files, _OFFSETS_FILE)
    queues = table.get(_CHECKER)
    table[_CHECKER] = {**(queues if isinstance(queues, dict) else {}), integer_key(0): position}
    write_json(files, _OFFSETS_FILE, whole, writer.profile)
