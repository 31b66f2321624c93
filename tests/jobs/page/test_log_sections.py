"""The page's map of the damage: which segments it draws, and what it says of the others."""

from typing import Any

import pytest

from reput.jobs.judging.report import CheckReport
from reput.jobs.page.facts import Facts
from reput.jobs.page.log_sections import damage_section

SIZE = 6400


def a_range(start: int) -> dict[str, Any]:
    return {"physical_offset": start, "length": 9, "kind": "damaged", "field": "magic",
            "reason": "wrong", "file": None, "value": None, "missing": [], "sureness": "certain",
            "witnesses": [], "against": [], "follows": "record"}  # fmt: skip


def drawn(segments: int, *damaged: int) -> str:
    """What the page says of its map of a log with damaged segments."""
    damage = {"ranges": [a_range(n * SIZE) for n in damaged], "range_count": len(damaged),
              "bytes_lost": 1, "causes": [], "messages_missing": 0, "missing": [],
              "missing_unlisted": 0}  # fmt: skip
    starts = [SIZE * n for n in range(segments)]
    end = starts[-1] + SIZE
    report = CheckReport("s", "5.3.3", 0, end, SIZE, starts, messages=9, damage=damage)
    section = damage_section(Facts("s", 0, 0, end, segments, check=report))
    (picture,) = section.pictures
    return picture.about


@pytest.mark.parametrize(("segments", "damaged", "which"), [
    (3, [0, 1, 2], "segment, cut"),
    (9, [4], "segment (3 of 9: the ends and those with damage), cut"),
    (60, range(60), "segment (40 of 60: the first with damage), cut"),
])  # fmt: skip
def test_the_map_says_which_segments_it_draws(segments: int, damaged: Any, which: str) -> None:
    assert which in drawn(segments, *damaged)
