"""What waits in a store of which some records are left out: half messages and timers."""

from reput.jobs.opening.open_store import open_store
from reput.jobs.opening.plan import Plan
from reput.jobs.outputs.count_text import counted
from reput.store_format.convert.changes import TRANSACTIONS, WHOLE, Changes, Fate
from reput.store_format.fate.fate_rows import ENDED
from reput.store_format.fate.transactions import TransactionState
from reput.store_format.faults import StoreError
from reput.store_format.message.message import ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC, TIMER_TOPIC


def refuse_places_in_bodies(plan: Plan, topics: set[str]) -> None:
    """Raise StoreError where op messages name places in the log (TransMessageRocksDBStore), which
    would be others. topics: those of which something is taken.
    """
    for topic in sorted(topics & {ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC}):
        raise StoreError(
            f"{plan.store}: has messages of {topic} (transRocksDBEnable): they tell of places in "
            f"the log, which would be others; with `--drop {topic}` no transactions are taken, "
            "and none may be pending"
        )


def waiting(plan: Plan, changes: Changes, topics: set[str]) -> tuple[int, ...]:
    """The places of pending half messages, and of messages that wait for the timer, of topics that
    are taken: physical offsets, in order. Of a transaction it is the newest copy.

    A broker checks such a half message back as if it were new, and puts such a timer into its wheel
    (TransactionalMessageServiceImpl.check, TimerMessageStore.recover): no op message and no file
    needs to tell of them. topics: those that the store has. Raises StoreError where RocksDB tells
    of pending transactions.
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
