"""Decides for every command whether something may be written.

Whatever the options, nothing is written to a path that is, holds or lies inside an input. And only
a set of reput's own (reput.jobs.outputs.output) without any other file is ever replaced.
"""

import errno
import hashlib
import json
import os
import re
import stat
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, BinaryIO, NamedTuple

from reput.jobs.outputs.report import MANIFEST_FORMAT, SHARDED_FORMAT
from reput.store_format.faults import StoreError
from reput.store_format.files.by_url import place_at
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.folder import Folder, Place
from reput.store_format.files.local import LocalStorage, VolumeStorage
from reput.store_format.files.local_writers import open_new
from reput.store_format.files.manifest_last import ManifestLast
from reput.store_format.files.overlap import Whereabouts, relation
from reput.store_format.names import (
    BATCH_CONSUME_QUEUE,
    COMMIT_LOG,
    CONFIG,
    CONSUME_QUEUE,
    DELAY_OFFSETS,
    DLEDGER,
    DLEDGER_DATA,
    INDEX,
    MANIFEST,
    OFFSET_MAP,
    SHARDS,
    UNFINISHED,
)
from reput.store_format.state_table import FILES, Copies, StateFile, folders_of, pattern

# ---
# Recognises a set of reput's own: a folder with a manifest and exactly the files that it lists.
#
# The kinds are a rebuilt set, a repaired or converted store, and an export. Only such folders are
# ever replaced, as a whole.

REPAIR_FORMAT = "reput-repair-1"
EXPORT_FORMAT = "reput-export-1"
STORE_FORMAT = "reput-export-store-1"
DATA = "data"  # the folder of an export's files
CONVERT_FORMAT = "reput-convert-1"
SHARDED = "shards"  # a manifest's list of further lists of files

_LISTED = object()
_DERIVED = [row for row in FILES if row.copies == Copies.DERIVE]
_DELAYED = f"{CONFIG}/{DELAY_OFFSETS}"  # made from the log where it is lost
_STAGING = re.compile(r"/?([^/].*/)?\.[^/]*\.reput-[0-9a-f]{32}/set", re.ASCII | re.DOTALL)


class SetKind(NamedTuple):
    """A kind of published folder: the format of its manifest, and the names allowed in it."""

    what: str
    format: str
    lists: tuple[str, ...]  # the manifest's lists of files
    files: re.Pattern[str]
    folders: re.Pattern[str]
    sharded: str = ""  # the format of one that lists files in shards too


