"""Which kind of queues is derived of a store: files, or a RocksDB."""

from collections.abc import Mapping

from reput.store_format.derived.queues import FileQueues
from reput.store_format.release.settings import SettingError
from reput.store_format.rocksdb.queues import queues_folder
from reput.store_format.storage import storage_for
from reput.store_format.storage.protocol import Storage
from reput.store_format.storage.rocksdb_tables import require_library

FILES, ROCKSDB = "files", "rocksdb"
KINDS = (FILES, ROCKSDB)
_STORE_TYPE, _FILES_TYPE, _ROCKSDB_TYPE = "storeType", "default", "defaultRocksDB"


def kind_of_queues(
    storage: Storage | None, store: str, settings: Mapping[str, str], asked: str | None, output: str
) -> str:
    """FILES or ROCKSDB: what is asked for; None: as the store has them. output: what gets them.

    Raises SettingError where it has both, or what is asked for is neither; RocksDBMissing.
    """
    store_type = settings.get(_STORE_TYPE, _FILES_TYPE)
    if store_type not in (_FILES_TYPE, _ROCKSDB_TYPE):
        raise SettingError(f"{_STORE_TYPE}={store_type}: is neither {_FILES_TYPE} nor {_ROCKSDB_TYPE}")
    if asked not in (None, *KINDS):
        raise SettingError(f"queues={asked}: there are {' and '.join(KINDS)}")
    kind = asked or _kind_there(storage or storage_for(store), store, settings)
    if kind == ROCKSDB:
        require_library(output)
    return kind


def _kind_there(storage: Storage, store: str, settings: Mapping[str, str]) -> str:
    store = storage.resolve(store)
    folder = queues_folder(storage, store)
    if folder is None:
        return ROCKSDB if settings.get(_STORE_TYPE) == _ROCKSDB_TYPE else FILES
    if settings.get(_STORE_TYPE) == _ROCKSDB_TYPE:
        return ROCKSDB
    if FileQueues(storage, store, lambda batch: 0).topics():
        raise SettingError(
            f"{store}: has queues in files and in RocksDB ({folder}): say which are to be built: "
            f"--queues files, or --queues rocksdb"
        )
    return ROCKSDB
