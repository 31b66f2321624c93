"""`reput check`: read a whole log, report all damage, and compare the derived files with it."""

import argparse
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, BinaryIO

from reput.jobs.console import declared, options
from reput.jobs.console.progress import progress_of
from reput.jobs.engines.choice import on_engine
from reput.jobs.engines.engine import Engine
from reput.store_format.discover.purpose import CHECK
from reput.store_format.release.setting_table import SettingError

if TYPE_CHECKING:
    from reput.jobs.judging.report import CheckReport
    from reput.jobs.repository.checking import CheckedRepository

_HELP = f"""\
Reads the whole log, with body CRCs and `__CRC32#` properties, reports every damaged, stale or
missing range and which queue offsets it took, then compares the derived files with the log.
Of a backup repository, where no moment of it is named, it reads each frame, digest and record, and
keeps what it found there.
Exit codes: 0 sound, 1 something was found, 2 wrong usage, 3 the job failed.

examples:
  reput check /data/store
  reput check /data/store --json --picture log.svg
  reput check /backup/repository --restore 3

{options.VERSIONS}"""


@dataclass(frozen=True, kw_only=True)
class Check(declared.OfLog):
    """What `reput check` is asked."""

    ranges: "BinaryIO | None" = declared.all_ranges()
    assume_names: bool = declared.assumed_names()
    remade: str = declared.remade_lives()
    staging_folder: str | None = declared.staging()


@on_engine(Check)
def check(engine: Engine, asked: Check) -> "CheckReport":
    """Read all of a store's log with every CRC, and compare its derived files.

    Faults of the log's files are findings.
    Raises StoreError if there is no log at all, SettingError, UnknownRelease, StoreChanged.
    """
    from reput.jobs.judging.check import check_store_of

    found = asked.found(engine, CHECK)
    return check_store_of(found, asked.staging_folder, asked.storage, asked.ranges)


@dataclass(frozen=True)
class CheckRepository(declared.OfLog):
    """What `reput check` is asked of a backup repository. store: its path or URL.

    name: of one store in it.
    """

    _: KW_ONLY
    name: str | None = None
    restore: int = declared.option(
        "of a repository as a whole: restore N random moments of each store to a temporary folder, "
        "and check the stores that they are", 0, type=options.number, metavar="N",
    )  # fmt: skip


@on_engine(CheckRepository)
def check_repository(engine: Engine, asked: CheckRepository) -> "CheckedRepository":
    """Read all of a backup repository, and keep what was found in it.

    Raises StoreError where its catalogue cannot be read, OSError.
    """
    from reput.jobs.repository import checking
    from reput.store_format.files.by_url import storage_for
    from reput.store_format.files.catalogue import catalogues

    stores = catalogues(asked.storage or storage_for(asked.store), asked.store, asked.name)
    return checking.check_repository(engine, stores, asked.restore, asked.shows)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_job(parser, declared.OfLog, _HELP, times=True)
    parser.set_defaults(whole_repository=False)
    parser.add_argument("--picture", metavar="FILE", help="write a picture of the log too (SVG)")
    declared.add_options(parser, Check)
    declared.add_options(parser, CheckRepository, "restore")


def run(arguments: argparse.Namespace) -> int:
    """Check, and say what was found: 0 sound; 1 not; 2 the store is of another release."""
    if arguments.whole_repository:
        of_repository = declared.given(
            arguments, CheckRepository, name=arguments.store_name, progress=progress_of(arguments)
        )
        with options.engine_for(arguments) as engine:
            about = check_repository(engine, of_repository)
        return options.answer(arguments, about, about.good)
    if arguments.restore:
        raise SettingError("--restore: is of a backup repository, as a whole")
    asked = options.asked_of(arguments, Check)
    picture = options.new_file(arguments, "picture", asked.settings)
    with (
        options.new_ranges(arguments, asked.settings) as ranges,
        options.engine_for(arguments, options.asks_store(asked, CHECK)) as engine,
    ):
        report = check(engine, replace(asked, ranges=ranges))
    from reput.jobs.judging.shown import details, svg, text

    if picture:
        picture.write(svg(report).encode())
    shown = text(report, arguments.verbose, options.given_words(arguments), arguments.of_moment)
    options.show(arguments, report.as_json(), shown, details(report), report.sound)
    if report.looks_like:
        return options.USAGE
    return options.DONE if report.sound else options.DAMAGE
