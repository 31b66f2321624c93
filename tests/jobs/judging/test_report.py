"""When a store is sound, and when its derived files alone are at fault."""

from typing import Any

import pytest

from reput.jobs.judging.report import MISSING, CheckReport, Difference, Report, compared_text
from reput.store_format.damage.queue_findings import Gap
from reput.store_format.log.segments import Finding

FOUND = [Finding("commitlog/x", "is odd")]
DIFFERS = [Difference("index/1", 0, "x", 1, 2)]


def report(ranges: int = 0, **more: Any) -> CheckReport:
    return CheckReport("s", "5.3.3", 0, 9, 10, [0, 10], 1, {"range_count": ranges}, **more)


def test_only_faults_count_and_a_crash_is_a_state_of_its_own() -> None:
    for found, sound, only_derived in [
        (report(), True, False),
        (report(behind=DIFFERS, expired=["x"], warnings=["w"], notes=["n"]), True, False),
        (report(1), False, False), (report(findings=FOUND), False, False),
        (report(differences=DIFFERS), False, True), (report(1, differences=DIFFERS), False, False),
        (report(findings=FOUND, differences=DIFFERS), False, False),
    ]:  # fmt: skip
        assert (found.sound, found.only_derived_differ) == (sound, only_derived)
        assert found.as_json()["sound"] is sound
    states = (report().state, report(1).state, report(crashed=True).state)
    assert states == ("sound", "NOT sound", "needs recovery")
    assert report(1, crashed=True).state == "NOT sound"
    crashed = report(crashed=True, derived_files=3)
    assert (crashed.sound, crashed.undamaged) == (False, True)
    assert crashed.as_json()["state"] == "needs recovery"
    assert crashed.as_json()["sound"] is False
    for releases, assumed in (("", False), ("5.3.3", False), ("5.3.3, assumed", True)):
        assert report(releases=releases).assumed is assumed


@pytest.mark.parametrize(("follows", "crashed", "torn"), [
    ((), True, True), (("nothing live", "the log's end"), True, True),
    (("nothing live",), False, False), (("record", "nothing live"), True, False),
])  # fmt: skip
def test_what_a_crash_leaves_at_the_end_is_what_recovery_cuts(follows, crashed, torn: bool) -> None:
    found = report(len(follows), crashed=crashed)
    found.damage["ranges"] = [{"follows": each} for each in follows]
    assert found.ends_torn is torn
    found.damage["range_count"] += 1  # one that is not listed
    assert not found.ends_torn


# --- How a difference and what was compared are said.
def test_a_value_of_0_is_a_value_and_no_files_are_told_of_where_rows_were_compared() -> None:
    for difference, text in [
        (Difference("q/0", 40, "size", 7, 0), "q/0: offset 40: size: is 7, should be 0"),
        (Difference("q/0", 0, "slot", 0, 7), "q/0: offset 0: slot: is 0, should be 7"),
        (Difference("q/0", 40, MISSING, None, None), "q/0: the file is missing"),
        (Difference("q/0", 40, "slot", None, 7), "q/0: slot"),
    ]:
        assert difference.text() == text
    for files, rows, text in [
        (0, [], "0 files"), (3, [], "3 files"), (0, ["9 entries"], "9 entries in RocksDB"),
        (3, ["9 entries", "2 keys"], "3 files, 9 entries, 2 keys in RocksDB"),
    ]:  # fmt: skip
        assert compared_text(files, f"{files} files", rows) == text


# --- A verify for people, and a salvaged set's manifest beside what the log shows.
GAP = Gap("T", 0, False, 5, 2, 100, 200)


def verify_report(differing: int = 0, **more: Any) -> Report:
    differences = [Difference(f"q/{n}", 0, "size", 1, 2) for n in range(differing)]
    return Report("s", "set", "5.3.3", 9, "x", files=7, differences=differences, **more)


@pytest.mark.parametrize(("many", "more"), [(3, None), (4, "1"), (1234, "1,231")])
def test_three_differences_are_shown_and_the_others_counted(many: int, more: str | None) -> None:
    found = verify_report(many)
    lines = [line for line in found.text().splitlines()[2:] if "warning" not in line]
    assert [line.split()[:2] for line in lines[:3]] == [["differs", f"q/{n}:"] for n in range(3)]
    assert lines[3:] == ([f"  ... and {more} more (-v and --json have all)"] if more else [])
    assert len(found.details()) == many - 3
