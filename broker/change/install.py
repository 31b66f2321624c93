"""Replaces a store's derived files by a set of new ones, in one atomic step.

No system call exchanges several folders at once, but one call exchanges two names. So a new root of
the store is built beside the old root. It has the set's files, and a second name (a hard link) for
every other file of the store. Then the two roots exchange their names. At every moment the store's
path leads to a whole store, with the old files or the new ones. The old derived files are kept in
`STORE.reput-old`.

All paths are relative to the folder that holds the store.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.derived.queue_files import decode_entries, is_pre_blank, layout_of
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.disk import NotDurable, put_in_place
from reput.store_format.files.protocol import Files, add_folders, read_small
from reput.store_format.log.there import Stranger, derived_there, of_files
from reput.store_format.names import (
    BATCH_CONSUME_QUEUE,
    CHECKPOINT,
    CONFIG,
    CONSUME_QUEUE,
    CURRENT,
    INDEX,
    ROCKSDB_QUEUES,
    STORE_DB,
    TIMER_LOG,
    is_wheel,
    queue_paths,
    segments_among,
)

# Queues in RocksDB have their files in CONSUME_QUEUE, or in the second folder of ROCKSDB_QUEUES.
DERIVED = tuple(dict.fromkeys((*ROCKSDB_QUEUES, BATCH_CONSUME_QUEUE, INDEX, CHECKPOINT)))
NOTE = "reput-install.json"

_ROOT = "root"
_OLDER = "older"
_CHUNK = 1 << 20
_NOTE_MOST = 256 << 20


_APART = "apart"  # field of a note: paths besides DERIVED that are new or were replaced


def may_be_apart(path: str) -> bool:
    """Whether an install may replace this besides DERIVED: in the root, or directly in config/."""
    folder, _, name = path.rpartition("/")
    if folder == CONFIG:
        return name not in ("", ".", "..") and "\0" not in name
    return path in (STORE_DB, TIMER_LOG) or is_wheel(path)


class SetFile(NamedTuple):
    """One file of a set, as in its manifest; `path`: below the set's folder and the store's.

    written: how many of its bytes the SHA-256 is of, zeros follow them; None: all.
    """

    path: str
    length: int
    sha256: str
    written: int | None = None


class Apart(NamedTuple):
    """What a store gets besides a set's files: files below config/, the RocksDB of an index, or the
    timer's files.

    files: below `source`'s root. paths: all that is new or replaced (`may_be_apart`), also by files
    of the set.
    """

    source: Files
    files: list[SetFile]
    paths: tuple[str, ...]


def _entries(files: Files, store: str, other: Collection[str]) -> Iterator[str]:
    """The names in a store's folder; instead of config/ the names in it, if `other` has one."""
    apart = any(path.startswith(f"{CONFIG}/") for path in other)
    for name in files.names(store):
        if name == CONFIG and apart:
            yield from (f"{CONFIG}/{each}" for each in files.names(f"{store}/{CONFIG}"))
        else:
            yield name


def kept_name(store: str) -> str:
    """The name of the folder for the set that was replaced."""
    return f"{store}.reput-old"


def staging_prefix(store: str) -> str:
    return f".{store}.reput-install-"


def install(
    files: Files, store: str, attempt: str, note: dict[str, Any], source: Files,
    wanted: Iterable[SetFile], log_start: int, apart: Apart | None = None,
) -> None:  # fmt: skip
    """Install the files of a set that is below `source`'s root. The caller holds the store's lock.

    attempt: a unique name. note: kept with the set, for when the set is replaced in turn.
    log_start: queues that the set lacks are kept if all their messages lie before it, and so have
    expired. Without such a queue a broker would number its next messages from 0. A set with queues
    in RocksDB has their ends itself. apart: what else the store gets.

    Raises StoreChanged where a file is not what the manifest says; StoreError where the store
    holds a link, or something has the kept set's name that no install has put there; OSError;
    NotDurable.
    """
    check_can_change(files, store)
    staging = f"{staging_prefix(store)}{attempt}"
    with _removing(files, store, staging):
        other = apart.paths if apart is not None else ()
        note = {**note, _APART: list(other)}
        root = _begin(files, store, staging, other)
        if apart is not None:
            _copy_set(files, apart.source, root, apart.files)
        tops = (*DERIVED, *other)
        copied = [f for f in wanted if f.path in other or f.path.split("/")[0] in tops]
        _copy_set(files, source, root, copied)
        queues = {file.path.rpartition("/")[0] for file in copied}
        in_rocksdb = any(file.path == f"{CONSUME_QUEUE}/{CURRENT}" for file in copied)
        for queue in () if in_rocksdb else expired_queues(files, store, queues, log_start):
            add_folders(files, root, queue.rpartition("/")[0])
            _link_tree(files, f"{store}/{queue}", f"{root}/{queue}")
        _keep_strangers(files, store, root)
        _swap(files, store, staging, note)


