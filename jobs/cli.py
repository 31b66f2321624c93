"""The command line: the table of commands, and how one of them is run."""

import argparse
import importlib
import os
from collections.abc import Sequence
from typing import Any

from reput import __version__
from reput.jobs.console.ending import ending, flush, open_streams
from reput.jobs.console.kernel_cache import tell_of_no_cache
from reput.jobs.console.options import DONE
from reput.jobs.spark.signals import ending_by_signals

# Each is a module `reput.jobs.<name>` with `add_arguments(parser)` and `run(arguments)`.
_COMMANDS = {
    "rebuild": "derive queues and index from the log",
    "verify": "derive again and compare with what is there",
    "check": "find all damage in a store",
    "repair": "copy a damaged store so that a broker serves it",
    "query": "find messages by key, id, position or time, without a broker",
    "topics": "list what a store has of each topic",
    "queues": "list what a store has of each queue",
    "groups": "list how far consumer groups have come, and their lag",
    "transactions": "list pending transactions, and what became of the others",
    "delayed": "list what is due when, and what should have been delivered and never was",
    "trace": "show one message's life: put, delayed, retried, committed, with times",
    "dump": "show any store file as text or JSON lines",
    "append": "append messages to a local store",
    "recover": "bring a store into the state of a clean stop, after a crash",
    "install": "put a rebuilt set in the place of a store's own, in one atomic step",
    "clean": "remove what runs that were killed left beside an output or in a store",
}

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
  reput query /data/store --topic Orders --key o-17
  reput topics /data/store
  reput dump /data/store/consumequeue/Topic/0/00000000000000000000
"""


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
    parser.add_argument("--version", action="version", version=f"reput {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Command)
    for name, says in _COMMANDS.items():
        command = commands.add_parser(
            name,
            help=says,
            description=says,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.module = f"reput.jobs.{name}"
    return parser


class _Command(argparse.ArgumentParser):
    """A command, whose module is imported only where it is the one to run."""

    module = ""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        module = importlib.import_module(self.module)
        module.add_arguments(self)
        self.set_defaults(run=module.run)
        return super().parse_known_args(args, namespace)
