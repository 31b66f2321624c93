"""The command line: the table of commands, how a command is run, `reput help releases` and `help
settings`, and completion in a shell.
"""

import argparse
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from textwrap import wrap
from typing import Any, NoReturn

from reput import __version__
from reput.jobs.console import voice
from reput.jobs.console.voice import flush, open_streams
from reput.jobs.engines.engine import NoPandas
from reput.jobs.engines.signals import ending_by_signals

# Each is a module `reput.jobs.<name>` with `add_arguments(parser)` and `run(arguments)`.
_GROUPS = {
    "look": {
        "check": "find all damage in a store",
        "verify": "derive again and compare with what is there",
        "compare": "say where the logs of a master and its slaves part, and what only one has",
        "report": "write one page of pictures and tables about a store",
        "topics": "list what a store has of each topic",
        "queues": "list what a store has of each queue",
        "groups": "list how far consumer groups have come, and their lag",
        "stats": "count what was put into the log, by topic, day, hour, group or size",
        "query": "find messages by key, id, position or time, without a broker",
        "trace": "show one message's life: put, delayed, retried, committed; who consumed it",
        "transactions": "list pending transactions, and what became of the others",
        "delayed": "list what is due when, and what should have been delivered and never was",
        "dump": "show any store file as text or JSON lines",
    },
    "rebuild": {
        "rebuild": "derive queues and index from the log",
        "install": "put a rebuilt set in the place of a store's own, in one atomic step",
        "catch-up": "go on from what queues and index hold, up to the log's end",
    },
    "repair": {
        "recover": "bring a store into the state of a clean stop, after a crash",
        "repair": "copy a damaged store so that a broker serves it",
    },
    "change": {
        "expire": "delete expired segments, queue and index files, but nothing that is needed",
        "deliver-delayed": "deliver the delayed messages that are due, once",
        "resolve-transactions":
            "commit or roll back pending transactions, as their producers would",
        "offsets": "dump, set, clone or map how far consumer groups have come",
    },
    "move": {
        "export":
            "write messages as Parquet, JSON lines, a Delta table or a store of their own",
        "append": "append messages to a local store",
        "send": "send messages, dead letters above all, to a live cluster",
        "convert":
            "write a store anew: files of other sizes, another release",
        "replicate":
            "copy a store's log, and go on as it grows, to a store that a broker starts on",
    },
    "back up": {
        "backup": "put a store, a running broker's too, into a backup repository: what is new",
        "backups": "list what a backup repository has, and when it was checked",
        "restore": "make a store of a backup, as it was at any moment, for a broker to start on",
        "forget": "remove old backups that no kept restore point needs",
    },
    "serve": {
        "serve": "answer any RocketMQ client from a store, as a name server and broker that only "
        "read",
        "metrics": "give Prometheus a store's lags, rates and what waits, from its files alone",
    },
    "this machine": {
        "demo": "damage, find and rebuild a small store of a real broker, as a first look",
        "doctor": "say what this machine has of what reput needs, and what is slow here and why",
        "warm": "compile kernels ahead, which makes the first run quick",
        "clean": "remove what runs that were killed left beside an output or in a store",
        "completion": "print what makes bash, zsh or fish complete reput's words",
    },
}  # fmt: skip
_COMMANDS = {name: says for group in _GROUPS.values() for name, says in group.items()}
# One example for each group.
_EXAMPLES = {
    "look": "reput check /data/store",
    "rebuild": "reput rebuild /data/store --output /data/rebuilt",
    "repair": "reput recover /data/store --dry-run",
    "change": "reput expire /data/store --dry-run",
    "move": "reput export /data/store --output /data/messages --as jsonl",
    "back up": "reput backup /data/store /backup/repository",
    "serve": "reput serve /data/store",
    "this machine": "reput demo",
}

# Commands that always work on an engine.
_ON_AN_ENGINE = ("rebuild", "verify", "check", "compare", "convert", "repair", "recover", "restore")

