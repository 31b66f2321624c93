"""Processes of this machine, by /proc."""

import encodings.idna  # noqa: F401 (a host's name is read by it; another user may not find it)
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def run_words(*words: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """A command, and what it said; more: of subprocess.run."""
    given = {"capture_output": True, "text": True, "check": False, **more}
    return subprocess.run([str(word) for word in words], **given)


def run_python(
    *words: object, cwd: Path | str = ROOT, env: Mapping[str, str] | None = None,
    timeout: float = 300, check: bool = False,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """This Python with these words, and what it said; env: what is added to the environment."""
    return run_words(sys.executable, *words, cwd=cwd, env={**os.environ, **(env or {})},
                     timeout=timeout, check=check)  # fmt: skip


def until(true: Callable[[], bool], seconds: float = 60) -> bool:
    """Wait until it is true; False if it is not after so long, as no loaded machine takes."""
    end = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < end:
        time.sleep(0.01)
    return found


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


def package_source(to: Path) -> Path:
    """Copy all that a wheel is built from; returns `to`."""
    for name in ("reput", "jobs", "udfs", "broker", "store_format"):
        shutil.copytree(ROOT / name, to / name, symlinks=True,
                        ignore=shutil.ignore_patterns("__pycache__"))  # fmt: skip
    (to / "docs").mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "docs/reput.1"):
        shutil.copy(ROOT / name, to / name)
    return to
