"""The wheel in a new environment, as somebody gets it who has no clone: installed, warmed, used.

Needs a package index, or pip's cache. Each Python, and each Java, that the machine has."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reput.jobs.engines.java import java_version
from tests.golden_stores import as_left
from tests.processes import ROOT, package_source, run_python, run_words

_TIMES_MOST = 1.3  # of what the same command costs in a clone, beside which it runs


def python_of(version: str) -> str:
    """An interpreter that starts; skips where there is none."""
    name = f"python{version}"
    candidates = [
        shutil.which(name), *map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")),
    ]  # fmt: skip
    for found in filter(None, candidates):
        done = run_words(found, "-c", "import sys; print(sys.version)")
        if done.stdout.startswith(f"{version}."):
            return found
    pytest.skip(f"there is no {name}")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = package_source(tmp_path_factory.mktemp("source"))
    build = "from setuptools import build_meta; print(build_meta.build_wheel('.'))"
    done = run_python("-c", build, cwd=source, check=True)
    return source / done.stdout.splitlines()[-1]


def cost(words: tuple[str, ...], folder: Path, env: dict[str, str]) -> float:
    """Seconds of processor time that a command and all that it starts take."""
    before = os.times()
    subprocess.run(words, cwd=folder, env=env, capture_output=True, check=True, timeout=800)
    after = os.times()
    spent = after.children_user + after.children_system
    return spent - before.children_user - before.children_system


@pytest.mark.long
@pytest.mark.parametrize("version", ["3.13"])
def test_the_first_five_minutes(version: str, wheel: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([python_of(version), "-m", "venv", str(venv)], check=True)
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("PYTHON", "REPUT_", "VIRTUAL_ENV"))}  # fmt: skip
    env |= {"REPUT_CACHE": str(tmp_path / "cache"), "PATH": f"{venv}/bin:{env['PATH']}"}

    said: list[str] = []  # on standard error

    def run(*words: str) -> str:
        done = run_words(*words, cwd=tmp_path, env=env, timeout=800)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        said.append(done.stderr)
        return done.stdout

    run("pip", "install", "--quiet", f"{wheel}")
    assert run("reput", "--version") == "reput 0.1.0\n"
    store = as_left("small_all_5.3.3", tmp_path)
    run("reput", "rebuild", str(store), "--output", "rebuilt")  # without PySpark
    assert said[-1].count("compiling kernels, once") == 1
    run("pip", "install", "--quiet", f"{wheel}[spark,completion]")
    run("reput", "rebuild", str(store), "--output", "by-spark", "--engine", "spark")
    run("reput", "check", str(store))  # compiles what only it uses
    check, env_of_clone = ("check", str(store), "--json"), dict(os.environ)
    installed = min(cost(("reput", *check), tmp_path, env) for _ in range(3))
    clone = (sys.executable, "-m", "reput", *check)
    assert installed < _TIMES_MOST * min(cost(clone, ROOT, env_of_clone) for _ in range(3))
    assert run("reput", "warm").count("\n") == 1
    looked = json.loads(run("reput", "doctor", "--json"))["looked"]
    assert {each["what"] for each in looked if each["state"] != "ok"} <= {"staging", "machine"}
    assert json.loads(run("reput", "check", str(store), "--json"))["sound"]
    run("reput", "install", "rebuilt", str(store), "--yes")


@pytest.fixture(scope="module")
def tool_of_uv(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """README's other way: a command on PATH, of an environment that uv makes and keeps, to which
    the wheel's extra has brought a Java."""
    top = tmp_path_factory.mktemp("tool")
    subprocess.run([sys.executable, "-m", "venv", str(top / "venv")], check=True)
    python = top / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "uv"], check=True)
    env = {**os.environ, "UV_TOOL_DIR": str(top / "tools"), "UV_TOOL_BIN_DIR": str(top / "bin"),
           "UV_HTTP_TIMEOUT": "600", "REPUT_CACHE": str(top / "cache")}  # fmt: skip
    words = [python.with_name("uv"), "tool", "install", f"{wheel}[spark,java]"]
    done = run_words(*words, "--python", str(python), env=env, timeout=800)
    assert done.returncode == 0, done.stderr
    return top


def home_of(java: int) -> Path | None:
    """The home of a Java of the machine's; None where it has none of that version."""
    homes = sorted(Path("/usr/lib/jvm").glob("*")) if Path("/usr/lib/jvm").is_dir() else []
    return next((home for home in homes if java_version(home) == java), None)


@pytest.mark.long
@pytest.mark.parametrize("java", [25, None])
def test_each_java_and_none_in_silence(java: int | None, tool_of_uv: Path, tmp_path: Path) -> None:
    """None: Java 21, which the extra brings, found where neither JAVA_HOME nor PATH have one."""
    store = as_left("small_all_5.3.3", tmp_path)
    tools = tmp_path / "bin"  # what a shell has, but no java
    tools.mkdir()
    for tool in Path("/usr/bin").iterdir():
        if "jvm" not in tool.resolve().parts and not tool.name.startswith("java"):
            (tools / tool.name).symlink_to(tool)
    env = {"PATH": str(tools), "HOME": str(tmp_path), "REPUT_CACHE": str(tool_of_uv / "cache"),
           "LANG": "C.UTF-8"}  # fmt: skip
    if java is not None:
        home = home_of(java)
        if home is None:
            pytest.skip(f"there is no Java {java}")
        env["JAVA_HOME"] = str(home)
    words = [str(tool_of_uv / "bin" / "reput"), "rebuild", str(store), "--output", "out",
             "--engine", "spark"]  # fmt: skip
    done = run_words(*words, cwd=tmp_path, env=env, timeout=800)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if not line.startswith("reput: ")] == []
    assert (tmp_path / "out" / "manifest.json").is_file()
