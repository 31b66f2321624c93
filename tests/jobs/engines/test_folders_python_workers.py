"""What Python processes that run tasks are started with."""

import os
from pathlib import Path

import pytest

import reput
from reput.jobs.engines.folders import environment, our_packages

HERE = str(Path(reput.__file__).parent.parent)


@pytest.mark.parametrize(
    ("given", "path"),
    [({}, HERE), ({"PYTHONPATH": ""}, HERE), ({"PYTHONPATH": "/a:/b"}, f"{HERE}:/a:/b")],
)
def test_our_packages_come_first_and_the_current_folder_never(
    given: dict[str, str], path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = our_packages(given)
    assert found == {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    assert all(os.path.isabs(part) for part in found["PYTHONPATH"].split(os.pathsep))


def test_the_environment_says_it_within_the_block_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPUT_TEST_A", "before")
    monkeypatch.delenv("REPUT_TEST_B", raising=False)
    with environment({"REPUT_TEST_A": "within", "REPUT_TEST_B": ""}):
        assert (os.environ["REPUT_TEST_A"], os.environ["REPUT_TEST_B"]) == ("within", "")
    assert os.environ["REPUT_TEST_A"] == "before"
    assert "REPUT_TEST_B" not in os.environ


def test_an_error_in_the_block_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REPUT_TEST_B", raising=False)
    with pytest.raises(KeyError), environment({"REPUT_TEST_B": "x"}):
        raise KeyError
    assert "REPUT_TEST_B" not in os.environ
