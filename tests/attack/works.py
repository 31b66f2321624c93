"""The commands that change a store or write beside it, and stores for them."""

import io
import os
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from reput.jobs import cli
from reput.store_format.message.message import Message
from tests.broker.services.stores import SIZES, T0, disk, half, writing
from tests.broker.writer.stores import TINY, Clock

GIVEN = [word for name, value in (TINY | SIZES | {"fileReservedTime": 1}).items() for word in (
    "--set", f"{name}={value}")]  # fmt: skip
GIVEN += ["--rocketmq", "5.3.3"]
# a broker's own refusal comes earlier: here the disk itself is to be what fails
WRITES = [*GIVEN, "--set", "diskSpaceWarningLevelRatio=100"]
EVEN = ["--even-delayed", "--even-pending", "--even-unread"]
# {store}, {behind}: on the small disk; {other}, {set}: elsewhere; {disk}: the small disk
WORKS = {
    "append": ["append", "--yes", "{store}", "--from-store", "{other}", *WRITES],
    "deliver-delayed": ["deliver-delayed", "{store}", "--until", "2100-01-01T00:00:00Z", "--yes",
                        *WRITES],
    "resolve-transactions": ["resolve-transactions", "{store}", "--decide", "commit", "--yes",
                             *WRITES],
    "catch-up": ["catch-up", "{behind}", "--yes", *GIVEN],
    "replicate": ["replicate", "{other}", "{disk}/replica", *GIVEN],
    "expire": ["expire", "{store}", "--any-hour", "--yes", *EVEN, *GIVEN],
    "backup": ["backup", "{store}", "{disk}/repo", *GIVEN],
    "restore": ["restore", "{repo}", "--output", "{disk}/made"],
    "forget": ["forget", "{disk}/repo", "--keep-last", "1", "--yes"],
    "export": ["export", "{other}", "--output", "{disk}/made", "--as", "rocketmq", *WRITES],
    "parquet": ["export", "{other}", "--output", "{disk}/made", "--as", "parquet", *GIVEN],
    "rebuild": ["rebuild", "{other}", "--output", "{disk}/made", *GIVEN],
    "repair": ["repair", "{other}", "--output", "{disk}/made", *GIVEN],
    "convert": ["convert", "{other}", "--output", "{disk}/made", *GIVEN],
    "install": ["install", "{set}", "{store}", "--yes"],
    "recover": ["recover", "{behind}", "--yes", *GIVEN],
    "offsets": ["offsets", "set", "{store}", "--group", "readers", "--to-end", "--yes", *GIVEN],
    "map": ["offsets", "map", "{store}", "--map", "{other}.map", "--yes", *GIVEN],
    "undo": ["offsets", "set", "{behind}", "--undo", "--yes", *GIVEN],
    "report": ["report", "{other}", "--output", "{disk}/page.html", *GIVEN],
}  # fmt: skip


def make(folder: Path) -> None:
    """The stores: one with all that may wait, the same without some of its queues, and another."""
    for name in ("store", "other"):
        clock = Clock(T0)
        with writing(disk(folder / name), clock) as writer:
            for number in range(30):
                writer.append(Message("Orders", f"{name} {number}".encode() * 20, number % 2))
                if number % 3 == 0:
                    half(writer, f"{name}-half-{number}")
                    writer.append(Message("Orders", f"late {number}".encode(), 0, delay_level=1))
                clock.now += 1000
        for path in (folder / name / "commitlog").iterdir():
            os.utime(path, (T0 / 1000, T0 / 1000))
        offsets = folder / name / "config/consumerOffset.json"
        offsets.parent.mkdir()
        offsets.write_text('{"offsetTable": {"Orders@readers": {"0": 4, "1": 7}}}')
    line = '{"topic": "Orders", "queue": 1, "old": %d, "new": %d}\n'
    (folder / "other.map").write_text(line % (0, 0) + line % (7, 5))
    shutil.copytree(folder / "store", folder / "grown")
    for number in range(3):
        (folder / "grown/config").mkdir(exist_ok=True)
        (folder / "grown/config/consumerFilter.json").write_text(f'{{"n":{number}}}')
        with redirect_stdout(io.StringIO()):
            assert cli.main(["backup", f"{folder}/grown", f"{folder}/repo", *GIVEN]) == 0
    shutil.copytree(folder / "store", folder / "behind")
    moved = ["offsets", "set", f"{folder}/behind", "--to-offset", "2", "--yes", *GIVEN]
    with redirect_stdout(io.StringIO()):
        assert cli.main(moved) == 0
    shutil.rmtree(folder / "behind/consumequeue")
    shutil.rmtree(folder / "behind/index")
    with redirect_stdout(io.StringIO()):
        assert cli.main(["rebuild", f"{folder}/store", "--output", f"{folder}/set", *GIVEN]) == 0


def run(words: list[str], stores: Path, top: Path) -> tuple[int, str]:
    places = {"store": top / "store", "behind": top / "behind", "other": stores / "other",
              "set": stores / "set", "repo": stores / "repo", "disk": top}  # fmt: skip
    errors = io.StringIO()
    with redirect_stderr(errors), redirect_stdout(io.StringIO()):
        code = cli.main([word.format(**places) for word in words])
    said = [line for line in errors.getvalue().splitlines() if line.startswith("reput: error")]
    return code, "\n".join(said)
