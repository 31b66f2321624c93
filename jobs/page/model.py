"""The parts of a page, which become JSON: sections with sentences, pictures and tables.

All text of a store is hostile. Unprintable characters are escaped here, so that nothing invisible
or backwards is shown; the page's script puts text into the document as text alone.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from reput.jobs.console.voice import safe
from reput.jobs.outputs.report import time_text

ROWS_MOST = 20_000  # of a table in the file; the page shows a part at a time
NAME_MOST = 1000  # characters of one cell
_EXACT = 1 << 53  # below this, integers are exact in JavaScript


class PageColumn(NamedTuple):
    """A column of a table. value: row -> cell; number: whether cells are numbers."""

    name: str
    value: Callable[[Any], Any]
    number: bool = False


@dataclass
class Picture:
    """A Vega-Lite specification with its data. about: its caption, also for screen readers."""

    about: str
    spec: dict[str, Any]


@dataclass
class Table:
    """A table. columns: (name, whether numbers); cut: a text if rows were left out, else empty."""

    name: str
    columns: list[tuple[str, bool]]
    rows: list[list[Any]]
    cut: str = ""


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

    def show(self, name: str, rows: Sequence[Any], *columns: PageColumn, all_rows: int = 0) -> None:
        """Add a table; see `table`."""
        self.tables.append(table(name, rows, *columns, all_rows=all_rows))


def table(name: str, rows: Sequence[Any], *columns: PageColumn, all_rows: int = 0) -> Table:
    """A table of the first ROWS_MOST rows. all_rows: the full number, if `rows` has fewer."""
    many = max(all_rows, len(rows))
    shown = rows[:ROWS_MOST]
    cut = f"{len(shown):,} of {many:,} rows are in this file" if many > len(shown) else ""
    return Table(
        name,
        [(column.name, column.number) for column in columns],
        [[cell(column.value(row)) for column in columns] for row in shown],
        cut,
    )


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
    """A time as ISO 8601 in UTC; None if negative."""
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
