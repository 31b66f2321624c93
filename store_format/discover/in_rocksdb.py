"""What RocksDB holds in a store beside its files, by the names of its files."""

from reput.store_format.names import CONFIG
from reput.store_format.release.foreign_files import (
    CONFIG_DBS,
    CURRENT,
    POP_DB,
    STORE_DB,
    holds_rows,
)
from reput.store_format.storage.listing import listed
from reput.store_format.storage.protocol import InputStorage

_BESIDE = {
    STORE_DB: "timers or transactions in RocksDB, if there are any (timerRocksDBEnable, "
    "transRocksDBEnable)",
    POP_DB: "messages that pop consumers have not acknowledged, in RocksDB "
    "(popConsumerKVServiceEnable)",
}


def has_database(storage: InputStorage, folder: str) -> bool:
    """Whether there is a RocksDB in a folder."""
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
    return [
        f"{store}/{name}: {what}: neither derived nor compared"
        for name, what in _BESIDE.items()
        if has_rows(storage, f"{store}/{name}")
    ]
