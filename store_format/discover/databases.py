"""What RocksDB holds in a store beside its files."""

from contextlib import closing

from reput.store_format.files.protocol import InputStorage, listed
from reput.store_format.names import CONFIG, CONFIG_DBS, CURRENT, POP_DB, STORE_DB, holds_rows
from reput.store_format.rocksdb.database import RocksDBError, is_local, open_database
from reput.store_format.rocksdb.rows import HALVES, TIMERS

_POPPED = (
    "messages that pop consumers have not acknowledged, in RocksDB (popConsumerKVServiceEnable)"
)
_SERVICES = {  # families of STORE_DB beside the index
    TIMERS: "timers in RocksDB (timerRocksDBEnable)",
    HALVES: "half messages in RocksDB (transRocksDBEnable)",
}


def has_database(storage: InputStorage, folder: str) -> bool:
    return any(name == CURRENT for name, _ in listed(storage, folder))


def has_rows(storage: InputStorage, folder: str) -> bool:
    """Whether there is a RocksDB in a folder, and it has rows."""
    files = listed(storage, folder)
    return any(name == CURRENT for name, _ in files) and holds_rows(
        (name, state.size if state else 0) for name, state in files
    )


def config_in_rocksdb(storage: InputStorage, store: str, file: str) -> str | None:
    """The RocksDB that a broker reads in place of a file of config/; None where there is none."""
    there = {name for name, _ in listed(storage, f"{store}/{CONFIG}")}
    for name in CONFIG_DBS.get(file, ()):
        folder = f"{store}/{CONFIG}/{name}"
        if name in there and has_database(storage, folder):
            return folder
    return None


def not_derived(storage: InputStorage, store: str) -> list[str]:
    """A line for each RocksDB that is neither derived from the log nor compared with it."""
    beside = {STORE_DB: services_in(storage, f"{store}/{STORE_DB}")}
    if has_rows(storage, f"{store}/{POP_DB}"):
        beside[POP_DB] = [_POPPED]
    return [
        f"{store}/{name}: {what}: neither derived nor compared"
        for name, found in beside.items()
        for what in found
    ]


def services_in(storage: InputStorage, folder: str) -> list[str]:
    """Which of timers and half messages are in a RocksDB; both may be, where it cannot be read or
    its tables would have to be copied first.
    """
    if not has_rows(storage, folder):
        return []
    if is_local(storage):
        try:
            with closing(open_database(storage, folder)) as database:
                return [
                    what
                    for family, what in _SERVICES.items()
                    if any(True for _ in database.rows(family))
                ]
        except RocksDBError:
            pass
    return [f"{what}, if there are any" for what in _SERVICES.values()]
