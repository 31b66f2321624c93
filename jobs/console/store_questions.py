"""Shared by commands that answer questions about a store: options and rows."""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reput.jobs.console.options import add_broker, add_store_path, setting_layers
from reput.jobs.console.progress_lines import ShownProgress
from reput.jobs.console.store_there import check_store
from reput.jobs.console.texts import safe
from reput.jobs.console.voice import CSV, add_output, csv_text, is_quiet, remark
from reput.jobs.opening.questions import Store, open_store
from reput.store_format.faults import StoreError
from reput.store_format.notes import Progress
from reput.store_format.release.profiles import RELEASES
from reput.store_format.release.settings import merge_layers


def add_asked_store(parser: argparse.ArgumentParser, scan: bool = True) -> None:
    """Add STORE and options of a command that only reads it. scan: whether to add --scan."""
    add_store_path(parser)
    add_broker(
        parser,
        f"the release of its broker, {RELEASES[0]} .. {RELEASES[-1]}: answers differ where "
        "properties are malformed, and with --as-rocketmq",
        "one setting by RocketMQ's name; the files show sizes",
    )
    if scan:
        parser.add_argument(
            "--scan", action="store_true", help="read the log itself, not queues and index"
        )
    add_output(parser, rows=True)


def asked_store(arguments: argparse.Namespace) -> Store:
    """The store, opened. Raises StoreError, SettingError, UnknownRelease, OSError."""
    settings = merge_layers(*setting_layers(arguments))
    try:
        return open_store(
            arguments.store,
            rocketmq=arguments.rocketmq,
            settings=settings,
            progress=_progress(),
            tell=remark,
        )
    except StoreError:
        check_store(arguments.store, settings)  # its error may name the store that was meant
        raise


def _progress() -> Progress:
    """Progress on standard error; none if standard output is the same stream."""
    return Progress() if is_quiet() or os.path.sameopenfile(1, 2) else ShownProgress()


class RowWriter:
    """Writes rows for programs: JSON lines, or CSV with a heading."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._csv = arguments.format == CSV
        self._columns: list[str] = []

    def write(self, row: Mapping[str, Any]) -> None:
        """Write a row. CSV has only the columns of the first row."""
        if not self._csv:
            sys.stdout.write(json.dumps(row) + "\n")
            return
        if not self._columns:
            self._columns = list(row)
            sys.stdout.write(csv_text([self._columns]))
        sys.stdout.write(csv_text([[row.get(name) for name in self._columns]]))


def for_programs(arguments: argparse.Namespace) -> bool:
    """Whether rows are wanted as JSON or CSV."""
    return bool(arguments.json or arguments.format == CSV)


def write_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], left: set[str]) -> None:
    """Write a table with a heading. left: the columns of text, which are aligned left."""
    texts = [["-" if cell is None else safe(str(cell)) for cell in row] for row in rows]
    widths = [
        max([len(name), *(len(row[n]) for row in texts)]) for n, name in enumerate(columns)
    ]  # fmt: skip
    for row in [list(columns), *texts]:
        cells = [
            cell.ljust(width) if name in left else cell.rjust(width)
            for name, cell, width in zip(columns, row, widths, strict=True)
        ]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")
