"""Plant a bug in a copy of the tree, and see whether its tests turn red.

tests/ledger/mutants.tsv has each bug's last verdict, its commit and what it was planted in: a bug
whose module or tests have changed since is due again.
"""

import ast
import fcntl
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.ledger import budget, records, sources
from tests.rocketmq.build import cache_folder

ROOT = Path(__file__).parents[1]
PAGE = records.FOLDER / "planted_bugs.md"  # what the last runs here found
LEDGER = ROOT / "tests" / "ledger" / "mutants.tsv"
_SECONDS, _HANG_SECONDS = 25.0, 1800.0  # what a bug is taken for that was never planted; a limit
_NO_TESTS = 5  # pytest's code where none is chosen: those that are named are long ones
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "target", ".hypothesis", "__pycache__", "*.xz", ".ledger", "build"
)
_STORES = (
    "/tests/golden", "/tests/chains/stores", "/tests/store_format/fate/stores",
    "/tests/store_format/rocksdb/stores", "/tests/store_format/storage/stores",
    "/tests/jobs/serve/answers",
)  # fmt: skip
_HEAD = """\
# Planted bugs

A line each time `make mutants` broke one rule in a copy of the tree: what was broken, where, and
the first test that turned red. Written by that command; a run of some of the bugs writes their
lines anew. The bugs themselves are in the tables that `tests/mutants.py` joins.

| rule or promise | broken in | caught by |
|---|---|---|
"""


class Bug(NamedTuple):
    """In what `module` names, a path below the root, the first `sound` becomes `broken`.

    module: of the rule's own function PATH::FUNCTION, PATH::CLASS.METHOD or PATH::NAME (of what is
    assigned there): what stands elsewhere in the file may change. Only PATH: the whole file.
    """

    name: str
    module: str
    sound: str
    broken: str
    tests: tuple[str, ...]  # what pytest is given

    @property
    def path(self) -> str:
        return self.module.partition("::")[0]

    def planted_in(self, source: str) -> str:
        """The module's source with the bug in it. Raises LookupError where its place is gone."""
        _, _, name = self.module.partition("::")
        for start, end in _spans(source, name) if name else [(0, len(source))]:
            at = source.find(self.sound, start, end)
            if at >= 0:
                return source[:at] + self.broken + source[at + len(self.sound) :]
        raise LookupError(f"{self.name}: its place is gone from {self.module}")


def _spans(source: str, name: str) -> Iterator[tuple[int, int]]:
    """Where what has a qualified name begins and ends: functions, classes, what is assigned."""
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for found, node in qualified(ast.parse(source).body):
        if found == name:
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            yield lines[first - 1], lines[node.end_lineno or node.lineno]


