"""Processes of this machine, by /proc."""

import encodings.idna  # noqa: F401 (a host's name is read by it; another user may not find it)
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_python(
    *words: object, cwd: Path | str = ROOT, env: Mapping[str, str] | None = None,
    timeout: float = 300, check: bool = False,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """This Python with these words, and what it said; env: what is added to the environment."""
    return subprocess.run(
        [sys.executable, *map(str, words)], cwd=cwd, env={**os.environ, **(env or {})},
        capture_output=True, text=True, timeout=timeout, check=check,
    )  # fmt: skip


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
