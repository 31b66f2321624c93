"""`reput doctor`: a line for each check, and a code that says whether commands can run."""

import json
from unittest.mock import Mock

import pytest

from reput.jobs import doctor
from reput.jobs.cli import main
from reput.jobs.doctor import Checkup, look
from reput.jobs.engines.java import NoJavaError
from reput.jobs.warm import warm

OK, SLOW = Checkup("Python", "ok", "3.12.1"), Checkup("kernels", "slow", "none yet", "reput warm")
BAD = Checkup("Java", "bad", "none that Spark runs on", "install one")


def test_this_machine_has_all_and_advice_is_below_its_check(monkeypatch, capsys) -> None:
    found = {each.what: each for each in look()}
    assert {"Python", "PySpark", "Java", "kernels", "staging", "machine", "s3"} <= found.keys()
    assert found["Python"].state == "ok"
    assert {each.state for each in found.values()} <= {"ok", "slow", "bad"}
    assert all(each.advice for each in found.values() if each.state != "ok")
    monkeypatch.setattr(doctor, "look", lambda: [OK, SLOW])
    main(["doctor"])
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith("reput ")
    assert lines == [
        "  ok    Python    3.12.1", "  slow  kernels   none yet", "        -> reput warm",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("checks", "code"), [([], 0), ([OK], 0), ([OK, SLOW], 0), ([BAD, OK], 2), ([SLOW, BAD], 2)]
)
def test_only_what_is_missing_makes_it_fail(
    checks: list[Checkup], code: int, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    monkeypatch.setattr(doctor, "look", lambda: checks)
    assert main(["doctor", "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert told["fine"] == (code == 0)
    assert [each["what"] for each in told["looked"]] == [each.what for each in checks]


@pytest.mark.parametrize(("free", "memory", "states"), [(1, 4, "slow ok"), (4, 1, "ok slow")])
def test_little_room_is_slow(free: int, memory: int, states: str, monkeypatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: Mock(free=free * 10**9))
    pages = {"SC_PHYS_PAGES": memory * 10**6, "SC_PAGE_SIZE": 1000}
    monkeypatch.setattr("os.sysconf", pages.__getitem__)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    found = {each.what: each.state for each in look()}
    assert f"{found['staging']} {found['machine']}" == states


@pytest.mark.parametrize(("pyspark", "state"), [(None, "ok"), ("is there", "bad")])
def test_java_is_wanted_where_pyspark_is(pyspark: str | None, state: str, monkeypatch) -> None:
    def none() -> None:
        raise NoJavaError("none")

    monkeypatch.setattr("reput.jobs.engines.java.find_java_home", none)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: pyspark)
    assert doctor._java().state == state


@pytest.mark.parametrize(("kernels", "code"), [("/kept", 0), (None, 2)])
def test_warm_says_where_kernels_are_or_that_they_cannot_be_kept(
    kernels: str | None, code: int, monkeypatch
) -> None:
    made = {"kernels": kernels, "seconds": 1.0}
    monkeypatch.setattr("reput.jobs.warm.warm", lambda: made)
    assert main(["warm"]) == code


def test_kernels_that_could_not_be_compiled_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.run", lambda *_, **__: Mock(returncode=1))
    with pytest.raises(OSError, match="ended with code 1"):
        warm()
