"""`reput report STORE --output FILE`: one page of pictures and tables about a store."""

import argparse
import time
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from reput.jobs.console.declared import OfStore, option, shown, staging
from reput.jobs.console.options import DAMAGE, DONE, add_job, asked_of, engine_for, show
from reput.jobs.console.store_there import check_ending
from reput.jobs.engines.choice import on_engine
from reput.jobs.engines.engine import Engine

if TYPE_CHECKING:
    from reput.jobs.outputs.output import WholeFile

_HELP = """\
Writes one HTML file that has everything in it and opens from disk, without a network: messages over
time by topic, topics, queues, consumer groups and their lag, sizes, index files, damage, derived
files, half and delayed messages, the disk; a table under each picture. The log is checked as `reput
check` does; --no-check leaves that out. The store is only read.
Exit codes: 0 the page is written; 1 it is, and the check found something; 2 and 3: no page.

examples:
  reput report /data/store --output report.html
  reput report s3://bucket/store --output report.html --no-check

"""


# The parts of a page as people call them, which may be unknown.
_PARTS = {
    "put": "messages over time", "queues": "queues and groups", "index": "index files",
    "fates": "half and delayed messages", "disk": "disk", "expired": "what cleaning would free",
}  # fmt: skip


class Reported(NamedTuple):
    """The page that was written, its length, and its verdict."""

    output: str
    bytes: int
    sound: bool | None  # None: not checked
    verdict: str
    unknown: dict[str, str]  # parts of the page that are not known, and why

    def text(self) -> str:
        lines = [f"wrote {self.output}: {self.bytes:,} bytes", f"  verdict   {self.verdict}"]
        lines += [f"  lacking   {_PARTS[name]}: {why}"
                  for name, why in self.unknown.items() if name != "check"]  # fmt: skip
        return "\n".join(lines)


@dataclass(frozen=True)
class ReportPage(OfStore):
    """What `reput report` is asked. now: milliseconds, by default the machine's time."""

    output: str = field(metadata=shown("the page, a local file", metavar="FILE"))
    _: KW_ONLY
    replace: bool = option("replace an older page, and nothing else", False)
    check: bool = option("do not check the log", True, "--no-check")
    staging_folder: str | None = staging()
    now: int | None = None


@on_engine(ReportPage)
def report(engine: Engine, asked: ReportPage) -> Reported:
    """Write a page about a store, by path or URL, to a local file.

    check: whether to check the log, as `reput.check` does; else the page says so.
    Raises StoreError if there is no log or the output may not be written, SettingError,
    UnknownRelease, OSError.
    """
    from reput.jobs.page.facts import look_at
    from reput.jobs.page.headline import verdict
    from reput.jobs.page.store_sections import page

    file = _file(asked)
    facts = look_at(
        asked.store, engine=engine if asked.check else None, rocketmq=asked.rocketmq,
        settings=asked.settings or {}, staging_folder=asked.staging_folder,
        now=time.time_ns() // 1_000_000 if asked.now is None else asked.now, progress=asked.shows,
    )  # fmt: skip
    content = page(facts)
    file.write(content)
    sound = None if facts.check is None else facts.check.sound
    return Reported(asked.output, len(content), sound, verdict(facts).text, dict(facts.unknown))


def _file(asked: ReportPage) -> "WholeFile":
    """The file of the page. Raises StoreError if it may not be written."""
    from reput.jobs.outputs.output import whole_file
    from reput.jobs.page.store_sections import BEGINS

    return whole_file(asked.output, asked.store, asked.settings or {}, BEGINS, asked.replace)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_job(parser, ReportPage, _HELP, times=True)


def run(arguments: argparse.Namespace) -> int:
    check_ending("report --output", arguments.output)
    asked = asked_of(arguments, ReportPage)
    # checked before anybody waits for an engine
    _file(asked)
    with engine_for(arguments) if asked.check else nullcontext() as engine:
        done = report(engine, asked)
    show(arguments, done._asdict(), done.text(), good=done.sound is not False)
    return DAMAGE if done.sound is False else DONE
