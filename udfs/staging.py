"""Where tasks put bytes: run files of the scan, chains of the index, and finished files.

Every name is unique to the attempt that wrote it; a row that came back says which one counts.
"""

import uuid
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store_format.store_files import Storage

Bytes = npt.NDArray[np.uint8]

ENTRIES = ".entries"
HASHES = ".hashes"
MESSAGES = ".messages"
RUNS = ".runs"
RECORDS = "records"  # in the metadata of a .runs file: how many records the split has


class Staging(NamedTuple):
    """The staging folder of one job and the storage that it is on."""

    storage: Storage
    folder: str

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"


def attempt_name(prefix: str) -> str:
    """A name that no other attempt at the same work has."""
    return f"{prefix}-{uuid.uuid4().hex}"


def records_in(staging: Staging, name: str) -> int | None:
    """How many records the split of a .runs file has; None while its task still writes it."""
    try:
        with pa.ipc.open_stream(staging.storage.read_bytes(staging.path(name))) as stream:
            return int(stream.schema.metadata[RECORDS.encode()])
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
