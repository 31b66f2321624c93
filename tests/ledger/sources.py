"""What a test's file depends on, as it is now: by the names in its text, rather too much."""

import ast
import hashlib
import re
import subprocess
from functools import cache
from pathlib import Path

from tests.ledger import code

ROOT = Path(__file__).parents[2]
_HERE = "tests/ledger/"
_PACKAGES = r"(?:reput|tests|scripts|benchmarks)"
# a module's name anywhere: imports, and strings that name one to patch or to load
_NAMED = re.compile(rf"\b{_PACKAGES}(?:\.\w+)+")
_FROM = re.compile(rf"^\s*from\s+({_PACKAGES}[\w.]*)\s+import\s+(?:\(([^)]*)\)|(.*))", re.M)
_WHOLE = re.compile(r"^\s*import reput$|[\"']reput[\"']|-m reput\b", re.M)
_FIXTURE = re.compile(r"@pytest\.fixture([^\n]*)\n(?:async )?def (\w+)")
# what a test reads that is no module, by the first word of its path
_REPORTED = re.compile(
    r"[\"'/](docs|scripts|notebooks|benchmarks|conf|requirements|\.ci|\.github|Makefile|databricks\.yml"
    r"|mkdocs\.yml|pyproject\.toml|spark-submit\.sh|[A-Z]+\.md)\b"
)
_SPARK = re.compile("spark", re.IGNORECASE)
_ON_SPARK = ("jobs/spark/", "jobs/engines/spark_engine.py")
# Helpers that start Spark for fixtures alone, and quote what names it.
_FOR_FIXTURES = ("tests/rocketmq/engines.py", "tests/jobs/sources/delta_session.py")
_PAGE = re.compile(r"\bdocs(?:/|\" / \")([\w/-]+\.md)\b")
_EVERYTHING = ("reput/__init__.py", "reput/__main__.py", "jobs/cli.py")


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
    """The files as they are now, and which of them a test's file depends on."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self.blobs = code.names(root, blobs(root))
        self._modules = {_module(path): path for path in self.blobs if path.endswith(".py")}
        self._locked = [path for path in self.blobs if path.endswith(".lock")]
        self.digest = cache(self._digest)
        self.uses = cache(self._direct)
        self._text = cache(lambda path: (root / path).read_text("utf-8"))
        self._names_spark = cache(lambda path: bool(_SPARK.search(self._text(path))))
        self._words = cache(lambda path: set(re.findall(r"[\w-]+", self._text(path))))

    def _digest(self, path: str) -> str:
        """Eight digits that change whenever a file changes on which this test's file depends."""
        got = "".join(f"{each} {self.blobs[each]}\n" for each in sorted(self.closure(path)))
        return hashlib.sha1(got.encode()).hexdigest()[:8]

    def closure(self, path: str) -> set[str]:
        """All files that a test's file depends on, itself too."""
        found: set[str] = set()
        self._follow([path, *self._conftests(path), *self._locked], found, path)
        if "jobs/cli.py" in found:
            self._follow(self._commands(found), found, path)
        if path.startswith("tests/") and not self._starts_spark(path, found):
            found = {each for each in found if not each.startswith(_ON_SPARK)}
        return found

    def _follow(self, waiting: list[str], found: set[str], path: str) -> None:
        while waiting:
            each = waiting.pop()
            if each.startswith(_HERE) and not path.startswith(_HERE):
                continue  # the ledger only watches
            if each not in found and each in self.blobs:
                found.add(each)
                if each.endswith(".py") and not (each.endswith("/conftest.py") and each != path):
                    waiting += self.uses(each)

    def _commands(self, found: set[str]) -> list[str]:
        """The commands that a test or its helpers name: jobs/cli.py imports what is asked for."""
        tests = [each for each in found if each.startswith("tests/") and each.endswith(".py")]
        words = {word for each in tests for word in self._words(each)}
        commands = re.compile(r"jobs/(\w+)\.py")
        return [
            each
            for each in self.blobs
            if (name := commands.fullmatch(each)) and words & {name[1], name[1].replace("_", "-")}
        ]

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

    def _conftests(self, path: str) -> list[str]:
        """Each conftest above a test, and what it uses where the test names one of its fixtures."""
        found = []
        words = set(re.findall(r"\w+", self._text(path)))
        for conftest in self._above(path):
            found.append(conftest)
            fixtures = _FIXTURE.findall(self._text(conftest))
            if any("autouse" in how or name in words for how, name in fixtures):
                found += self.uses(conftest)
        return found

    def _direct(self, path: str) -> list[str]:
        text = self._text(path)
        names = _NAMED.findall(text)
        for package, several, one in _FROM.findall(text):
            names += [f"{package}.{name}" for name in re.findall(r"\w+", several or one)]
        found = {self._file(name) for name in names}
        if _WHOLE.search(text) and path.startswith("tests/"):
            found.update(_EVERYTHING)
        if path.startswith("tests/"):
            got = set(_REPORTED.findall(text))
            pages = _PAGE.findall(text)
            if len(pages) == len(re.findall(r"\bdocs\b", text)):
                got.discard("docs")  # it names each page that it reads
                found.update(f"docs/{page}" for page in pages)
            found.update(each for each in self.blobs if each.partition("/")[0] in got)
        return [*(each for each in found if each), *self._data(path)]

    def _file(self, name: str) -> str | None:
        """The file of the longest part of a dotted name that is a module."""
        while name:
            if name in self._modules:
                return self._modules[name]
            name = name.rpartition(".")[0]
        return None

    def _data(self, path: str) -> list[str]:
        """What is no Python and lies beside a module or below, but not in another package, if the
        module has its name, its ending, or the name of the folder there.
        """
        folder = Path(path).parent.as_posix()
        if folder in (".", ""):
            return []
        text = self._text(path)
        return [
            each
            for each in self.blobs
            if each.startswith(f"{folder}/")
            and not each.endswith((".py", ".md"))
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
