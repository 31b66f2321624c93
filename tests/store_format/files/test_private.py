"""Compiled kernels are kept by what they were compiled from, wherever that lies."""

import ast
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from reput.jobs.clean import clean
from reput.store_format.files import private
from reput.store_format.files.private import (
    NotPrivate,
    Scratch,
    private_folder,
    safe_parent,
    scratch_folder,
)
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
        shutil.copytree(ROOT / "reput", folder / "reput",
            ignore=shutil.ignore_patterns("__pycache__"))  # fmt: skip
    archive = shutil.make_archive(str(tmp_path / "c"), "zip", made[0])
    return [*made, Path(archive)]


@pytest.mark.long
def test_only_other_sources_are_compiled_anew(copies: list[Path], tmp_path: Path) -> None:
    """Not another place, nor a change of what the kernel does not import."""
    cache = tmp_path / "cache"
    kernels = copies[1] / "reput" / "store_format"
    assert run_at(copies[0], cache).startswith(str(copies[0]))
    compiled = kept(cache)
    assert compiled
    for place in copies[1:]:
        assert run_at(place, cache).startswith(str(place))
        assert kept(cache) == compiled
    for name, times in (("log/walk.py", 1), ("kernels/bytes.py", 2)):
        (kernels / name).write_text((kernels / name).read_text() + "\n# changed\n")
        run_at(copies[1], cache)
        assert times == 2 or kept(cache) == compiled
    assert len(list(cache.rglob("*.nbi"))) == 2 * sum(name.endswith(".nbi") for name in compiled)


def test_kernels_of_other_sources_are_none_of_ours(tmp_path: Path) -> None:
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
    # After an update the first run says again that it compiles.
    ours = private.source_key("reput.store_format.log.records")
    for key, there in (("0" * 16, False), (ours, True)):
        (tmp_path / f"walk-reput.store_format.log.records-5-{key}.py311.1.nbc").touch()
        assert private.has_kernels(str(tmp_path)) == there


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


# --- Folders for what is loaded as code: nobody else may be able to change what is in them.
def folder(path: Path, mode: int) -> Path:
    path.mkdir()
    path.chmod(mode)
    return path


def test_missing_folders_are_made_for_this_user_alone(tmp_path: Path) -> None:
    made = Path(private_folder(f"{tmp_path}/a/./b//c"))
    assert made == tmp_path / "a" / "b" / "c"
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (made, made.parent, tmp_path / "a")]
    assert modes == [0o700] * 3
    assert private_folder(str(made)) == str(made)


@pytest.mark.parametrize(("mode", "private", "parent"), [
    (0o700, True, True), (0o755, True, True), (0o720, False, False), (0o702, False, False),
    (0o777, False, False),
    (0o1777, False, True),  # as /tmp: nobody can rename another's files
    (0o1720, False, True)])  # fmt: skip
def test_others_may_not_write_to_it_but_a_parent_may_be_sticky(
    tmp_path: Path, mode: int, private: bool, parent: bool
) -> None:
    path = str(folder(tmp_path / "there", mode))
    for check, fine in ((private_folder, private), (safe_parent, parent)):
        if fine:
            assert check(path) == path
        else:
            with pytest.raises(NotPrivate, match="there: others may write to it"):
                check(path)


@pytest.mark.parametrize(("mode", "fine"), [(0o755, True), (0o777, False), (0o1777, True)])
def test_no_folder_above_may_be_changed_by_others(tmp_path: Path, mode: int, fine: bool) -> None:
    below = folder(tmp_path / "above", mode) / "below"
    if fine:
        assert private_folder(str(below)) == str(below)
        return
    with pytest.raises(NotPrivate, match="above: others may write to it"):
        private_folder(str(below))
    assert not below.exists()


def test_links_are_followed_and_circles_files_and_what_others_may_change_refused(tmp_path) -> None:
    target = folder(tmp_path / "target", 0o700)
    (tmp_path / "absolute").symlink_to(target)
    (tmp_path / "up").symlink_to("target/../target")
    for name in ("absolute", "up"):
        assert private_folder(f"{tmp_path}/{name}/x") == f"{target}/x"
    (folder(tmp_path / "open", 0o777) / "inner").mkdir(mode=0o700)
    (tmp_path / "through").symlink_to("open/inner")
    with pytest.raises(NotPrivate, match="open: others may write to it"):
        private_folder(f"{tmp_path}/through")
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    (tmp_path / "file").write_bytes(b"")
    for name, reason in (("one", "too many links"), ("file", "is not a folder"),
        ("file/x", "file")):  # fmt: skip
        with pytest.raises(NotPrivate, match=reason):
            private_folder(f"{tmp_path}/{name}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_or_link_of_another_user_is_refused(tmp_path: Path) -> None:
    theirs = folder(tmp_path / "theirs", 0o755)
    os.chown(theirs, 12345, 12345)
    (tmp_path / "link").symlink_to(tmp_path)
    os.chown(tmp_path / "link", 12345, 12345, follow_symlinks=False)
    for path in (theirs, theirs / "below", tmp_path / "link"):
        with pytest.raises(NotPrivate, match="belongs to user 12345"):
            safe_parent(str(path))


# --- A scratch folder is its process's own, and a leftover once that was killed.
_HOLD = """
import sys
from reput.store_format.files.private import Scratch, scratch_folder
with scratch_folder(Scratch.ROCKSDB) as folder:
    open(folder + "/CURRENT", "x").close()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary folder of these tests' own: others may have leftovers in the usual one."""
    folder = str(tmp_path_factory.mktemp("temporary"))
    monkeypatch.setattr(tempfile, "tempdir", folder)
    monkeypatch.setenv("TMPDIR", folder)


def test_it_is_private_and_goes_after_an_error_too(tmp_path: Path) -> None:
    for prefix in Scratch:
        with scratch_folder(prefix) as folder:
            assert os.path.dirname(folder) == tempfile.gettempdir()
            assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
            Path(folder, "file").touch()
            assert clean(str(tmp_path), dry_run=True).leftovers == []
        assert not os.path.exists(folder)
    with pytest.raises(ValueError, match="of no use"), scratch_folder(Scratch.TABLE) as folder:
        raise ValueError("of no use")
    assert not os.path.exists(folder)


def test_a_killed_process_leaves_it_to_clean(tmp_path: Path) -> None:
    words = [sys.executable, "-c", _HOLD]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        folder = process.stdout.readline().strip()
        assert clean(str(tmp_path), dry_run=True).leftovers == []
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    assert clean(str(tmp_path)).leftovers == [folder]
    assert not os.path.exists(folder)
