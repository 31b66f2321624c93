"""Compare derived files with those that are there: pairs in, one row a difference out."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from store_format.compare import field_at, first_difference
from store_format.derived.queue_entries import decode_entries, is_pre_blank
from store_format.layouts import QUEUE_ENTRY_BYTES
from store_format.names import CONSUME_QUEUE, INDEX
from store_format.store_files import Reader, Storage
from udfs.schemas import schema

PAST_END = "(points past the log's end)"
_CHUNK_BYTES = 1 << 20

# One row a pair: a file there, the derived one in staging, and how much of it is in use.
PAIR = schema(folder=pa.string(), there=pa.string(), derived=pa.string(), used=pa.int64())
# The first difference of one file; what is there and what should be, as values of the field.
DIFFERENCE = schema(
    path=pa.string(),
    offset=pa.int64(),  # in the file
    field=pa.string(),
    there=pa.int64(),
    wanted=pa.int64(),
)


@dataclass(frozen=True)
class CompareFiles:
    """PAIR rows to DIFFERENCE rows; a pair that is the same gives none.

    Only the part of a derived file that is in use counts. log_end: a queue entry that follows
    it, and points into the log, is one too many.

    exact: nothing at all may follow in a queue. Where the log's first messages have expired, the
    entries of those before log_start are as good as what fills a rebuilt file up to its first.

    past: an entry that follows and points past the log's end is told as well.
    """

    storage: Storage  # of the files there
    staging: Storage  # of the derived ones
    slots: int  # maxHashSlotNum
    log_end: int
    exact: bool = False
    log_start: int = 0
    past: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for pair in batch.to_pylist():
                rows = self._compare(pair)
                if rows:
                    yield pa.RecordBatch.from_pylist(rows, DIFFERENCE)

    def _compare(self, pair: dict[str, Any]) -> list[dict[str, Any]]:
        there = self.storage.open(pair["there"])
        derived = self.staging.open(pair["derived"])
        try:
            if there.state.size != derived.state.size:
                sizes = there.state.size, derived.state.size
                return [_difference(pair, min(sizes), "file length", *sizes)]
            for at in range(self._expired(pair, there, derived), pair["used"], _CHUNK_BYTES):
                length = min(_CHUNK_BYTES, pair["used"] - at)
                place = first_difference(_read(there, at, length), _read(derived, at, length))
                if place >= 0:
                    field = field_at(pair["folder"], at + place, self.slots)
                    size = field.layout.itemsize
                    values = (
                        field.value(_read(file, field.at, size).tobytes())
                        for file in (there, derived)
                    )
                    return [_difference(pair, field.at, field.what, *values)]
            return self._one_too_many(pair, there)
        finally:
            there.close()
            derived.close()

    def _expired(self, pair: dict[str, Any], there: Reader, derived: Reader) -> int:
        """How many bytes of the file there are entries of expired messages, and need not be."""
        if not (self.exact and self.log_start and pair["folder"].startswith(CONSUME_QUEUE)):
            return 0
        length = pair["used"] // QUEUE_ENTRY_BYTES * QUEUE_ENTRY_BYTES
        filled = is_pre_blank(decode_entries(_read(derived, 0, length)))
        blanks = len(filled) if filled.all() else int(np.argmin(filled))
        old = decode_entries(_read(there, 0, blanks * QUEUE_ENTRY_BYTES))
        expired = (old["physicalOffset"] < self.log_start) & (old["size"] > 0)
        return blanks * QUEUE_ENTRY_BYTES if expired.all() else 0

    def _after(self, pair: dict[str, Any], there: Reader) -> list[dict[str, Any]]:
        """Whatever stands behind a queue's last entry."""
        for at in range(pair["used"], there.state.size, _CHUNK_BYTES):
            rest = _read(there, at, min(_CHUNK_BYTES, there.state.size - at))
            if rest.any():
                place = at + int(np.flatnonzero(rest)[0])
                return [_difference(pair, place, "bytes after the last entry", 1, 0)]
        return []

    def _one_too_many(self, pair: dict[str, Any], there: Reader) -> list[dict[str, Any]]:
        at = pair["used"]
        if self.exact and pair["folder"] != INDEX:
            return self._after(pair, there)
        if (
            pair["folder"].split("/")[0] != CONSUME_QUEUE
            or at + QUEUE_ENTRY_BYTES > there.state.size
        ):
            return []
        field = field_at(pair["folder"], at, self.slots)
        size_field = field_at(pair["folder"], at + field.layout.itemsize, self.slots)
        offset = field.value(_read(there, field.at, field.layout.itemsize).tobytes())
        size = size_field.value(_read(there, size_field.at, 4).tobytes())
        if size > 0 and 0 < offset < self.log_end:
            return [_difference(pair, at, f"{field.what} (one entry too many)", offset, 0)]
        if size > 0 and offset >= self.log_end and self.past:
            return [_difference(pair, at, f"{field.what} {PAST_END}", offset, 0)]
        return []


def _read(file: Reader, at: int, length: int) -> np.ndarray:
    buffer = np.empty(length, np.uint8)
    file.read_into(at, buffer)
    return buffer


def _difference(
    pair: dict[str, Any], at: int, field: str, there: int, wanted: int
) -> dict[str, Any]:
    return {
        "path": pair["there"],
        "offset": at,
        "field": field,
        "there": there,
        "wanted": wanted,
    }
