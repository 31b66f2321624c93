"""Replaces the file or RocksDB of config/ that has groups' offsets, in one step; keeps the old one,
and puts it back.

    STORE/reput-offsets/note.json   which one, what was asked, and a digest of the new offsets
    STORE/reput-offsets/NAME        the new one, until it changes places with config/NAME

The folder is whole before the exchange of the two names, so that a killed run leaves the old
offsets or the new ones. Kept offsets that have the note's digest are the new ones: none was moved.
A RocksDB may hold topics and groups too, so that it gets its old offsets back, not its old self.
"""

import json
import os
import shutil
from contextlib import closing
from typing import NamedTuple

from reput.broker.services.files import integer_key, pretty, read_json, read_offsets
from reput.store_format.discover.config import LIGHT, LiveOffsets, Offsets, offsets_in
from reput.store_format.faults import StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import read_small, replace_small, write_small
from reput.store_format.java import quoted_keys
from reput.store_format.names import CONFIG, LMQ_OFFSETS, LMQ_PREFIX, OFFSETS
from reput.store_format.query.offsets import digest_of
from reput.store_format.rocksdb.database import Database, copy_changed, open_database
from reput.store_format.rocksdb.rows import config_rows, offset_rows
from reput.store_format.state_table import CONFIG_DBS

KEPT, _STAGED, _NOTE = "reput-offsets", ".reput-offsets", "reput-offsets/note.json"
_DATABASES = CONFIG_DBS[OFFSETS]
_FILE_MOST = 256 << 20
_BACKUP, _NEW = ".bak", ".tmp"  # as in MixAll.string2File


class Kept(NamedTuple):
    """The note on what is kept. request: what was asked; digest: of the offsets made then."""

    name: str
    request: str
    digest: str


def kept_note(files: DiskFiles) -> Kept | None:
    """The note on a store's kept offsets; None where there are none. Raises StoreError where
    something else has a name of ours.
    """
    for folder in (KEPT, _STAGED):
        if files.exists(folder) and not files.is_folder(folder):  # it raises for a link
            raise StoreError(f"{folder}: is not a folder; it is left as it is")
    if not files.exists(_NOTE):
        return None
    whole = read_json(files, _NOTE)
    note = Kept(*(str(whole.get(field, "")) for field in Kept._fields))
    if note.name not in (OFFSETS, LMQ_OFFSETS, *_DATABASES):
        raise StoreError(f"{_NOTE}: does not name a file or RocksDB of offsets")
    return note


def replace_offsets(files: DiskFiles, live: LiveOffsets, wanted: Offsets, request: str) -> None:
    """Let a broker start with other offsets. The caller holds the store's lock, and has asked for
    kept_note.

    live: what it would start with now. Raises StoreError, before any change, and OSError.
    """
    old = _stage(files, live, wanted)
    note = Kept(live.name, request, digest_of(wanted))
    write_small(files, f"{_STAGED}/note.json", json.dumps(note._asdict()).encode())
    files.sync_all(_STAGED)
    (files.exchange if files.exists(KEPT) else files.rename)(_STAGED, KEPT)
    files.sync_folder("")
    _remove_staged(files)
    _exchange(files, KEPT, live, old)


def kept_offsets(files: DiskFiles, name: str) -> Offsets:
    """The offsets in what is kept. Raises StoreError."""
    path = f"{KEPT}/{name}"
    if name in _DATABASES:
        with closing(_opened(files, path)) as database:
            return offsets_in({"offsetTable": config_rows(database, OFFSETS)})
    read_offsets(files, path)  # raises
    return offsets_in(json.loads(quoted_keys(read_small(files, path, _FILE_MOST))))


def put_back(files: DiskFiles, live: LiveOffsets, kept: Offsets) -> None:
    """Let a broker start with the kept offsets, and forget them. Raises as `replace_offsets`."""
    old = _stage(files, live, kept)
    if not live.in_rocksdb:  # byte for byte
        raw = read_small(files, f"{KEPT}/{live.name}", _FILE_MOST)
        replace_small(files, f"{_STAGED}/{live.name}", raw)
    files.sync_all(_STAGED)
    _exchange(files, _STAGED, live, old)
    forget(files)


def forget(files: DiskFiles) -> None:
    """Remove what is kept."""
    _remove_staged(files)
    files.rename(KEPT, _STAGED)
    files.sync_folder("")
    _remove_staged(files)


def _stage(files: DiskFiles, live: LiveOffsets, wanted: Offsets) -> bytes:
    """Make what a broker is to read; what it reads of a file now."""
    changed = {key for key, queues in wanted.items() if live.offsets.get(key) != queues}
    changed |= live.offsets.keys() - wanted.keys()
    path, staged, old = f"{CONFIG}/{live.name}", f"{_STAGED}/{live.name}", b""
    if not live.in_rocksdb:
        old, new = _texts(files, path, {key: wanted[key] for key in changed & wanted.keys()})
    _remove_staged(files)
    files.add_folder(_STAGED)
    if not live.in_rocksdb:
        write_small(files, staged, new)
        return old
    files.add_folder(staged)
    with closing(_opened(files, path)) as database:
        before, after = (
            offset_rows(database, {f"{key[1]}@{key[0]}": of[key] for key in changed & of.keys()})
            for of in (live.offsets, wanted)
        )
        rows = {family: dict.fromkeys(before[family]) | after[family] for family in after}
        copy_changed(database, f"{files.root}/{staged}", rows)
    for name in files.names(staged):
        os.chmod(f"{files.root}/{staged}/{name}", files.file_mode)
        files.give(f"{staged}/{name}")
    return old


def _exchange(files: DiskFiles, folder: str, live: LiveOffsets, old: bytes) -> None:
    """Let config/NAME and a folder's change places. old: what a broker reads now, then .bak."""
    path = f"{CONFIG}/{live.name}"
    if not live.in_rocksdb:
        files.make_folder(CONFIG)
        for each in (path + _BACKUP, *([] if files.exists(path) else [path])):
            replace_small(files, each, old, beside=_NEW)
        files.sync_folder(CONFIG)
    files.exchange(f"{folder}/{live.name}", path)
    files.sync_folder(CONFIG)
    files.sync_folder(folder)


def _texts(files: DiskFiles, path: str, changed: Offsets) -> tuple[bytes, bytes]:
    """What a broker reads of a file or its .bak, and that with some offsets changed."""
    read_offsets(files, path)  # raises
    has_bak = not files.exists(path) and files.exists(path + _BACKUP)
    base = path + _BACKUP if has_bak else path
    whole, table = read_offsets(files, base)
    old = read_small(files, base, _FILE_MOST) if files.exists(base) else b'{"offsetTable":{}}'
    for (group, topic), queues in changed.items():
        key = f"{topic}@{group}"
        if path.endswith(LMQ_OFFSETS) and group.startswith(LMQ_PREFIX):
            whole.setdefault(LIGHT, {})[key] = queues[0]
            continue
        entry = table.setdefault(key, {})
        for queue, offset in queues.items():
            entry.pop(str(queue), None)
            entry[integer_key(queue)] = offset
    return old, pretty(whole, b"{\n\t\t\t" in old).encode()


def _opened(files: DiskFiles, path: str) -> Database:
    files.is_folder(path)  # raises for a link
    return open_database(Folder(LocalStorage(), f"{files.root}/{path}"))


def _remove_staged(files: DiskFiles) -> None:
    if files.exists(_STAGED):
        shutil.rmtree(f"{files.root}/{_STAGED}")
