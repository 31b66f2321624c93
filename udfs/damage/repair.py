"""Writes a repaired log's segments with fillers, and the damaged bytes to files of their own."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from reput.store_format import layouts
from reput.store_format.damage.ranges import Damage, DamageKind
from reput.store_format.damage.repair import LostPositions, Stamp, fill, own_least_bytes
from reput.store_format.damage.resync import Prover
from reput.store_format.dispatch.scan import Read
from reput.store_format.faults import CRC_FAULTS, REASONS, Fault, StoreError
from reput.store_format.files.protocol import InputStorage, Writer
from reput.store_format.kernels.java_text import decode
from reput.store_format.log.records import RecordRules, topic_length_bytes
from reput.store_format.log.rules import reaches_queue
from reput.store_format.log.segments import Segment
from reput.store_format.message.encode import crc_property_of
from reput.udfs.damage.segments import padded
from reput.udfs.range_files import read_ranges
from reput.udfs.staging import LateFile, Staging, attempt_name, ids_of, schema, stage

_PIECE_BYTES = 1 << 20

# One row for each segment of the repaired log. name, saved, listing: files in staging, '' for none.
REPAIRED = schema(
    start=pa.int64(),
    name=pa.string(),
    length=pa.int64(),
    used=pa.int64(),
    sha256=pa.string(),  # of its first `used` bytes; zeros follow
    saved=pa.string(),  # the damaged bytes, one range after the other
    saved_bytes=pa.int64(),
    listing=pa.string(),  # JSON: where each range stands in `saved`
    fillers=pa.int64(),
    corrected=pa.int64(),  # records whose CRC was set to that of their bytes
)


@dataclass(frozen=True)
class SegmentRepair:
    """How to write one segment of the repaired log.

    source: the old segment; None if its file is missing.
    run: names its file of damaged ranges in staging; None if it is sound.
    zeros_from: the offset from which it has only zeros although live records follow in later
    segments, or -1.
    lost: for each range, by its offset, the positions that its fillers must keep.
    timestamp: storeTimestamp of fillers that no record follows.
    strays: records that have no place in the queue that they name; they are replaced too.
    """

    start: int
    source: Segment | None
    run: str | None
    zeros_from: int
    lost: dict[int, tuple[LostPositions, ...]]
    timestamp: int
    strays: tuple[Damage, ...] = ()


class Edit(NamedTuple):
    """Replace [start, end) of the log by `raw`, or by fillers if `raw` is None."""

    start: int
    end: int
    lost: tuple[LostPositions, ...]
    raw: bytes | None


@dataclass(frozen=True)
class RepairSegments:
    """Writes those of `segments` whose indices arrive in the column `id`.

    live_end: where the log ends. What follows becomes zeros; its bytes are saved like damaged ones.
    """

    storage: InputStorage  # that the store is on
    staging: Staging
    segments: tuple[SegmentRepair, ...]
    segment_bytes: int
    rules: RecordRules
    live_end: int
    crc_property: bool  # fillers have a `__CRC32#`

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in ids_of(batches):
            yield pa.RecordBatch.from_pylist([self._repair(self.segments[place])], REPAIRED)

    def _repair(self, repair: SegmentRepair) -> dict[str, Any]:
        reader = None
        read: Read = _nothing
        if repair.source:
            reader = self.storage.open(repair.source.path, repair.source.state)
            read = padded(reader, repair.source)
        end = repair.start + self.segment_bytes
        prover = Prover(read, repair.start, end, self.rules)
        ranges = self._ranges(repair, end)
        names = {kind: attempt_name(kind) for kind in ("segment", "damaged", "listing")}
        saved = _Saved(self.staging, names)
        output = self.staging.storage.create(self.staging.path(names["segment"]), digest=True)
        at, fillers, corrected = repair.start, 0, 0
        for damage in ranges:
            saved.add(damage, read)
        for edit in self._edits(repair, self._widened(ranges, prover, end), prover, end):
            _copy(read, at, edit.start, output)
            if edit.raw is not None:
                output.write(edit.raw)
                corrected += len(edit.raw) == 4
            else:
                parts = prover.lengths(edit.end)
                sound = parts is not None and parts.place == edit.end
                timestamp = parts.store_timestamp if parts and sound else repair.timestamp
                stamp = Stamp(timestamp, self.crc_property)
                length = edit.end - edit.start
                try:
                    for record in fill(edit.start, length, edit.lost, stamp, edit.end == end):
                        output.write(record)
                        fillers += len(record) > layouts.BLANK_BYTES
                except ValueError as error:
                    raise StoreError(
                        f"the range at physical offset {edit.start}: {error}"
                    ) from None
            at = edit.end
        _copy(read, at, max(min(end, self.live_end), at), output)
        written = output.finish(self.segment_bytes)
        if reader:
            reader.close()
        return {
            "start": repair.start, "name": names["segment"], "fillers": fillers,
            "corrected": corrected, **written._asdict(), **saved.finish(),
        }  # fmt: skip

    def _ranges(self, repair: SegmentRepair, end: int) -> list[Damage]:
        if repair.source is None:
            return [Damage(repair.start, end, DamageKind.MISSING, Fault.MISSING, 0, None, "record")]
        ranges = list(read_ranges(self.staging, repair.run)) if repair.run else []
        replaced = {stray.offset for stray in repair.strays}  # strays, even if they are damaged too
        ranges = sorted([*(r for r in ranges if r.offset not in replaced), *repair.strays])
        if repair.zeros_from >= 0:
            rest = min(end, repair.source.end)
            kind, fault = DamageKind.DAMAGED, Fault.ZEROS
            zeros = Damage(repair.zeros_from, rest, kind, fault, 0, None, "record")
            ranges = sorted([*ranges, zeros])
        return ranges

    def _widened(
        self, ranges: list[Damage], prover: Prover, segment_end: int
    ) -> list[tuple[Damage, tuple[LostPositions, ...]]]:
        """The ranges, each with the queue positions of records that it takes in.

        A range too short for any filler takes in the damaged record beside it, and keeps that
        record's position: losing one damaged message is better than not repairing the store.
        """
        least = own_least_bytes(self.crc_property)
        widened: list[tuple[Damage, tuple[LostPositions, ...]]] = [(each, ()) for each in ranges]
        for number, damage in enumerate(ranges):
            if damage.kind == DamageKind.CONTENT or damage.end == segment_end:
                continue
            before = number and ranges[number - 1].end == damage.offset
            after = number + 1 < len(ranges) and ranges[number + 1].offset == damage.end
            if damage.length >= least:
                continue
            for is_there, beside in ((before, number - 1), (after, number + 1)):
                if is_there and ranges[beside].kind == DamageKind.CONTENT:
                    record = ranges[beside]._replace(kind=DamageKind.DAMAGED)
                    widened[beside] = record, _position_of(record, prover)
                    break
        return widened

    def _edits(
        self,
        repair: SegmentRepair,
        ranges: list[tuple[Damage, tuple[LostPositions, ...]]],
        prover: Prover,
        segment_end: int,
    ) -> Iterator[Edit]:
        held: Edit | None = None
        for damage, own_positions in ranges:
            if damage.offset >= self.live_end:
                continue
            if damage.kind == DamageKind.CONTENT:
                if held:
                    yield held
                held = None
                if damage.fault in CRC_FAULTS:
                    yield from _corrected(damage, prover)
                continue
            lost = own_positions + repair.lost.get(damage.offset, ())
            if held and held.end == damage.offset:
                held = held._replace(end=damage.end, lost=held.lost + lost)
                continue
            if damage.end == segment_end and damage.length < layouts.BLANK_BYTES:
                continue  # CommitLog leaves these bytes to a BLANK, whose first eight are sound
            if held:
                yield held
            held = Edit(damage.offset, damage.end, lost, None)
        if held:
            yield held


def _position_of(record: Damage, prover: Prover) -> tuple[LostPositions, ...]:
    """The queue position of a record that is given up; empty if no queue has the record."""
    parts = prover.lengths(record.offset)
    assert parts is not None
    head = np.frombuffer(
        prover.bytes_at(record.offset, layouts.RECORD_HEAD.itemsize), layouts.RECORD_HEAD
    )[0]
    if not reaches_queue(int(head["sysFlag"])):
        return ()
    at = parts.body_at + parts.body_length + topic_length_bytes(parts.magic)
    end = record.offset + parts.size - parts.properties_length - layouts.PROPERTIES_LENGTH
    topic = decode(prover.bytes_at(at, end - at))
    return (LostPositions(topic, int(head["queueId"]), int(head["queueOffset"]), 1),)


def _corrected(damage: Damage, prover: Prover) -> Iterator[Edit]:
    """Edits that make a record's CRCs match its bytes, so that no recovery stops there."""
    parts = prover.lengths(damage.offset)
    assert parts is not None
    at = damage.offset
    crc = 0
    if parts.body_length:
        crc = prover.crc_of(parts.body_at, parts.body_at + parts.body_length)
    raw = crc.to_bytes(4, "big")
    field = at + layouts.RECORD_AT.bodyCRC
    yield Edit(field, field + 4, (), raw)
    if prover.property_crc(at, parts) is not None:
        end = at + parts.size - layouts.CRC_PROPERTY_BYTES
        head = prover.bytes_at(at, layouts.RECORD_AT.bodyCRC) + raw
        whole = prover.crc_of_changed(at, end, head)
        yield Edit(end, end + layouts.CRC_PROPERTY_BYTES, (), crc_property_of(whole))


