"""The waiting half messages and timers of a store of which only some records are taken."""

from reput.jobs.opening.plan import Plan
from reput.jobs.opening.questions import open_store
from reput.jobs.outputs.report import counted
from reput.store_format.fate.rows import ENDED
from reput.store_format.fate.transactions import TransactionState
from reput.store_format.faults import StoreError
from reput.store_format.message.message import ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC, TIMER_TOPIC
from reput.store_format.rewrite.selection import TRANSACTIONS, WHOLE, Changes, Fate


def refuse_places_in_bodies(plan: Plan, topics: set[str]) -> None:
    """Raise StoreError if op messages contain physical offsets (TransMessageRocksDBStore), which
    would change. topics: topics of which records are taken.
    """
    for topic in sorted(topics & {ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC}):
        raise StoreError(
            f"{plan.store}: has messages of {topic} (transRocksDBEnable): they tell of places in "
            f"the log, which would be others; with `--drop {topic}` no transactions are taken, "
            "and none may be pending"
        )


def waiting(plan: Plan, changes: Changes, topics: set[str]) -> tuple[int, ...]:
    """The physical offsets of pending half messages and of messages that wait for the timer, in
    order, of topics that are taken. A transaction gives the offset of its newest copy.

    No op message or file needs to name these messages: a broker checks back such a half message as
    if it were new, and puts such a timer into its wheel (TransactionalMessageServiceImpl.check,
    TimerMessageStore.recover). topics: topics of the store. Raises StoreError if transactions of
    transRocksDBEnable are pending.
    """
    topics = topics & WHOLE - set(changes.topics)
    if not changes.selects or not topics:
        return ()
    store = open_store(
        plan.store, rocketmq=plan.profile.release, settings=plan.discovered.settings,
        storage=plan.storage,
    )  # fmt: skip

    def taken(topic: str | None) -> bool:
        return topic is not None and changes.of_name(topic).fate == Fate.TAKEN

    places = set()
    if topics & TRANSACTIONS:
        pending = [
            row for row in store.transactions()
            if row.state == TransactionState.PENDING and taken(row.topic)
        ]  # fmt: skip
        if pending and ROCKSDB_HALF_TOPIC in topics:
            raise StoreError(
                f"{plan.store}: {counted(len(pending), 'pending transaction')} of topic "
                f"{str(pending[0].topic)[:127]!r}: their messages in {ROCKSDB_HALF_TOPIC} cannot "
                "be taken without those of all topics, from one store; `reput "
                "resolve-transactions` ends them"
            )
        places |= {row.last_physical_offset for row in pending}
    if TIMER_TOPIC in topics:
        places |= {
            row.physical_offset for row in store.delayed()
            if row.by == "timer" and row.state not in ENDED and taken(row.topic)
        }  # fmt: skip
    return tuple(sorted(places))