# Objects made before Python collects garbage. Its default of 700 costs 0.1 s at each start, as
# imports make many objects and no garbage.
_GARBAGE = 50_000

_WIDTH, _NAME = 100, 20  # characters in the help of a line, and of a command's name
_USAGE = 2  # equals options.USAGE, which is not imported for --help

_EPILOG = """\
on every command
  --format          table (for people), json or csv; --json is --format json
  --quiet, -v       nothing but errors and what was asked for; details too

the same wherever a command takes them
  STORE and DIR     paths or URLs: s3://, gs://, abfss://, hdfs://, webhdfs://, /Volumes/...
  --topic           only this topic
  --since, --until  stored then or later, stored before that: 2026-01-31, 2026-01-31T12:00:00Z,
                    milliseconds since 1970, '2h ago' or now
  --tz              the zone of times and days: Asia/Shanghai, -05:00
  --limit, --sort   the first N rows; by these columns
  --output          where to write

exit codes
  0  done
  1  damage or differences were found (a refused rebuild publishes nothing)
  2  wrong usage: an unknown setting, release or option; no such store, or none like that;
     no Java or PySpark
  3  the job failed: an input changed, a disk was full, Spark failed or was killed
  128 + N  ended by signal N: 130 by ctrl-c, 143 by SIGTERM, 129 by SIGHUP

`reput help COMMAND` shows its options and examples, `reput help releases` what RocketMQ's releases
do differently, `reput help settings` which settings count. New here? `reput demo`.
"""


def main(words: Sequence[str] | None = None, own_process: bool = False) -> int:
    """Run a command; returns its exit code. own_process: whether this process runs only that."""
    # reput multiplies no matrices, and numpy's threads for them spin when they start
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    open_streams()
    words = list(sys.argv[1:] if words is None else words)
    voice.begin()
    try:
        with ending_by_signals():
            if own_process and words[:1] and words[0] in _ON_AN_ENGINE:
                from reput.jobs.engines.workers import start_early

                start_early(words)
            arguments = _arguments(words)
            if own_process and arguments.verbose:  # for Spark's session and a server's threads
                os.environ["REPUT_TRACEBACK"] = "1"
            from reput.jobs.console.progress import tell_of_no_cache

            tell_of_no_cache()
            if "at_of_store" in arguments:  # a command that reads STORE
                from reput.jobs.console.options import as_of

                as_of(arguments)
            code: int = arguments.run(arguments)
    except SystemExit:  # of --help, or of a wrong option
        flush(0)
        raise
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 (the last catch)
        from reput.jobs.console.endings import ending  # knows all that can fail

        code = ending(error, _in_json(words))
    finally:
        if own_process and "reput.jobs.engines.workers" in sys.modules:
            from reput.jobs.engines.workers import let_go, remove_semaphores

            remove_semaphores()
            let_go()
    return flush(code)


def command() -> NoReturn:
    """Run one command, and end the process with its exit code."""
    gc.set_threshold(_GARBAGE)
    NoPandas.begin()
    code = main(own_process=True)
    # all files are closed; Python's own exit takes 0.25 s, for numba, pandas and PySpark
    os._exit(code)


def task() -> None:
    """Run a command as a task of a Databricks job, which checks exceptions, not exit codes."""
    code = main()
    if code:
        raise SystemExit(code)


def _arguments(words: list[str]) -> argparse.Namespace:
    """Parse the words. `help COMMAND` is `COMMAND --help`, `help releases` shows a text, no words
    are `--help`. A -v may stand before the command too.
    """
    while words[:1] in (["-v"], ["--verbose"]):
        words = [*words[1:], "-v"] if words[1:] else []
    if words[:1] == ["help"] and words[1:2] in (["releases"], ["settings"]):
        sys.stdout.write(text() if words[1] == "releases" else settings())
        raise SystemExit(0)
    if not words or words[0] == "help":
        words = [*words[1:2], "--help"]
    if words and not words[0].startswith("-") and words[0] not in _COMMANDS:
        from reput.jobs.console.endings import no_such_command

        raise no_such_command(words[0], _COMMANDS)
    for n in reversed(range(1, len(words))):  # argparse takes the values -lag, -05:00 for options
        if words[n - 1] in ("--sort", "--tz"):
            words = [*words[: n - 1], f"{words[n - 1]}={words[n]}", *words[n + 1 :]]
    zone = next((word[5:] for word in reversed(words) if word.startswith("--tz=")), "UTC")
    voice.begin(zone=zone)  # times among the words are read in it
    parser = _parser(_in_json(words))
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what could come next (reput completion)
        complete(parser)
    arguments = parser.parse_args(words)
    voice.begin(arguments.quiet, arguments.verbose, zone)
    return arguments


