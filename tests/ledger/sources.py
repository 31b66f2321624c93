"""What a test's file depends on, as it is now: by the names in its text, rather too much.

Not whole files: of those that it imports the parts that it uses, and what those use in turn.
"""

import ast
import hashlib
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.ledger import parts

ROOT = Path(__file__).parents[2]
_HERE = "tests/ledger/"
# what a test reads that is no module, by the first word of its path
_REPORTED = re.compile(
    r"[\"'/](docs|scripts|notebooks|benchmarks|conf|requirements|\.ci|\.github|Makefile|databricks\.yml"
    r"|mkdocs\.yml|pyproject\.toml|spark-submit\.sh|[A-Z]+\.md)\b"
)
_SPARK = re.compile("spark", re.IGNORECASE)
_ON_SPARK = ("jobs/spark/session.py", "jobs/engines/spark_engine.py")
# Helpers that start Spark for fixtures alone, and quote what names it.
_FOR_FIXTURES = ("tests/rocketmq/engines.py", "tests/jobs/sources/delta_session.py")
_OF_A_PAGE = re.compile(r"^```.*?^```|^#+ [^\n]*|`[^`\n]+`|\]\([^)]*\)", re.M | re.S)
_PAGE = re.compile(r"\bdocs(?:/|\" / \")([\w/-]+\.md)\b")
_ALL = "*"  # in the place of a part's name: all parts, and what the module imports
_FRONT, _COMMAND_LINE = "reput/__init__.py", "jobs/cli.py"


def commit(root: Path = ROOT) -> str | None:
    """The commit that is checked out, with a + where files differ from it; None without git."""
    if not (root / ".git").exists():
        return None
    try:
        head = _git(root, "rev-parse", "--short=9", "HEAD")[0]
        changed = [line[3:] for line in _git(root, "status", "--porcelain", "-z") if line]
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+" if any(not path.startswith(_HERE) for path in changed) else "")


