"""The staging folder, where tasks put bytes: runs of a scan, chains of the index, finished files.

Spark may run a task twice, so every file's name is unique to the attempt that wrote it. A row that
reached the driver says which of the files counts.
"""

import json
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reput.store_format.files.local import LocalStorage
from reput.store_format.files.manifest_last import ManifestLast
from reput.store_format.files.protocol import StagingStorage, Writer

Bytes = npt.NDArray[np.uint8]

_PIECE_BYTES = 1 << 20

ENTRIES = ".entries"
HASHES = ".hashes"
MESSAGES = ".messages"
RUNS = ".runs"
_SCAN, _QUEUE, _INDEX, _TABLE = "scan", "queue", "index", "table"  # what names of files begin with
PLACED_TREE = "placed"  # folder of files that have the same path below it as in the output
RECORDS = "records"  # in the metadata of a .runs file: how many records the split has
SPLITS = "splits"  # also there: how many splits the task has done since its previous .runs file


PAST = ".past"  # an empty file, whose name says how far a scan past damage has come


class Staging(NamedTuple):
    """The staging folder of one job and the storage that it is on."""

    storage: StagingStorage
    folder: str

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"


def attempt_name(prefix: str) -> str:
    """A name that no other attempt at the same task gives to a file."""
    return f"{prefix}-{uuid.uuid4().hex}"


def scan_name(split: int) -> str:
    """The name, without its kind, of the files that a scan of this split writes."""
    return attempt_name(f"{_SCAN}-{split:08d}")


def split_of(name: str) -> int:
    """The split whose scan wrote this file."""
    return int(name.split("-")[1])


def queue_file_name() -> str:
    return attempt_name(_QUEUE)


def index_file_name() -> str:
    return attempt_name(_INDEX)


def table_file_name() -> str:
    return attempt_name(_TABLE)


def local_folder(staging: Staging) -> str | None:
    """The staging folder, if it is on a local disk, where any library can write."""
    local = isinstance(staging.storage, LocalStorage)
    return staging.folder if local and not isinstance(staging.storage, ManifestLast) else None


def is_derived_file(name: str) -> bool:
    """Whether this is a finished queue or index file."""
    return name.startswith((f"{_QUEUE}-", f"{_INDEX}-"))


def is_index_file(name: str) -> bool:
    return name.startswith(f"{_INDEX}-")


class LineFile:
    """Writes JSON lines to a staging file as they come."""

    _LINES = 1 << 12

    def __init__(self, staging: Staging) -> None:
        self._staging, self._name = staging, ""
        self._output: Writer | None = None
        self._lines: list[str] = []
        self._bytes = 0

    def add(self, row: dict[str, Any]) -> None:
        self._lines.append(json.dumps(row) + "\n")
        if len(self._lines) == self._LINES:
            self._write()

    def finish(self) -> str:
        """Complete the file. Returns its name, or '' if there was no line."""
        self._write()
        if self._output:
            self._output.finish(self._bytes)
        return self._name

    def _write(self) -> None:
        raw = "".join(self._lines).encode()
        if raw and self._output is None:
            self._name = attempt_name("lines")
            self._output = self._staging.storage.create(self._staging.path(self._name))
        if self._output is None:
            return
        self._output.write(raw)
        self._bytes += len(raw)
        self._lines.clear()


def past_name(run: str, done: int, ranges: int) -> str:
    """The name of a .past file: `done` bytes of the segment are searched, with `ranges` ranges."""
    return f"{run}.{done}.{ranges}{PAST}"


def past_of(names: Iterable[str]) -> tuple[int, int]:
    """(bytes, ranges) by the .past files: the sum of each segment's furthest one."""
    furthest: dict[str, tuple[int, int]] = {}
    for name in names:
        if name.endswith(PAST):
            run, done, ranges = name.removesuffix(PAST).rsplit(".", 2)
            split = run.split("-")[1]
            furthest[split] = max(furthest.get(split, (0, 0)), (int(done), int(ranges)))
    return sum(f[0] for f in furthest.values()), sum(f[1] for f in furthest.values())


def pieces_of(staging: Staging, name: str) -> Iterator[bytes]:
    """A staging file's content, in pieces of bounded size."""
    reader = staging.storage.open(staging.path(name))
    for at in range(0, reader.state.size, _PIECE_BYTES):
        piece = np.empty(min(_PIECE_BYTES, reader.state.size - at), np.uint8)
        reader.read_into(at, piece)
        yield piece.tobytes()
    reader.close()


class ListedSplits(NamedTuple):
    """How many splits a .runs file counts (its own, and those without records before it), and how
    many records its split has.
    """

    splits: int
    records: int


def listed_in(staging: Staging, name: str) -> ListedSplits | None:
    """The counts in the metadata of a .runs file; None while its task still writes it."""
    try:
        with pa.ipc.open_stream(staging.storage.read_bytes(staging.path(name))) as stream:
            said = stream.schema.metadata
            return ListedSplits(int(said[SPLITS.encode()]), int(said[RECORDS.encode()]))
    except pa.ArrowInvalid:
        return None


def read_range(staging: Staging, name: str, at: int, length: int) -> Bytes:
    """Bytes [at, at + length) of a staging file, as a new uint8 array."""
    buffer = np.empty(length, np.uint8)
    if length:
        reader = staging.storage.open(staging.path(name))
        reader.read_into(at, buffer)
        reader.close()
    return buffer
