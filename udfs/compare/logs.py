"""Compares logs: their bytes by range, then the messages that only one of two logs has."""

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reput.store_format.files.read_ahead import open_ahead
from reput.store_format.kernels.bytes import Bytes, first_unlike
from reput.store_format.log.prints import PRINT, Prints, among, make_prints
from reput.store_format.log.properties import new_spans
from reput.store_format.log.reader import records_of
from reput.store_format.log.record import Read
from reput.store_format.log.records import bad_bodies
from reput.store_format.log.walk import Step
from reput.store_format.query.reader import StoredMessage
from reput.udfs.staging import (
    LineFile,
    Staging,
    attempt_name,
    ids_of,
    in_batches,
    read_range,
    rows_of,
    schema,
    stage,
)
from reput.udfs.table.log_parts import LogPart, LogParts

# ---
# Compares ranges of logs byte by byte.
#
# A task is given numbers of groups of pieces, and yields a row for each log that differs from the
# first log in a piece. A piece of each log is read once, a window at a time, and not kept: a
# checksum would tell less and cost more than comparing.

_WINDOW_MOST = 8 << 20

# One row for each piece and log that differs from the first log; physical offsets.
UNLIKE = schema(
    log=pa.int32(),  # its number among the logs
    start=pa.int64(),  # of the piece
    first=pa.int64(),  # the first byte that differs
    last=pa.int64(),  # the end of the last window that differs
)
RangeRow = dict[str, int]


class ComparedPiece(NamedTuple):
    """The bytes [start, end) that lie in one segment of the first log and of each of `logs`."""

    start: int
    end: int
    logs: tuple[int, ...]


@dataclass(frozen=True)
class CompareRanges:
    """Turns numbers of groups of pieces into UNLIKE rows.

    groups: where in `pieces` each group starts. Raises StoreChanged, OSError.
    """

    logs: tuple[LogParts, ...]
    pieces: tuple[ComparedPiece, ...]
    groups: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return in_batches(self._rows(batches), UNLIKE)

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[RangeRow]:
        ends = (*self.groups[1:], len(self.pieces))
        window = min(max(log.storage.window_bytes for log in self.logs), _WINDOW_MOST)
        buffers = np.empty(window, np.uint8), np.empty(window, np.uint8)
        for group in ids_of(batches):
            for piece in self.pieces[self.groups[group] : ends[group]]:
                yield from self._unlike(piece, buffers)

    def _unlike(self, piece: ComparedPiece, buffers: tuple[Bytes, Bytes]) -> list[RangeRow]:
        found: dict[int, RangeRow] = {}
        ours, theirs = buffers
        with ExitStack() as stack:
            read = self._open(0, piece, stack)
            others = {number: self._open(number, piece, stack) for number in piece.logs}
            for at in range(piece.start, piece.end, len(ours)):
                length = min(len(ours), piece.end - at)
                read(at, ours[:length])
                for number, other in others.items():
                    other(at, theirs[:length])
                    place = first_unlike(ours, theirs, length)
                    if place < length:
                        first = {"log": number, "start": piece.start, "first": at + place}
                        found.setdefault(number, first)["last"] = at + length
        return list(found.values())

    def _open(self, number: int, piece: ComparedPiece, stack: ExitStack) -> Read:
        log = self.logs[number]
        segment = next(s for s in log.segments if s.start <= piece.start < s.end)
        whole = sum(each.state.size for each in log.segments)
        begin, end = piece.start - segment.start, piece.end - segment.start
        reader = open_ahead(log.storage, segment.path, segment.state, begin, end, whole)
        stack.callback(reader.close)
        return segment.read_by(reader)


# One row for each segment whose chain of records breaks, or whose times fall.
BROKEN = schema(segment=pa.int32())


@dataclass(frozen=True)
class FindBroken:
    """Turns places in `numbers`, which has segments of a log, into BROKEN rows."""

    log: LogParts
    numbers: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        asked = (self.numbers[at] for at in ids_of(batches))
        return in_batches(({"segment": n} for n in asked if self.log.is_doubtful(n)), BROKEN)


# ---
# Finds the messages that only one of two logs has: three tasks, with fingerprints in staging.
#
# `ListPrints` writes the fingerprints of the records in ranges that differ, in shares by
# fingerprint; `MatchPrints` looks for the fingerprints of one log among those of the other, share
# by share; `DescribeMessages` reads the records without a partner again, counts them by queue and
# writes where they are and what they are called.

_PRINTS_HELD = 1 << 20

