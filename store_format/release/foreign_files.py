"""Finds, by a store's file names, what reput does not build or read."""

from collections.abc import Callable, Iterable

from reput.store_format.faults import StoreError
from reput.store_format.names import CONSUME_QUEUE

QUEUE_EXT = "consumequeue_ext"  # StorePathConfigHelper.getStorePathConsumeQueueExt
CURRENT = "CURRENT"  # every RocksDB has this file
# Folders of queues in RocksDB: beside the topics' folders (RocksDBConsumeQueueStore), or from 5.5.0
# on with useSeparateStorePathForRocksdbCQ in a folder of their own.
ROCKSDB_QUEUES = (CONSUME_QUEUE, "consumequeue_rocksdb")

# The settings that put queues, and the index, into RocksDB.
IN_ROCKSDB = ("storeType", "indexRocksDBEnable")

STORE_DB = "rocksdbstore"  # MessageRocksDBStorage; from 5.4.0 on made at each start
POP_DB = "kvStore"  # PopConsumerRocksdbStore
# Below config/: RocksDBConfigManager (v1, one or three), ConfigStorage (configManagerVersion=v2).
CONFIG_DBS = {
    "topics.json": ("topics", "metadata", "rdb"),
    "subscriptionGroup.json": ("subscriptionGroups", "metadata", "rdb"),
    "consumerOffset.json": ("consumerOffsets", "metadata", "rdb"),
}


def refuse_foreign(
    store: str, names: Callable[[str], Iterable[str]], even_rocksdb: bool = False
) -> None:
    """Raise StoreError if a store's queues are of a kind that a command does not build.

    names: lists a folder of the store. even_rocksdb: queues in RocksDB are allowed, because no file
    is replaced. Otherwise queues in RocksDB (alone, or beside files with
    rocksdbCQDoubleWriteEnable) would disagree with files that reput has cut or replaced. With
    ConsumeQueueExt, queue entries have addresses in the ext files, whose content depends on the
    consumers' filters of that time, which no log has.
    """
    above = f"{store}/" if store else ""
    if any(True for _ in names(QUEUE_EXT)):
        raise StoreError(
            f"{above}{QUEUE_EXT}: the store has ConsumeQueueExt files (enableConsumeQueueExt), "
            f"and entries of its queues may point into them: reput does not build them"
        )
    for folder in () if even_rocksdb else ROCKSDB_QUEUES:
        if CURRENT in names(folder):
            raise StoreError(
                f"{above}{folder}/{CURRENT}: the store has queues in RocksDB (storeType or "
                f"rocksdbCQDoubleWriteEnable), which this command does not change; reput rebuild "
                f"builds them (docs/rocksdb.md)"
            )


def holds_rows(files: Iterable[tuple[str, int]]) -> bool:
    """Whether a RocksDB has any rows, by the names and lengths of its files.

    A RocksDB that a broker only opened, and closed or was killed, has no table (.sst) and an empty
    write-ahead log: seen with 5.4.0, 5.5.0 and 5.5.1.
    """
    return any(
        name.endswith(".sst") or (name.endswith(".log") and length > 0) for name, length in files
    )