def _in_json(words: list[str]) -> bool:
    """Whether the answer is wanted as JSON, found before the words are parsed."""
    follows = dict(enumerate(words[1:]))
    return any(
        word in ("--json", "--format=json") or (word == "--format" and follows.get(n) == "json")
        for n, word in enumerate(words)
    )


def _parser(in_json: bool) -> argparse.ArgumentParser:
    parser = _Reput(
        prog="reput",
        usage="reput COMMAND ...   (reput help COMMAND says more)",
        description="Checks, rebuilds, repairs and reads the files of a RocketMQ store, without a "
        "broker.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.in_json = in_json
    parser.add_argument("-V", "--version", action="version", version=f"reput {__version__}")
    commands = parser.add_subparsers(
        required=True, metavar="COMMAND", parser_class=_Command, prog="reput"
    )
    for name, says in _COMMANDS.items():
        command = commands.add_parser(
            name,
            help=says,
            description=says,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,  # `--to` would be something else with each new option
        )
        command.module, command.in_json = f"reput.jobs.{name.replace('-', '_')}", in_json
    return parser


class _Words(argparse.ArgumentParser):
    """A parser that reports wrong words as JSON too, if JSON is wanted."""

    in_json = False

    def error(self, message: str) -> Any:
        if self.in_json:
            from reput.jobs.console.endings import WrongWords

            raise WrongWords(f"{self.prog}: {message}")
        command = self.prog.partition(" ")[2]
        where = f"reput help {command}" if command else "reput --help"
        self.exit(_USAGE, f"{self.prog}: error: {message}\n{where} lists what there is\n")


class _Reput(_Words):
    """The whole command line, whose help shows the commands in groups."""

    def format_help(self) -> str:
        """Help, made by hand: argparse lists all commands in one column."""
        parts = [f"usage: {self.usage}", "", *wrap(self.description or "", _WIDTH)]
        for group, commands in _GROUPS.items():
            parts += ["", group]
            for name, says in commands.items():
                parts += wrap(says, _WIDTH, initial_indent=f"  {name:<{_NAME}}  ",
                              subsequent_indent=" " * (_NAME + 4))  # fmt: skip
            parts.append(f"  {'':<{_NAME}}  $ {_EXAMPLES[group]}")
        return "\n".join([*parts, "", self.epilog or ""])


class _Command(_Words):
    """The parser of one command, whose module is imported only if the command runs."""

    module = ""
    _filled = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.fill()
        found, rest = super().parse_known_args(args, namespace)
        if len(rest) == 1 and rest[0][:1] != "-" and getattr(found, "message", "") is None:
            found.message = rest.pop()  # ID after options: argparse takes it as absent by then
        if rest:  # reported here, so that the error names the command's help
            word = next((each for each in rest if each.startswith("--")), "")
            known = [each for each in self._option_string_actions if each.startswith("--")]
            near = [each for each in known if word and each.startswith(word.partition("=")[0])]
            near = near or get_close_matches(word.partition("=")[0], known, 1, 0.8)
            meant = f"; did you mean {' or '.join(near)}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(rest)}{meant}")
        return found, rest

    def fill(self) -> None:
        if self._filled:
            return
        self._filled = True
        module = importlib.import_module(self.module)
        module.add_arguments(self)
        self.set_defaults(run=module.run)


