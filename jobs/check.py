"""`reput check`: read a whole log, report all damage, and compare the derived files with it."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, BinaryIO

from reput.jobs.console.options import (
    DAMAGE,
    DONE,
    USAGE,
    VERSIONS,
    add_assume_names,
    add_ranges,
    add_remade,
    add_staging,
    add_store,
    asks_store,
    engine_for,
    given_words,
    new_file,
    new_ranges,
    options_of_job,
    show,
)
from reput.jobs.engines.choice import on_engine
from reput.jobs.engines.engine import Engine
from reput.store_format.discover.purpose import CHECK
from reput.store_format.notes import Progress

if TYPE_CHECKING:
    from reput.jobs.judging.report import CheckReport
    from reput.jobs.pipeline.pipeline import Cut
    from reput.store_format.files.protocol import Storage

_HELP = f"""\
Reads the whole log, with body CRCs and `__CRC32#` properties, reports every damaged, stale or
missing range and which queue offsets it took, then compares the derived files with the log.
Exit codes: 0 sound, 1 something was found, 2 wrong usage, 3 the job failed.

examples:
  reput check /data/store
  reput check /data/store --json --picture log.svg

{VERSIONS}"""


@on_engine
def check(  # noqa: PLR0913 (a user's options)
    engine: Engine,
    store: str,
    *,
    rocketmq: str | None = None,
    settings: Mapping[str, str] | None = None,
    cut: "Cut | None" = None,
    staging_folder: str | None = None,
    storage: "Storage | None" = None,
    ranges: BinaryIO | None = None,
    progress: Progress | None = None,
    assume_names: bool = False,
    remade: str = "",
) -> "CheckReport":
    """Read all of a store's log with every CRC, and compare its derived files.

    Faults of the log's files are findings.
    staging_folder: where files are derived for the comparison, by default a temporary folder; on a
    cluster one that all machines see. ranges: gets every range and every gap as JSON lines.
    assume_names: segments have the names that their records show.
    remade: `last` or `all` lives of a topic that was deleted and made again; by default those that
    the store's own queues have.
    Raises StoreError if there is no log at all, SettingError, UnknownRelease, StoreChanged.
    """
    from reput.jobs.judging.check import check_store_of
    from reput.jobs.pipeline.job import find_store
    from reput.store_format.discover.store import store_at

    return check_store_of(
        find_store(
            engine, store_at(store, rocketmq, settings, storage), CHECK, cut=cut,
            progress=progress, assume_names=assume_names, remade=remade,
        ),
        staging_folder, storage, ranges,
    )  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    add_store(parser, on_damage=())
    parser.add_argument("--picture", metavar="FILE", help="write a picture of the log too (SVG)")
    add_ranges(parser, "")
    add_assume_names(parser)
    add_remade(parser)
    add_staging(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check, and say what was found: 0 sound; 1 not; 2 the store is of another release."""
    options = options_of_job(arguments)
    picture = new_file(arguments, "picture", options["settings"])
    with (
        new_ranges(arguments, options["settings"]) as ranges,
        engine_for(arguments, asks_store(arguments, options, CHECK)) as engine,
    ):
        report = check(
            engine,
            arguments.store,
            staging_folder=arguments.staging,
            ranges=ranges,
            assume_names=arguments.assume_names,
            remade=arguments.remade,
            **options,
        )
    from reput.jobs.judging.report import details, svg, text

    if picture:
        picture.write(svg(report).encode())
    shown = text(report, arguments.verbose, given_words(arguments))
    show(arguments, report.as_json(), shown, details(report), report.sound)
    if report.looks_like:
        return USAGE
    return DONE if report.sound else DAMAGE
