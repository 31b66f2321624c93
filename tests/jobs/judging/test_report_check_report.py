"""When a store is sound, and when its derived files alone are at fault."""

from typing import Any

import pytest

from reput.jobs.judging.report import CheckReport, Difference
from reput.store_format.log.segments import Finding

FOUND = [Finding("commitlog/x", "is odd")]
DIFFERS = [Difference("index/1", 0, "x", 1, 2)]


def report(ranges: int = 0, **more: Any) -> CheckReport:
    return CheckReport("s", "5.3.3", 0, 9, 10, [0, 10], 1, {"range_count": ranges}, **more)


@pytest.mark.parametrize(
    ("found", "sound", "only_derived"),
    [
        (report(), True, False),
        (report(behind=DIFFERS, expired=["x"], warnings=["w"], notes=["n"]), True, False),
        (report(1), False, False),
        (report(findings=FOUND), False, False),
        (report(differences=DIFFERS), False, True),
        (report(1, differences=DIFFERS), False, False),
        (report(findings=FOUND, differences=DIFFERS), False, False),
    ],
)
def test_only_faults_count(found: CheckReport, sound: bool, only_derived: bool) -> None:
    assert (found.sound, found.only_derived_differ) == (sound, only_derived)
    assert found.as_json()["sound"] is sound


def test_a_crash_is_a_state_of_its_own() -> None:
    states = (report().state, report(1).state, report(crashed=True).state)
    assert states == ("sound", "NOT sound", "needs recovery")
    assert report(1, crashed=True).state == "NOT sound"
    crashed = report(crashed=True, derived_files=3)
    assert (crashed.sound, crashed.undamaged) == (False, True)
    assert crashed.as_json()["state"] == "needs recovery"
    assert crashed.as_json()["sound"] is False


@pytest.mark.parametrize(
    ("follows", "crashed", "torn"),
    [
        ((), True, True), (("nothing live", "the log's end"), True, True),
        (("nothing live",), False, False), (("record", "nothing live"), True, False),
    ],
)  # fmt: skip
def test_what_a_crash_leaves_at_the_end_is_what_recovery_cuts(
    follows: tuple[str, ...], crashed: bool, torn: bool
) -> None:
    found = report(len(follows), crashed=crashed)
    found.damage["ranges"] = [{"follows": each} for each in follows]
    assert found.ends_torn is torn
    found.damage["range_count"] += 1  # one that is not listed
    assert not found.ends_torn


@pytest.mark.parametrize(
    ("releases", "assumed"), [("", False), ("5.3.3", False), ("5.3.3, assumed", True)]
)
def test_a_release_may_be_assumed(releases: str, assumed: bool) -> None:
    assert report(releases=releases).assumed is assumed


def test_programs_get_the_number_of_segments_and_plain_values() -> None:
    told = report(findings=FOUND, differences=DIFFERS, behind=DIFFERS).as_json()
    assert told["segment_files"] == 2
    assert "segments" not in told
    assert told["findings"] == [
        {"path": "commitlog/x", "reason": "is odd", "left_out": False, "todo": ""}
    ]
    wanted = [{"path": "index/1", "offset": 0, "field": "x", "there": 1, "wanted": 2}]
    assert (told["differences"], told["behind"]) == (wanted, wanted)
