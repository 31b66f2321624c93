"""Folders of this user alone: those of compiled kernels, which are loaded as code, and scratch
folders that their process holds.
"""

import hashlib
import os
import re
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

from reput.store_format.files.system import claim_folder

# ---
# Folders that only this user can change, for files that are loaded as code: compiled kernels.
#
# Whoever may write to a folder, or rename a folder above it, decides its content. So each folder
# and link on the path must belong to root or to this user, and nobody else may write to it. Others
# may write to a folder with the sticky bit, such as /tmp: they cannot rename or remove others'
# files.

_LINKS_MOST = 40  # as many as Linux follows
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class NotPrivate(OSError):
    """Others can change a folder's content, or it cannot be written to; the message says why."""


def private_folder(path: str) -> str:
    """The folder `path` without links in its name; made (mode 0700) if it is missing.

    Only this user and root can change its content, or the folders above it. Raises NotPrivate.
    """
    folder = _walk(os.path.abspath(path))
    about = os.lstat(folder)
    if about.st_uid != os.geteuid():
        raise NotPrivate(f"{folder}: belongs to user {about.st_uid}")
    if about.st_mode & _OTHERS_WRITE:
        raise NotPrivate(f"{folder}: others may write to it")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise NotPrivate(f"{folder}: cannot be written to")
    return folder


def safe_parent(path: str) -> str:
    """The folder `path`, in which nobody else can change or rename this user's files.

    All may write to it, as to /tmp. Raises NotPrivate.
    """
    folder = _walk(os.path.abspath(path))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise NotPrivate(f"{folder}: cannot be written to")
    return folder


def _walk(path: str) -> str:
    """Go down to `path` from the root, folder by folder, and check each one."""
    here, left, links = "/", _parts(path), 0
    _check("/")
    while left:
        if left[0] == "..":  # from a link's target; the folder above was checked on the way
            here, left = os.path.dirname(here), left[1:]
            continue
        here, left = os.path.join(here, left[0]), left[1:]
        try:
            about = _made(here)
        except OSError as error:
            raise NotPrivate(f"{here}: {error.strerror}") from None
        if stat.S_ISLNK(about.st_mode):
            links += 1
            if links > _LINKS_MOST:
                raise NotPrivate(f"{path}: too many links")
            _check_owner(here, about)
            target = os.readlink(here)
            here = "/" if target.startswith("/") else os.path.dirname(here)
            left = _parts(target) + left
        else:
            _check(here)
    return here


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _made(folder: str) -> os.stat_result:
    try:
        return os.lstat(folder)
    except FileNotFoundError:
        # Another process may have made the folder meanwhile; the following check sees whose it is.
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        return os.lstat(folder)


def _check(folder: str) -> None:
    about = os.lstat(folder)
    if not stat.S_ISDIR(about.st_mode):
        raise NotPrivate(f"{folder}: is not a folder")
    _check_owner(folder, about)
    if about.st_mode & _OTHERS_WRITE and not about.st_mode & stat.S_ISVTX:
        raise NotPrivate(f"{folder}: others may write to it")


def _check_owner(path: str, about: os.stat_result) -> None:
    if about.st_uid not in (0, os.geteuid()):
        raise NotPrivate(f"{path}: belongs to user {about.st_uid}")


# ---
# The folder for compiled kernels: one that others cannot change, or none at all.
#
# Without a folder, kernels are compiled in memory at each start. This module imports no numba, so
# that a command can tell the folder before it begins.

# The packages with kernels.
_PACKAGES = ("reput.store_format", "reput.broker")
# An import anywhere in a module, over several lines too; a match in a comment does no harm.
_IMPORT = re.compile(rb"(reput\.(?:store_format|broker)[.\w]*)(?: import (\([^)]*\)|[^\n]*))?")
_NAME = re.compile(rb"\w+")


class CacheFolder(NamedTuple):
    """The folder (None if there is none), and why each earlier place was refused."""

    path: str | None
    refused: tuple[str, ...]

    @property
    def root(self) -> str | None:
        """The folder of all that is cached, to which the folder for kernels belongs."""
        return None if self.path is None else os.path.dirname(self.path)


@cache
def cache_folder() -> CacheFolder:
    """The first suitable place: the one in the environment, the user's, one below $TMPDIR."""
    roots = [
        os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("REPUT_CACHE"),
        os.path.join(os.path.expanduser("~"), ".cache", "reput"),
        os.path.join(tempfile.gettempdir(), f"reput-{os.geteuid()}"),
    ]
    refused = []
    for root in filter(None, roots):
        try:
            path = private_folder(os.path.join(root, "kernels"))
        except OSError as error:
            refused.append(str(error))
        else:
            return CacheFolder(path, tuple(refused))
    return CacheFolder(None, tuple(refused))


def has_kernels(folder: str) -> bool:
    """Whether a folder has kernels compiled from these sources, not only from other versions."""
    walk = source_key("reput.store_format.log.records")  # every run needs its kernels
    return any(walk in name and name.endswith(".nbc") for name in os.listdir(folder))


def source_key(module: str) -> str:
    """A hash of what a module's kernels are compiled from: the module, and all modules of
    `_PACKAGES` that it imports, directly or not. Raises KeyError for another module.
    """
    seen, left = {module}, [module]
    while left:
        more = _imports(left.pop()) - seen
        seen |= more
        left.extend(more)
    digest = hashlib.sha256()
    for name in sorted(seen):
        digest.update(f"{name} {len(_source(name))}\n".encode() + _source(name))
    return digest.hexdigest()[:16]


@cache
def _imports(module: str) -> frozenset[str]:
    known, found = _modules().keys(), set()
    for path, names in _IMPORT.findall(_source(module)):
        imported = path.decode()
        inner = {f"{imported}.{name.decode()}" for name in _NAME.findall(names)}
        found |= inner & known
        if not inner <= known or not inner:
            found.add(imported)
    return frozenset(found & known)


@cache
def _source(module: str) -> bytes:
    return _modules()[module].read_bytes()


@cache
def _modules() -> dict[str, Traversable]:
    """The file of each module of the packages by its full name; works from a zip as well."""
    return {
        name: file
        for package in _PACKAGES
        for name, file in _below(resources.files(package), package)
    }


def _below(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    for found in folder.iterdir():
        if found.name == "__init__.py":
            yield name, found
        elif found.name.endswith(".py"):
            yield f"{name}.{found.name.removesuffix('.py')}", found
        elif found.name != "__pycache__" and found.is_dir():
            yield from _below(found, f"{name}.{found.name}")


# ---
# Local scratch folders of a process, for libraries that read or write local files only.
#
# The process holds its folder (`claim_folder`) until it ends in whatever way. A folder that nobody
# holds is a leftover, which `reput clean` removes.


class Scratch(StrEnum):
    """The names' beginnings of scratch folders in the temporary folder."""

    DEMO = "reput-demo"
    ROCKSDB = "reput-rocksdb"
    TABLE = "reput-table"


@contextmanager
def scratch_folder(prefix: Scratch) -> Iterator[str]:
    """Make a folder (mode 0700) in the temporary folder, and remove it afterwards.

    Yields its absolute path. Raises OSError.
    """
    release = None
    while release is None:
        folder = os.path.abspath(f"{tempfile.gettempdir()}/{prefix}-{uuid.uuid4().hex}")
        release = claim_folder(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        release()
