"""The Databricks bundle and the examples of conf/: what can be held without a workspace."""

import json
import os
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reput.jobs import cli
from tests import golden_stores
from tests.processes import run_words
from tests.rocketmq.judge import difference

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parent.parent
BUNDLE: dict[str, Any] = yaml.safe_load((ROOT / "databricks.yml").read_text("utf-8"))
JOBS: dict[str, Any] = BUNDLE["resources"]["jobs"]


def tasks() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for job in JOBS.values():
        for task in job["tasks"]:
            yield job, task


def test_each_task_runs_words_that_a_command_takes() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    for job, task in tasks():
        wheel = task["python_wheel_task"]
        assert wheel["package_name"] == "reput"
        module, _, function = scripts[wheel["entry_point"]].partition(":")
        assert (module, getattr(cli, function)) == ("reput.jobs.cli", cli.task)
        defaults = {each["name"]: each["default"] for each in job["parameters"]}
        words = list(wheel["parameters"])
        for name, value in defaults.items():
            words = [word.replace(f"{{{{job.parameters.{name}}}}}", value) for word in words]
        assert not [word for word in words if "{{" in word]
        parsed = cli._parser(False).parse_args(words)
        assert not parsed.rocketmq


def test_each_task_has_an_environment_with_the_wheel() -> None:
    for job, task in tasks():
        (environment,) = job["environments"]
        assert task["environment_key"] == environment["environment_key"]
        assert environment["spec"]["dependencies"] == ["./dist/*.whl"]
    assert BUNDLE["artifacts"]["reput"]["build"].endswith("--wheel-dir dist .")


@pytest.mark.spark
def test_the_rebuild_runs_twice_with_its_own_words(spark, tmp_path, monkeypatch) -> None:
    """rebuild, then verify, as Databricks calls them: in a process that has a session."""
    golden = golden_stores.unpack("small_all_5.3.3")
    given = {"store": str(golden.input), "output": str(tmp_path / "out"), "staging": str(tmp_path),
             "rocketmq": "5.3.3"}  # fmt: skip
    sizes = [f"--set={name}={str(value).lower()}" for name, value in golden.settings.items()]
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "client.4.0")
    for task in 2 * JOBS["reput_rebuild"]["tasks"]:
        words = task["python_wheel_task"]["parameters"]
        words = [re.sub(r"{{job\.parameters\.(\w+)}}", lambda m: given[m[1]], w) for w in words]
        monkeypatch.setattr("sys.argv", ["reput-task", *words, *sizes])
        cli.task()
    assert difference(tmp_path / "out", golden.expect) is None
    assert spark.range(1).count() == 1


def test_each_variable_has_a_default_and_is_used() -> None:
    text = (ROOT / "databricks.yml").read_text("utf-8")
    used = set(re.findall(r"\$\{var\.(\w+)\}", text))
    assert used == set(BUNDLE["variables"])
    assert all("default" in about for about in BUNDLE["variables"].values())


def test_a_failed_command_fails_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["reput-task", "check", "/nowhere"])
    with pytest.raises(SystemExit) as ended:
        cli.task()
    assert ended.value.code == 2
    monkeypatch.setattr("sys.argv", ["reput-task", "completion", "bash"])
    cli.task()


def test_it_is_what_the_databricks_cli_takes() -> None:
    """By the JSON schema of that CLI: of one on PATH, or in a file that is named."""
    jsonschema = pytest.importorskip("jsonschema")
    file = os.environ.get("REPUT_BUNDLE_SCHEMA")
    if file:
        text = Path(file).read_text("utf-8")
    elif shutil.which("databricks"):
        said = run_words("databricks", "bundle", "schema", check=True)
        text = said.stdout
    else:
        pytest.skip("no databricks CLI, and REPUT_BUNDLE_SCHEMA names no schema of one")
    # a class of characters that Python's expressions do not have
    text = text.replace(r"[\\p{L}\\p{N}]", r"\\w").replace(r"\\p{L}", "[A-Za-z]")
    jsonschema.Draft202012Validator(json.loads(text)).validate(BUNDLE)


# --- What a project that people join has: recipes, forms and hooks that call what is there.
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
    done = run_words("make", "release", cwd=ROOT, timeout=3600)
    assert done.returncode == 0, done.stderr[-2000:]
    made = {path.name for path in (ROOT / "dist").iterdir()}
    assert made == {"reput-0.1.0-py3-none-any.whl", "reput.zip", "reput-0.1.0-docs.tar.gz"}