# One row for each share of fingerprints that a task wrote: `count` PRINTs from byte `at` on.
LISTED = schema(
    share=pa.int64(), log=pa.int32(), name=pa.string(), at=pa.int64(), count=pa.int64(),
)  # fmt: skip
# What is found of a record of one log. only: the other log lacks it. again: the other log has the
# message, but at another place in a queue. damaged: its body is damaged here, not there.
KINDS = ("only", "again", "damaged")
ONLY, AGAIN, DAMAGED = range(len(KINDS))
# One row for each log and share. name, count: the staging file and how many FOUND_PLACEs it has.
# same: records that both logs have and that are whole here.
MATCHED = schema(log=pa.int32(), name=pa.string(), count=pa.int64(), same=pa.int64())
FOUND_PLACE = np.dtype([("place", "<i8"), ("kind", "<i8")])
# One row for each walk, queue and kind; times in milliseconds. first: the first of these messages,
# as JSON. lines: the staging file of all messages of the walk; only in the walk's first row.
DESCRIBED = schema(
    log=pa.int32(), walk=pa.int64(), topic=pa.string(), queue_id=pa.int32(), kind=pa.int32(),
    messages=pa.int64(), bytes=pa.int64(), least=pa.int64(), greatest=pa.int64(),
    oldest=pa.int64(), newest=pa.int64(), first=pa.list_(pa.string()), lines=pa.string(),
)  # fmt: skip
Row = dict[str, Any]


class Walked(NamedTuple):
    """The records of one segment of a log that reach into any of these spans."""

    log: int
    segment: int  # its number in the log
    spans: tuple[tuple[int, int], ...]  # [start, end), physical offsets, in order and apart


@dataclass(frozen=True)
class Walks:
    """Reads the records of each walk by its number. A walk may be given up and done again."""

    logs: tuple[LogParts, ...]
    walks: tuple[Walked, ...]

    def steps(self, number: int) -> Iterator[Step]:
        """The live records of a walk, as `rebuild --on-damage salvage` has them."""
        _, segment, spans = self.walks[number]
        log = self.log(number)
        start = log.segments[segment].start
        starts, ends = (np.array(each) for each in zip(*spans, strict=True))
        for step in log.steps(LogPart(segment, start, start, spans[-1][1])):
            places = step.rows["physicalOffset"]
            after = np.searchsorted(ends, places, side="right")  # the first span not before it
            after = np.minimum(after, len(ends) - 1)
            reaches = (places < ends[after]) & (places + step.rows["size"] > starts[after])
            if reaches.all():
                yield step
            elif reaches.any():
                yield step._replace(rows=step.rows[reaches])

    def log(self, number: int) -> LogParts:
        return self.logs[self.walks[number].log]


@dataclass(frozen=True)
class ListPrints:
    """Turns numbers of walks into LISTED rows."""

    walks: Walks
    staging: Staging
    shares: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return in_batches((r for n in ids_of(batches) for r in self._listed(n)), LISTED)

    def _listed(self, number: int) -> Iterator[Row]:
        held: list[Prints] = []
        many = 0
        for step in self.walks.steps(number):
            held.append(_prints(step, self.walks.log(number)))
            many += len(held[-1])
            if many >= _PRINTS_HELD:
                yield from self._write(number, np.concatenate(held))
                held, many = [], 0
        if many:
            yield from self._write(number, np.concatenate(held))

    def _write(self, number: int, prints: Prints) -> Iterator[Row]:
        shares = (prints["message"][:, 0] & 0x7FFFFFFF) % self.shares
        order = np.argsort(shares, kind="stable")
        name = attempt_name("prints")
        stage(self.staging, name, prints[order].view(np.uint8))
        counts = np.bincount(shares, minlength=self.shares)
        at = 0
        for share in np.flatnonzero(counts).tolist():
            count = int(counts[share])
            yield {"share": share, "log": self.walks.walks[number].log, "name": name, "at": at,
                   "count": count}  # fmt: skip
            at += count * PRINT.itemsize


def _prints(step: Step, log: LogParts) -> Prints:
    out = np.zeros(len(step.rows), PRINT)
    split = log.rules.dispatch.split_properties
    make_prints(step.window, step.rows, log.rules.records, split, new_spans(), out)
    out["bad"] = bad_bodies(step.window, step.rows)
    return out


