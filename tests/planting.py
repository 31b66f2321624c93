"""Plant a bug in a copy of the tree, and see whether its tests turn red."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "planted_bugs.md"  # what the last runs found
_NO_TESTS = 5  # pytest's code where none is chosen: those that are named are long ones
_LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "target", ".hypothesis", "__pycache__", "*.xz")
_HEAD = """\
# Planted bugs

A line each time `make mutants` broke one rule in a copy of the tree: what was broken, where, and
the first test that turned red. Written by that command; a run of some of the bugs writes their
lines anew. The bugs themselves are in `tests/mutants.py` and the four tables that it joins.

| rule or promise | broken in | caught by |
|---|---|---|
"""


class Bug(NamedTuple):
    """In `module`, a path below the root, the first `sound` becomes `broken`."""

    name: str
    module: str
    sound: str
    broken: str
    tests: tuple[str, ...]  # what pytest is given


def plant(bug: Bug) -> str | None:
    """Run the bug's tests with it planted; the first test that failed, None if none did."""
    with tempfile.TemporaryDirectory(prefix="reput-mutant-") as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(ROOT, copy, symlinks=True, ignore=_LEFT_OUT)
        # the stores are read, never written: a link to them is enough
        for stores in ("tests/golden", "tests/fate/stores", "tests/serve/answers"):
            shutil.rmtree(copy / stores)
            (copy / stores).symlink_to(ROOT / stores)
        path = copy / bug.module
        source = path.read_text()
        assert bug.sound in source, f"{bug.name}: its place is gone from {bug.module}"
        path.write_text(source.replace(bug.sound, bug.broken, 1))
        done = _run(copy, ["-m", "not long", *bug.tests])
        if done.returncode == _NO_TESTS:
            done = _run(copy, list(bug.tests))
    failed = re.search(r"^(?:FAILED|ERROR) (tests/\S+?::.+?)(?: - |$)", done.stdout, re.MULTILINE)
    return failed[1] if done.returncode == 1 and failed else None


def _run(tree: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-rf", *words]
    env = {**os.environ, "HYPOTHESIS_PROFILE": "planted"}
    return subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, check=False)


def only(module: str, words: str) -> tuple[str, ...]:
    """What pytest is told to run of a module: the tests whose names have these words (`-k`)."""
    return (module, "-k", words)


def plant_all(bugs: Iterable[Bug], wanted: str) -> int:
    """Plant each bug whose name holds `wanted`, one a core; returns how many stayed undetected."""
    chosen = [bug for bug in bugs if wanted in bug.name]
    undetected = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for bug, test in zip(chosen, pool.map(plant, chosen), strict=True):
            undetected += test is None
            print(f"{'UNDETECTED' if test is None else 'red'}: {bug.name} ({test})", flush=True)
            _note(bug, test or "**nothing**")
    return undetected


def _note(bug: Bug, test: str) -> None:
    """Write the bug's line on the page, in the place of an earlier one."""
    name, test = (text.replace("|", "\\|") for text in (bug.name, test))
    start, line = f"| {name} |", f"| {name} | `{bug.module}` | `{test}` |\n"
    lines = PAGE.read_text().splitlines(keepends=True) if PAGE.exists() else []
    rows = [row for row in lines[_HEAD.count("\n") :] if not row.startswith(start)]
    PAGE.write_text(_HEAD + "".join(sorted([*rows, line])))
