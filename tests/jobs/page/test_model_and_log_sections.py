"""What of a store's texts and numbers reaches the page, and how much of it."""

import json
from typing import Any

import pytest

from reput.jobs.console.voice import begin
from reput.jobs.judging.report import CheckReport
from reput.jobs.page import model
from reput.jobs.page.facts import Facts
from reput.jobs.page.log_sections import damage_section


@pytest.mark.parametrize(("value", "shown"), [
    (None, None), (True, "yes"), (False, "no"), (0, 0), (1.5, 1.5), ("T", "T"),
    ((1 << 53) - 1, (1 << 53) - 1), (1 << 53, "9,007,199,254,740,992"),
    (-(1 << 63), "-9,223,372,036,854,775,808"), ("a\0\u202e", "a\\x00\\u202e"),
])  # fmt: skip
def test_a_cell_is_what_javascript_holds_exactly(value: Any, shown: Any) -> None:
    assert model.cell(value) == shown
    assert type(model.cell(value)) is type(shown)
    assert json.loads(json.dumps(model.cell(value))) == shown


def test_a_long_name_is_cut_and_a_time_before_1970_is_none() -> None:
    assert model.name_text("x" * model.NAME_MOST) == "x" * model.NAME_MOST
    assert model.name_text("x" * (model.NAME_MOST + 1)) == "x" * model.NAME_MOST + "..."
    assert [model.time_cell(ms) for ms in (-1, 0)] == [None, "1970-01-01T00:00:00.000Z"]


@pytest.mark.parametrize(("rows", "all_rows", "shown", "cut"), [
    (0, 0, 0, ""), (model.ROWS_MOST, 0, model.ROWS_MOST, ""),
    (model.ROWS_MOST + 1, 0, model.ROWS_MOST, "20,000 of 20,001 rows are in this file"),
    (3, 7, 3, "3 of 7 rows are in this file"), (3, 2, 3, ""),
])  # fmt: skip
def test_a_table_says_how_many_rows_it_lacks(rows, all_rows, shown, cut) -> None:
    column = model.PageColumn("number", lambda row: row, number=True)
    found = model.table("t", range(rows), column, all_rows=all_rows)
    assert (len(found.rows), found.cut, found.columns) == (shown, cut, [("number", True)])


# --- The pictures' data: in which order, on which axis, in which colour.
DAY = 86_400_000
AT = 1_700_000_000_000  # 2023-11-14T22:13:20Z


def values(spec: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = spec["data"]["values"]
    return found


def test_bars_and_spans_keep_their_order_a_ninth_series_is_grey_and_a_grid_has_its_cells() -> None:
    spec = model.bars(
        [model.Bar("b", 1, "half"), model.Bar("a", 2, "delayed"), model.Bar("b", 3, "delayed")],
        "messages",
        ["delayed", "half"],
    )
    assert [(row["label"], row["rank"]) for row in values(spec)] == [("b", 1), ("a", 0), ("b", 0)]
    assert spec["encoding"]["y"]["sort"] is None
    assert spec["encoding"]["color"]["scale"]["domain"] == ["delayed", "half"]
    plain = model.bars([model.Bar("b", 1)], "messages")
    assert "color" not in plain["encoding"]
    assert "rank" not in values(plain)[0]
    rows = [model.Span(AT, AT + 9, 3, "b"), model.Span(AT + 9, AT + 18, 7, "b"),
            model.Span(AT, AT + 9, 2, "a"), model.Span(AT, AT + 9, 1, "c")]  # fmt: skip
    found = values(model.over_time(rows, "messages", ["a", "b", "c"]))
    assert [(row["part"], row["begin"] - AT, row["low"], row["high"]) for row in found] == [
        ("a", 0, 0, 2), ("b", 0, 2, 5), ("b", 9, 0, 7), ("c", 0, 5, 6),
    ]  # fmt: skip
    assert found[0]["when"] == "2023-11-14T22:13:20.000Z"
    names = [f"T{n}" for n in range(9)]
    spec = model.over_time([model.Span(AT, AT + 1, 1, "T8")], "", names)
    colours = spec["encoding"]["color"]["scale"]["range"]
    assert (colours[0], colours[7], colours[8]) == ("var(--c0)", "var(--c7)", "var(--other)")
    assert len(set(colours)) == 9
    spec = model.grid([("0", ["sound", "damaged"]), ("1", ["sound"])], [("damaged", "red")])
    assert [tuple(row.values()) for row in values(spec)] == [
        ("0", 0, "sound"), ("0", 1, "damaged"), ("1", 0, "sound"),
    ]  # fmt: skip
    assert spec["encoding"]["color"]["scale"] == {"domain": ["damaged"], "range": ["red"]}


@pytest.mark.parametrize(("length", "form", "title"), [
    (0, "%H:%M:%S.%L", "2023-11-14, UTC"), (3000, "%H:%M:%S.%L", "2023-11-14, UTC"),
    (3001, "%H:%M:%S", "2023-11-14, UTC"), (DAY, "%H:%M", "2023-11-14, UTC"),
    (DAY + 1, "%d %b %H:%M", "UTC"), (4 * DAY + 1, "%d %b", "UTC"), (300 * DAY + 1, "%b %Y", "UTC"),
])  # fmt: skip
def test_a_time_axis_is_as_fine_as_it_is_long(length: int, form: str, title: str) -> None:
    for spec in (model.over_time([model.Span(AT, AT + length, 1, "a")], "", ["a"]),
                 model.lanes([("x", AT + length, AT + length), ("y", AT, AT)])):  # fmt: skip
        axis = spec["encoding"]["x"]
        assert (axis["axis"]["format"], axis["title"]) == (form, title)
        assert axis["scale"]["type"] == "utc"


def test_times_are_in_the_zone_of_tz() -> None:
    begin(zone="Asia/Shanghai")  # eight hours ahead
    try:
        spec = model.over_time([model.Span(AT, AT + 5, 1, "a")], "", ["a"])
        made = model.table("", [AT], model.PageColumn("put (UTC)", model.time_cell))
    finally:
        begin()
    assert made.columns == [("put (Asia/Shanghai)", False)]
    assert made.rows == [["2023-11-15T06:13:20.000+08:00"]]
    assert spec["encoding"]["x"]["title"] == "2023-11-15, Asia/Shanghai"
    (value,) = spec["data"]["values"]
    assert (value["begin"] - AT, value["end"] - AT) == (DAY // 3, DAY // 3 + 5)


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [(0, True), (-1, True), ((1 << 63) - 1, False), (-(1 << 63), False), (253402300799999, True)],
)
def test_a_time_that_javascript_does_not_have_is_not_drawn(milliseconds: int, shown: bool) -> None:
    """A Date reaches 8.64e15 ms to either side of 1970 (ECMAScript, Time Values)."""
    assert model.drawable(milliseconds) is shown
    assert not model.drawable(8_640_000_000_000_001)


# --- The page's map of the damage: which segments it draws, and what it says of the others.
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
