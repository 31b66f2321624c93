"""All that is below a folder, as a value."""

import os
import stat
from pathlib import Path


def tree(root: Path) -> dict[str, tuple[object, ...]]:
    """Each name below a folder with its kind, and of what is a file or a link what it holds."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(root.rglob("*")):
        about = path.lstat()
        held: object = None
        if stat.S_ISREG(about.st_mode):
            held = path.read_bytes()
        elif stat.S_ISLNK(about.st_mode):
            held = os.readlink(path)
        found[str(path.relative_to(root))] = (about.st_mode, about.st_ino, held)
    return found
