"""The message on a full disk: which disk, how much room it has left, and what to do."""

import os
import re

_FULL = re.compile("No space left on device|Disk quota exceeded")
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_PATH = re.compile(r"(?:No space left on device|Disk quota exceeded): '(.+?)'")


def full_disk(text: str) -> str | None:
    """The message for an error whose text tells of a full disk; None for another error."""
    full, path = _FULL.search(text), _PATH.search(text)
    if full is None:
        return None
    if path is None or not os.path.isabs(path[1]):
        return (
            f"{full[0]}: make room where the output goes, and for temporary files (TMPDIR names "
            "another folder for them)"
        )
    return f"{path[1]}: {full[0]}: {room_of(path[1])}; make room, or give another folder"


def room_of(path: str) -> str:
    """How much room the disk of an absolute path has."""
    at = path
    while not os.path.exists(at):
        at = os.path.dirname(at)
    room = os.statvfs(at)
    while not os.path.ismount(at):
        at = os.path.dirname(at)
    left, size = (_size(blocks * room.f_frsize) for blocks in (room.f_bavail, room.f_blocks))
    return f"the disk at {at} has {left} of {size} left"


def _size(size: float) -> str:
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:,.1f} {_UNITS[unit]}" if unit else f"{size} bytes"
