"""A store's files described for a reader: a file's kind, and its content as items.

An item is a dictionary with its place in the file as `at`. The CommitLog and the IndexFile have
modules of their own, `log` and `index`.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format import names
from reput.store_format.derived.queue_files import entry_bytes, layout_of
from reput.store_format.describe.record import Item, fields_at
from reput.store_format.layouts import (
    CHECKPOINT,
    CHECKPOINT_FILE_BYTES,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PRE_BLANK,
    RECORD_HEAD,
)
from reput.store_format.log.segments import is_dledger
from reput.store_format.names import (
    is_queue_folder,
    parse_index_name,
    parse_segment_name,
    tiered_start,
)

Bytes = npt.NDArray[np.uint8]
# read(offset in the file, buffer): fills the buffer; raises if the file is too short.
Read = Callable[[int, Bytes], None]

_WINDOW_ENTRIES = 1 << 16
_SMALL_FILE_SHOWN = 4096
_PRE_BLANK = PRE_BLANK.item()
# The entry that ends a compacted topic's queue file that is not full (SparseConsumeQueue).
_END_OF_COMPACTED = (-1, 0, 0, 0, 0, 0, -1, 0)


class FileKind(StrEnum):
    """The kinds of files, by the name of their folder or of the file itself."""

    COMMIT_LOG = names.COMMIT_LOG
    CONSUME_QUEUE = names.CONSUME_QUEUE
    BATCH_CONSUME_QUEUE = names.BATCH_CONSUME_QUEUE
    INDEX = names.INDEX
    TIERED_INDEX = "tieredindex"
    CHECKPOINT = names.CHECKPOINT
    ABORT = names.ABORT
    LOCK = names.LOCK


_TIERED = {
    names.TIERED_LOG: FileKind.COMMIT_LOG,
    names.TIERED_QUEUE: FileKind.CONSUME_QUEUE,
    names.TIERED_INDEX: FileKind.TIERED_INDEX,
}
_QUEUES = {
    names.CONSUME_QUEUE: FileKind.CONSUME_QUEUE,
    names.BATCH_CONSUME_QUEUE: FileKind.BATCH_CONSUME_QUEUE,
    names.COMPACTION_QUEUE: FileKind.BATCH_CONSUME_QUEUE,
    names.COMPACTION_LOG: FileKind.COMMIT_LOG,
}


def kind_of(parts: Sequence[str], head: bytes) -> FileKind | None:
    """The kind of a file by its path's parts and its first bytes; None if neither tells.

    A segment in a folder of another name (several commitlog folders may be configured) is known by
    its magic number. Files of a compacted topic's queue and of a tiered store have the kind of the
    files that they resemble.
    """
    name, folders = parts[-1], list(parts[-4:-1])
    if tiered_start(name) is not None and folders[-1:]:
        return _TIERED.get(folders[-1])
    if name == names.CHECKPOINT and any(each.startswith(names.DLEDGER) for each in folders[-1:]):
        return None  # a text file of the group's member
    if name in (names.CHECKPOINT, names.ABORT, names.LOCK):
        return FileKind(name)
    if _is(parse_index_name, name) and folders[-1:] == [names.INDEX]:
        return FileKind.INDEX
    if not _is(parse_segment_name, name):
        return None
    if len(folders) == 3 and is_queue_folder(folders[2]) and folders[0] in _QUEUES:
        return _QUEUES[folders[0]]
    if folders[-1:] == [names.COMMIT_LOG] or is_dledger(list(parts)):
        return FileKind.COMMIT_LOG
    if len(head) >= RECORD_HEAD.itemsize:
        magic = fields_at(np.frombuffer(head, np.uint8), RECORD_HEAD, 0)["magic"]
        if magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK):
            return FileKind.COMMIT_LOG
    return None


def _is(parse: Callable[[str], int], name: str) -> bool:
    try:
        parse(name)
    except ValueError:
        return False
    return True


def first_offset(name: str, head: bytes) -> int:
    """A segment's first physical offset: by its name, or (for a copy) by its first record."""
    if _is(parse_segment_name, name):
        return parse_segment_name(name)
    start = tiered_start(name)
    if start is not None:
        return start
    if len(head) < RECORD_HEAD.itemsize:
        return 0
    first = fields_at(np.frombuffer(head, np.uint8), RECORD_HEAD, 0)
    known = first["magic"] in (MAGIC_V1, MAGIC_V2) and first["physicalOffset"] >= 0
    return int(first["physicalOffset"]) if known else 0


