"""A verify for people, and a salvaged set's manifest beside what the log shows."""

from typing import Any

import pytest

from reput.jobs.judging.report import Difference, Report, manifest_differences
from reput.jobs.pipeline.link import Linked
from reput.jobs.salvaging.damage_map import DamageMap
from reput.store_format.damage.queue_findings import Gap

GAP = Gap("T", 0, False, 5, 2, 100, 200)


def report(differing: int = 0, **more: Any) -> Report:
    differences = [Difference(f"q/{n}", 0, "size", 1, 2) for n in range(differing)]
    return Report("s", "set", "5.3.3", 9, "x", files=7, differences=differences, **more)


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (report(), "  7 files derived: the same, byte for byte (0.0 s)"),
        (report(2), "  7 files derived: 2 differ (0.0 s)"),
        (report(in_rocksdb=["3 entries"]),
         "  7 files derived, 3 entries in RocksDB: the same (0.0 s)"),
    ],
)  # fmt: skip
def test_files_are_the_same_byte_for_byte_and_rows_are_the_same(found: Report, line: str) -> None:
    assert found.text().splitlines()[1] == line
    assert found.same == ("same" in line)


@pytest.mark.parametrize(("many", "more"), [(3, None), (4, "1"), (1234, "1,231")])
def test_three_differences_are_shown_and_the_others_counted(many: int, more: str | None) -> None:
    found = report(many)
    lines = [line for line in found.text().splitlines()[2:] if "warning" not in line]
    assert [line.split()[:2] for line in lines[:3]] == [["differs", f"q/{n}:"] for n in range(3)]
    assert lines[3:] == ([f"  ... and {more} more (-v and --json have all)"] if more else [])
    assert len(found.details()) == many - 3


def damage(gaps: list[Gap], count: int = 1) -> DamageMap:
    return DamageMap(Linked([], 900), {}, [], 1000, [], 0, gaps=gaps, count=count)


def manifest(gaps: list[Gap], count: int = 1) -> dict[str, Any]:
    return {"damage": {"missing": [vars(gap) for gap in gaps], "range_count": count}}


@pytest.mark.parametrize(
    ("said", "found", "same"),
    [
        (manifest([GAP]), damage([GAP]), True),
        (manifest([]), damage([GAP]), False),
        (manifest([GAP]), damage([]), False),
        (manifest([GAP], 2), damage([GAP], 1), False),
        ({}, damage([GAP]), True),
        ({"damage": None}, damage([GAP]), True),
        (manifest([GAP]), None, True),
    ],
)
def test_a_set_s_lost_positions_are_those_of_the_log(
    said: dict[str, Any], found: DamageMap | None, same: bool
) -> None:
    differences = manifest_differences("set", said, found)
    assert [each.path for each in differences] == ([] if same else ["set/manifest.json"])
