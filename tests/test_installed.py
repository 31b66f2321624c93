"""The wheel in a new environment, as somebody gets it who has no clone: installed, warmed, used.

Needs a package index, or pip's cache. Python 3.13 is untried: PySpark 4.2's wheels for Arrow and
numba's are asked for by the lock files for 3.11 and 3.12 alone.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.engine.test_told import as_left

ROOT = Path(__file__).parent.parent
_CPU_SECONDS_MOST = 14  # a clone's run takes 5 to 7 on a machine that does nothing else


def python_of(version: str) -> str:
    """An interpreter that starts; skips where there is none."""
    name = f"python{version}"
    candidates = [
        shutil.which(name),
        *map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")),
    ]
    for found in filter(None, candidates):
        done = subprocess.run([found, "-c", "import sys; print(sys.version)"], capture_output=True,
                              text=True, check=False)  # fmt: skip
        if done.stdout.startswith(f"{version}."):
            return found
    pytest.skip(f"there is no {name}")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source")
    for name in ("reput", "jobs", "udfs", "store_format"):
        shutil.copytree(ROOT / name, source / name, symlinks=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    build = "from setuptools import build_meta; print(build_meta.build_wheel('.'))"
    done = subprocess.run([sys.executable, "-c", build], cwd=source, capture_output=True, text=True,
                          check=True)  # fmt: skip
    return source / done.stdout.splitlines()[-1]


@pytest.mark.long
@pytest.mark.parametrize("version", ["3.11", "3.12"])
def test_the_first_five_minutes(version: str, wheel: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([python_of(version), "-m", "venv", str(venv)], check=True)
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("PYTHON", "REPUT_", "VIRTUAL_ENV"))}  # fmt: skip
    env |= {"REPUT_CACHE": str(tmp_path / "cache"), "PATH": f"{venv}/bin:{env['PATH']}"}

    def run(*words: str) -> str:
        done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True,
                              timeout=800, check=False)  # fmt: skip
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    run("pip", "install", "--quiet", f"{wheel}")
    assert run("reput", "--version") == "reput 0.1.0\n"
    run("python", "-c", "import reput; reput.rebuild")  # without Spark
    run("pip", "install", "--quiet", f"{wheel}[local,completion]")
    assert run("reput", "warm").count("\n") == 1
    looked = json.loads(run("reput", "doctor", "--json"))["looked"]
    assert {each["what"] for each in looked if each["state"] != "ok"} <= {"staging", "machine"}
    store = as_left("small_all_5.3.3", tmp_path)
    run("reput", "rebuild", str(store), "--output", "rebuilt")
    before = os.times()
    assert json.loads(run("reput", "check", str(store), "--json"))["sound"]
    after = os.times()
    spent = after.children_user + after.children_system
    spent -= before.children_user + before.children_system
    assert spent < _CPU_SECONDS_MOST
    run("reput", "install", "rebuilt", str(store), "--yes")