def _git(root: Path, *words: str) -> list[str]:
    done = subprocess.run(
        ["git", *words], cwd=root, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.rstrip("\0\n").split("\0") if "-z" in words else done.stdout.splitlines()


def blobs(root: Path) -> dict[str, str]:
    """Path -> git's name for the contents that the file has now, committed or not."""
    found = {}
    for line in _git(root, "ls-files", "-s", "-z"):
        got, _, path = line.partition("\t")
        if got and not got.startswith("120000"):  # no links: what they lead to is here itself
            found[path] = got.split()[1]
    changed = _git(root, "diff", "--name-only", "-z")
    changed += _git(root, "ls-files", "-o", "--exclude-standard", "-z")
    for path in filter(None, changed):
        if (root / path).is_file() and not (root / path).is_symlink():
            data = (root / path).read_bytes()
            found[path] = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        else:
            found.pop(path, None)
    return found


class Tree:
    """The files as they are now, and which parts of them a test's file depends on."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self.blobs = blobs(root)
        self._parts = parts.read(root, self.blobs)
        self._modules = {_module(path): path for path in self._parts}
        self.digest = cache(self._digest)
        self.uses = cache(self._direct)
        self._text = cache(lambda path: (root / path).read_text("utf-8"))
        self._names_spark = cache(lambda path: bool(_SPARK.search(self._text(path))))
        self._page = cache(self._page_digest)
        self._beside = cache(lambda path: [*self._pages(path), *self._data(path)])
        self._resolved = cache(self._resolve)

    def _digest(self, path: str) -> str:
        """Eight digits that change whenever something changes on which this test's file depends."""
        found = self.reach(path)
        got = "".join(f"{each} {self._name_of(*each, path)}\n" for each in sorted(found))
        return hashlib.sha1(got.encode()).hexdigest()[:8]

    def _name_of(self, file: str, name: str, path: str) -> str:
        """Git's name of a file, the digest of a part."""
        return self.blobs[file] if file == path else self.part(file, name)

    def part(self, file: str, name: str = "") -> str:
        """The digest of a module's part: of its code, not its comments. Of a page what tests look
        at; for another file git's name of it, "" where there is none.
        """
        if file.endswith(".md") and file in self.blobs:
            return self._page(file)
        if file not in self._parts:
            return self.blobs.get(file, "")
        part = self._parts[file].parts.get(name)
        return part.digest if part else ""

    def _page_digest(self, path: str) -> str:
        """Of a page's headings, links, examples and what it names, not of its prose and numbers."""
        named = sorted(set(_OF_A_PAGE.findall(self._text(path))))
        return hashlib.sha1("\n".join(named).encode()).hexdigest()[:12]

    def whole(self, file: str) -> str:
        """The digest of all of a module's code; of another file as `part`."""
        names = self._parts[file].parts if file in self._parts else [""]
        return " ".join(self.part(file, name) for name in names)

    def closure(self, path: str) -> set[str]:
        """All files that a test's file depends on, itself too."""
        return {file for file, _ in self.reach(path)}

    def reach(self, path: str) -> set[tuple[str, str]]:
        """All that a test's file depends on: parts of Python files, ("docs/x.md", "") of others."""
        found = self._follow(path, ())
        if path.startswith("tests/") and not self._starts_spark(path, {file for file, _ in found}):
            found = self._follow(path, _ON_SPARK)
        return found

    def _follow(self, path: str, without: tuple[str, ...]) -> set[tuple[str, str]]:
        found: set[tuple[str, str]] = set()
        waiting = [(path, _ALL)]
        waiting += [(each, "") for each in self.blobs if each.endswith(".lock")]
        words: set[str] = set()
        while waiting:
            while waiting:
                each = waiting.pop()
                if each in found or each[0] not in self.blobs or each[0].startswith(without or "/"):
                    continue
                if each[0].startswith(_HERE) and not path.startswith(_HERE):
                    continue  # the ledger only watches
                found.add(each)
                waiting += self._used(*each)
                if each[0] in self._parts and each[0].startswith("tests/"):
                    part = self._parts[each[0]].parts.get(each[1])
                    words.update(part.words if part else ())
            waiting = [each for each in self._asked(path, found, words) if each not in found]
            waiting = [each for each in waiting if each[0] in self.blobs]
            waiting = [each for each in waiting if not each[0].startswith(without or "/")]
        return found

    def _asked(
        self, path: str, found: set[tuple[str, str]], words: set[str]
    ) -> Iterator[tuple[str, str]]:
        """What words ask for: fixtures of the conftests above, commands of the command line."""
        for conftest in self._above(path):
            for name, part in self._parts[conftest].parts.items():
                if not part.fixture or part.fixture == "autouse" or f"@{name}" in words:
                    yield conftest, name
        if any(file == _COMMAND_LINE for file, _ in found):
            yield _COMMAND_LINE, _ALL
            for each in self._parts:
                command = re.fullmatch(r"jobs/(\w+)(?:/__init__)?\.py", each)
                if command and words & {command[1], command[1].replace("_", "-")}:
                    yield each, _ALL

    def _used(self, path: str, name: str) -> list[tuple[str, str]]:
        """What a part of a file uses, and what any part of it has read or run."""
        if path not in self._parts:
            return []
        module, found = self._parts[path], [(path, "")]
        if name == _ALL and path != _FRONT:  # that loads each of its names when it is asked for
            found += [(path, each) for each in module.parts]
            for dotted in module.passed_on:
                found += self._named(dotted)
        if name == "":
            found += [(each, "") for each in self._beside(path)]
        part = module.parts.get(name)
        for used in part.uses if part else ():
            found += self._resolved(path, used)
        if part and part.command_line:
            found.append((_COMMAND_LINE, _ALL))
        return found

    def _resolve(self, path: str, used: str) -> list[tuple[str, str]]:
        """What a name with its attributes stands for in a module."""
        first, _, rest = used.partition(".")
        own = self._parts[path]
        if first in own.parts:
            return [(path, first)]
        if first in own.imports:
            return self._named(f"{own.imports[first]}.{rest}".rstrip("."))
        return self._named(used) if rest else []

    def _named(self, dotted: str) -> list[tuple[str, str]]:
        """What a dotted name stands for: a part, or all of a module; nothing if none of ours."""
        module, rest = dotted, ""
        while module and module not in self._modules:
            module, _, last = module.rpartition(".")
            rest = f"{last}.{rest}".rstrip(".")
        if not module:
            return []
        path, name = self._modules[module], rest.partition(".")[0]
        here = self._parts[path]
        if not name:
            return [(path, _ALL)]
        if name in here.parts:
            return [(path, name)]
        if name in here.imports:
            return [(path, ""), *self._resolved(path, rest)]
        return [(path, _ALL)]

    def _direct(self, path: str) -> list[str]:
        """The files that a file uses itself."""
        names = [_ALL, "", *self._parts[path].parts] if path in self._parts else []
        found = [file for name in names for file, _ in self._used(path, name)]
        return [each for each in dict.fromkeys(found) if each != path]

    def _starts_spark(self, path: str, found: set[str]) -> bool:
        """Whether a test, or a helper of its, names Spark, or a fixture that does."""
        named = [
            each
            for each in found
            if each.startswith("tests/") and each.endswith(".py")
            and each not in _FOR_FIXTURES and not each.endswith(("conftest.py", "_bugs.py"))
        ]  # fmt: skip
        if any(map(self._names_spark, named)):
            return True
        asked = {
            each.arg
            for function in ast.walk(ast.parse(self._text(path)))
            if isinstance(function, ast.FunctionDef)
            for each in function.args.args
        }
        return bool(asked & self._spark_fixtures(path))

    def _spark_fixtures(self, path: str) -> set[str]:
        """The fixtures of the conftests above a test that start Spark, at least for a parameter."""
        return {
            name[1]
            for conftest in self._above(path)
            for each in self._text(conftest).split("@pytest.fixture")[1:]
            if _SPARK.search(each) and (name := re.search(r"def (\w+)", each))
        }

    def _above(self, path: str) -> list[str]:
        """The conftests above a test, its own folder's first."""
        above = ((folder / "conftest.py").as_posix() for folder in Path(path).parents)
        return [each for each in above if each in self.blobs]

    def _pages(self, path: str) -> Iterator[str]:
        """What a test or its helper reads that is no module, by the words of its text."""
        if not path.startswith("tests/") or path not in self._parts:
            return
        text = self._text(path)
        got = set(_REPORTED.findall(text))
        pages = _PAGE.findall(text)
        if len(pages) == len(re.findall(r"\bdocs\b", text)):
            got.discard("docs")  # it names each page that it reads
            yield from (f"docs/{page}" for page in pages)
        yield from (each for each in self.blobs if each.partition("/")[0] in got)

    def _data(self, path: str) -> list[str]:
        """What is no Python and lies beside a module or below, but not in another package, if the
        module has its name, its ending, or the name of the folder there.
        """
        folder = Path(path).parent.as_posix()
        if folder in (".", "") or path not in self._parts:
            return []
        text = self._text(path)
        return [
            each
            for each in self.blobs
            if each.startswith(f"{folder}/")
            and not each.endswith((".py", ".md"))
            and not (each.startswith(_HERE) and each.endswith(".tsv"))  # what the ledger writes
            and any(name in text for name in _names(each.removeprefix(f"{folder}/")))
            and not self._package_between(folder, each)
        ]

    def _package_between(self, folder: str, path: str) -> bool:
        for each in Path(path).parents:
            if each.as_posix() == folder:
                return False
            if (each / "__init__.py").as_posix() in self.blobs:
                return True
        return False


def _names(path: str) -> set[str]:
    """The words by which a module may ask for a file below its folder."""
    first, name = path.partition("/")[0], path.rpartition("/")[2]
    return {first, name, name.partition(".")[0], f"*.{name.partition('.')[2]}"}


def _module(path: str) -> str:
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    ours = ("store_format", "broker", "udfs", "jobs")
    return f"reput.{name}" if name.partition(".")[0] in ours else name
