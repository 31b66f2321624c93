"""Shared by commands that list rows of a store, as a table, JSON lines or CSV."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from reput.jobs.console.options import DONE
from reput.jobs.console.store_questions import RowWriter, asked_store, for_programs, write_table
from reput.jobs.console.texts import camel_case
from reput.jobs.console.voice import remark
from reput.jobs.opening.questions import Store
from reput.jobs.outputs.report import time_text


class OutputColumn(NamedTuple):
    """A column of a table. value: row -> cell; text: whether cells are text, aligned left."""

    name: str
    value: Callable[[Any], Any]
    text: bool = False


def at(milliseconds: int) -> str | None:
    """A time for a table; None if negative."""
    return None if milliseconds < 0 else time_text(milliseconds)


def run_listing(
    arguments: argparse.Namespace, rows_of: Callable[[Store], Sequence[Any]],
    columns: Sequence[OutputColumn],
) -> int:  # fmt: skip
    """Show NamedTuples as rows; the exit code. Raises StoreError, SettingError, OSError."""
    with asked_store(arguments) as store:
        rows = rows_of(store)
        if for_programs(arguments):
            writer = RowWriter(arguments)
            for row in rows:
                writer.write(camel_case(row._asdict()))
        elif rows:
            write_table(
                [column.name for column in columns],
                [[column.value(row) for column in columns] for row in rows],
                {column.name for column in columns if column.text},
            )
        if not rows:
            remark("none found")
    return DONE
