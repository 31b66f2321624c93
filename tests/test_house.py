"""The rules of the house (CONTRIBUTING.md): one idea a module, no circle, a light start."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from reput.jobs import cli
from tests.processes import run_python

ROOT = Path(__file__).parent.parent
PACKAGES = ("store_format", "broker", "udfs", "jobs")
LEAST, MOST = 100, 500  # lines of a module

# Below LEAST without being a command, a package's docstring or a base that everything imports.
SHORT = {
    "store_format/notes.py": "what is said beside an answer: everything imports it",
    "store_format/java.py": "a base: whatever follows Java imports it",
    "store_format/derived/after_crash.py": "apart from the checkpoint, as it reads queues",
    "store_format/derived/checkpoint.py": "a base: writer, recovery, rebuild and check import it",
    "store_format/discover/purpose.py": "one table: every command imports its row",
    "store_format/files/by_url.py": "apart, so that who has a path need not load each file system",
    "store_format/query/all_cores.py": "apart, so that light questions need no processes",
    "broker/serving/handlers.py": "what all rooms of requests are joined in",
    "broker/serving/handles.py": "a text that clients hold: apart from what is popped",
    "jobs/engines/preload.py": "run in a bare process, by its name",
    "store_format/kernels/bytes.py": "a base: all other kernels import it",
    "store_format/kernels/jit.py": "marks kernels without numba: all of them import it",
    "udfs/warm.py": "kernels, which Spark's driver does not load",
    "udfs/worker_garbage.py": "a worker's collector, for every task",
}
# Words of a command's start, and what it may load of this. Nothing that is not here may be loaded.
HEAVY = ("numba", "pyarrow", "pyspark", "pandas", "lark", "numpy")
STARTS = {("--help",): (), ("check", "--help"): ("numpy",), ("query", "--help"): ("numpy",),
          ("export", "--help"): ("numpy",), ("query", "STORE", "--key", "nobody"): ("numpy",),
          ("topics", "STORE"): ("numpy", "numba"),
          ("trace", "STORE", "--key", "nobody"): ("numpy", "numba")}  # fmt: skip


# Commands whose own module loads more than numpy, before it knows what it is asked.
HEAVY_COMMANDS = {
    "install": {"pyarrow"}, "append": {"pyarrow"}, "clean": {"pyarrow"},
}  # fmt: skip


@cache
def modules() -> tuple[str, ...]:
    found = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    return tuple(sorted(str(path.relative_to(ROOT)) for path in found))


def lines(module: str) -> int:
    return len((ROOT / module).read_text("utf-8").splitlines())


def is_command(module: str) -> bool:
    return module.count("/") == 1 and module.startswith("jobs/")


def test_a_module_is_one_idea_of_100_to_500_lines() -> None:
    asked = [each for each in modules() if not each.endswith("__init__.py")]
    long = {each: lines(each) for each in asked if lines(each) > MOST}
    short = {each: lines(each) for each in asked if lines(each) < LEAST and not is_command(each)}
    assert not long
    assert sorted(short) == sorted(SHORT), short


def test_there_are_no_crumbs() -> None:
    assert len(modules()) <= 390
    assert sum(lines(each) < 60 for each in modules() if not each.endswith("__init__.py")) <= 30


def test_no_circle_of_imports_those_in_functions_counted() -> None:
    known = {f"reput.{each[:-3].replace('/', '.')}".removesuffix(".__init__") for each in modules()}
    needs: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        own = f"reput.{module[:-3].replace('/', '.')}".removesuffix(".__init__")
        tree = ast.parse((ROOT / module).read_text("utf-8"))
        typing = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.If)
                  if getattr(node.test, "id", "") == "TYPE_CHECKING"
                  for inner in ast.walk(node)}  # fmt: skip
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and id(node) not in typing:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    needs[own] |= {whole if whole in known else str(node.module)} & known - {own}
    left = dict(needs)
    while free := [name for name in left if not left[name] & left.keys()]:
        for name in free:
            del left[name]
    circle = {name: sorted(left[name] & left.keys()) for name in left}
    assert not circle


@pytest.mark.parametrize("words", STARTS, ids=" ".join)
def test_a_command_s_start_loads_no_more_than_it_needs(words, tmp_path) -> None:
    from tests import golden_stores

    store = str(golden_stores.unpack("small_all_5.3.3").input)
    asked = [store if word == "STORE" else word for word in words]
    code = (
        "import sys\nfrom reput.jobs.cli import main\n"
        f"try: main({asked!r})\nexcept SystemExit: pass\n"
        f"print('LOADED', *(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr)\n"
    )
    done = run_python("-c", code, check=True)
    (loaded,) = [line for line in done.stderr.splitlines() if line.startswith("LOADED")]
    assert set(loaded.split()[1:]) <= set(STARTS[words])


@pytest.mark.parametrize("commands", [None, *HEAVY_COMMANDS])
def test_a_command_s_module_loads_no_more_than_it_did(commands: str | None) -> None:
    """None: all others, one after the other in one process."""
    others = [name for name in cli._COMMANDS if name not in HEAVY_COMMANDS]
    code = ("import contextlib, io, sys\nfrom reput.jobs.cli import main\n"
            f"for command in {[commands] if commands else others!r}:\n"
            "    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
            "        main([command, '--help'])\n"
            f"print(*(name for name in {HEAVY!r} if name in sys.modules))\n")  # fmt: skip
    done = run_python("-c", code, check=True)
    assert set(done.stdout.split()) <= {"numpy"} | HEAVY_COMMANDS.get(commands or "", set())
