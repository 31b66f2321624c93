"""All that is below a folder, as a value: what must be the same after, or differ as is told."""

import os
import stat
from pathlib import Path

State = tuple[int, int, int, int]


def contents(folder: Path) -> dict[str, bytes]:
    """Each file by its path below the folder; of no folder nothing."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def unlocked(store: Path) -> dict[str, bytes]:
    """The same without `lock`, which whoever opens a store makes."""
    return {path: raw for path, raw in contents(store).items() if path.split("/")[-1] != "lock"}


def states(folder: Path) -> dict[str, State]:
    """The folder and all below it, with what would tell a change: inode, size, time, mode."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        about = path.lstat()
        found[str(path)] = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_mode)
    return found


def held(root: Path) -> dict[str, tuple[object, ...]]:
    """Each name below a folder with its kind, and of what is a file or a link what it holds."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(root.rglob("*")):
        about, holds = path.lstat(), None
        if stat.S_ISREG(about.st_mode):
            holds = path.read_bytes()
        elif stat.S_ISLNK(about.st_mode):
            holds = os.readlink(path)
        found[str(path.relative_to(root))] = (about.st_mode, about.st_ino, holds)
    return found


def write_over(path: Path, at: int, raw: bytes) -> None:
    """Put bytes into a file, from its end where `at` is negative."""
    content = bytearray(path.read_bytes())
    at %= len(content)
    content[at : at + len(raw)] = raw
    path.write_bytes(content)


def flip(path: Path, at: int, bits: int = 1) -> None:
    """Flip these bits of a file's byte."""
    write_over(path, at, bytes([path.read_bytes()[at] ^ bits]))
