"""Breaks rules, one at a time, in a copy of the tree: for each, a test must turn red.

The bugs are data, `tests/bugs/ROOM.toml`: what is broken and the tests that see it, both by name,
so that code and tests may move. `make mutants`, or `python -m tests.mutants [PART OF A NAME]`,
plants all in any order, or those of such a name, one a core."""

import argparse
import ast
import fcntl
import hashlib
import itertools
import os
import random
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from tests.ledger import budget
from tests.rocketmq.build import cache_folder

ROOT = Path(__file__).parents[1]
PACKAGES = ("store_format", "broker", "udfs", "jobs", "reput")
_HANG_SECONDS = 1800.0
_LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "target", ".hypothesis", "__pycache__",
                                   ".ledger", "build")  # fmt: skip
_STORES = ("/tests/golden", "/tests/chains/stores", "/tests/store_format/fate/stores",
           "/tests/store_format/rocksdb/stores", "/tests/store_format/files/stores",
           "/tests/jobs/sockets/answers")  # fmt: skip
_TEST = re.compile(r"^[ ]*(?:async )?def (test_\w+)|^class (Test\w*)|^(test_\w+|Test\w*) *=",
                   re.MULTILINE)  # fmt: skip


class Bug(NamedTuple):
    """Where `place` says, the first `sound` becomes `broken`, and one of `tests` must turn red.

    place: MODULE.NAME or MODULE.CLASS.NAME of the function, the class or what is assigned (`in`).
    tests: names of functions or classes, with [id] where one of a test's cases sees the bug."""

    name: str
    place: str
    sound: str
    broken: str
    tests: tuple[str, ...]


class Lost(Exception):
    """A bug that cannot be planted: its code or its test is gone."""


def bugs_of(root: Path = ROOT) -> list[Bug]:
    """All bugs, in the order of the rooms' files."""
    return [Bug(name, row["in"], row["sound"], row["broken"], tuple(row["tests"]))
            for path in sorted((root / "tests" / "bugs").glob("*.toml")) for name,
            row in tomllib.loads(path.read_text("utf-8")).items()]  # fmt: skip