def describe_queue(
    read: Read, length: int, start: int, batch: bool, first: int = 0
) -> Iterator[Item]:
    """The items of a ConsumeQueue segment, from queue position `first` on.

    start: the logical byte offset in its name (its first position is start divided by the entry's
    size). Items, by "kind": entry; end, of a compacted topic's file; preBlank and unused, one for
    each run of such entries, with their number; damage with field, value and reason; rest: bytes
    after the last whole entry. Memory does not depend on the file's length.
    """
    size = entry_bytes(batch)
    layout = layout_of(batch)
    position = start // size
    items = _queue_items(read, length // size, position, layout)
    for item in items:
        if item["position"] + item.get("entries", 1) > first:
            yield item
    rest = length % size
    if rest:
        at = length - rest
        yield {"kind": "rest", "at": at, "position": position + length // size, "bytes": rest}
        if not batch:  # a batch queue's configured size is not rounded to whole entries
            yield _damage(at, "length", length, f"is no multiple of {size}")


def _queue_items(read: Read, count: int, position: int, layout: np.dtype[Any]) -> Iterator[Item]:
    size = layout.itemsize
    fields = layout.names or ()
    buffer = np.empty(_WINDOW_ENTRIES * size, np.uint8)
    run: Item = {}  # unused or pre-blank entries, not yielded yet
    last = -1  # physicalOffset of the last entry
    unused_before = False
    for base in range(0, count, _WINDOW_ENTRIES):
        entries = min(_WINDOW_ENTRIES, count - base)
        window = buffer[: entries * size]
        read(base * size, window)
        if run.get("kind") == "unused" and not window.any():  # as most of a queue's newest file is
            run["entries"] += entries
            continue
        written: list[bool] = (window.reshape(-1, size) != 0).any(axis=1).tolist()
        for i, value in enumerate(window.view(layout).tolist()):
            kind = "entry"
            if not written[i]:
                kind = "unused"
            elif value == _PRE_BLANK and run.get("kind") != "unused" and last < 0:
                kind = "preBlank"
            if run and run["kind"] == kind:
                run["entries"] += 1
                continue
            if run:
                yield run
                unused_before |= run["kind"] == "unused"
                run = {}
            place: Item = {"at": (base + i) * size, "position": position + base + i}
            if value == _END_OF_COMPACTED:
                yield {"kind": "end"} | place
                continue
            if kind != "entry":
                run = {"kind": kind} | place | {"entries": 1}
                continue
            entry = dict(zip(fields, value, strict=True))
            yield {"kind": "entry"} | place | entry
            yield from _queue_damage(place, value, entry, last, unused_before)
            last = max(last, entry["physicalOffset"])
    if run:
        yield run


def _queue_damage(
    place: Item, value: Any, entry: Item, last: int, unused_before: bool
) -> Iterator[Item]:
    """The damage of one entry, if any (ConsumeQueue.recover, getMessage)."""
    field = "physicalOffset"
    if value == _PRE_BLANK:
        field = "size"
        reason = "pre-blank after the first entry: the broker skips what stands behind it"
    elif entry["physicalOffset"] < 0:
        reason = "is negative"
    elif entry["size"] <= 0:
        field, reason = "size", "is not positive"
    elif unused_before:
        reason = "an entry after unused ones"
    elif entry["physicalOffset"] <= last:
        reason = f"is not above the entry's before, {last}: stale, or damaged"
    else:
        return
    yield _damage(place["at"], field, entry[field], reason) | {"position": place["position"]}


def _damage(at: int, field: str, value: int, reason: str) -> Item:
    return {"kind": "damage", "at": at, "field": field, "value": value, "reason": reason}


def describe_checkpoint(raw: bytes) -> Iterator[Item]:
    """An item for each field of a checkpoint file, and one for unknown bytes after them."""
    if len(raw) < CHECKPOINT.itemsize:
        yield _damage(0, "length", len(raw), f"a checkpoint has {CHECKPOINT_FILE_BYTES} bytes")
        return
    values = fields_at(np.frombuffer(raw, np.uint8), CHECKPOINT, 0)
    assert CHECKPOINT.fields is not None
    for name, value in values.items():
        yield {"kind": "field", "at": CHECKPOINT.fields[name][1], "name": name, "value": value}
    if len(raw) != CHECKPOINT_FILE_BYTES:
        yield _damage(0, "length", len(raw), f"a checkpoint has {CHECKPOINT_FILE_BYTES} bytes")
    if any(raw[CHECKPOINT.itemsize :]):
        rest = len(raw) - CHECKPOINT.itemsize
        yield {"kind": "unknown", "at": CHECKPOINT.itemsize, "bytes": rest}


def describe_small(kind: FileKind, raw: bytes) -> Iterator[Item]:
    """The files abort (the broker's process id, or empty up to 4.9) and lock (the word `lock`)."""
    text = raw[:_SMALL_FILE_SHOWN].decode("utf-8", "replace")
    yield {"kind": str(kind), "at": 0, "bytes": len(raw), "text": text}
    number = text.isascii() and text.isdigit()
    sound = text in ("", "lock") if kind == FileKind.LOCK else text == "" or number
    if not sound:
        wanted = "`lock`" if kind == FileKind.LOCK else "a process id"
        yield {"kind": "damage", "at": 0, "field": "text", "value": text[:40]} | {
            "reason": f"is neither empty nor {wanted}"
        }