def _patterns(
    rows: Iterable[StateFile], *more: str, folders: tuple[str, ...] = ()
) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What matches the files of rows of the table, and their folders."""
    rows = list(rows)
    files = dict.fromkeys((*(pattern(row).pattern for row in rows), *more))
    around = dict.fromkeys((*(each for row in rows for each in folders_of(row)), *folders))
    return re.compile("|".join(files), re.ASCII), re.compile("|".join(around), re.ASCII)


REBUILT = SetKind(
    "a set that reput has rebuilt", MANIFEST_FORMAT, ("files",),
    *_patterns(_DERIVED, re.escape(_DELAYED), rf"{SHARDS}/\d{{8}}\.jsonl", folders=(SHARDS,)),
    SHARDED_FORMAT,
)  # fmt: skip
REPAIRED = SetKind(
    "a store that reput has repaired", REPAIR_FORMAT, ("segments", "saved", "derived", "copied"),
    *_patterns(FILES, rf"{CONFIG}/[^/]+", r"damaged/\d{20}(\.json)?", folders=("damaged",)),
)  # fmt: skip
EXPORTED = SetKind(
    "a set that reput has exported", EXPORT_FORMAT, ("files",),
    # in a folder of their own, in which pandas, Polars, DuckDB and Spark find nothing but them;
    # exports of 0.1 have them beside the manifest
    re.compile(rf"({DATA}/)?part-\d{{8}}\.(parquet|jsonl)", re.ASCII), re.compile(DATA),
)  # fmt: skip

EXPORTED_STORE = SetKind(
    "a store that reput has exported", STORE_FORMAT, ("files",),
    *_patterns(FILES, f"{CONFIG}/[^/]+", re.escape(OFFSET_MAP)),
)  # fmt: skip
CONVERTED = SetKind(
    "a store that reput has converted", CONVERT_FORMAT, ("segments", "derived", "copied"),
    *_patterns(FILES, f"{CONFIG}/[^/]+"),
)  # fmt: skip
RESTORED = SetKind(
    "a store that reput has restored", "reput-restore-1", ("segments", "derived", "copied"),
    *_patterns(FILES, f"{CONFIG}/[^/]+", r"broker\.conf"),
)  # fmt: skip


def parse_manifest(raw: bytes, path: str, kind: SetKind) -> dict[str, Any]:
    """The manifest of a set. Raises StoreError if it is of no such set, or lists foreign files."""
    try:
        manifest = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path}: is not a manifest: {error}") from None
    known = (kind.format, kind.sharded or kind.format)
    if not isinstance(manifest, dict) or manifest.get("format") not in known:
        raise StoreError(f"{path}: is not a manifest of {kind.what} ({kind.format})")
    lists = {name: manifest.get(name) for name in kind.lists} | {SHARDED: _shards(manifest, kind)}
    for name, entries in lists.items():
        for _ in _checked(entries, path, name, kind):
            pass
    return manifest


def _shards(manifest: dict[str, Any], kind: SetKind) -> Any:
    return manifest.get(SHARDED) if manifest["format"] == kind.sharded else []


def files_of(
    folder: Folder, manifest: dict[str, Any], kind: SetKind
) -> Iterator[tuple[str, int | None, Any]]:
    """(path below the set, length or None if unknown, entry) of each file that the manifest of a
    folder lists. A large set has shards, which are read one by one: of them no more is held.
    """
    path = f"{folder}/{MANIFEST}"
    for name in kind.lists:
        yield from _checked(manifest.get(name), path, name, kind)
    for shard in _shards(manifest, kind):
        path = f"{folder}/{shard['path']}"
        raw = folder.storage.read_bytes(path)
        if (len(raw), hashlib.sha256(raw).hexdigest()) != (shard["length"], shard["sha256"]):
            raise StoreError(f"{path}: is not what {MANIFEST} says: the set is not whole")
        try:
            entries = list(map(json.loads, raw.splitlines()))
        except (ValueError, RecursionError) as error:
            raise StoreError(f"{path}: is not a list of files: {error}") from None
        yield from _checked(entries, path, "files", kind)


def _checked(
    entries: Any, path: str, name: str, kind: SetKind
) -> Iterator[tuple[str, int | None, Any]]:
    if not isinstance(entries, list):
        raise StoreError(f"{path}: has no list {name!r}")
    for entry in entries:
        below, length = _file(entry)
        if below is None or not kind.files.fullmatch(below) or not _is_plain(below):
            raise StoreError(f"{path}: {name}: names a file outside the set, or none of a set")
        yield below, length, entry


def _file(entry: Any) -> tuple[str | None, int | None]:
    """(path, length) of an entry of a list. The length of a `.json` file is unknown."""
    if isinstance(entry, str):
        return entry, None
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
        return None, None
    length, path = entry.get("length"), entry["path"]
    known = type(length) is int and isinstance(entry.get("sha256"), str)
    written = entry.get("written")
    if written is not None:
        known &= type(written) is int and type(length) is int and 0 <= written <= length
    return (path if known else None), None if path.endswith(".json") else length


def _is_plain(path: str) -> bool:
    return not {"", ".", ".."} & set(path.split("/")) and "\0" not in path


def what_may_go(folder: Place, kind: SetKind, unfinished: bool) -> list[str]:
    """All paths in a folder, if it is a set of this kind without other files.

    Paths are below the folder; those of folders end with a slash. unfinished: also accept what a
    job killed while publishing has left, without a manifest. Raises StoreError that names what
    else is there; FileNotFoundError, NotADirectoryError.
    """
    there = {listed.name: listed.state for listed in folder.storage.walk(folder.path)}
    path = f"{folder}/{MANIFEST}"
    if MANIFEST in there:
        manifest = parse_manifest(folder.read(MANIFEST), path, kind)
        shards = _checked(_shards(manifest, kind), path, SHARDED, kind)
        allowed = set(kind.folders.pattern.split("|")) & {"commitlog", "config", "damaged"}
        known: dict[str, Any] = there  # no second dict of millions of names
        known[MANIFEST] = _LISTED
        if unfinished and UNFINISHED in known:
            known[UNFINISHED] = _LISTED
        for name, length, _ in chain(shards, files_of(folder, manifest, kind)):
            allowed |= _folders_of([name])
            if name in known:
                state = known[name]
                if state is _LISTED:
                    continue
                _refuse(state is None, folder, name, kind, "is not a regular file")
                wrong = length not in (None, state.size)
                _refuse(wrong, folder, name, kind, "has not the length that its manifest says")
                known[name] = _LISTED
        for name, state in known.items():
            ours = name[:-1] in allowed if name[-1:] == "/" else state is _LISTED
            _refuse(not ours, folder, name, kind, "is not in its manifest")
        return list(there)
    if not (unfinished and UNFINISHED in there):
        raise StoreError(f"{folder}: is not empty, and has no {MANIFEST}: it is not {kind.what}")
    marker = folder.read(UNFINISHED)
    text = marker.decode("utf-8", "surrogateescape")
    _refuse(bool(text) and not _STAGING.search(text), folder, UNFINISHED, kind, "is not ours")
    for name, state in there.items():
        if name[-1:] == "/":
            _refuse(not kind.folders.fullmatch(name[:-1]), folder, name, kind, "is of no set")
        elif name != UNFINISHED:
            of_set = state is not None and kind.files.fullmatch(name) and _is_plain(name)
            _refuse(not of_set, folder, name, kind, "is of no set")
    return list(there)


def _folders_of(files: Iterable[str]) -> set[str]:
    found = set()
    for path in files:
        while path := path.rpartition("/")[0]:
            found.add(path)
    return found


def _refuse(wrong: bool, folder: Folder, name: str, kind: SetKind, why: str) -> None:
    if wrong:
        raise StoreError(f"{folder}/{name}: {why}: the folder is not {kind.what}, and stays")


_IN_STORE = (COMMIT_LOG, CONFIG, CONSUME_QUEUE, BATCH_CONSUME_QUEUE, INDEX)
_PATH_SEPARATOR = ","  # MixAll.MULTI_PATH_SPLITTER


class OverlapsInput(StoreError):
    """The output is, holds or lies inside an input."""


class OutputInUse(StoreError):
    """The output folder exists and is not empty."""


def inputs_of(store: Place, settings: Mapping[str, str]) -> list[Place]:
    """A store's root, and each of its folders that links or settings may put elsewhere.

    settings: by RocketMQ's names; all that contain paths of the store count (storePathCommitLog
    with its several paths, readOnlyCommitLogStorePaths, storePathIndex, ...).
    """
    paths = [store.path, *(f"{store}/{name}" for name in _IN_STORE)]
    for name, state in store.listed():
        if state is None and name.startswith(DLEDGER):
            paths += [f"{store}/{name}", f"{store}/{name}/{DLEDGER_DATA}"]
    for name, value in settings.items():
        if "storepath" in name.lower():
            paths += [path.strip() for path in value.split(_PATH_SEPARATOR)]
    return [Place(store.storage, path) for path in dict.fromkeys(paths) if path]


def refuse_overlap(place: Place, inputs: Iterable[Place]) -> None:
    """Raise OverlapsInput if `place` is, holds or lies inside an input. Raises OSError."""
    here = place.storage.whereabouts(place.path)
    for each in inputs:
        how = relation(here, _whereabouts(each))
        if how is not None:
            raise OverlapsInput(
                f"{place}: {how} {each}, which is read: nothing is written there; "
                "give another place"
            )


def _whereabouts(place: Place) -> Whereabouts:
    try:
        return place.storage.whereabouts(place.path)
    except StoreError:  # a setting's path on another file system than the store
        return LocalStorage().whereabouts(place.path)


@dataclass(frozen=True)
class Output(Place):
    """A folder that a job publishes to, with the rules of what in it may be replaced.

    replace: whether a set of this kind is; None: a command that never does, and has no option.
    """

    kind: SetKind
    replace: bool | None
    inputs: tuple[Place, ...]

    def check(self) -> None:
        """Raise StoreError or OSError if nothing may be published; called before the work."""
        self.may_go(self.path)

    def may_go(self, folder: str) -> list[str]:
        """The content of `folder`, all of which may be deleted. folder: the output, or the old
        output moved elsewhere.

        Called again right before a deletion. Raises OverlapsInput, OutputInUse, StoreError.
        """
        if folder == self.path:
            refuse_overlap(Place(self.storage, folder), self.inputs)
        late = isinstance(self.storage, ManifestLast)
        try:
            if next(iter(self.storage.walk(folder)), None) is None:
                return []
            going = what_may_go(Place(self.storage, folder), self.kind, late)
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            raise StoreError(f"{folder}: is there and is not a folder") from None
        except StoreError as error:
            if self.replace:
                raise
            raise OutputInUse(f"{folder}: is not empty; give another folder ({error})") from None
        if self.replace is None and not self._is_half(going):
            raise OutputInUse(f"{folder}: is not empty; give another folder")
        if not self.replace and not self._is_half(going):
            raise OutputInUse(
                f"{folder}: is not empty; --replace puts the new set in the place of this one, "
                f"{self.kind.what}"
            )
        return going

    def _is_half(self, going: list[str]) -> bool:
        """Whether a killed job left the files, which the new files then replace."""
        return MANIFEST not in going


@dataclass(frozen=True)
class NewFile:
    """A single local file that a command writes, such as a picture or a report."""

    path: str
    inputs: tuple[Place, ...]

    def check(self) -> None:
        """Raise StoreError if the file exists, cannot be made, or would lie in an input."""
        refuse_overlap(Place(LocalStorage(), self.path), self.inputs)
        if os.path.lexists(self.path):
            raise StoreError(f"{self.path}: is there already, and stays")
        parent = os.path.dirname(os.path.abspath(self.path))
        if not os.path.isdir(parent):
            raise StoreError(f"{parent}: no such folder, for {os.path.basename(self.path)}")

    def write(self, content: bytes) -> None:
        """Check again, and write; a file that was made meanwhile is an error."""
        with self.writing() as file:
            file.write(content)

    @contextmanager
    def writing(self) -> Iterator[BinaryIO]:
        """Check again, and give the new file to the block; it is removed if the block fails."""
        self.check()
        with os.fdopen(open_new(self.path, 0o666), "wb") as file:
            try:
                yield file
            except BaseException:
                os.unlink(self.path)
                raise


@dataclass(frozen=True)
class WholeFile(NewFile):
    """A single local file that exists whole or not at all, whatever ends the command.

    begins: first bytes of a file of this kind; replace: whether such a file is replaced.
    """

    begins: bytes
    replace: bool

    def check(self) -> None:
        """Refuse a path as NewFile does, but with `replace` a file of this kind may exist."""
        if not (self.replace and self._is_there_and_ours()):
            super().check()
            return
        refuse_overlap(Place(LocalStorage(), self.path), self.inputs)

    def _is_there_and_ours(self) -> bool:
        """Raises StoreError if something else is there."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return False
        except OSError as error:
            why = "is a link" if error.errno == errno.ELOOP else error.strerror
            raise StoreError(f"{self.path}: {why}; it stays") from None
        try:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            if not regular or os.read(descriptor, len(self.begins)) != self.begins:
                raise StoreError(f"{self.path}: is none that this command wrote, and stays")
        finally:
            os.close(descriptor)
        return True

    @contextmanager
    def writing(self) -> Iterator[BinaryIO]:
        """Check again, and give the block a temporary file, which is renamed after the block."""
        self.check()
        if VolumeStorage.is_for(os.path.abspath(self.path)):
            # a volume cannot rename files, and a file appears whole when it is closed
            if os.path.lexists(self.path):
                os.unlink(self.path)
            with super().writing() as file:
                yield file
            return
        folder, name = os.path.split(os.path.abspath(self.path))
        part = f"{folder}/.{name[:100]}.{uuid.uuid4().hex}.part"
        with os.fdopen(open_new(part, 0o666), "wb") as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                self.check()
                self._name(part)
                DiskFiles(folder).sync_folder("")
            except OSError as error:
                error.filename = error.filename or self.path  # else the message names no disk
                raise
            finally:
                if os.path.lexists(part):
                    os.unlink(part)

    def _name(self, part: str) -> None:
        if not self.replace:
            try:
                os.link(part, self.path)  # fails if a file was made meanwhile
                return
            except FileExistsError:
                raise StoreError(f"{self.path}: is there already, and stays") from None
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                    raise
        os.rename(part, self.path)


