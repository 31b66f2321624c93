"""Whether the queues and the index of a store are derived as files or as a RocksDB."""

from contextlib import closing

from reput.jobs.opening.plan import Plan
from reput.store_format.derived.queues import FileQueues
from reput.store_format.faults import StoreError
from reput.store_format.files.protocol import InputStorage
from reput.store_format.release.settings import SettingError
from reput.store_format.rocksdb.database import RocksDBError, require_library
from reput.store_format.rocksdb.queues import RocksDBQueues, queues_folder

FILES, ROCKSDB = "files", "rocksdb"
KINDS = (FILES, ROCKSDB)
INDEX_SETTING = "indexRocksDBEnable"
_STORE_TYPES = {"default": FILES, "defaultRocksDB": ROCKSDB}  # StoreType


def kind_of_queues(
    plan: Plan, asked: str | None, output: str, of_both: str | None = None
) -> str:  # fmt: skip
    """FILES or ROCKSDB. asked: the user's choice, None: as in the store; output: path of the set;
    of_both: the kind if the store has both.

    Raises SettingError if the store has both and of_both is None, or `asked` is neither;
    RocksDBMissing.
    """
    return _checked("queues", asked or _kind_there(plan, of_both), output)


def kind_of_index(plan: Plan, asked: str | None, output: str) -> str:
    """As kind_of_queues, for the index; asked=None: ROCKSDB if indexRocksDBEnable=true and
    indexFileWriteEnable=false.
    """
    given = plan.discovered.settings
    alone = given.get(INDEX_SETTING) == "true" and not plan.settings.index_file_write_enable
    return _checked("index", asked or (ROCKSDB if alone else FILES), output)


def _checked(what: str, kind: str, output: str) -> str:
    if kind not in KINDS:
        raise SettingError(f"{what}={kind}: there are {' and '.join(KINDS)}")
    if kind == ROCKSDB:
        require_library(output)
    return kind


def _kind_there(plan: Plan, of_both: str | None) -> str:
    store_type = plan.settings.store_type
    if store_type not in _STORE_TYPES:
        raise SettingError(f"storeType={store_type}: there are {' and '.join(_STORE_TYPES)}")
    folder = queues_folder(plan.storage, plan.store)
    if folder is None or _STORE_TYPES[store_type] == ROCKSDB:
        return _STORE_TYPES[store_type]
    if FileQueues(plan.storage, plan.store, lambda batch: 0).topics():
        if of_both is not None:
            return of_both
        raise SettingError(
            f"{plan.store}: has queues in files and in RocksDB ({folder}): say which are to be "
            f"built: --queues files, or --queues rocksdb"
        )
    return ROCKSDB


def refuse_rocksdb(storage: InputStorage, store: str) -> None:
    """Raise StoreError if a store's queues are in RocksDB; it has the offset up to which they go.

    A RocksDB that cannot be read is refused with the plan.
    """
    folder = queues_folder(storage, store)
    if folder is None:
        return
    try:
        with closing(RocksDBQueues(storage, store, folder)) as queues:
            end = queues.dispatched_to()
    except RocksDBError:
        return
    raise StoreError(
        f"{folder}: its queues hold the log up to {end:,}; a broker goes on there as it starts. "
        f"This command changes no RocksDB: reput rebuild builds them (docs/rocksdb.md)"
    )
