"""`reput demo`: a first look at a small store of a real broker, which comes with reput.

A live RocketMQ 5.3.3 broker wrote it (batches, timers, transactions). The archive has its log, and
the files that RocketMQ itself derived from the log.
"""

import argparse
import os
import shutil
import sys
import tarfile
import time
from contextlib import ExitStack, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple

from reput.jobs.console import voice
from reput.jobs.console.options import DAMAGE, DONE, FAILED, show
from reput.jobs.engines.choice import LOCAL, SPARK
from reput.store_format.faults import StoreError
from reput.store_format.files.private import Scratch, scratch_folder
from reput.store_format.names import BATCH_CONSUME_QUEUE, COMMIT_LOG, CONSUME_QUEUE, INDEX

_ARCHIVE = Path(__file__).with_name("demo_store.tar.xz")
_INSIDE, _RELEASE = "broker_clean_5.3.3", "5.3.3"
_FLIPPED = 270_100  # a physical offset: a byte of a message's body
_CHUNK_BYTES = 1 << 20
_BLOCK = 512  # bytes of a unit of st_blocks

_HELP = """\
Works in a temporary folder, takes about ten seconds (the first time a minute, as kernels are
compiled), and leaves nothing behind; --keep DIR keeps the stores, to try more with them.

examples:
  reput demo
  reput demo --keep /tmp/demo
"""
_NEXT = """
What to try next:
  reput demo --keep /tmp/demo                                keep these stores, and with them:
  reput report /tmp/demo/damaged --output report.html        a page of pictures
  reput topics /tmp/demo/store                               what is in it
  reput query /tmp/demo/store --topic Live0 --limit 3        messages
  reput serve /tmp/demo/store                                for any RocketMQ client
  reput check /data/store                                    a store of yours: it is only read
"""


