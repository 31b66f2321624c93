"""Where compiled kernels are kept: a folder that others cannot change, or none at all.

Without one, kernels are compiled in memory at each start. This module imports no numba, so that a
command can say which it is before it begins.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

from reput.store_format.disk.private import private_folder


class CacheFolder(NamedTuple):
    """The folder (None where there is none), and why each place before it would not do."""

    path: str | None
    refused: tuple[str, ...]


@cache
def cache_folder() -> CacheFolder:
    """The first place that will do: the one that is set, the user's, one below $TMPDIR."""
    roots = [
        os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("REPUT_CACHE"),
        os.path.join(os.path.expanduser("~"), ".cache", "reput"),
        os.path.join(tempfile.gettempdir(), f"reput-{os.geteuid()}"),
    ]
    refused = []
    for root in filter(None, roots):
        try:
            path = private_folder(os.path.join(root, "kernels", sources_hash()))
        except OSError as error:
            refused.append(str(error))
        else:
            return CacheFolder(path, tuple(refused))
    return CacheFolder(None, tuple(refused))


def sources_hash() -> str:
    """A hash of the package's modules, in all its folders; works from a zip as well."""
    digest = hashlib.sha256()
    for name, source in sorted(_modules(resources.files("reput.store_format"), "")):
        digest.update(f"{name} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:16]


def _modules(folder: Traversable, above: str) -> Iterator[tuple[str, bytes]]:
    """Each module below a folder: its path from there, and its source."""
    for found in folder.iterdir():
        name = f"{above}{found.name}"
        if found.name.endswith(".py"):
            yield name, found.read_bytes()
        elif found.name != "__pycache__" and found.is_dir():
            yield from _modules(found, f"{name}/")
