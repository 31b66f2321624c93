"""`reput compare`: where the logs of a master and its slaves part, and what only one has."""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, BinaryIO

from reput.jobs.console import options
from reput.jobs.console.declared import OfStore, add_options, option, shown, staging
from reput.jobs.console.store_there import check_store
from reput.jobs.console.voice import add_output
from reput.jobs.engines.choice import on_engine
from reput.jobs.engines.engine import Engine
from reput.store_format.faults import StoreError

if TYPE_CHECKING:
    from reput.jobs.comparing.report import CompareReport
    from reput.jobs.outputs.output import NewFile
    from reput.store_format.files.protocol import Storage

_HELP = """\
Compares the logs byte by byte, and where they differ record by record: which messages would be lost
if only the first store were kept, and which if only another were. Then topics, subscription groups,
consumer offsets and the epoch file of controller mode. Logs may begin at different offsets. Exit
codes: 0 the same, 1 they differ, 2 wrong usage, 3 the job failed.

examples:
  reput compare /data/broker-a /data/broker-a-s
  reput compare /data/broker-a s3://bucket/broker-a-s --messages only.jsonl
"""


@dataclass(frozen=True)
class Compare(OfStore):
    """What `reput compare` is asked. storage: for all stores and the staging folder, instead of the
    storages of their URLs.
    """

    others: Sequence[str] = field(
        metadata=shown(
            "one or more stores to compare with the first", "others", nargs="+", metavar="SLAVE"
        )
    )
    _: KW_ONLY
    storage: "Storage | None" = None
    messages: "BinaryIO | None" = option(
        "write what only one of them has as JSON lines: where each message is, its keys counted, "
        "and no body",
        metavar="FILE",
    )
    staging_folder: str | None = staging()


@on_engine(Compare)
def compare(engine: Engine, asked: Compare) -> "CompareReport":
    """Compare stores with the first of them: logs, config/ and epoch files; nothing is written.

    staging_folder: where fingerprints of messages are put if logs differ, by default a temporary
    folder.

    Raises StoreError if a store has no log, SettingError, UnknownRelease, StoreChanged.
    """
    from reput.jobs.comparing.compare import compare_stores
    from reput.store_format.discover.store import store_at

    paths = (asked.store, *asked.others)
    return compare_stores(
        engine, [store_at(path, asked.rocketmq, asked.settings, asked.storage) for path in paths],
        asked.shows, asked.staging_folder, asked.storage, asked.messages,
    )  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    parser.add_argument(
        "store", metavar="MASTER", help="a store's root, path or URL: it holds commitlog/"
    )
    add_options(parser, Compare, "others")
    options.add_broker(
        parser, "the release of their broker; without it, as the stores' files show",
        "one setting by RocketMQ's name, for all stores; the files show sizes",
    )  # fmt: skip
    add_options(parser, Compare, "messages")
    options.add_engine(parser)
    add_options(parser, Compare, "staging_folder")
    add_output(parser, times=True)


def run(arguments: argparse.Namespace) -> int:
    """Compare, and say what was found: 0 the same; 1 they differ."""
    asked = options.asked_of(arguments, Compare)
    for other in asked.others:
        check_store(other, asked.settings or {})
    file = _messages_file(arguments, asked.settings or {})
    with (
        nullcontext() if file is None else file.writing() as messages,
        options.engine_for(arguments) as engine,
    ):
        report = compare(engine, replace(asked, messages=messages))
    from reput.jobs.comparing.report import details, text

    options.show(arguments, report.as_json(), text(report), details(report), report.same)
    return options.DONE if report.same else options.DAMAGE


def _messages_file(arguments: argparse.Namespace, settings: Mapping[str, str]) -> "NewFile | None":
    """The file of --messages, which may lie in none of the stores. Raises StoreError."""
    file = options.new_file(arguments, "messages", settings)
    if file is None:
        return None
    from reput.jobs.outputs.output import inputs_of
    from reput.store_format.discover.store import store_at

    stores = [store_at(path, settings=settings) for path in arguments.others]
    inputs = [each for at in stores for each in inputs_of(at.folder, settings)]
    file = replace(file, inputs=(*file.inputs, *inputs))
    try:
        file.check()
    except StoreError as error:
        raise StoreError(f"--messages {error}") from None
    return file
