"""Compiled kernels are kept by what they were compiled from, wherever that lies."""

import ast
import shutil
from pathlib import Path

import pytest

from reput.store_format.files import private
from tests.processes import run_python

ROOT = Path(__file__).parents[3]
PROGRAM = """
import numpy as np, reput.store_format.kernels.crc as crc
print(crc.__file__)
print(crc.crc32(np.frombuffer(b"123456789", np.uint8), 0, 9) & 0xFFFFFFFF)
"""


def run_at(place: Path, cache: Path) -> str:
    """Run a kernel from a folder or a zip on the path; the file that it came from."""
    program = f"import sys; sys.path.insert(0, {str(place)!r})\n{PROGRAM}"
    done = run_python("-c", program, env={"REPUT_CACHE": str(cache)}, cwd=place.parent, check=True)
    file, crc = done.stdout.splitlines()
    assert crc == str(0xCBF43926)
    return file


def kept(cache: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in cache.rglob("*.nb?")}


@pytest.fixture
def copies(tmp_path: Path) -> list[Path]:
    """The package in two folders, and in a zip."""
    made = [tmp_path / "a", tmp_path / "b"]
    for folder in made:
        shutil.copytree(
            ROOT / "reput", folder / "reput", ignore=shutil.ignore_patterns("__pycache__"),
        )  # fmt: skip
    archive = shutil.make_archive(str(tmp_path / "c"), "zip", made[0])
    return [*made, Path(archive)]


@pytest.mark.long
def test_another_place_compiles_nothing_anew(copies: list[Path], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert run_at(copies[0], cache).startswith(str(copies[0]))
    compiled = kept(cache)
    assert compiled
    for place in copies[1:]:
        assert run_at(place, cache).startswith(str(place))
        assert kept(cache) == compiled


@pytest.mark.long
def test_other_sources_are_compiled_anew(copies: list[Path], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    run_at(copies[0], cache)
    compiled = kept(cache)
    changed = copies[1] / "reput" / "store_format" / "kernels" / "bytes.py"
    changed.write_text(changed.read_text() + "\n# changed\n")
    run_at(copies[1], cache)
    assert len(list(cache.rglob("*.nbi"))) == 2 * sum(name.endswith(".nbi") for name in compiled)


@pytest.mark.long
def test_sources_that_a_kernel_does_not_import_change_nothing(
    copies: list[Path], tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    run_at(copies[0], cache)
    compiled = kept(cache)
    changed = copies[1] / "reput" / "store_format" / "log" / "walk.py"
    changed.write_text(changed.read_text() + "\n# changed\n")
    run_at(copies[1], cache)
    assert kept(cache) == compiled


def test_every_import_of_a_module_is_part_of_its_key() -> None:
    """As Python's own parser reads them; more than those would do no harm."""
    for name, file in private._modules().items():
        wanted = set()
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                wanted |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{name}: an import that has no full name"
                assert node.module
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                wanted |= inner & private._modules().keys() or {node.module}
        assert wanted & private._modules().keys() <= private._imports(name), name


def test_what_is_loaded_ahead_is_what_tasks_call() -> None:
    """A kernel called with other types would be compiled, or loaded, a second time in each task."""
    program = """
import gc, pathlib, tempfile
from numba.core.dispatcher import Dispatcher
from tests.processes import run_python
from tests.golden_rebuilds import rebuild_difference as rebuild
from reput.udfs.warm import load_kernels

def loaded():
    kernels = [thing for thing in gc.get_objects() if isinstance(thing, Dispatcher)]
    return {kernel.py_func.__qualname__: len(kernel.signatures) for kernel in kernels}

load_kernels()
before = loaded()
for ranges in (1, 3):
    with tempfile.TemporaryDirectory() as folder:
        assert rebuild("continued_5.3.3", ranges, pathlib.Path(folder)) is None
rare = {"mark_records"}  # only where delays or timers are lost
print({name for name, count in loaded().items() if before.get(name, 0) != count} - rare)
"""
    done = run_python("-c", program)
    assert done.stdout.strip() == "set()", done.stdout + done.stderr


def test_kernels_of_other_sources_are_none_of_ours(tmp_path: Path) -> None:
    """After an update the first run says again that it compiles."""
    ours = private.source_key("reput.store_format.log.records")
    for key, there in (("0" * 16, False), (ours, True)):
        (tmp_path / f"walk-reput.store_format.log.records-5-{key}.py311.1.nbc").touch()
        assert private.has_kernels(str(tmp_path)) == there