class Code:
    """The modules and the tests of a tree, in which bugs are found by name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        paths = sorted(path for name in PACKAGES for path in _files(root / name, "*.py"))
        self._texts = {path: path.read_text("utf-8") for path in paths}
        self._modules: dict[str, list[Path]] = {}
        for path in paths:
            self._modules.setdefault(module_name(path), []).append(path)
        self._spans = cache(lambda path: spans(self._texts[path]))

    def planted(self, bug: Bug) -> tuple[Path, str]:
        """The module that a bug is in, and its source with the bug. Raises Lost."""
        at = self._found(bug)
        if not at:
            raise Lost(f"{bug.name}: {self._why_lost(bug)}")
        if len(at) > 1:
            raise Lost(
                f"{bug.name}: {bug.place} could be in {self._named(at)}: begin with its module"
            )
        if bug.sound == bug.broken:
            raise Lost(f"{bug.name}: what is planted is what is there")
        ((path, start),) = at.items()
        text = self._texts[path]
        return path, text[:start] + bug.broken + text[start + len(bug.sound) :]

    def tests(self, bug: Bug) -> list[str]:
        """The bug's tests in pytest's words. Raises Lost."""
        names = {word: word.partition("[") for word in bug.tests}
        gone = [name for name, *_ in names.values() if name not in self._tests]
        if gone or not names:
            raise Lost(f"{bug.name}: no test is called {', '.join(gone) or 'anything'}")
        return [f"{file}::{name}{bracket}{case}" for name, bracket, case in names.values()
                for file in self._tests[name]]  # fmt: skip

    @cached_property
    def _tests(self) -> dict[str, list[str]]:
        """The files, as paths below the root, that have a test of a name."""
        found: dict[str, dict[str, None]] = {}
        for path in _files(self.root / "tests", "test_*.py"):
            for match in _TEST.finditer(path.read_text("utf-8")):
                name = next(filter(None, match.groups()))
                found.setdefault(name, {})[str(path.relative_to(self.root))] = None
        return {name: list(files) for name, files in found.items()}

    def _found(self, bug: Bug) -> dict[Path, int]:
        """The modules that have the bug's text in the place of its name, and where it begins.

        The module's name counts only where it has such a place: that is why a move does no harm."""
        module, _, name = bug.place.partition(".")
        found: dict[Path, int] = {}
        mine = self._places(name, self._modules.get(module, []))
        for path, start, end in mine or self._places(name):
            at = self._texts[path].find(bug.sound, start, end)
            if at >= 0:
                found.setdefault(path, at)
        return found

    def _places(
        self, name: str, paths: Iterable[Path] | None = None
    ) -> list[tuple[Path, int, int]]:
        """Where in these, or anywhere, what has a qualified name begins and ends; whole modules
        for none: a statement that names nothing."""
        if name and paths is None:
            return self._anywhere.get(name, [])
        return [
            (path, *span) for path in (self._texts if paths is None else paths)
            for span in (self._spans(path).get(name, ()) if name else [(0, len(self._texts[path]))])
        ]  # fmt: skip

    @cached_property
    def _anywhere(self) -> dict[str, list[tuple[Path, int, int]]]:
        found: dict[str, list[tuple[Path, int, int]]] = {}
        for path in self._texts:
            for name, some in self._spans(path).items():
                found.setdefault(name, []).extend((path, *span) for span in some)
        return found

    def _why_lost(self, bug: Bug) -> str:
        """What is gone, and where the same text stands now."""
        name = bug.place.partition(".")[2]
        left = self._named(path for path, *_ in self._places(name))
        gone = f"{name} of {left} no longer has"
        if not left:
            gone = f"nothing is called {bug.place}, which had"
        now = [f"{module_name(path)}.{found}" for path,
               text in self._texts.items() if bug.sound in text for found,
               some in self._spans(path).items()
               if any(bug.sound in text[start:end] for start, end in some)]  # fmt: skip
        where = f" (it is in {', '.join(now)})" if 0 < len(now) < 5 else ""
        return f"{gone} {' '.join(bug.sound.split())!r}{where}"

    def _named(self, paths: Iterable[Path]) -> str:
        return ", ".join(dict.fromkeys(str(path.relative_to(self.root)) for path in paths))


def _files(folder: Path, pattern: str) -> list[Path]:
    return sorted(path for path in folder.rglob(pattern) if path.is_file())


def module_name(path: Path) -> str:
    return path.parent.name if path.stem == "__init__" else path.stem


def spans(source: str) -> dict[str, list[tuple[int, int]]]:
    """Where functions, classes and what is assigned begin and end, by names as in Class.name."""
    starts = [0, *itertools.accumulate(len(line) + 1 for line in source.split("\n"))]
    found: dict[str, list[tuple[int, int]]] = {}
    for name, node in _qualified(ast.parse(source).body):
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        span = starts[first - 1], starts[node.end_lineno or node.lineno]
        found.setdefault(name, []).append(span)
    return found


def _qualified(body: Iterable[ast.AST], above: str = "") -> Iterator[tuple[str, ast.stmt]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield f"{above}{node.name}", node
        if isinstance(node, ast.ClassDef):
            yield from _qualified(node.body, f"{above}{node.name}.")
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ExceptHandler):
            yield from _qualified(ast.iter_child_nodes(node), above)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for each in itertools.chain.from_iterable(map(ast.walk, targets)):
                if isinstance(each, ast.Name):
                    yield f"{above}{each.id}", node


