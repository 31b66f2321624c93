"""What a page consists of, as values that become JSON: sections with sentences, pictures, tables.

All text of a store is hostile. Here what is not printable is escaped, so that nothing invisible or
backwards is shown; the page puts text into the document as text alone.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from reput.jobs.console.texts import safe
from reput.jobs.outputs.count_text import time_text

ROWS_MOST = 20_000  # of a table, in the file; the page shows them some at a time
NAME_MOST = 1000  # characters of one cell
_EXACT = 1 << 53  # up to here a number of JavaScript's is exact


class PageColumn(NamedTuple):
    """A table's column: its name, a row's value, and whether it is a number."""

    name: str
    value: Callable[[Any], Any]
    number: bool = False


@dataclass
class Picture:
    """A Vega-Lite specification, with its data; about: its caption, which a screen reader says."""

    about: str
    spec: dict[str, Any]


@dataclass
class Table:
    """Rows of texts and numbers; cut: what was left out, for people."""

    name: str
    columns: list[tuple[str, bool]]
    rows: list[list[Any]]
    cut: str = ""


@dataclass
class Section:
    """One heading of the page. alarms: what somebody should look at; notes: what is no fault."""

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
    """A table of the first ROWS_MOST rows; all_rows: how many there are, where that is more."""
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
    """A value as JavaScript can have it: a short printable text, a number, or None."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and abs(value) >= _EXACT:
        return f"{value:,}"
    if isinstance(value, str):
        return name_text(value)
    return value


def name_text(text: str) -> str:
    """Text of a store for people: printable, and not without end."""
    shown = safe(text[:NAME_MOST])
    return f"{shown}..." if len(text) > NAME_MOST else shown


def time_cell(milliseconds: int) -> str | None:
    """A time, ISO 8601 in UTC; -1 is none."""
    return None if milliseconds < 0 else time_text(milliseconds)


def labels(names: Iterable[str]) -> list[str]:
    """Names as a picture has them: each another, and not without end. Of a long one the middle is
    left out, as a queue's id stands at the end; the page cuts them further to what has room.
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
