"""Processes of this machine, by /proc."""

import encodings.idna  # noqa: F401 (a host's name is read by it; another user may not find it)
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


def runs(pid: int) -> bool:
    """Whether a process is there, and is not one that has ended and that nobody has waited for."""
    try:
        with open(f"/proc/{pid}/stat") as status:
            return status.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def tree(process: int) -> Iterator[int]:
    """A process and all that it started."""
    yield process
    for task in Path(f"/proc/{process}/task").glob("*"):
        try:
            children = (task / "children").read_text().split()
        except OSError:  # it has ended
            continue
        for child in children:
            yield from tree(int(child))
