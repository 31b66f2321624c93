"""Which folder may import which; the site's page of imports is drawn from the same look."""

import ast
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent

# From the ground up: a folder imports only those of the lines above it.
LAYERS = (
    "store_format", "store_format/files store_format/release", "store_format/kernels",
    "store_format/log", "store_format/derived store_format/dispatch store_format/message",
    "store_format/damage store_format/filter store_format/rewrite store_format/rocksdb",
    "store_format/describe store_format/discover", "store_format/query", "store_format/fate",
    "store_format/state", "broker/wire", "broker/writer", "broker/change broker/serving",
    "broker/services", "udfs", "udfs/rebuild", "udfs/convert udfs/damage", "udfs/table",
    "udfs/compare", "jobs/engines", "jobs/opening", "jobs/outputs jobs/sources",
    "jobs/pipeline", "jobs/salvaging", "jobs/deriving", "jobs/exporting", "jobs/console",
    "jobs/judging", "jobs/comparing jobs/in_place", "jobs/page jobs/replicating",
    "jobs/converting jobs/repository jobs/sending jobs/sockets", "jobs",
)  # fmt: skip
_NO_COMMANDS = {"cli", "demo"}  # the demo types what a user would


@pytest.fixture(scope="module")
def imports() -> Any:
    spec = importlib.util.spec_from_file_location("imports", ROOT / "scripts" / "imports.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def arrows(imports: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = imports.arrows()
    return found


def test_every_folder_has_its_layer(arrows: dict[str, set[str]]) -> None:
    assert sorted(arrows) == sorted(" ".join(LAYERS).split())


def test_no_import_runs_back(imports: Any, arrows: dict[str, set[str]]) -> None:
    height = {folder: n for n, layer in enumerate(LAYERS) for folder in layer.split()}
    back = [f"{folder} imports {needed}" for folder, needs in arrows.items() for needed in needs
            if height[needed] >= height[folder]]  # fmt: skip
    assert back == []
    imports.layers(arrows)  # no circle: it raises


def test_no_command_imports_another(imports: Any) -> None:
    known = {m.with_suffix("").as_posix().replace("/", ".") for m in imports.modules()}
    commands = [path for path in (ROOT / "jobs").glob("*.py") if path.stem not in _NO_COMMANDS]
    found = [f"{path.name} imports {name}" for path in commands
             for name in imports.imported(path.relative_to(ROOT), known) if name.count(".") == 1
             and name.startswith("jobs.")
             and (ROOT / "jobs" / f"{name[5:]}.py").exists()]  # fmt: skip
    assert found == []


def test_tests_take_their_helpers_from_modules_that_are_no_tests() -> None:
    """A module of tests can then be moved, split or run alone, and its fixtures stay its own."""
    for path in (*ROOT.glob("tests/**/*.py"), *ROOT.glob("benchmarks/**/*.py")):
        own = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        text = path.read_text("utf-8")
        if not re.search(r"import .*\btest_|\.test_", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module:
                named = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
                from_tests = [n for n in named if n.startswith("tests.") and ".test_" in n]
                assert not from_tests, f"{own}, line {node.lineno}: {from_tests[0]}"
