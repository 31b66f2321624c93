"""`reput doctor`: a line for each check, and a code that says whether commands can run."""

import json

import pytest

from reput.jobs import doctor
from reput.jobs.cli import main
from reput.jobs.doctor import Checkup, look

OK, SLOW = Checkup("Python", "ok", "3.12.1"), Checkup("kernels", "slow", "none yet", "reput warm")
BAD = Checkup("Java", "bad", "none that Spark runs on", "install one")


def test_this_machine_has_what_the_tests_need() -> None:
    found = {each.what: each for each in look()}
    assert {"Python", "PySpark", "Java", "kernels", "staging", "machine", "s3"} <= found.keys()
    assert found["Python"].state == "ok"
    assert {each.state for each in found.values()} <= {"ok", "slow", "bad"}
    assert all(each.advice for each in found.values() if each.state != "ok")


@pytest.mark.parametrize(
    ("checks", "code"), [([], 0), ([OK], 0), ([OK, SLOW], 0), ([BAD, OK], 2), ([SLOW, BAD], 2)]
)
def test_only_what_is_missing_makes_it_fail(
    checks: list[Checkup], code: int, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(doctor, "look", lambda: checks)
    assert main(["doctor", "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert told["fine"] == (code == 0)
    assert [each["what"] for each in told["looked"]] == [each.what for each in checks]


def test_advice_is_below_its_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "look", lambda: [OK, SLOW])
    main(["doctor"])
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith("reput ")
    assert lines == [
        "  ok    Python    3.12.1", "  slow  kernels   none yet", "        -> reput warm",
    ]  # fmt: skip
