"""Stores that hold what reput does not build, told by what lies in them and not by a setting."""

from collections.abc import Iterable

from reput.store_format.faults import StoreError
from reput.store_format.names import CONSUME_QUEUE

QUEUE_EXT = "consumequeue_ext"  # StorePathConfigHelper.getStorePathConsumeQueueExt
ROCKSDB = f"{CONSUME_QUEUE}/CURRENT"  # a RocksDB always has it (RocksDBConsumeQueueStore)


def refuse_foreign(store: str, queue_ext: Iterable[str], queues: Iterable[str]) -> None:
    """Raise StoreError where a store's queues are of a kind that reput does not build.

    queue_ext: the names in STORE/consumequeue_ext, queues: those in STORE/consumequeue. Entries
    of queues with ConsumeQueueExt hold addresses in its files, which nothing but the consumers'
    filters of that time gives; and queues in RocksDB (alone, or with rocksdbCQDoubleWriteEnable
    beside the files) would no longer be those of the files, were these cut or replaced.
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
