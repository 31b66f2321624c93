"""What of a store's texts and numbers reaches the page, and how much of it."""

import json
from typing import Any

import pytest

from reput.jobs.page.model import (
    NAME_MOST,
    ROWS_MOST,
    PageColumn,
    cell,
    labels,
    name_text,
    table,
    time_cell,
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None), (True, "yes"), (False, "no"), (0, 0), (1.5, 1.5), ("T", "T"),
        ((1 << 53) - 1, (1 << 53) - 1), (1 << 53, "9,007,199,254,740,992"),
        (-(1 << 63), "-9,223,372,036,854,775,808"), ("a\0\u202e", "a\\x00\\u202e"),
    ],
)  # fmt: skip
def test_a_cell_is_what_javascript_holds_exactly(value: Any, shown: Any) -> None:
    assert cell(value) == shown
    assert type(cell(value)) is type(shown)
    assert json.loads(json.dumps(cell(value))) == shown


def test_a_long_name_is_cut() -> None:
    assert name_text("x" * NAME_MOST) == "x" * NAME_MOST
    assert name_text("x" * (NAME_MOST + 1)) == "x" * NAME_MOST + "..."


@pytest.mark.parametrize(
    ("rows", "all_rows", "shown", "cut"),
    [
        (0, 0, 0, ""),
        (ROWS_MOST, 0, ROWS_MOST, ""),
        (ROWS_MOST + 1, 0, ROWS_MOST, "20,000 of 20,001 rows are in this file"),
        (3, 7, 3, "3 of 7 rows are in this file"),
        (3, 2, 3, ""),
    ],
)
def test_a_table_says_how_many_rows_it_lacks(
    rows: int, all_rows: int, shown: int, cut: str
) -> None:
    column = PageColumn("number", lambda row: row, number=True)
    found = table("t", range(rows), column, all_rows=all_rows)
    assert (len(found.rows), found.cut, found.columns) == (shown, cut, [("number", True)])


def test_labels_differ_where_names_do() -> None:
    long = ["T" * 127 + "/" + "9" * 20 + end for end in "ab"]
    middle = ["T" * 100 + each + "T" * 100 for each in "ab"]
    assert labels(["a", "b"]) == ["a", "b"]
    for names in (long, middle, ["a", "a", "a (2)"], ["a (2)", "a", "a"], ["\x00", "\\x00"]):
        found = labels(names)
        assert len(set(found)) == len(names)
        assert all(each.isprintable() and len(each) <= 140 + len(" (2) (2)") for each in found)
    assert labels(long)[1].endswith("9b")


def test_a_time_before_1970_is_none() -> None:
    assert [time_cell(ms) for ms in (-1, 0)] == [None, "1970-01-01T00:00:00.000Z"]