@dataclass(frozen=True)
class MatchPrints:
    """Turns LISTED rows, those of a share together, into MATCHED rows. logs: both logs' numbers."""

    staging: Staging
    logs: tuple[int, int]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return in_batches(self._matched(rows_of(batches)), MATCHED)

    def _matched(self, rows: Iterable[Row]) -> Iterator[Row]:
        shares: dict[int, dict[int, list[Row]]] = {}
        for row in rows:
            shares.setdefault(row["share"], {}).setdefault(row["log"], []).append(row)
        for by_log in shares.values():
            one, other = (self._prints(by_log.get(log, [])) for log in self.logs)
            yield from self._found(self.logs[0], one, other)
            yield from self._found(self.logs[1], other, one)

    def _prints(self, rows: list[Row]) -> Prints:
        parts = [
            read_range(self.staging, row["name"], row["at"], row["count"] * PRINT.itemsize)
            for row in rows
        ]
        return np.concatenate([np.zeros(0, np.uint8), *parts]).view(PRINT)

    def _found(self, log: int, ours: Prints, theirs: Prints) -> Iterator[Row]:
        if not len(ours):
            return
        there = among(ours["record"], theirs["record"])
        whole = among(ours["record"], theirs["record"][theirs["bad"] == 0])
        kind = np.where(among(ours["message"], theirs["message"]), AGAIN, ONLY)
        damaged = (ours["bad"] != 0) & whole
        kind[damaged] = DAMAGED
        unlike = ~there | damaged
        found = np.zeros(np.count_nonzero(unlike), FOUND_PLACE)
        found["place"], found["kind"] = ours["place"][unlike], kind[unlike]
        name = ""
        if len(found):
            name = attempt_name("found")
            stage(self.staging, name, found.view(np.uint8))
        yield {"log": log, "name": name, "count": len(found),
               "same": int(np.count_nonzero(there & ~damaged))}  # fmt: skip


@dataclass(frozen=True)
class DescribeMessages:
    """Turns numbers of walks into DESCRIBED rows.

    names: the logs' names; found: for each log, its files of FOUND_PLACEs and their counts;
    first: how many messages each row shows; lines: whether all are written as JSON lines.
    """

    walks: Walks
    staging: Staging
    names: tuple[str, ...]
    found: tuple[tuple[tuple[str, int], ...], ...]
    first: int
    lines: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return in_batches((r for n in ids_of(batches) for r in self._described(n)), DESCRIBED)

    def _described(self, number: int) -> Iterator[Row]:
        log, walked = self.walks.log(number), self.walks.walks[number]
        places = self._places(walked, log)
        if not len(places):
            return
        lines = LineFile(self.staging)
        described: dict[tuple[str, int, int], Row] = {}
        split = log.rules.dispatch.split_properties
        for step in self.walks.steps(number):
            at = np.searchsorted(places["place"], step.rows["physicalOffset"])
            at = np.minimum(at, len(places) - 1)
            mine = np.flatnonzero(places["place"][at] == step.rows["physicalOffset"])
            kinds = places["kind"][at[mine]].tolist()
            for kind, record in zip(kinds, records_of(step, mine, log.rules.records), strict=True):
                message = StoredMessage(record, split, lambda _: b"")
                row = described.setdefault((record.topic, record.queue_id, kind), _new())
                _count(row, message)
                line = {
                    "store": self.names[walked.log],
                    "kind": KINDS[kind],
                    **message_line(message),
                }
                if len(row["first"]) < self.first:
                    row["first"].append(json.dumps(line))
                if self.lines:
                    lines.add(line)
        name = lines.finish()
        for (topic, queue_id, kind), row in described.items():
            yield {"log": walked.log, "walk": number, "topic": topic, "queue_id": queue_id,
                   "kind": kind, **row, "lines": name}  # fmt: skip
            name = ""

    def _places(self, walked: Walked, log: LogParts) -> npt.NDArray[Any]:
        segment = log.segments[walked.segment]
        parts = [np.zeros(0, FOUND_PLACE)]
        for name, count in self.found[walked.log]:
            part = read_range(self.staging, name, 0, count * FOUND_PLACE.itemsize)
            places: npt.NDArray[Any] = part.view(FOUND_PLACE)
            at = places["place"]
            parts.append(places[(at >= segment.start) & (at < segment.end)])
        found = np.concatenate(parts)
        return found[np.argsort(found["place"], kind="stable")]


def _new() -> Row:
    return {"messages": 0, "bytes": 0, "least": -1, "greatest": -1, "oldest": -1, "newest": -1,
            "first": []}  # fmt: skip


def _count(row: Row, message: StoredMessage) -> None:
    row["messages"] += 1
    row["bytes"] += message.record.size
    for least, greatest, value in (
        ("least", "greatest", message.queue_offset), ("oldest", "newest", message.store_timestamp),
    ):  # fmt: skip
        row[least] = value if row[least] < 0 else min(row[least], value)
        row[greatest] = max(row[greatest], value)


def message_line(message: StoredMessage) -> Row:
    """Where one message is and what it is called; nothing of its content."""
    return {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "physicalOffset": message.physical_offset,
        "size": message.record.size,
        "storeTimestamp": message.store_timestamp,
        "uniqueKey": message.unique_key,
        "keys": len(message.keys),
    }