class DemoFiles(NamedTuple):
    """Comparison of rebuilt files with RocketMQ's. bytes: their length; written: bytes on disk."""

    files: int
    bytes: int
    written: int
    differing: list[str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    parser.add_argument("--keep", metavar="DIR", help="a new folder, which keeps the stores")
    parser.add_argument(
        "--engine", choices=(LOCAL, "all"), default="all",
        help="local: do not rebuild on Spark too, where PySpark and Java are installed",
    )  # fmt: skip
    voice.add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Rebuild and compare, then damage and repair: 0 if every file is RocketMQ's own.

    Raises StoreError if the bundled store is missing, or the folder to keep exists already.
    """
    if not _ARCHIVE.is_file():
        raise StoreError(f"{_ARCHIVE}: is missing; the demo's store comes with reput's wheel")
    with ExitStack() as stack:
        folder = arguments.keep
        if folder is None:
            folder = stack.enter_context(scratch_folder(Scratch.DEMO))
        else:
            try:
                os.mkdir(folder)
            except FileExistsError:
                raise StoreError(f"--keep {folder}: is there already; name a new folder") from None
        silent = arguments.json or arguments.format == voice.CSV or arguments.quiet
        if silent:
            stack.enter_context(redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
        began, here = time.monotonic(), os.getcwd()
        stack.callback(os.chdir, here)
        os.chdir(folder)
        compared, repaired = _tour(Path.cwd(), arguments.engine != LOCAL)
        seconds = time.monotonic() - began
    voice.begin(arguments.quiet, arguments.verbose)
    same = not compared.differing
    whole = {"same": same, **compared._asdict(), "repaired": repaired, "seconds": seconds}
    good = f"\ndemo done in {seconds:.0f} s{_NEXT.replace('reput ', f'{_program()} ')}"
    text = good if same and repaired else "\nthe demo failed"
    show(arguments, whole, text.rstrip(), good=same and repaired)
    return DONE if same and repaired else FAILED


def _program() -> str:
    """How a user runs `reput` here: a clone has none on PATH."""
    if shutil.which("reput"):
        return "reput"
    beside = Path(sys.executable).with_name("reput")
    return os.path.relpath(beside) if beside.exists() else f"{sys.executable} -m reput"


def _tour(folder: Path, on_spark: bool) -> tuple[DemoFiles, bool]:
    """Run all steps, which leave their files in `folder`. on_spark: rebuild by Spark too."""
    _say(
        f"The store of a live RocketMQ {_RELEASE} broker. Its queues and index are derived from\n"
        "its log, and compared with those that RocketMQ wrote."
    )
    _unpack(folder)
    _reput("rebuild", "store", "--output", "rebuilt")
    compared = compare(folder / "expect", folder / "rebuilt")
    if on_spark and _spark_is_there():
        words = "rebuild", "store", "--output", "rebuilt-by-spark", "--engine", SPARK
        _reput(*words)
        by_spark = compare(folder / "expect", folder / "rebuilt-by-spark")
        compared = compared._replace(differing=[*compared.differing, *by_spark.differing])
    if compared.differing:
        _say(f"NOT the same: {', '.join(compared.differing)}")
        return compared, False
    _say(
        f"The same: {compared.files} files are byte for byte what RocketMQ {_RELEASE} wrote.\n"
        f"{compared.bytes:,} bytes, of which {compared.written / 1e6:.0f} MB are written: index "
        "files and queue files are made\nin full length at once and filled as messages come, and "
        "a disk keeps no blocks for\nwhat is not filled yet (sparse files: `ls -l` shows the one "
        "number, `du` the other)."
    )
    offset = _damage(folder / "damaged" / COMMIT_LOG)
    _say(f"Now a copy of that store, in whose log one bit is flipped, at offset {offset:,}.")
    found = _reput("check", "damaged")
    _say(
        "RocketMQ would stop there and throw the rest of the log away. A repaired copy keeps all\n"
        "other messages, each at its offset:"
    )
    done = _reput("repair", "damaged", "--output", "repaired")
    sound = _reput("check", "repaired")
    return compared, (found, done, sound) == (DAMAGE, DONE, DONE)


def _unpack(folder: Path) -> None:
    """Unpack the store twice (once to be damaged), and the files that RocketMQ derived."""
    with tarfile.open(_ARCHIVE) as archive:
        # Debian 12's Python, 3.11.2, has no filters; there is nothing odd in an archive of ours.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    inside = folder / _INSIDE
    (inside / "input").rename(folder / "store")
    (inside / "expect").rename(folder / "expect")
    (inside / "golden.json").unlink()
    inside.rmdir()
    shutil.copytree(folder / "store", folder / "damaged")


def _damage(log: Path) -> int:
    """Flip a bit of a message's body, and return its physical offset."""
    segment = min(log.iterdir())
    with segment.open("r+b") as file:
        file.seek(_FLIPPED)
        byte = file.read(1)[0]
        file.seek(_FLIPPED)
        file.write(bytes([byte ^ 1]))
    return _FLIPPED


def _reput(*words: str) -> int:
    """Show a command and run it, as a user would."""
    from reput.jobs.cli import main

    _say(f"\n$ reput {' '.join(words)}")
    return main(words)


def _spark_is_there() -> bool:
    """Whether a local Spark session can be started (`reput[spark]`, and a Java)."""
    from reput.jobs.engines.engine import NoSparkError
    from reput.jobs.engines.java import NoJavaError
    from reput.jobs.engines.session import installed

    with suppress(NoSparkError, NoJavaError):
        installed()
        return True
    return False


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def compare(expected: Path, rebuilt: Path) -> DemoFiles:
    """Compare with RocketMQ's files, index files by their order, as their names are times."""
    wanted, made = _derived(expected), _derived(rebuilt)
    differing: list[Any] = [
        there.name
        for there, ours in zip(wanted, made, strict=False)
        if not _same_name(there, ours, expected, rebuilt) or not _same_bytes(there, ours)
    ]
    differing += [f"{len(made)} files for {len(wanted)}"] * (len(wanted) != len(made))
    states = [path.stat() for path in made]
    return DemoFiles(
        len(made), sum(each.st_size for each in states),
        sum(each.st_blocks * _BLOCK for each in states), differing,
    )  # fmt: skip


def _derived(root: Path) -> list[Path]:
    kinds = (BATCH_CONSUME_QUEUE, CONSUME_QUEUE, INDEX)
    return [path for kind in kinds for path in sorted((root / kind).rglob("*")) if path.is_file()]


def _same_name(there: Path, ours: Path, expected: Path, rebuilt: Path) -> bool:
    a, b = there.relative_to(expected), ours.relative_to(rebuilt)
    return a == b or a.parts[0] == b.parts[0] == INDEX


def _same_bytes(there: Path, ours: Path) -> bool:
    if there.stat().st_size != ours.stat().st_size:
        return False
    with there.open("rb") as a, ours.open("rb") as b:
        while piece := a.read(_CHUNK_BYTES):
            if piece != b.read(_CHUNK_BYTES):
                return False
    return True