def _keep_strangers(files: Files, store: str, root: str) -> None:
    """Give a new root what no broker made in the folders that a set replaces."""
    found = [each for each in derived_there(of_files(files, store)) if isinstance(each, Stranger)]
    for path in [each.path for each in found]:
        if not files.exists(f"{root}/{path}"):
            add_folders(files, root, path.rpartition("/")[0])
            _link_tree(files, f"{store}/{path}", f"{root}/{path}")


def undo(files: Files, store: str, attempt: str, note: dict[str, Any]) -> None:
    """Put the kept set back, and keep the set that it replaces. Raises as `install` does."""
    kept = kept_name(store)
    check_can_change(files, store)
    check_no_links(files, kept)
    staging = f"{staging_prefix(store)}{attempt}"
    with _removing(files, store, staging):
        other = note.get(_APART, ())
        root = _begin(files, store, staging, other)
        for path in _entries(files, kept, other):
            if path in (*DERIVED, *other):
                add_folders(files, root, path.rpartition("/")[0])
                _link_tree(files, f"{kept}/{path}", f"{root}/{path}")
        _keep_strangers(files, store, root)
        _swap(files, store, staging, note)


@contextmanager
def _removing(files: Files, store: str, staging: str) -> Iterator[None]:
    """Remove what a failed installation has made, except after NotDurable."""
    try:
        yield
    except NotDurable:
        raise
    except BaseException:
        with suppress(OSError, StoreError):
            _finish(files, store, staging)
        raise


def check_can_change(files: Files, store: str) -> None:
    """Raise StoreError for whatever would stop an install, or its `undo` later, half-way.

    Called before anything is changed. A link to a queue's folder, for example, would be kept with
    the old set, and `undo` could not put it back.
    """
    check_no_links(files, store)
    check_kept(files, store)


def check_no_links(files: Files, path: str) -> None:
    """Raise StoreError where anything below a folder is neither a file nor a folder."""
    if files.is_folder(path):
        for name in files.names(path):
            check_no_links(files, f"{path}/{name}" if path else name)


def check_kept(files: Files, store: str) -> None:
    """Raise StoreError if something other than a kept set of ours has the kept set's name.

    An install removes whatever has that name when it replaces the kept set.
    """
    kept = kept_name(store)
    if not files.exists(kept):
        return
    if not files.is_folder(kept):
        raise StoreError(f"{kept}: is not a folder; install keeps the old set there: move it away")
    names = files.names(kept)
    for name in names:
        if name not in (*DERIVED, CONFIG, NOTE) and not may_be_apart(name):
            raise StoreError(
                f"{kept}/{name}: is of no set that an install has kept; it stays: move it away"
            )
    if names and not (NOTE in names and files.is_ours(f"{kept}/{NOTE}")):
        raise StoreError(
            f"{kept}: has no {NOTE} that this user's install has written; it stays: move it away"
        )


def unfinished(files: Files, store: str) -> list[str]:
    """Staging folders of this user's installations that did not end."""
    return [name for name, own in _staging(files, store) if own]


def foreign(files: Files, store: str) -> list[str]:
    """Folders with a staging folder's name that are links or not this user's alone; they stay."""
    return [name for name, own in _staging(files, store) if not own]


def _staging(files: Files, store: str) -> Iterator[tuple[str, bool]]:
    """(name, whether it is a folder of this user's) of what has a staging folder's name."""
    for name in files.names(""):
        if name.startswith(staging_prefix(store)):
            yield name, files.is_ours(name) and files.is_folder(name)


def clean_up(files: Files, store: str) -> list[str]:
    """Finish killed installations whose roots were exchanged, and remove what the rest left."""
    found = unfinished(files, store)
    for staging in found:
        _finish(files, store, staging)
    return found


def read_note(files: Files, path: str) -> dict[str, Any] | None:
    """The note of an installation by this user; None if there is none, or it is incomplete."""
    if not (files.exists(path) and files.is_ours(path)):
        return None
    try:
        note: dict[str, Any] = json.loads(read_small(files, path, _NOTE_MOST))
    except (ValueError, RecursionError):
        return None
    return note if isinstance(note, dict) else None


def expired_queues(files: Files, store: str, wanted: set[str], log_start: int) -> list[str]:
    """Queues of the store that are not in `wanted`, with all their messages before `log_start`."""
    found = []
    above = f"{store}/" if store else ""
    for kind in (CONSUME_QUEUE, BATCH_CONSUME_QUEUE):
        for queue in queue_paths(
            kind, lambda path: files.names(above + path), lambda path: files.is_folder(above + path)
        ):
            if str(queue) not in wanted:
                names = segments_among(files.names(f"{above}{queue}"))
                paths = [f"{above}{queue}/{name}" for name in names]
                ends = (last_offset(files, path) for path in reversed(paths))
                last = next((end for end in ends if end is not None), None)
                if last is not None and last < log_start:
                    found.append(str(queue))
    return found


