"""The parts of a page, which become JSON: sections with sentences, tables and the few kinds of
picture (Vega-Lite).

All text of a store is hostile. Unprintable characters are escaped here, so that nothing invisible
or backwards is shown; the page's script puts text into the document as text alone.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from reput.jobs.console.voice import in_zone, safe, time_text, wall_clock

ROWS_MOST = 20_000  # of a table in the file; the page shows a part at a time
NAME_MOST = 1000  # characters of one cell
_EXACT = 1 << 53  # below this, integers are exact in JavaScript


class PageColumn(NamedTuple):
    """A column of a table. value: row -> cell; number: whether cells are numbers."""

    name: str
    value: Callable[[Any], Any]
    number: bool = False


# A column, or one of a field of the rows: `name=field` (or its number), or the name of both; then #
# if its cells are numbers, @ for times.
Columned = PageColumn | str


@dataclass
class Picture:
    """A Vega-Lite specification with its data. about: its caption, also for screen readers."""

    about: str
    spec: dict[str, Any]


@dataclass
class Table:
    """A table. columns: (name, whether numbers); cut: a text if rows were left out, else empty;
    open: whether it is shown without a click.
    """

    name: str
    columns: list[tuple[str, bool]]
    rows: list[list[Any]]
    cut: str = ""
    open: bool = False


@dataclass
class Section:
    """A section of the page. alarms: sentences on faults; notes: remarks that are no faults."""

    id: str
    title: str
    words: list[str] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    def draw(self, about: str, spec: dict[str, Any]) -> None:
        self.pictures.append(Picture(about, spec))

    def show(self, name: str, rows: Sequence[Any], *columns: Columned, all_rows: int = 0) -> None:
        self.tables.append(table(name, rows, *columns, all_rows=all_rows))


def table(name: str, rows: Sequence[Any], *columns: Columned, all_rows: int = 0) -> Table:
    """A table of the first ROWS_MOST rows. all_rows: the full number, if `rows` has fewer."""
    made = [_column(each) if isinstance(each, str) else each for each in columns]
    many = max(all_rows, len(rows))
    shown = rows[:ROWS_MOST]
    cut = f"{len(shown):,} of {many:,} rows are in this file" if many > len(shown) else ""
    return Table(
        name,
        [(column.name.replace(" (UTC)", in_zone("")), column.number) for column in made],
        [[cell(column.value(row)) for column in made] for row in shown],
        cut,
    )


def _column(text: str) -> PageColumn:
    name, _, of = text.rstrip("#@").partition("=")
    key: Any = int(of) if of.isdigit() else of or name

    def value(row: Any) -> Any:
        if of.isdigit() or isinstance(row, dict):
            return row[key]
        found = attrgetter(key)(row)
        return time_cell(found) if text.endswith("@") else found

    return PageColumn(name, value, text.endswith("#"))


def cell(value: Any) -> Any:
    """A value that JavaScript can hold: a short printable text, a number, or None."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and abs(value) >= _EXACT:
        return f"{value:,}"
    if isinstance(value, str):
        return name_text(value)
    return value


def name_text(text: str) -> str:
    """A text of a store for people: printable, and cut after NAME_MOST characters."""
    shown = safe(text[:NAME_MOST])
    return f"{shown}..." if len(text) > NAME_MOST else shown


def time_cell(milliseconds: int) -> str | None:
    """A time as ISO 8601 in the zone of --tz; None if negative."""
    return None if milliseconds < 0 else time_text(milliseconds)


def labels(names: Iterable[str]) -> list[str]:
    """Unique labels of names in a picture. A long label lacks its middle, as a queue's id stands
    at the end; the page shortens labels further if there is no room.
    """
    found: list[str] = []
    seen: dict[str, int] = {}
    for name in names:
        label = safe(name)
        if len(label) > _LABEL_MOST:
            label = f"{label[:_LABEL_BEGIN]}…{label[_LABEL_BEGIN + 1 - _LABEL_MOST :]}"
        seen[label] = seen.get(label, 0) + 1
        while seen[label] > 1:
            label = f"{label} ({seen[label]})"
            seen[label] = seen.get(label, 0) + 1
        found.append(label)
    return found


