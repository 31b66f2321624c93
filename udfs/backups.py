"""Tasks on a backup repository: segments written from its pieces, and pieces checked."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa

from reput.store_format.faults import Fault, PieceBroken, StoreError
from reput.store_format.files.backups import BackedUp
from reput.store_format.files.frames import decode_all
from reput.store_format.files.protocol import Bytes, InputStorage
from reput.store_format.files.runs import Piece
from reput.store_format.kernels.crc import crc_of
from reput.store_format.log.rules import Checks, RecordRules
from reput.store_format.log.segments import Segment
from reput.store_format.log.walk import Walk
from reput.udfs.staging import Staging, attempt_name, ids_of, schema

_WINDOW_BYTES = 4 << 20

# A segment in staging, of which `used` bytes are of the log.
COPIED = schema(start=pa.int64(), name=pa.string(), length=pa.int64(), used=pa.int64())


@dataclass(frozen=True)
class CopySegments:
    """Writes the segments whose numbers arrive in `id`, with zeros after the log's end."""

    storage: InputStorage
    staging: Staging
    segments: tuple[Segment, ...]
    end: int  # of the log, physical

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if isinstance(self.storage, BackedUp):
            self.storage.packed.crc = crc_of
        for number in ids_of(batches):
            yield pa.RecordBatch.from_pylist([self._copy(self.segments[number])], COPIED)

    def _copy(self, segment: Segment) -> dict[str, Any]:
        name = attempt_name("segment")
        used = min(segment.end, self.end) - segment.start
        output = self.staging.storage.create(self.staging.path(name))
        buffer = np.empty(min(_WINDOW_BYTES, max(used, 1)), np.uint8)
        with closing(self.storage.open(segment.path, segment.state)) as reader:
            for at in range(0, used, len(buffer)):
                some = buffer[: used - at]
                reader.read_into(at, some)
                output.write(some)
        length = segment.end - segment.start
        output.finish(length)
        return {"start": segment.start, "name": name, "length": length, "used": max(used, 0)}


# A piece: what is wrong with it, "" if nothing is; and its whole records.
CHECKED = schema(number=pa.int64(), wrong=pa.string(), records=pa.int64())
_BODIES = Checks(body=True)


@dataclass(frozen=True)
class CheckPieces:
    """Reads the pieces whose numbers arrive in `id`: frames, digest, and each record."""

    storage: InputStorage
    pieces: tuple[tuple[str, Piece, int], ...]  # path, piece, bytes of a segment
    rules: RecordRules

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [self._check(number) for number in ids_of(batches)]
        yield pa.RecordBatch.from_pylist(rows, CHECKED)

    def _check(self, number: int) -> dict[str, Any]:
        path, piece, segment_bytes = self.pieces[number]
        wrong, records = "", 0
        try:
            plain = decode_all(self.storage.read_bytes(path), piece.length, crc_of)
            if sha256(plain).hexdigest() != piece.sha256:
                raise PieceBroken("its bytes have not the SHA-256 of the catalogue")
            wrong, records = self._walked(plain, piece, segment_bytes)
        except FileNotFoundError:
            wrong = "is missing"
        except StoreError as error:
            wrong = str(error).removeprefix(f"{path}: ")
        return {"number": number, "wrong": wrong, "records": records}

    def _walked(self, plain: Bytes, piece: Piece, segment_bytes: int) -> tuple[str, int]:
        """(what the records are not as the catalogue says, how many are whole)."""

        def read(at: int, buffer: Bytes) -> None:
            there = plain[at - piece.offset : at - piece.offset + len(buffer)]
            buffer[: len(there)], buffer[len(there) :] = there, 0

        records, at, skips = 0, piece.offset, dict(piece.damaged)
        buffer = np.empty(min(_WINDOW_BYTES, segment_bytes), np.uint8)
        while at < piece.end:
            if at in skips and skips[at] > at:
                at = skips[at]
                continue
            segment_end = at - at % segment_bytes + segment_bytes
            stop, fault = min(segment_end, piece.end), Fault.NONE
            for step in Walk(read, segment_end, self.rules, _BODIES, buffer).steps(at, stop):
                records, at, fault = records + len(step.rows), step.next, step.fault
            if fault == Fault.BLANK:
                at = segment_end
            elif at < stop and at not in skips:
                return f"has no whole record at {at:,} ({fault.name})", records
        if records != piece.records:
            return f"has {records:,} records, not the {piece.records:,} of the catalogue", records
        return "", records
