"""Recognises a set of reput's own: a folder with a manifest and exactly the files that it lists.

The kinds are a rebuilt set, a repaired or converted store, and an export. Only such folders are
ever replaced, as a whole.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from reput.jobs.outputs.summary import MANIFEST_FORMAT
from reput.store_format.faults import StoreError
from reput.store_format.files.protocol import Storage
from reput.store_format.names import MANIFEST, UNFINISHED

REPAIR_FORMAT = "reput-repair-1"
EXPORT_FORMAT = "reput-export-1"
STORE_FORMAT = "reput-export-store-1"
CONVERT_FORMAT = "reput-convert-1"

_ROCKSDB_FILES = r"(consumequeue|rocksdbstore)/(CURRENT|MANIFEST-\d+|\d+\.(sst|log))"
_DERIVED_FILES = (
    rf"(batch)?consumequeue/[^/]+/-?\d+/\d{{20}}|{_ROCKSDB_FILES}|index/\d{{17}}|checkpoint"
)
_DERIVED_FOLDERS = r"(batch)?consumequeue(/[^/]+(/-?\d+)?)?|index|rocksdbstore"
_STORE_FILES = r"commitlog/\d{20}|config/[^/]+|damaged/\d{20}(\.json)?"
_STAGING = re.compile(r"/?([^/].*/)?\.[^/]*\.reput-[0-9a-f]{32}/set", re.ASCII | re.DOTALL)


class SetKind(NamedTuple):
    """A kind of published folder: the format of its manifest, and the names allowed in it."""

    what: str
    format: str
    lists: tuple[str, ...]  # the manifest's lists of files
    files: re.Pattern[str]
    folders: re.Pattern[str]


REBUILT = SetKind(
    "a set that reput has rebuilt", MANIFEST_FORMAT, ("files",),
    re.compile(_DERIVED_FILES, re.ASCII), re.compile(_DERIVED_FOLDERS, re.ASCII),
)  # fmt: skip
REPAIRED = SetKind(
    "a store that reput has repaired", REPAIR_FORMAT, ("segments", "saved", "derived", "copied"),
    re.compile(f"{_DERIVED_FILES}|{_STORE_FILES}", re.ASCII),
    re.compile(f"{_DERIVED_FOLDERS}|commitlog|config|damaged", re.ASCII),
)  # fmt: skip
EXPORTED = SetKind(
    "a set that reput has exported", EXPORT_FORMAT, ("files",),
    re.compile(r"part-\d{8}\.(parquet|jsonl)", re.ASCII), re.compile(r"(?!)"),
)  # fmt: skip

EXPORTED_STORE = SetKind(
    "a store that reput has exported", STORE_FORMAT, ("files",),
    re.compile(rf"{_DERIVED_FILES}|commitlog/\d{{20}}|config/[^/]+", re.ASCII),
    re.compile(f"{_DERIVED_FOLDERS}|commitlog|config", re.ASCII),
)  # fmt: skip
_TIMER_FILES = r"timerlog/\d{20}|timerwheel(\.\d+)?"
CONVERTED = SetKind(
    "a store that reput has converted", CONVERT_FORMAT, ("segments", "derived", "copied"),
    re.compile(f"{EXPORTED_STORE.files.pattern}|{_TIMER_FILES}", re.ASCII),
    re.compile(f"{EXPORTED_STORE.folders.pattern}|timerlog", re.ASCII),
)  # fmt: skip


def parse_manifest(raw: bytes, path: str, kind: SetKind) -> dict[str, Any]:
    """The manifest of a set. Raises StoreError if it is of no such set, or lists foreign files."""
    try:
        manifest = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path}: is no manifest: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != kind.format:
        raise StoreError(f"{path}: is no manifest of {kind.what} ({kind.format})")
    files_of(manifest, path, kind)
    return manifest


def files_of(manifest: dict[str, Any], path: str, kind: SetKind) -> dict[str, int | None]:
    """Path below the set -> length (None if unknown) of each file that a manifest lists."""
    files: dict[str, int | None] = {}
    for name in kind.lists:
        listed = manifest.get(name)
        if not isinstance(listed, list):
            raise StoreError(f"{path}: has no list {name!r}")
        for entry in listed:
            below, length = _file(entry)
            if below is None or not kind.files.fullmatch(below) or not _is_plain(below):
                raise StoreError(f"{path}: {name}: names a file outside the set, or none of a set")
            files[below] = length
    return files


def _file(entry: Any) -> tuple[str | None, int | None]:
    """(path, length) of an entry of a list. The length of a `.json` file is unknown."""
    if isinstance(entry, str):
        return entry, None
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
        return None, None
    length, path = entry.get("length"), entry["path"]
    known = type(length) is int and isinstance(entry.get("sha256"), str)
    return (path if known else None), None if path.endswith(".json") else length


def _is_plain(path: str) -> bool:
    return not {"", ".", ".."} & set(path.split("/")) and "\0" not in path


def what_may_go(storage: Storage, folder: str, kind: SetKind, unfinished: bool) -> list[str]:
    """All paths in a folder, if it is a set of this kind without other files.

    Paths are below the folder; those of folders end with a slash. unfinished: also accept what a
    job killed while publishing has left, without a manifest. Raises StoreError that names what
    else is there; FileNotFoundError, NotADirectoryError.
    """
    there = {listed.name: listed.state for listed in storage.walk(folder)}
    path = f"{folder}/{MANIFEST}"
    if MANIFEST in there:
        files = files_of(parse_manifest(storage.read_bytes(path), path, kind), path, kind)
        allowed = set(kind.folders.pattern.split("|")) & {"commitlog", "config", "damaged"}
        allowed |= _folders_of(files)
        known = {MANIFEST, *([UNFINISHED] if unfinished else [])}
        for name, state in there.items():
            if name[-1:] == "/":
                _refuse(name[:-1] not in allowed, folder, name, kind, "is not in its manifest")
            elif name not in known:
                _refuse(name not in files, folder, name, kind, "is not in its manifest")
                _refuse(state is None, folder, name, kind, "is no regular file")
                wrong = state is not None and files[name] not in (None, state.size)
                _refuse(wrong, folder, name, kind, "has not the length that its manifest says")
        return list(there)
    if not (unfinished and UNFINISHED in there):
        raise StoreError(f"{folder}: is not empty, and has no {MANIFEST}: it is not {kind.what}")
    marker = storage.read_bytes(f"{folder}/{UNFINISHED}")
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


def _refuse(wrong: bool, folder: str, name: str, kind: SetKind, why: str) -> None:
    if wrong:
        raise StoreError(f"{folder}/{name}: {why}: the folder is not {kind.what}, and stays")