_LABEL_MOST, _LABEL_BEGIN = 140, 80  # a topic has 127 characters at most


# ---
# Vega-Lite specifications: the few kinds of picture that the page draws.
#
# Colours are the page's own CSS variables, so that one drawing serves light and dark.

COLOURS = 8  # series with a colour of their own: --c0 to --c7
BARS_MOST = 30
_OTHER = "var(--other)"
_TIMES_MOST = 8_000_000_000_000_000  # milliseconds that a Date of JavaScript's can have
_UTC = {"type": "utc", "padding": 4}
# An axis of counts: no ticks at fractions, and 0 without a unit.
_COUNTS = {
    "format": "~s", "tickCount": 5, "tickMinStep": 1,
    "labelExpr": "datum.value === 0 ? '0' : datum.label",
}  # fmt: skip
_DAY = 86_400_000
# (longest time axis in milliseconds, format of its labels)
_TIME_FORMS = (
    (3000, "%H:%M:%S.%L"), (600_000, "%H:%M:%S"), (_DAY, "%H:%M"), (4 * _DAY, "%d %b %H:%M"),
    (300 * _DAY, "%d %b"), (float("inf"), "%b %Y"),
)  # fmt: skip


class Bar(NamedTuple):
    """A horizontal bar, or one part of it."""

    label: str
    value: float
    part: str = ""


class Span(NamedTuple):
    """A value over a span of time, in milliseconds."""

    begin: int
    end: int
    value: float
    part: str


def bars(rows: Sequence[Bar], axis: str, parts: Sequence[str] = ()) -> dict[str, Any]:
    """Horizontal bars in the order given. parts: names of their parts, in the legend's order."""
    spec: dict[str, Any] = {
        "data": {"values": [row._asdict() for row in rows]},
        "mark": {"type": "bar", "color": "var(--c0)"},
        "width": "container",
        "height": {"step": 24},
        "encoding": {
            "y": {"field": "label", "type": "nominal", "sort": None, "title": None},
            "x": {
                "field": "value", "type": "quantitative", "title": axis, "stack": "zero",
                "axis": _COUNTS,
            },
            "tooltip": _tooltip(("label", "nominal"), ("value", "quantitative")),
        },
    }  # fmt: skip
    if parts:
        spec["encoding"]["color"] = _coloured(parts)
        spec["encoding"]["order"] = {"field": "rank", "type": "quantitative"}
        rank = {part: n for n, part in enumerate(parts)}
        spec["data"] = {"values": [{**row._asdict(), "rank": rank[row.part]} for row in rows]}
        spec["encoding"]["tooltip"] = _tooltip(
            ("label", "nominal"), ("part", "nominal"), ("value", "quantitative")
        )
    return spec


def over_time(rows: Sequence[Span], axis: str, parts: Sequence[str]) -> dict[str, Any]:
    """Stacked bars over a time axis, the first of `parts` at the bottom."""
    rank = {part: n for n, part in enumerate(parts)}
    values, tops = [], dict.fromkeys((row.begin for row in rows), 0.0)
    for row in sorted(rows, key=lambda row: rank[row.part]):
        low, high = tops[row.begin], tops[row.begin] + row.value
        tops[row.begin] = high
        values.append(
            {**row._asdict(), "begin": wall_clock(row.begin), "end": wall_clock(row.end),
             "low": low, "high": high, "when": time_text(row.begin)}
        )  # fmt: skip
    return {
        "data": {"values": values},
        "mark": {"type": "rect"},
        "width": "container",
        "height": 260,
        "encoding": {
            "x": {"field": "begin", **_time_axis([t for row in rows for t in row[:2]])},
            "x2": {"field": "end"},
            "y": {
                "field": "low", "type": "quantitative", "title": axis,
                "axis": _COUNTS,
            },
            "y2": {"field": "high"},
            "color": _coloured(parts),
            "tooltip": _tooltip(
                ("when", "nominal"), ("part", "nominal"), ("value", "quantitative")
            ),
        },
    }  # fmt: skip


