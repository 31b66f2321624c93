"""The command line: each command a thin skin on its job."""

import argparse
import importlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

from reput.jobs.console.ending import ending, flush, open_streams
from reput.jobs.console.kernel_cache import tell_of_no_cache
from reput.jobs.console.options import DAMAGE, DONE, add_store, told_to_jobs
from reput.jobs.spark.session import command_session
from reput.jobs.spark.signals import ending_by_signals
from reput.store_format.faults import StoreError

_EPILOG = """\
exit codes:
  0  done
  1  damage or differences were found (a refused rebuild publishes nothing)
  2  wrong usage: an unknown setting, release or option; no such store, or none like that;
     no Java or PySpark
  3  the job failed: an input changed, a disk was full, Spark failed or was killed
  128 + N  ended by signal N: 130 by ctrl-c, 143 by SIGTERM, 129 by SIGHUP

examples:
  reput rebuild /data/store --output /data/rebuilt --rocketmq 5.3.3
  reput rebuild /data/store --output out --rocketmq 4.9.7 --broker-conf broker.conf
  reput rebuild /data/store --output out --rocketmq 5.4.0 --set maxIndexNum=400 --json
  reput rebuild s3://bucket/store --output s3://bucket/rebuilt --rocketmq 5.3.3
  reput verify /data/store --rocketmq 5.3.3
  reput check /data/store --rocketmq 5.3.3
  reput rebuild /data/store --output out --rocketmq 5.3.3 --on-damage salvage
  reput recover /data/store --rocketmq 5.3.3 --dry-run
  reput install /data/rebuilt /data/store
  reput install --undo /data/store
  reput clean /data/rebuilt --dry-run
  reput dump /data/store/consumequeue/Topic/0/00000000000000000000
"""

_CHECK = """\
Reads the whole log, with body CRCs and `__CRC32#` properties, reports every damaged, stale or
missing range and which queue offsets it took, then compares the derived files with the log.
Exit codes: 0 sound, 1 something was found, 2 wrong usage, 3 the job failed.

examples:
  reput check /data/store --rocketmq 5.3.3
  reput check /data/store --rocketmq 5.3.3 --json --picture log.svg

"""

_REPAIR = """\
Copies the store to DIR. Each damaged range is replaced by filler records of the same length:
with the topic, queue and offset of the lost message where its neighbours tell them, and the tag
REPUT_LOST. Messages keep their offsets. What was replaced is in DIR/damaged, listed in
DIR/manifest.json. All derived files are made anew; the broker's configuration is copied.

example:
  reput repair /data/store --output /data/repaired --rocketmq 5.3.3

"""

_VERSIONS = """\
A release from 4.1.0 to 5.5.0 selects the rules whose bytes are wanted. They changed at
  4.2.0  a queueOffset below the next position is skipped      4.6.0  IPv6 hosts
  4.7.1  hashSlotCount counts slots in use, not puts           4.9.1  malformed properties
  4.9.3  multi-dispatch       5.0.0  batch queues              5.1.0  topics over 127 bytes
  5.1.1, 5.1.2, 5.2.0  multi-dispatch's exceptions             5.2.0  __CRC32# property
  5.4.0  an index key for the tags
"""