def _nothing(offset: int, buffer: np.ndarray) -> None:
    buffer[:] = 0


def _copy(read: Read, at: int, end: int, output: Writer | LateFile) -> None:
    piece = np.empty(min(_PIECE_BYTES, max(end - at, 0)), np.uint8)
    while at < end:
        part = piece[: end - at]
        read(at, part)
        output.write(part)
        at += len(part)


class _Saved:
    """Saves the damaged bytes of one segment, and a list of where each range is."""

    def __init__(self, staging: Staging, names: dict[str, str]) -> None:
        self._staging, self._names = staging, names
        self._file = LateFile(staging, names["damaged"])
        self._rows: list[dict[str, Any]] = []

    def add(self, damage: Damage, read: Read) -> None:
        row = {"offset": damage.offset, "length": damage.length, "kind": str(damage.kind)}
        row |= {"field": REASONS.get(damage.fault, ("", ""))[0], "at": self._file.bytes}
        if damage.kind == DamageKind.MISSING:
            row["at"] = -1
        else:
            _copy(read, damage.offset, damage.end, self._file)
        self._rows.append(row)

    def finish(self) -> dict[str, Any]:
        if self._rows:
            raw = (json.dumps(self._rows, indent=0) + "\n").encode()
            stage(self._staging, self._names["listing"], raw)
        return {
            "saved": self._file.finish(),
            "saved_bytes": self._file.bytes,
            "listing": self._names["listing"] if self._rows else "",
        }
