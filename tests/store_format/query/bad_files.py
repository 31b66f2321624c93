"""Index files with damaged chains."""

import struct
from collections.abc import Callable
from pathlib import Path

from tests.store_format.query.asked import Asked
from tests.trees import write_over

SLOTS, MOST = 7, 20  # of the golden store's index files
ENTRY = struct.Struct(">iqii")


def edited(path: Path, at: int, raw: bytes) -> None:
    write_over(path, at, raw)


def index_files(store: Asked) -> list[Path]:
    return sorted((store.path / "index").iterdir())


def entry_at(number: int) -> int:
    return 40 + 4 * SLOTS + 20 * number


# `previous` of an entry, made of its own number: RocketMQ stops there without a word
ENDS = {"its own": lambda n: n, "past indexCount": lambda n: MOST + 3, "negative": lambda n: -n}


def end_chains(file: Path, previous: Callable[[int], int]) -> None:
    raw = file.read_bytes()
    for number in range(1, MOST):
        key_hash, place, diff, _ = ENTRY.unpack_from(raw, entry_at(number))
        edited(file, entry_at(number), ENTRY.pack(key_hash, place, diff, previous(number)))