def whole_file(
    path: str, store: str, settings: Mapping[str, str], begins: bytes, replace: bool
) -> WholeFile:
    """The file that a command writes about a store. Raises StoreError if it may not be written."""
    file = WholeFile(path, tuple(inputs_of(place_at(store), settings)), begins, replace)
    file.check()
    return file


# ---
# Reads and writes the manifest of a set of derived files.


def read_manifest(folder: Folder) -> dict[str, Any]:
    """The manifest of a set; empty if there is none. Raises StoreError for a malformed one."""
    try:
        manifest = json.loads(folder.read(MANIFEST))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{folder}/{MANIFEST}: cannot be read: {error}") from None
    return manifest if isinstance(manifest, dict) else {}


def manifest_text(manifest: dict[str, Any]) -> bytes:
    """A manifest as JSON, with a line for each name and each listed file.

    The json module indents in Python, item by item, which takes seconds for 200,000 files.
    """
    text_of = json.JSONEncoder(sort_keys=True).encode
    whole = []
    for name in sorted(manifest):
        value = manifest[name]
        if value and isinstance(value, list):
            items = ",\n  ".join(map(text_of, value))
            text = f"[\n  {items}\n ]"
        else:
            text = text_of(value)
        whole.append(f" {text_of(name)}: {text}")
    return ("{\n" + ",\n".join(whole) + "\n}\n").encode()


def refuse_unfinished(against: Folder) -> None:
    """Raise StoreError if a killed rebuild left files without their manifest."""
    names = dict(against.listed())
    if UNFINISHED in names and MANIFEST not in names:
        raise StoreError(f"{against}: holds no whole set: a rebuild began to publish it, no more")
