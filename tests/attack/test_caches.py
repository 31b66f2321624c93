"""What is loaded as code lies where nobody else can change anything; broken, it is remade."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from reput.store_format.files.private import private_folder
from tests.processes import run_python

ROOT = Path(__file__).parents[2]
NOBODY = 65534
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can play two users")

KERNEL = """
import numpy as np
import reput.store_format.kernels.crc as crc, reput.store_format.kernels.compiler as compiler
print(compiler._CACHE_FOLDER)
print(crc.crc32(np.frombuffer(b"123456789", np.uint8), 0, 9) & 0xFFFFFFFF)
"""


def run_kernel(at: Path = ROOT, **env: str) -> str:
    """Run one compiled kernel in a new process; the cache folder that it used."""
    done = run_python("-P", "-c", KERNEL, env={"PYTHONPATH": str(at), **env}, cwd="/", timeout=300)
    assert done.returncode == 0, done.stderr
    folder, crc = done.stdout.split()
    assert crc == str(0xCBF43926)
    return folder


@pytest.mark.long
@as_root
def test_a_planted_kernel_cache_is_neither_read_nor_written(tmp_path: Path) -> None:
    """A cache folder that others own, as /tmp/reput-UID was: compiled in memory instead."""
    good = tmp_path / "good"
    folder = run_kernel(REPUT_CACHE=str(good))
    assert folder.startswith(str(good))
    planted = tmp_path / "planted"
    shutil.copytree(good, planted)
    for file in planted.rglob("*.nbi"):
        file.write_bytes(pickle_that_touches(tmp_path / "marker"))
    os.chown(planted, NOBODY, NOBODY)
    away = str(tmp_path / "file")
    Path(away).touch()  # neither a home nor a temporary folder can be made there
    used = run_kernel(REPUT_CACHE=str(planted), HOME=away, TMPDIR=str(planted))
    assert not used.startswith(str(planted))
    assert not (tmp_path / "marker").exists()


def pickle_that_touches(marker: Path) -> bytes:
    return b"cos\nsystem\n(S'touch %s'\ntR." % os.fsencode(marker)


@pytest.mark.long
def test_the_planted_pickle_would_have_run(tmp_path: Path) -> None:
    """In a folder of our own it is loaded: the test above can fail."""
    folder = run_kernel(REPUT_CACHE=str(tmp_path / "cache"))
    for file in Path(folder).glob("*crc32*.nbi"):
        file.write_bytes(pickle_that_touches(tmp_path / "marker"))
    run_kernel(REPUT_CACHE=str(tmp_path / "cache"))
    assert (tmp_path / "marker").exists()


@pytest.mark.long
@pytest.mark.parametrize(("kind", "share"), [("nbi", 0.5), ("nbc", 0)])
def test_a_cut_kernel_is_compiled_anew(tmp_path: Path, kind: str, share: float) -> None:
    cache = tmp_path / "cache"
    folder = Path(run_kernel(REPUT_CACHE=str(cache)))
    before = {file: file.stat().st_size for file in folder.glob(f"*.{kind}")}
    assert before
    for file, size in before.items():
        os.truncate(file, int(size * share))
    run_kernel(REPUT_CACHE=str(cache))
    for file, size in before.items():  # those that this run called are whole again
        if "crc32" in file.name:
            assert file.stat().st_size == size


def test_kernels_in_a_new_folder_of_the_package_are_part_of_the_key(tmp_path: Path) -> None:
    """A rule changed in store_format/x/y.py must not run as it was compiled before."""
    copy = tmp_path / "copy"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "reput", copy / "reput", ignore=ignored)
    package = copy / "reput" / "store_format"
    (package / "log" / "deep").mkdir()
    program = ("import reput.store_format.files.private as c;"
               "print(c.source_key('reput.store_format.log.records'))")  # fmt: skip

    def key(place: Path) -> str:
        done = run_python("-P", "-c", program, env={"PYTHONPATH": str(place),
                                                    "REPUT_CACHE": str(tmp_path / "cache")},
                          check=True)  # fmt: skip
        return done.stdout.strip()

    keys = [key(copy)]
    records = package / "log" / "records.py"
    text = "from reput.store_format.log.deep.rule import one\n" + records.read_text()
    (package / "log" / "deep" / "rule.py").write_text("one = 0\n")
    records.write_text(text)
    keys.append(key(copy))
    for content in ("one = 1\n", "from reput.store_format.log import other as one\n"):
        (package / "log" / "deep" / "rule.py").write_text(content)
        keys.append(key(copy))
    (package / "log" / "other.py").write_text("there = True\n")
    keys.append(key(copy))
    assert len(set(keys)) == 5
    archive = shutil.make_archive(str(tmp_path / "zip"), "zip", copy)
    assert key(Path(archive)) == keys[-1]


SAYS = """
import os, sys
from reput.jobs import cli
os.umask(0o077)
code = cli.main(["dump", sys.argv[1]])
code = cli.main(["dump", sys.argv[1]])
"""


def said(folder: Path, **env: str) -> list[str]:
    """What two commands in one process say on standard error."""
    (folder / "checkpoint").write_bytes(bytes(4096))
    done = run_python("-P", "-c", SAYS, folder / "checkpoint", env={"PYTHONPATH": str(ROOT), **env},
                      cwd="/", timeout=300)  # fmt: skip
    return done.stderr.splitlines()


def test_a_command_without_a_cache_says_so_once(tmp_path: Path) -> None:
    """A folder that a group may write to was refused in silence, and each start took a minute."""
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o775)
    cache = str(open_to_all)
    (line,) = said(tmp_path, REPUT_CACHE=cache, HOME=cache, TMPDIR=cache)
    assert line.startswith("reput: warning: kernels are compiled anew at each start: ")
    assert f"{cache}: others may write to it" in line
    (line,) = said(tmp_path, REPUT_CACHE=cache, HOME=str(tmp_path))
    assert line == (f"reput: warning: compiled kernels are kept in {tmp_path}/.cache/reput, "
                    f"for {cache}: others may write to it")  # fmt: skip
    assert said(tmp_path, REPUT_CACHE=str(tmp_path / "ours")) == []


def test_numba_reads_no_settings_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / ".numba_config.yaml").write_text("disable_jit: 1\ndebug: 1\n")
    program = (
        "import reput.store_format.kernels.compiler, numba, yaml\n"
        "print(numba.core.config.DISABLE_JIT, numba.core.config.DEBUG, bool(yaml))")  # fmt: skip
    done = run_python("-P", "-c", program, env={"PYTHONPATH": str(ROOT)}, cwd=tmp_path, timeout=300)
    assert (done.stdout, done.stderr) == ("0 0 True\n", "")


@pytest.mark.parametrize("mask", ["000", "002", "022", "077"])
def test_make_env_makes_a_folder_that_is_ours_alone(tmp_path: Path, mask: str) -> None:
    """Whatever the umask, and also where an older make_env made it open to the group."""
    script = (ROOT / "scripts" / "make_env.sh").read_text()
    part = script[script.index("cache=${") : script.index("export PIP_CACHE_DIR")]
    for old in (False, True):
        home = tmp_path / f"home{old}"
        home.mkdir(mode=0o700)
        cache = home / ".cache" / "reput"
        if old:
            (cache / "kernels").mkdir(parents=True)
            for path in (cache, cache / "kernels"):
                path.chmod(0o775)
        kept = {n: v for n, v in os.environ.items() if n != "REPUT_CACHE"}
        subprocess.run(["bash", "-euc", f"umask {mask}\n{part}"], check=True, env={
            **kept, "HOME": str(home)})  # fmt: skip
        assert private_folder(str(cache / "kernels" / "x"))
