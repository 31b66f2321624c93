"""What waits in a store of which some records are left out, and cannot be taken alone."""

from collections import Counter

from reput.jobs.opening.open_store import open_store
from reput.jobs.opening.plan import Plan
from reput.jobs.outputs.count_text import counted
from reput.store_format.convert.changes import TRANSACTIONS, Changes, Fate
from reput.store_format.fate.fate_rows import ENDED
from reput.store_format.fate.transactions import TransactionState
from reput.store_format.faults import StoreError
from reput.store_format.message.message import ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC, TIMER_TOPIC

_WHY = "cannot be taken without those of all topics, from one store"


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


def refuse_waiting(plan: Plan, changes: Changes, topics: set[str]) -> None:
    """Raise StoreError where a transaction is pending, or a timer waits, of a topic that is taken.

    topics: those that the store has.
    """
    store = open_store(
        plan.store, rocketmq=plan.profile.release, settings=plan.discovered.settings,
        storage=plan.storage,
    )  # fmt: skip

    def taken(topic: str | None) -> bool:
        return topic is not None and changes.of_name(topic).fate == Fate.TAKEN

    if topics & TRANSACTIONS:
        pending = Counter(
            row.topic for row in store.transactions()
            if row.state == TransactionState.PENDING and taken(row.topic)
        )  # fmt: skip
        for topic, count in pending.most_common(1):
            raise StoreError(
                f"{plan.store}: {counted(count, 'pending transaction')} of topic "
                f"{str(topic)[:127]!r}: half messages {_WHY}; `reput resolve-transactions` "
                "ends them"
            )
    if TIMER_TOPIC in topics:
        waiting = Counter(
            row.topic for row in store.delayed()
            if row.by == "timer" and row.state not in ENDED and taken(row.topic)
        )  # fmt: skip
        for topic, count in waiting.most_common(1):
            raise StoreError(
                f"{plan.store}: {counted(count, 'waiting timer')} of topic {str(topic)[:127]!r}: "
                f"timers {_WHY}; convert all topics, or wait until they are delivered"
            )
