"""`reput backups`: what a backup repository has."""

import argparse
from dataclasses import dataclass
from typing import Any, NamedTuple

from reput.jobs.console.declared import OfRepository, add_options, given
from reput.jobs.console.options import DONE
from reput.jobs.console.rows import OutputColumn, add_limit, show_rows, time_column
from reput.jobs.console.voice import add_output
from reput.jobs.engines.choice import alone

_HELP = """\
A row for each backup: up to where its log goes and when its last message was stored, what is new in
it, branches and gaps, and what `reput check REPO` last found. No user, ACL or setting is shown.

  reput backups /backup/repository
  reput backups s3://bucket/repository --store broker-a --limit 10 --json
"""


class BackupRow(NamedTuple):
    """A backup. Offsets are physical, times milliseconds since 1970."""

    store: str
    run: int
    parent: int | None
    made: int  # when it ended
    first: int  # where its log begins
    begin: int  # where what is new begins
    end: int
    first_message: int | None  # the least storeTimestamp of what is new
    last_message: int | None  # the storeTimestamp of the log's last message
    records: int
    bytes: int
    stored: int
    files: int
    branch: int | None  # where its log left that of the parent
    gaps: list[tuple[int, int]]
    damaged: int  # stretches
    without: list[str]
    checked: int | None
    verdict: str | None


@dataclass(frozen=True)
class Backups(OfRepository):
    """What `reput backups` is asked."""


@alone(Backups)
def backups(asked: Backups) -> list[BackupRow]:
    """The backups of a repository, the newest first. Raises StoreError, OSError."""
    from reput.store_format.files.by_url import storage_for
    from reput.store_format.files.catalogue import catalogues

    stores = catalogues(storage_for(asked.repository), asked.repository, asked.name)
    return [row for each in stores for row in _rows(each)]


def _rows(catalogue: Any) -> list[BackupRow]:
    found: dict[str, tuple[int, str]] = {}
    for check in catalogue.checks():
        found |= {run: (check.checked, verdict) for run, verdict in check.runs.items()}
    rows = []
    for run in catalogue.backups():
        pieces, last = run.pieces, run.last
        times = [piece.times[0] for piece in pieces if piece.records]
        checked, verdict = found.get(str(run.run), (None, None))
        rows.append(
            BackupRow(
                catalogue.store, run.run, run.parent, run.ended, run.first, run.begin, run.end,
                min(times, default=None), last.timestamp if last else None,
                sum(piece.records for piece in pieces), sum(piece.length for piece in pieces),
                sum(piece.stored for piece in pieces), len(run.state),
                run.branch.differs_at if run.branch else None, [run.gap] if run.gap else [],
                sum(len(piece.damaged) for piece in pieces), list(run.without), checked, verdict,
            )
        )  # fmt: skip
    return rows[::-1]


def _remarks(row: BackupRow) -> str:
    said = [f"gap {a:,}-{b:,}" for a, b in row.gaps]
    said += [f"branch of {row.parent} at {row.branch:,}"] if row.branch is not None else []
    said += [f"{row.damaged} damaged"] if row.damaged else []
    return ", ".join(said + [f"without {each}" for each in row.without]) or "-"


_COLUMNS = (
    OutputColumn("store", lambda row: row.store, True),
    OutputColumn("run", lambda row: row.run),
    time_column("made", lambda row: row.made),
    OutputColumn("first", lambda row: f"{row.first:,}"),
    OutputColumn("end", lambda row: f"{row.end:,}"),
    time_column("last message", lambda row: row.last_message),
    OutputColumn("new bytes", lambda row: f"{row.bytes:,}"),
    OutputColumn("stored", lambda row: f"{row.stored:,}"),
    OutputColumn("files", lambda row: row.files),
    OutputColumn("remarks", _remarks, True),
    time_column("checked", lambda row: row.checked),
    OutputColumn("verdict", lambda row: row.verdict, True),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    add_options(parser, Backups)
    add_limit(parser)
    add_output(parser, rows=True, times=True)


def run(arguments: argparse.Namespace) -> int:
    """List, and exit with 0."""
    show_rows(arguments, backups(given(arguments, Backups)), _COLUMNS)
    return DONE
