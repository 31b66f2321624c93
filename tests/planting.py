"""Plant a bug in a copy of the tree, and see whether its tests turn red."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "target", ".hypothesis", "__pycache__", "*.xz")


class Bug(NamedTuple):
    """In `module`, a path below the root, the first `sound` becomes `broken`."""

    name: str
    module: str
    sound: str
    broken: str
    tests: tuple[str, ...]  # what pytest is given


def plant(bug: Bug) -> int:
    """Run the bug's tests with it planted; pytest's exit code, 1 where a test failed."""
    with tempfile.TemporaryDirectory(prefix="reput-mutant-") as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(ROOT, copy, ignore=_LEFT_OUT)
        # the stores are read, never written: a link to them is enough
        shutil.rmtree(copy / "tests" / "golden")
        (copy / "tests" / "golden").symlink_to(ROOT / "tests" / "golden")
        path = copy / bug.module
        source = path.read_text()
        assert bug.sound in source, f"{bug.name}: its place is gone from {bug.module}"
        path.write_text(source.replace(bug.sound, bug.broken, 1))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not long", *bug.tests],
            cwd=copy,
            capture_output=True,
            text=True,
            check=False,
        )
    return done.returncode


def plant_all(bugs: Iterable[Bug], wanted: str) -> int:
    """Plant each bug whose name holds `wanted`; returns how many stayed undetected."""
    undetected = 0
    for bug in bugs:
        if wanted in bug.name:
            code = plant(bug)
            undetected += code != 1
            print(f"{'red' if code == 1 else 'UNDETECTED'}: {bug.name} ({code})", flush=True)
    return undetected