_REBUILD = (
    _VERSIONS
    + """
STORE and DIR are paths or URLs (docs/storage.md; credentials come from the environment):
  reput rebuild s3://bucket/store --output s3://bucket/rebuilt --rocketmq 5.3.3
  reput rebuild /data/store --output webhdfs://namenode:9870/rebuilt --rocketmq 5.3.3
"""
)


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code, whatever goes wrong."""
    # Nothing here multiplies matrices, and numpy's threads for that spin as they start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    open_streams()
    try:
        with ending_by_signals():
            arguments = _parser().parse_args(words)
            tell_of_no_cache()
            code: int = arguments.run(arguments)
    except SystemExit:  # of --help, or of a wrong option
        flush(DONE)
        raise
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 (the last catch)
        code = ending(error)
    return flush(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="reput",
        description="Rebuild RocketMQ's ConsumeQueue and Index files from a CommitLog, with Spark.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Command)
    rebuild = _command(commands, "rebuild", "derive queues and index from the log", _REBUILD)
    add_store(rebuild)
    rebuild.add_argument(
        "--output", required=True, metavar="DIR", help="absent or empty folder, or its URL"
    )
    rebuild.add_argument(
        "--replace",
        action="store_true",
        help="replace the set in DIR, if it is a rebuilt one",
    )
    rebuild.add_argument(
        "--index-start-name",
        metavar="yyyyMMddHHmmssSSS",
        help="name of the first index file (default: its first message's store time, in UTC)",
    )
    _add_ranges(rebuild, " (with --on-damage salvage)")
    rebuild.set_defaults(run=_rebuild)
    verify = _command(commands, "verify", "derive again and compare with what is there", _VERSIONS)
    add_store(verify)
    verify.add_argument(
        "--against", metavar="DIR", help="where the derived files are (default: STORE)"
    )
    verify.add_argument(
        "--staging", metavar="DIR", help="where to derive (a cluster: a folder that all see)"
    )
    verify.set_defaults(run=_verify)
    check = _command(commands, "check", "find all damage in a store", _CHECK + _VERSIONS)
    add_store(check, on_damage=())
    check.add_argument("--picture", metavar="FILE", help="write a picture of the log too (SVG)")
    _add_ranges(check, "")
    check.add_argument(
        "--staging", metavar="DIR", help="where to derive (a cluster: a folder that all see)"
    )
    check.set_defaults(run=_check)
    repair = _command(
        commands, "repair", "copy a damaged store so that a broker serves it", _REPAIR + _VERSIONS
    )
    add_store(repair, on_damage=())
    repair.add_argument("--output", required=True, metavar="DIR", help="absent or empty folder")
    repair.add_argument(
        "--replace",
        action="store_true",
        help="replace the store in DIR, if it is a repaired one",
    )
    repair.set_defaults(run=_repair)
    for name, says in (
        ("dump", "show any store file as text or JSON lines"),
        ("append", "append messages to a local store"),
        ("recover", "bring a store into the state of a clean stop, after a crash"),
        ("install", "put a rebuilt set in the place of a store's own, in one atomic step"),
        ("clean", "remove what runs that were killed left beside an output or in a store"),
    ):
        _command(commands, name, says).module = f"reput.jobs.{name}"
    return parser


def _add_ranges(parser: argparse.ArgumentParser, when: str) -> None:
    parser.add_argument(
        "--ranges",
        metavar="FILE",
        help=f"write all damaged ranges and missing positions as JSON lines{when}; "
        "reports list the first 1,000 and sum up all by cause",
    )


@contextmanager
def _ranges(arguments: argparse.Namespace, settings: dict[str, str]) -> Iterator[BinaryIO | None]:
    """The new file of --ranges; none is left where the job fails. Raises StoreError."""
    ranges = _new_file(arguments, "ranges", settings)
    if ranges is None:
        yield None
        return
    with ranges.writing() as output:
        yield output


def _new_file(arguments: argparse.Namespace, option: str, settings: dict[str, str]) -> Any:
    """The file that an option names, None where it names none. Raises StoreError."""
    path = getattr(arguments, option)
    if not path:
        return None
    from reput.jobs.engine.outputs import NewFile, inputs_of
    from reput.store_format.storage import storage_for

    storage = storage_for(arguments.store)
    inputs = inputs_of(storage, storage.resolve(arguments.store), settings)
    file = NewFile(path, tuple(inputs))
    try:
        file.check()
    except StoreError as error:
        raise StoreError(f"--{option} {error}") from None
    return file


class _Command(argparse.ArgumentParser):
    """A command; with `module`, one whose arguments are in a module of its own.

    That is imported only for this command: it imports numba, which a rebuild does while its JVM
    starts.
    """

    module = ""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self.module:
            module = importlib.import_module(self.module)
            module.add_arguments(self)
            self.set_defaults(run=module.run)
        return super().parse_known_args(args, namespace)


def _command(commands: Any, name: str, says: str, epilog: str = "") -> _Command:
    parser: _Command = commands.add_parser(
        name,
        help=says,
        description=says,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def _rebuild(arguments: argparse.Namespace) -> int:
    told = told_to_jobs(arguments)
    with _ranges(arguments, told["settings"]) as ranges, command_session(arguments.master) as spark:
        from reput.jobs.rebuild import rebuild

        summary = rebuild(
            spark,
            arguments.store,
            arguments.output,
            on_damage=arguments.on_damage or "refuse",
            replace=arguments.replace,
            index_start_name=arguments.index_start_name,
            ranges=ranges,
            **told,
        )
    _show(arguments, summary.as_json(), summary.text())
    return DAMAGE if summary.left_out else DONE


def _verify(arguments: argparse.Namespace) -> int:
    told = told_to_jobs(arguments)
    with command_session(arguments.master) as spark:
        from reput.jobs.verify import verify

        report = verify(
            spark,
            arguments.store,
            against=arguments.against,
            staging_folder=arguments.staging,
            on_damage=arguments.on_damage,
            **told,
        )
    _show(arguments, report.as_json(), report.text())
    return DONE if report.same else DAMAGE


def _check(arguments: argparse.Namespace) -> int:
    told = told_to_jobs(arguments)
    picture = _new_file(arguments, "picture", told["settings"])
    with _ranges(arguments, told["settings"]) as ranges, command_session(arguments.master) as spark:
        from reput.jobs.check import check
        from reput.jobs.console.check_text import svg, text

        report = check(
            spark,
            arguments.store,
            staging_folder=arguments.staging,
            ranges=ranges,
            **told,
        )
    if picture:
        picture.write(svg(report).encode())
    _show(arguments, report.as_json(), text(report))
    return DONE if report.sound else DAMAGE


def _repair(arguments: argparse.Namespace) -> int:
    told = told_to_jobs(arguments)
    with command_session(arguments.master) as spark:
        from reput.jobs.repair import repair

        summary = repair(
            spark,
            arguments.store,
            arguments.output,
            replace_output=arguments.replace,
            **told,
        )
    _show(arguments, summary.as_json(), summary.text())
    return DAMAGE if summary.not_filled else DONE


def _show(arguments: argparse.Namespace, whole: dict[str, Any], text: str) -> None:
    sys.stdout.write((json.dumps(whole) if arguments.json else text) + "\n")
