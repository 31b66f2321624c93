"""What a project that people join has: recipes, forms and hooks that call what is there."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parent.parent
_YAML = [*(ROOT / ".ci").glob("*.yml"), *(ROOT / ".github").rglob("*.yml"),
         ROOT / ".pre-commit-config.yaml"]  # fmt: skip
_TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)


@pytest.mark.parametrize("path", _YAML, ids=lambda path: path.name)
def test_each_is_read(path: Path) -> None:
    assert yaml.safe_load(path.read_text("utf-8"))


@pytest.mark.parametrize("name", ["../.github/workflows/ci.yml", "gitlab.yml", "Jenkinsfile"])
def test_each_host_runs_what_ci_runs(name: str) -> None:
    text = (ROOT / ".ci" / name).read_text("utf-8")
    assert "bash .ci/run" in text
    assert set(re.findall(r"make ([a-z-]+)$", text, re.M)) <= set(_TARGETS)


def test_pythons_are_the_same_everywhere() -> None:
    reported = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = [each.rpartition(" ")[2] for each in reported["classifiers"] if "Python :: 3." in each]
    hosted = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))
    assert hosted["jobs"]["test"]["strategy"]["matrix"]["python"] == named
    assert reported["requires-python"] == f">={named[0]},<3.{int(named[-1][2:]) + 1}"


def test_hooks_run_what_is_there() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    (local,) = hooks["repos"]
    assert local["repo"] == "local"  # nothing is downloaded
    for hook in local["hooks"]:
        for word in hook["entry"].split():
            if word.startswith("scripts/"):
                assert (ROOT / word).is_file()


def test_the_dev_container_is_built_from_what_is_there() -> None:
    reported = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text("utf-8"))
    assert (ROOT / ".devcontainer" / reported["build"]["dockerfile"]).is_file()
    assert reported["postCreateCommand"].split() == ["make", "env"]
    assert "env" in _TARGETS


@pytest.mark.long
def test_a_release_is_built_and_looked_at() -> None:
    done = subprocess.run(
        ["make", "release"], cwd=ROOT, capture_output=True, text=True, timeout=3600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    made = {path.name for path in (ROOT / "dist").iterdir()}
    assert made == {"reput-0.1.0-py3-none-any.whl", "reput.zip", "reput-0.1.0-docs.tar.gz"}
