"""`reput check`: read a whole log, report all damage, and compare the derived files with it."""

import argparse
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO

from reput.jobs.console.declared import (
    OfLog,
    add_options,
    all_ranges,
    assumed_names,
    remade_lives,
    staging,
)
from reput.jobs.console.options import (
    DAMAGE,
    DONE,
    USAGE,
    VERSIONS,
    add_job,
    asked_of,
    asks_store,
    engine_for,
    given_words,
    new_file,
    new_ranges,
    show,
)
from reput.jobs.engines.choice import on_engine
from reput.jobs.engines.engine import Engine
from reput.store_format.discover.purpose import CHECK

if TYPE_CHECKING:
    from reput.jobs.judging.report import CheckReport

_HELP = f"""\
Reads the whole log, with body CRCs and `__CRC32#` properties, reports every damaged, stale or
missing range and which queue offsets it took, then compares the derived files with the log.
Exit codes: 0 sound, 1 something was found, 2 wrong usage, 3 the job failed.

examples:
  reput check /data/store
  reput check /data/store --json --picture log.svg

{VERSIONS}"""


@dataclass(frozen=True, kw_only=True)
class Check(OfLog):
    """What `reput check` is asked."""

    ranges: "BinaryIO | None" = all_ranges()
    assume_names: bool = assumed_names()
    remade: str = remade_lives()
    staging_folder: str | None = staging()


@on_engine(Check)
def check(engine: Engine, asked: Check) -> "CheckReport":
    """Read all of a store's log with every CRC, and compare its derived files.

    Faults of the log's files are findings.
    Raises StoreError if there is no log at all, SettingError, UnknownRelease, StoreChanged.
    """
    from reput.jobs.judging.check import check_store_of

    found = asked.found(engine, CHECK)
    return check_store_of(found, asked.staging_folder, asked.storage, asked.ranges)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_job(parser, OfLog, _HELP)
    parser.add_argument("--picture", metavar="FILE", help="write a picture of the log too (SVG)")
    add_options(parser, Check)


def run(arguments: argparse.Namespace) -> int:
    """Check, and say what was found: 0 sound; 1 not; 2 the store is of another release."""
    asked = asked_of(arguments, Check)
    picture = new_file(arguments, "picture", asked.settings)
    with (
        new_ranges(arguments, asked.settings) as ranges,
        engine_for(arguments, asks_store(asked, CHECK)) as engine,
    ):
        report = check(engine, replace(asked, ranges=ranges))
    from reput.jobs.judging.shown import details, svg, text

    if picture:
        picture.write(svg(report).encode())
    shown = text(report, arguments.verbose, given_words(arguments))
    show(arguments, report.as_json(), shown, details(report), report.sound)
    if report.looks_like:
        return USAGE
    return DONE if report.sound else DAMAGE