# ---
# `reput help releases`: what RocketMQ's releases do differently, and how a store tells its own.

_LINE_WIDTH = 100
_SAYS_RELEASE = """\
A store's own files mostly tell its release, and the log says whether a difference counts: then no
option is needed. A store whose broker was upgraded is of several releases, each from an offset on,
which the index shows: `reput check STORE` says them, and every command that adds to it goes on as
the last one. A release that the files contradict is refused.
"""
# (since, what the release does, where it shows)
CHANGES = (
    ("4.2.0", "a queueOffset below the queue's next position is skipped", "queues"),
    ("4.3.0", "half messages stand in a topic of their own", "new records"),
    ("4.5.1", "a message counts as dispatched by where it ends, before: begins", "queues"),
    ("4.6.0", "IPv6 hosts", "log"),
    ("4.7.1", "hashSlotCount counts the slots in use, before: all keys", "index"),
    ("4.9.1", "malformed properties are read in another way", "queues, index"),
    ("4.9.3", "multi-dispatch to further queues, where it is on", "queues"),
    ("5.0.0", "batch queues, timers; an index without keys has indexCount 1, before: 0", "all"),
    ("5.1.0", "topics of more than 127 bytes; op messages are lists", "log, new records"),
    ("5.1.1", "no multi-dispatch of %RETRY% topics", "queues"),
    ("5.1.2", "nor of delayed messages, nor to names with a slash", "queues"),
    ("5.2.0", "nor of rmq_sys_ topics; the property __CRC32#", "queues, new records"),
    ("5.4.0", "one more key for a message's tags", "index"),
)  # fmt: skip


def text() -> str:
    from reput.store_format.release.profiles import RELEASES, Has, groups, span

    rows = [f"  {since:<7}{what:<74}{where}" for since, what, where in CHANGES]
    alike = ", ".join(map(span, groups(RELEASES, Has(multi_dispatch=False))))
    return "\n".join((
        f"RocketMQ's releases, {RELEASES[0]} to {RELEASES[-1]}, and what each began to do:",
        *rows,
        "",
        *wrap(f"These derive the same bytes, without multi-dispatch: {alike}.", _LINE_WIDTH),
        "",
        *wrap(_SAYS_RELEASE, _LINE_WIDTH),
        "",
        "Example: reput rebuild STORE --output DIR --rocketmq 5.3.3",
    )) + "\n"  # fmt: skip


def settings() -> str:
    """`reput help settings`: each setting that changes something, and what commands do of it."""
    from reput.store_format.release.profiles import RELEASES
    from reput.store_format.release.setting_table import SETTINGS, Status

    speaks = (Status.OBEYED, Status.WARNED, Status.REFUSED)
    known = [each for each in SETTINGS if each.derive in speaks or each.append in speaks]
    width = max(len(each.name) for each in known)
    return "\n".join((
        *wrap("Settings that change what reput writes: obeyed as RocketMQ does, warned of where "
              "RocketMQ would do something else, or refused unless they have the default. All "
              f"other settings of {RELEASES[0]} to {RELEASES[-1]} are taken and change nothing.",
              _LINE_WIDTH),
        "",
        f"{'setting':<{width}}  {'derive':<8}  append",
        *(f"{each.name:<{width}}  {each.derive:<8}  {each.append}" for each in known),
        "",
        "derive: commands that make queues and index from a log; append: those that add messages.",
        "Example: reput rebuild STORE --output DIR --set maxIndexNum=400",
    )) + "\n"  # fmt: skip


# ---
# Completion of reput's words in a shell, by argcomplete.


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell and end the process; only the command in the line is loaded."""
    try:
        import argcomplete
    except ModuleNotFoundError:
        sys.exit(1)
    line = os.environ.get("COMP_LINE", "").split()
    for action in parser._subparsers._group_actions if parser._subparsers else ():
        commands: Any = action.choices or {}
        for name in line:
            if name in commands:
                commands[name].fill()
    argcomplete.autocomplete(parser)
