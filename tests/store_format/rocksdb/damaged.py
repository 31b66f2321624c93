"""What may be wrong with a RocksDB: each changes the files in a database's folder."""

import struct
from collections.abc import Callable
from pathlib import Path

from tests.trees import flip

_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ (0x82F63B78 if _byte & 1 else 0)
    _TABLE.append(_byte)
_HEAD = struct.Struct("<IHB")  # of a record in a MANIFEST: masked CRC-32C, length, type


def missing_table(folder: Path) -> None:
    sorted(folder.glob("*.sst"))[0].unlink()


def damaged_block(folder: Path) -> None:
    for table in folder.glob("*.sst"):
        flip(table, 20)


def torn_manifest(folder: Path) -> None:
    (manifest,) = folder.glob("MANIFEST-*")
    manifest.write_bytes(manifest.read_bytes()[:20])


def no_database(folder: Path) -> None:
    (folder / "CURRENT").write_text("nothing of the kind")


def other_comparator(folder: Path) -> None:
    """A sound MANIFEST that names an order of keys which RocketMQ does not use."""
    (manifest,) = folder.glob("MANIFEST-*")
    raw, at = bytearray(manifest.read_bytes()), 0
    assert b"leveldb.BytewiseComparator" in raw
    raw = bytearray(raw.replace(b"leveldb.BytewiseComparator", b"leveldb.BackwardComparator"))
    while at < len(raw):
        _, length, kind = _HEAD.unpack_from(raw, at)
        end = at + _HEAD.size + length
        _HEAD.pack_into(raw, at, _masked(_crc32c(raw[at + 6 : end])), length, kind)
        at = end
    manifest.write_bytes(raw)


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _masked(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


DAMAGES: dict[Callable[[Path], None], str] = {  # and what is said of it
    missing_table: r"\d+\.sst is missing",
    damaged_block: r"block checksum mismatch, \d+\.sst offset \d+",
    torn_manifest: "its MANIFEST ends too early",
    no_database: "CURRENT file does not end with newline",
    other_comparator: "its keys are ordered by leveldb.BackwardComparator",
}
