"""The folder for compiled kernels: one that others cannot change, or none at all.

Without a folder, kernels are compiled in memory at each start. This module imports no numba, so
that a command can tell the folder before it begins.
"""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

from reput.store_format.disk.private_folders import private_folder

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
    """The modules of `_PACKAGES` that a module imports."""
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
