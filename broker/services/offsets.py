"""Replaces the file or RocksDB of config/ that has groups' offsets, in one step; keeps the old one,
and puts it back.

    STORE/reput-offsets/note.json   which one, what was asked, and a digest of the new offsets
    STORE/reput-offsets/NAME        the new one, until it changes places with config/NAME

The folder is whole before the exchange of the two names, so that a killed run leaves the old
offsets or the new ones. Kept offsets that have the note's digest are the new ones: none was moved.
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

    @property
    def raw(self) -> bytes:
        return json.dumps(self._asdict()).encode()


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
    changed = {key: queues for key, queues in wanted.items() if live.offsets.get(key) != queues}
    path, staged = f"{CONFIG}/{live.name}", f"{_STAGED}/{live.name}"
    old, new = (b"", b"") if live.in_rocksdb else _texts(files, path, changed)
    _remove_staged(files)
    files.add_folder(_STAGED)
    if live.in_rocksdb:
        _make_database(files, path, staged, changed)
    else:
        write_small(files, staged, new)
    note = Kept(live.name, request, digest_of(wanted))
    write_small(files, f"{_STAGED}/note.json", note.raw)
    files.sync_all(_STAGED)
    if files.exists(KEPT):
        files.exchange(_STAGED, KEPT)
    else:
        files.rename(_STAGED, KEPT)
    files.sync_folder("")
    _remove_staged(files)
    _exchange(files, live.name, old)


def kept_offsets(files: DiskFiles, name: str) -> Offsets:
    """The offsets in what is kept. Raises StoreError."""
    path = f"{KEPT}/{name}"
    if name in _DATABASES:
        with closing(_opened(files, path)) as database:
            return offsets_in({"offsetTable": config_rows(database, OFFSETS)})
    read_offsets(files, path)  # raises
    return offsets_in(json.loads(quoted_keys(read_small(files, path, _FILE_MOST))))


def put_back(files: DiskFiles, note: Kept, live: LiveOffsets) -> None:
    """Let what is kept and what a broker would read change places, and remove the latter."""
    old = b"" if live.in_rocksdb else _texts(files, f"{CONFIG}/{note.name}", {})[0]
    # what is kept has this digest from the exchange on
    replace_small(files, _NOTE, note._replace(digest=digest_of(live.offsets)).raw)
    files.sync_folder(KEPT)
    _exchange(files, note.name, old)
    forget(files)


def forget(files: DiskFiles) -> None:
    """Remove what is kept."""
    _remove_staged(files)
    files.rename(KEPT, _STAGED)
    files.sync_folder("")
    _remove_staged(files)


def _exchange(files: DiskFiles, name: str, old: bytes) -> None:
    """Let config/NAME and what is kept change places. old: what a broker reads of a file now."""
    path = f"{CONFIG}/{name}"
    if name not in _DATABASES:
        files.make_folder(CONFIG)
        for each in (path + _BACKUP, *([] if files.exists(path) else [path])):
            replace_small(files, each, old, beside=_NEW)
        files.sync_folder(CONFIG)
    files.exchange(f"{KEPT}/{name}", path)
    files.sync_folder(CONFIG)
    files.sync_folder(KEPT)


def _texts(files: DiskFiles, path: str, changed: Offsets) -> tuple[bytes, bytes]:
    """What a broker reads of a file or its .bak, and that with some offsets changed.

    Raises StoreError where a file is none of a broker's, or a link.
    """
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


def _make_database(files: DiskFiles, path: str, to: str, changed: Offsets) -> None:
    """Make a RocksDB with another's rows and changed offsets."""
    files.add_folder(to)
    table = {f"{topic}@{group}": queues for (group, topic), queues in changed.items()}
    with closing(_opened(files, path)) as database:
        copy_changed(database, f"{files.root}/{to}", offset_rows(database, table))
    for name in files.names(to):
        os.chmod(made := f"{files.root}/{to}/{name}", files.file_mode)
        if files.owner is not None:
            os.chown(made, *files.owner)


def _opened(files: DiskFiles, path: str) -> Database:
    files.is_folder(path)  # raises for a link
    return open_database(Folder(LocalStorage(), f"{files.root}/{path}"))


def _remove_staged(files: DiskFiles) -> None:
    if files.exists(_STAGED):
        shutil.rmtree(f"{files.root}/{_STAGED}")
