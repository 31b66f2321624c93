"""What a test's file depends on, as one digest: itself, the folders that it tests, all below these.

LAYERS in tests/test_layers.py says which are below. Of other folders those count that the test or
its helpers name. Contents count, committed or not; nothing is parsed.
"""

import ast
import hashlib
import re
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_OWN = "tests/ledger/"  # it only watches: what it is and writes makes no other test due
_ALWAYS = {"reput", "requirements", "pyproject.toml", "pytest.ini", "conftest.py"}  # settings
_NAMED = re.compile(r"\b((?:reput|tests)(?:\.\w+)*)(?: import (\([^)]*\)|.*))?")
_COMMAND = re.compile(r"[\"']reput[\"']|^import reput$|^from reput import", re.M)


def commit(root: Path = ROOT) -> str:
    """The commit that is checked out, with a + where files differ from it."""
    (head,) = _git(root, "rev-parse", "--short=9", "HEAD")
    changed = _git(root, "status", "--porcelain", "-z", ":(exclude)" + _OWN)
    return head + "+" * bool(changed)


def _git(root: Path, *words: str) -> list[str]:
    said = subprocess.check_output(["git", *words], cwd=root, text=True, timeout=60)
    return re.findall(r"[^\0\n]+", said)


def _blobs(root: Path) -> dict[str, str]:
    """Path -> git's name for the contents that the file has now, committed or not."""
    found = {line[50:]: line[7:47] for line in _git(root, "ls-files", "-s", "-z")}
    changed = _git(root, "diff", "--name-only", "-z")
    for path in changed + _git(root, "ls-files", "-o", "--exclude-standard", "-z"):
        found.pop(path, None)
        if (root / path).is_file():
            data = (root / path).read_bytes()
            found[path] = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    return {path: blob for path, blob in found.items() if not path.startswith(_OWN)}


class Tree:
    """The files as they are now, by folders."""

    def __init__(self, root: Path = ROOT) -> None:
        self._blobs = _blobs(root)
        self._text = cache(lambda path: (root / path).read_text("utf-8"))
        self._heights = _heights(self._text("tests/test_layers.py"))
        folders: dict[str, list[str]] = {}
        for path, blob in sorted(self._blobs.items()):
            if not path.rpartition("/")[2].startswith("test_"):  # a test is nobody's helper
                folders.setdefault(self._folder(path), []).append(f"{path} {blob}")
        self._digests = {folder: _sha(lines) for folder, lines in folders.items()}
        rooms = {f"{tests}{room}" for room in self._heights for tests in ("", "tests/")}
        self._others = {folder: Path(folder).name for folder in folders.keys() - rooms}
        names = "|".join(map(re.escape, self._others.values()))
        self._told = re.compile(rf"[\"'/]({names})(?=[\"'/ ])")
        self.digest = cache(self._digest)

    def _digest(self, test: str) -> str:
        folders = sorted(self.folders(test) & self._digests.keys())
        return _sha([self._blobs.get(test, ""), *(f"{f} {self._digests[f]}" for f in folders)])

    def _folder(self, path: str) -> str:
        """Of a path: a room of LAYERS, the tests of one, else the folder or file at the top."""
        if path.startswith("tests/"):
            top = path[6:].partition("/")[0] if path.count("/") > 1 else ""
            return f"tests/{self._room(path[6:]) or top}".rstrip("/")
        return self._room(path) or path.partition("/")[0]

    def _room(self, path: str) -> str:
        while path and path not in self._heights:
            path = path.rpartition("/")[0]
        return path

    def folders(self, test: str) -> set[str]:
        """All that a test's file depends on, but itself."""
        text = self._text(test)
        names = (name for name in _named(text) if name.startswith("reput/"))
        rooms = set(filter(None, (self._room(name[6:]) for name in names)))
        own = test.removeprefix("tests/").rpartition("/")[0]
        if own not in self._heights or _COMMAND.search(text):  # of no room, or of the command
            rooms = set(self._heights)
        else:
            rooms.add(own)
            top = max(self._heights[room] for room in rooms)
            rooms |= {room for room, height in self._heights.items() if height < top}
        helpers = self._helpers(test)
        above = [f"{folder}/conftest.py" for folder in Path(test).parents[:-1]]
        told = {name for text in helpers.values() for name in self._told.findall(text)}
        others = {folder for folder, name in self._others.items() if name in told}
        return {*rooms, *map(self._folder, [*helpers, *above]), *others, *_ALWAYS}

    def _helpers(self, test: str) -> dict[str, str]:
        """The test, the modules of tests that it imports, those that these import: their texts."""
        texts, waiting = {}, {test}
        while waiting:
            path = waiting.pop()
            texts[path] = self._text(path)
            ours = {name for name in _named(texts[path]) if name.startswith("tests/")}
            files = {f"{name}{end}" for name in ours for end in (".py", "/__init__.py")}
            waiting |= (files & self._blobs.keys()) - texts.keys()
        return texts


def _named(text: str) -> set[str]:
    """All modules of ours that a text names, and what is imported of these, as paths."""
    found = set()
    for base, names in _NAMED.findall(text):
        path = base.replace(".", "/")
        found |= {path, *(f"{path}/{name}" for name in re.findall(r"\w+", names))}
    return found


def _heights(text: str) -> dict[str, int]:
    """Each room of LAYERS and how high it is. Raises TypeError where the table has gone."""
    found = re.search(r"^LAYERS = (\(.*?^\))", text, re.M | re.S)
    rows = ast.literal_eval(found[1])  # type: ignore[index]
    return {room: height for height, row in enumerate(rows) for room in row.split()}


def _sha(lines: Iterable[str]) -> str:
    return hashlib.sha1("\n".join(lines).encode()).hexdigest()[:8]
