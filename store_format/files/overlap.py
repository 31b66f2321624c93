"""Finds out whether two paths or URLs lead to one folder, or one into the other.

A folder may be reached by many paths: through links, `..`, a second mount of its file system, or
another spelling of its URL. So it is described by all names that it has, and by all names of the
folders above it. Two folders overlap if these have a name in common. A name is a tuple whose first
item says which kind of name it is, so that names of different file systems are never equal.
"""

import os
import re
from collections.abc import Hashable, Iterable
from itertools import islice
from typing import NamedTuple

Name = tuple[Hashable, ...]

_NAMES_MOST = 1000  # that are looked at
_MOUNTS = "/proc/self/mountinfo"
_OCTAL = re.compile(r"\\([0-7]{3})")  # how the kernel writes blanks and the like in mountinfo


class Whereabouts(NamedTuple):
    """The names of a file or folder (which may not exist yet), and of the folders above it."""

    itself: frozenset[Name]
    above: frozenset[Name]

    def __or__(self, other: "Whereabouts") -> "Whereabouts":
        return Whereabouts(self.itself | other.itself, self.above | other.above)


def relation(a: Whereabouts, b: Whereabouts) -> str | None:
    """The relation of a to b: `is`, `holds` or `lies inside`; None if they do not overlap."""
    if a.itself & b.itself:
        return "is"
    if a.itself & b.above:
        return "holds"
    if a.above & b.itself:
        return "lies inside"
    return None


def by_parts(start: Name, parts: Iterable[str]) -> Whereabouts:
    """The whereabouts of a place below a root (`start`): `parts` lead from there to it."""
    way = [start]
    for part in parts:
        way.append((*way[-1], part))
    return Whereabouts(frozenset(way[-1:]), frozenset(way[:-1]))


def by_key(start: Name, key: str) -> Whereabouts:
    """The whereabouts of a key, if paths there are mere text: as written, and normalised.

    The reader decides whether `a//b` and `a/x/../b` are `a/b`, so they count as that as well.
    """
    ordered: list[str] = []
    for part in key.split("/"):
        if part == "..":
            ordered = ordered[:-1]
        elif part not in ("", "."):
            ordered.append(part)
    plain = [part for part in key.split("/") if part]
    return by_parts(start, plain) | by_parts(start, ordered)


def on_this_machine(path: str) -> Whereabouts:
    """Whereabouts of a local path: device and inode, and place on its file system (bind mounts).

    Links are followed, also a last one that leads nowhere. Missing names are compared in lower case
    below the nearest existing folder, unless that tells case apart. Raises OSError.
    """
    real = os.path.realpath(path)
    here = real
    missing: list[str] = []
    while not os.path.lexists(here) and here != "/":
        here, _, name = here.rpartition("/")
        here = here or "/"
        missing.insert(0, name)
    if missing and not _tells_case_apart(here):
        missing = [name.lower() for name in missing]
    found = by_parts(_inode(here), missing)
    above = set(found.above)
    folder = here
    while folder != "/":
        folder = os.path.dirname(folder)
        above.add(_inode(folder))
    return Whereabouts(found.itself, frozenset(above)) | _on_its_file_system(here, missing)


def _tells_case_apart(folder: str) -> bool:
    """Whether a folder surely has other names for `rn` and `RN`, by a name that is in it."""
    try:
        with os.scandir(folder) as entries:
            for entry in islice(entries, _NAMES_MOST):
                other = f"{folder}/{entry.name.swapcase()}"
                if entry.name != entry.name.swapcase():
                    return not os.path.lexists(other) or (
                        os.lstat(other).st_ino != entry.stat(follow_symlinks=False).st_ino
                    )
    except OSError:
        pass
    return False


def _inode(path: str) -> Name:
    about = os.stat(path)
    return "inode", about.st_dev, about.st_ino


def _on_its_file_system(path: str, missing: list[str]) -> Whereabouts:
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            device, inside = where_mounted(path, file.read())
    except OSError:  # no Linux, or no /proc
        return Whereabouts(frozenset(), frozenset())
    return by_parts(("mounted", device), [*_parts(inside), *missing])


def where_mounted(path: str, mounts: str) -> tuple[str, str]:
    """(device, path from the root of its file system) of a real path. mounts: mountinfo's text."""
    best = ("", "/", "/")
    for line in mounts.splitlines():
        _, _, device, root, point, *_ = line.split(" ")
        point = _plain(point)
        inside = point == "/" or path == point or path.startswith(point + "/")
        if inside and len(point) >= len(best[1]):  # of mounts at one point the last is seen
            best = device, point, _plain(root)
    device, point, root = best
    rest = path if point == "/" else path[len(point) :]
    return device, f"{root.rstrip('/')}/{rest.strip('/')}"


def _plain(escaped: str) -> str:
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), escaped)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
