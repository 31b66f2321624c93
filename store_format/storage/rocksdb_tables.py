"""Tables (SST files) of a RocksDB, and a database made of them, by the library rocksdict.

Their format is that of RocketMQ (RocksDBOptionsFactory): format_version 5, blocks of 32 KiB, a
bloom filter of 16 bits a key. No two tables of a family may overlap. Then they go into the lowest
level, and a broker that opens the database has nothing to compact.
"""

import os
from collections.abc import Iterable
from typing import Any

from reput.store_format.faults import StoreError
from reput.store_format.storage.rocksdb import INSTALL, RocksDBMissing, refuse_full_disk

DEFAULT = "default"
_BLOCK_BYTES, _METADATA_BLOCK_BYTES = 32 << 10, 4 << 10
_BLOOM_BITS, _HASH_RATIO, _FORMAT_VERSION = 16, 0.75, 5
# Files of the library that are no part of a database, or are made anew at each start.
_NOT_OURS = ("rocksdict-config.json", "LOCK", "LOG", "IDENTITY")


def require_library(folder: str) -> None:
    """Raise RocksDBMissing if no RocksDB can be written. folder: where it would be."""
    try:
        import rocksdict  # noqa: F401
    except ImportError:
        raise RocksDBMissing(folder, f"gets a RocksDB: {INSTALL} writes it") from None


def table_options(compressed: bool, universal: bool) -> Any:
    """RocksDBOptionsFactory.createCQCFOptions, or createOffsetCFOptions if not compressed."""
    import rocksdict

    table = rocksdict.BlockBasedOptions()
    table.set_format_version(_FORMAT_VERSION)
    table.set_block_size(_BLOCK_BYTES)
    table.set_metadata_block_size(_METADATA_BLOCK_BYTES)
    table.set_bloom_filter(_BLOOM_BITS, False)
    if compressed:
        table.set_data_block_index_type(rocksdict.DataBlockIndexType.binary_and_hash())
        table.set_data_block_hash_ratio(_HASH_RATIO)
    options = rocksdict.Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    style = rocksdict.DBCompactionStyle
    options.set_compaction_style(style.universal() if universal else style.level())
    kind = rocksdict.DBCompressionType
    options.set_compression_type(kind.lz4() if compressed else kind.none())
    if compressed:
        options.set_bottommost_compression_type(kind.zstd())
    options.set_num_levels(7)
    options.set_max_open_files(-1)
    options.set_disable_auto_compactions(True)
    return options


class TableWriter:
    """A new table at a local path. Keys must come in ascending order, each once."""

    def __init__(self, path: str, options: Any) -> None:
        import rocksdict

        self._path, self._writer = path, rocksdict.SstFileWriter(options)
        self._writer.open(path)

    def put(self, keys: Iterable[bytes], values: Iterable[bytes]) -> None:
        put = self._writer.__setitem__
        try:
            for key, value in zip(keys, values, strict=True):
                put(key, value)
        except Exception as error:  # noqa: BLE001 (the library raises nothing more special)
            raise _failed(self._path, error) from None

    def finish(self) -> None:
        """Raises StoreError if the table has no row."""
        try:
            self._writer.finish()
        except Exception as error:  # noqa: BLE001
            raise _failed(self._path, error) from None


def make_database(folder: str, families: dict[str, tuple[Any, list[str]]]) -> list[str]:
    """Make a database in an empty local folder; returns the names of its files.

    families: by name, the options and the paths of the tables, of which no two may overlap. The
    tables must be on the same file system, and are moved into the database.
    """
    import rocksdict

    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_atomic_flush(True)
    options.set_max_open_files(-1)
    of = {name: about for name, (about, _) in families.items()}
    move = rocksdict.IngestExternalFileOptions()
    move.set_move_files(True)
    try:
        opened = rocksdict.Rdict(folder, options, of)
        try:
            for name, (_, tables) in families.items():
                if tables:
                    opened.get_column_family(name).ingest_external_file(tables, move)
        finally:
            opened.close()
    except Exception as error:  # noqa: BLE001
        raise _failed(folder, error) from None
    for name in os.listdir(folder):
        if name in _NOT_OURS or name.startswith(("OPTIONS-", "LOG.old.")):
            os.unlink(f"{folder}/{name}")
    return sorted(os.listdir(folder))


def _failed(path: str, error: Exception) -> StoreError:
    """Raises OSError if there was no room."""
    refuse_full_disk(error, path)
    return StoreError(
        f"{path}: the RocksDB cannot be written: {' '.join(str(error).split())[:300]}"
    )