def lanes(rows: Sequence[tuple[str, int, int]]) -> dict[str, Any]:
    """A horizontal line for each row of (label, begin, end), times in milliseconds."""
    values = [
        {"label": label, "begin": wall_clock(begin), "end": wall_clock(end),
         "when": f"{time_text(begin)} to {time_text(end)}"} for label, begin, end in rows
    ]  # fmt: skip
    return {
        "data": {"values": values},
        "width": "container",
        "height": {"step": 24},
        "encoding": {
            "y": {"field": "label", "type": "nominal", "sort": None, "title": None},
            "x": {"field": "begin", **_time_axis([time for row in rows for time in row[1:]])},
            "x2": {"field": "end"},
            "tooltip": _tooltip(("label", "nominal"), ("when", "nominal")),
        },
        "mark": {"type": "rule", "strokeWidth": 12, "strokeCap": "round", "color": "var(--c0)"},
    }


def grid(rows: Sequence[tuple[str, Sequence[str]]], kinds: Sequence[tuple[str, str]]) -> Any:
    """Rows of cells. rows: (label, kinds of its cells); kinds: (kind, colour) as in the legend."""
    values = [
        {"row": row, "cell": n, "kind": kind} for row, cells in rows for n, kind in enumerate(cells)
    ]
    return {
        "data": {"values": values},
        "mark": {"type": "rect"},
        "width": "container",
        "height": {"step": 16},
        "encoding": {
            "y": {
                "field": "row", "type": "nominal", "sort": None, "title": None,
                "axis": {"labelLimit": 140},
            },
            "x": {"field": "cell", "type": "ordinal", "axis": None,
                  "scale": {"paddingInner": 0.08}},
            "color": {
                "field": "kind", "type": "nominal", "title": None,
                "scale": {"domain": [k for k, _ in kinds], "range": [c for _, c in kinds]},
            },
            "tooltip": _tooltip(("row", "nominal"), ("kind", "nominal")),
        },
    }  # fmt: skip


def _time_axis(times: Sequence[int]) -> dict[str, Any]:
    """A time axis with labels that fit its length. Up to a day its title has the date."""
    length, day = max(times) - min(times), time_text(min(times))[:10]
    zone = in_zone("")[2:-1]  # drawn in UTC as its clocks show it (`wall_clock`)
    form = next(form for most, form in _TIME_FORMS if length <= most)
    return {
        "type": "temporal", "scale": _UTC,
        "title": f"{day}, {zone}" if length <= _DAY else zone,
        "axis": {"labelOverlap": True, "tickCount": 5, "format": form},
    }  # fmt: skip


def drawable(milliseconds: int) -> bool:
    """Whether a browser can show this time."""
    return abs(milliseconds) <= _TIMES_MOST


def _coloured(parts: Sequence[str]) -> dict[str, Any]:
    """A colour for each of the first COLOURS parts, grey for the others."""
    colours = [f"var(--c{n})" if n < COLOURS else _OTHER for n in range(len(parts))]
    return {
        "field": "part", "type": "nominal", "title": None, "sort": None,
        "scale": {"domain": list(parts), "range": colours},
    }  # fmt: skip


def _tooltip(*fields: tuple[str, str]) -> list[dict[str, Any]]:
    shown = []
    for name, kind in fields:
        about: dict[str, Any] = {"field": name, "type": kind}
        if kind == "quantitative":
            about |= {"format": ","}
        shown.append(about)
    return shown
