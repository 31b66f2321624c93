"""Refuses stores with kinds of queues that reput does not build, judged by the files in them."""

from collections.abc import Iterable

from reput.store_format.faults import StoreError
from reput.store_format.names import CONSUME_QUEUE

QUEUE_EXT = "consumequeue_ext"  # StorePathConfigHelper.getStorePathConsumeQueueExt
ROCKSDB = f"{CONSUME_QUEUE}/CURRENT"  # a RocksDB always has it (RocksDBConsumeQueueStore)


def refuse_foreign(store: str, queue_ext: Iterable[str], queues: Iterable[str]) -> None:
    """Raise StoreError where a store's queues are of a kind that reput does not build.

    queue_ext: the names in STORE/consumequeue_ext; queues: the names in STORE/consumequeue. Queue
    entries of a store with ConsumeQueueExt hold addresses in the ext files, and what stands there
    depends on the consumers' filters of that time, which no log has. Queues in RocksDB (alone, or
    beside files with rocksdbCQDoubleWriteEnable) would disagree with files that reput has cut or
    replaced.
    """
    above = f"{store}/" if store else ""
    if any(True for _ in queue_ext):
        raise StoreError(
            f"{above}{QUEUE_EXT}: the store has ConsumeQueueExt files (enableConsumeQueueExt), "
            f"and entries of its queues may point into them: reput does not build them"
        )
    if ROCKSDB.rpartition("/")[2] in queues:
        raise StoreError(
            f"{above}{ROCKSDB}: the store has queues in RocksDB (storeType or "
            f"rocksdbCQDoubleWriteEnable): reput does not build them"
        )