def qualified(body: Iterable[ast.stmt], above: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """The statements that give names, those of classes too, each with its qualified name."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield f"{above}{node.name}", node
        if isinstance(node, ast.ClassDef):
            yield from qualified(node.body, f"{above}{node.name}.")
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(target, ast.Name):
                yield f"{above}{target.id}", node


def plant(bug: Bug) -> str | None:
    """Run the bug's tests with it planted; the first test that failed, None if none did."""
    with _tree() as tree:
        path = tree / bug.path
        path.write_text(bug.planted_in(path.read_text()))
        try:
            done = _run(tree, ["-m", "not long", *bug.tests])
            if done.returncode == _NO_TESTS:
                done = _run(tree, list(bug.tests))
        finally:
            shutil.copy2(ROOT / bug.path, path)
    failed = re.search(r"^(?:FAILED|ERROR) (tests/\S+?::.+?)(?: - |$)", done.stdout, re.MULTILINE)
    return failed[1] if done.returncode == 1 and failed else None


@contextmanager
def _tree() -> Iterator[Path]:
    """A copy of the tree that nobody else has now; it stays, and what Python compiles of it."""
    for number in itertools.count():
        name = f"{hashlib.sha1(bytes(ROOT)).hexdigest()[:8]}-{number}"
        folder = cache_folder() / "mutants" / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            same_tree(ROOT, folder / "tree")
            yield folder / "tree"
            return


def same_tree(root: Path, copy: Path) -> None:
    """Make a folder a copy of the tree: what is there with the same time and size stays.

    The stores are read, never written: a link to each folder of them is enough.
    """
    copy.mkdir(exist_ok=True)
    names = {entry.name: entry for entry in os.scandir(root)}
    for name in _LEFT_OUT(str(root), list(names)):
        del names[name]
    for there in os.scandir(copy):
        if there.name not in names or _kind(there) != _kind(names[there.name]):
            _remove(there)
    for name, entry in names.items():
        to, kind = copy / name, _kind(entry)
        if kind == "folder":
            same_tree(Path(entry), to)
        elif kind == "link" and not to.is_symlink():
            to.symlink_to(os.readlink(entry) if entry.is_symlink() else entry.path)
        elif kind == "file" and not (to.exists() and _stamp(to) == _stamp(Path(entry))):
            shutil.copy2(entry, to)


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink() or entry.path.endswith(_STORES):
        return "link"
    return "folder" if entry.is_dir() else "file"


def _stamp(path: Path) -> tuple[int, int]:
    about = path.stat()
    return about.st_mtime_ns, about.st_size


def _remove(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry)
    else:
        os.unlink(entry)


def _run(tree: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-rf", *words]
    compiled = {"PYTHONPYCACHEPREFIX": str(cache_folder() / "pyc")}  # as `make test` keeps it
    env = {**os.environ, "HYPOTHESIS_PROFILE": "planted", **compiled}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, check=False)


def only(module: str, words: str) -> tuple[str, ...]:
    """What pytest is to run of a module: the tests whose names have these words (`-k`)."""
    return (module, "-k", words)


def due(bugs: Iterable[Bug], tree: sources.Tree | None = None) -> list[Bug]:
    """Those that are not on record as red in what they would be planted in now; oldest first."""
    tree = tree or sources.Tree(ROOT)
    runs = records.newest(records.read_table(LEDGER, ""))

    def red(bug: Bug) -> bool:
        run = runs.get(bug.name)
        return run is not None and run.verdict == "red" and run.sources == _digest(bug, tree)

    left = [bug for bug in bugs if not red(bug)]
    return sorted(left, key=lambda bug: runs[bug.name].at if bug.name in runs else "")


def _digest(bug: Bug, tree: sources.Tree) -> str:
    """Of the rule's own function or class, and of its tests' files."""
    name = bug.module.partition("::")[2].partition(".")[0]
    code = tree.part(bug.path, name) if name else tree.whole(bug.path)
    files = [tree.blobs.get(word.partition("::")[0]) for word in bug.tests]
    return hashlib.sha1(repr((bug, code, files)).encode()).hexdigest()[:8]


class _Planting:
    """Bugs planted one after the other, each in a process of its own."""

    def __init__(self, bugs: list[Bug], until: float, names: set[str]) -> None:
        """names: of all bugs; a line of the ledger with another name is dropped."""
        self._left, self._until, self._names = bugs, until, names
        self._runs = records.newest(records.read_table(LEDGER, ""))
        self._tree, self._commit = sources.Tree(ROOT), sources.commit(ROOT) or "?"
        self.undetected = 0

    def next(self) -> budget.Job | None:
        room = self._until - time.time()
        for bug in self._left:
            run = self._runs.get(bug.name)
            if (run.seconds if run else _SECONDS) <= room:
                self._left.remove(bug)
                return self._job(bug)
        return None

    def _job(self, bug: Bug) -> budget.Job:
        name = hashlib.sha1(bug.name.encode()).hexdigest()[:8]
        log, begun = records.FOLDER / "logs" / f"bug-{name}.txt", time.time()
        return budget.Job(
            [sys.executable, "-m", "tests.mutants", "--one", bug.name], log,
            lambda code: self._done(bug, log, code, time.time() - begun),
            limit=_HANG_SECONDS, folder=ROOT,
        )  # fmt: skip

    def _done(self, bug: Bug, log: Path, code: int | None, seconds: float) -> None:
        if code is None:  # the budget's end, or ctrl-c
            log.unlink()
            return
        if code:
            print(f"could not be planted: {bug.name}: {log}", flush=True)
            self.undetected += 1
            return
        test = json.loads(log.read_text("utf-8").splitlines()[-1])["red"]
        log.unlink()
        self.undetected += test is None
        print(f"{'UNDETECTED' if test is None else 'red'}: {bug.name} ({test})", flush=True)
        _note(bug, test or "**nothing**")
        verdict, now = "undetected" if test is None else "red", records.moment(time.time())
        run = records.Run(bug.name, verdict, seconds, self._commit, _digest(bug, self._tree), now)
        self._runs = records.newest([*records.read_table(LEDGER, ""), run])
        kept = [run for run in self._runs.values() if run.test in self._names]
        records.write_table(LEDGER, kept, prefix="")


def plant_all(
    bugs: Iterable[Bug], wanted: str, seconds: float = float("inf"), cores: int | None = None
) -> int:
    """Plant those whose name holds `wanted`, else those due; how many nothing caught."""
    bugs = list(bugs)
    chosen = [bug for bug in bugs if wanted in bug.name] if wanted else due(bugs)
    until = time.time() + seconds - budget.GRACE_SECONDS
    planting = _Planting(chosen, until, {bug.name for bug in bugs})
    budget.run_all(planting.next, until, cores or os.cpu_count() or 1)
    if chosen:
        print(f"not planted in this time: {len(chosen)}")
    return planting.undetected


def _note(bug: Bug, test: str) -> None:
    """Write the bug's line on the page, in the place of an earlier one."""
    name, test = (text.replace("|", "\\|") for text in (bug.name, test))
    start, line = f"| {name} |", f"| {name} | `{bug.path}` | `{test}` |\n"
    lines = PAGE.read_text().splitlines(keepends=True) if PAGE.exists() else []
    rows = [row for row in lines[_HEAD.count("\n") :] if not row.startswith(start)]
    PAGE.write_text(_HEAD + "".join(sorted([*rows, line])))