def plant(bug: Bug) -> str | None:
    """Run the bug's tests with it planted; the first test that failed, None if none did.

    Raises Lost where they cannot be run."""
    code = Code(ROOT)
    (path, source), tests = code.planted(bug), code.tests(bug)
    try:
        ast.parse(source)
    except SyntaxError as error:  # any test would be red
        raise Lost(f"{bug.name}: what is planted is no Python: {error}") from None
    with _tree() as tree:
        copy = tree / path.relative_to(ROOT)
        copy.write_text(source, "utf-8")
        try:
            done = _run(tree, tests)
        finally:
            shutil.copy2(path, copy)
    failed = re.search(r"^(?:FAILED|ERROR) (tests/\S+?::.+?)(?: - |$)", done.stdout, re.MULTILINE)
    if done.returncode not in (0, 1):
        raise Lost(f"{bug.name}: pytest ended with {done.returncode}\n{done.stdout}{done.stderr}")
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

    The stores are read, never written: a link to each folder of them is enough."""
    copy.mkdir(exist_ok=True)
    names = {entry.name: entry for entry in os.scandir(root)}
    for name in _LEFT_OUT(str(root), list(names)):
        del names[name]
    for there in os.scandir(copy):
        kind = _kind(names[there.name]) if there.name in names else ""
        if _kind(there) != kind or (kind == "link" and not there.is_symlink()):
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
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-rfE", *words]
    compiled = {"PYTHONPYCACHEPREFIX": str(cache_folder() / "pyc")}  # as `make test` keeps it
    env = {**os.environ, "HYPOTHESIS_PROFILE": "planted", **compiled}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, check=False)


def changed_since(revision: str, root: Path = ROOT) -> set[str]:
    """The files that differ from a commit. Raises CalledProcessError where there is none."""
    words = ["git", "diff", "--name-only", "--no-renames", revision, "--"]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines())


def due(bugs: Iterable[Bug], code: Code, changed: set[str]) -> list[Bug]:
    """The bugs in rooms of the packages of which a file has changed, or whose tests have."""
    rooms = {str(Path(path).parent) for path in changed}

    def has_changed(bug: Bug) -> bool:
        try:
            path = code.planted(bug)[0].relative_to(code.root)
            files = {test.partition("::")[0] for test in code.tests(bug)}
        except Lost:
            return True
        return str(path.parent) in rooms or bool(files & changed)

    return [bug for bug in bugs if has_changed(bug)]


class _Planting:
    """Bugs planted one after the other, each in a process of its own."""

    def __init__(self, bugs: list[Bug]) -> None:
        self.left, self.red, self.not_red = bugs, 0, 0

    def next(self) -> budget.Job | None:
        if not self.left:
            return None
        bug = self.left.pop(0)
        name = hashlib.sha1(bug.name.encode()).hexdigest()[:8]
        log = ROOT / "build" / "mutants" / f"{name}.txt"
        return budget.Job([sys.executable, "-m", "tests.mutants", "--one", bug.name], log,
                          lambda code: self._done(bug, log, code), limit=_HANG_SECONDS,
                          folder=ROOT)  # fmt: skip

    def _done(self, bug: Bug, log: Path, code: int | None) -> None:
        if code is None:  # the budget's end, or ctrl-c
            self.left.append(bug)
        elif code == 0:
            self.red += 1
            print(log.read_text("utf-8"), end="", flush=True)
            log.unlink()
        else:
            self.not_red += 1
            lines = [*log.read_text("utf-8").splitlines(), f"could not be planted: {bug.name}"]
            print(f"{lines[0]}: {log}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("wanted", nargs="*", help="part of a name; else all")
    parser.add_argument("--since", metavar="REV", help="rooms and tests changed since that commit")
    parser.add_argument("--budget", type=budget.seconds, default=float("inf"), metavar="30m")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--one", metavar="NAME", help="plant it here, and say what turned red")
    args = parser.parse_args()
    until = time.time() + args.budget - budget.GRACE_SECONDS
    bugs = bugs_of()
    if args.one:
        return one(next(bug for bug in bugs if bug.name == args.one))
    bugs = [bug for bug in bugs if " ".join(args.wanted) in bug.name]
    if args.since:
        bugs = due(bugs, Code(ROOT), changed_since(args.since))
    elif not args.wanted:
        random.shuffle(bugs)  # each has its turn within budgets
    planting = _Planting(bugs)
    budget.run_all(planting.next, until, args.cores)
    print(f"{planting.red} red, {planting.not_red} not, {len(planting.left)} not planted in time")
    return 1 if planting.not_red else 0


def one(bug: Bug) -> int:
    try:
        red = plant(bug)
    except Lost as lost:
        print(f"could not be planted: {lost}")
        return 2
    print(f"red: {bug.name} ({red})" if red else f"UNDETECTED: {bug.name}")
    return 0 if red else 1


if __name__ == "__main__":
    sys.exit(main())