def last_offset(files: Files, path: str) -> int | None:
    """The greatest physicalOffset in a queue's file; None where it has no entry of a message."""
    used = used_entries(files, path)
    return int(used["physicalOffset"].max()) if len(used) else None


def used_entries(files: Files, path: str) -> npt.NDArray[np.void]:
    """The entries of messages in a queue's file, as QUEUE_ENTRY or BATCH_QUEUE_ENTRY.

    path: ends in FOLDER/TOPIC/QUEUE/FILE, where FOLDER decides which dtype. Entries that fill a
    queue up to its first message (PRE_BLANK) are left out.
    """
    batch = path.split("/")[-4:-3] == [BATCH_CONSUME_QUEUE]
    layout = layout_of(batch)
    with closing(files.open_read(path)) as file:
        raw = np.empty(file.length() // layout.itemsize * layout.itemsize, np.uint8)
        file.read_at(0, raw)
    entries = decode_entries(raw, batch)
    used: npt.NDArray[np.void] = entries[(entries["size"] > 0) & ~is_pre_blank(entries)]
    return used


def _begin(files: Files, store: str, staging: str, other: Collection[str]) -> str:
    """A new root with a hard link for each file that is not derived. other: paths left out too."""
    root = f"{staging}/{_ROOT}"
    files.add_own_folder(staging)
    files.add_folder(root, like=store)
    for path in _entries(files, store, other):
        above = path.rpartition("/")[0]
        if above and not files.exists(f"{root}/{above}"):
            files.add_folder(f"{root}/{above}", like=f"{store}/{above}")
        if path not in (*DERIVED, *other):
            _link_tree(files, f"{store}/{path}", f"{root}/{path}")
    return root


def _link_tree(files: Files, path: str, to: str) -> None:
    if not files.is_folder(path):
        files.link(path, to)
        return
    files.add_folder(to, like=path)
    for name in files.names(path):
        _link_tree(files, f"{path}/{name}", f"{to}/{name}")


def _copy_set(files: Files, source: Files, root: str, wanted: Iterable[SetFile]) -> None:
    for file in wanted:
        add_folders(files, root, file.path.rpartition("/")[0])
        _copy(source, file, files, f"{root}/{file.path}")


def _copy(source: Files, wanted: SetFile, files: Files, to: str) -> None:
    """Copy a file, with holes for zeros, and compare its length and hash with the manifest's."""
    there, copied = source.open_read(wanted.path), files.create(to)
    written, zeros = wanted.length if wanted.written is None else wanted.written, True
    try:
        length, found = there.length(), hashlib.sha256()
        for at in range(0, length, _CHUNK):
            buffer = np.empty(min(_CHUNK, length - at), np.uint8)
            there.read_at(at, buffer)
            hashed = max(written - at, 0)
            found.update(buffer[:hashed])
            if buffer.any():
                zeros &= not buffer[hashed:].any()
                copied.write_at(at, buffer)
        copied.set_length(length)
    finally:
        there.close()
        copied.close()
    if not zeros or (length, found.hexdigest()) != (wanted.length, wanted.sha256):
        raise StoreChanged(f"{wanted.path}: is not the file that the manifest names")


def _swap(files: Files, store: str, staging: str, note: dict[str, Any]) -> None:
    noted = {**note, "root": files.inode(store)}
    file = files.create_own(f"{staging}/{NOTE}")
    file.write_at(0, json.dumps(noted).encode())
    file.close()
    put_in_place(files, f"{staging}/{_ROOT}", store, replace=True)
    _finish(files, store, staging)


def _finish(files: Files, store: str, staging: str) -> None:
    """After the exchange: keep the old root's set, without the names that the new root has too."""
    root, kept = f"{staging}/{_ROOT}", kept_name(store)
    note = read_note(files, f"{staging}/{NOTE}")
    if note is not None and files.exists(root) and files.inode(root) == note.get("root"):
        if not files.exists(store):
            raise StoreError(f"{store}: is gone; {root} holds what it was")
        check_kept(files, store)
        files.sync_folder("")  # makes the exchange durable before anything is removed
        other = note.get(_APART, ())
        for path in list(_entries(files, root, other)):
            if path not in (*DERIVED, *other):
                _remove_tree(files, f"{root}/{path}")
        if not files.exists(f"{root}/{NOTE}"):
            files.link(f"{staging}/{NOTE}", f"{root}/{NOTE}")
        if files.exists(kept):
            _remove_tree(files, f"{staging}/{_OLDER}")
            files.rename(kept, f"{staging}/{_OLDER}")
        files.sync_all("")  # so all removals are durable, and only the old set gets that name
        files.rename(root, kept)
        files.sync_folder("")
    _remove_tree(files, staging)


def _remove_tree(files: Files, path: str) -> None:
    if not files.exists(path):
        return
    if files.is_folder(path):
        for name in files.names(path):
            _remove_tree(files, f"{path}/{name}")
    files.remove(path)
