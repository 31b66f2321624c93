"""Three people take reput for the first time, with README's commands and the tool's own `next`
lines alone: an operator with five broken stores, a data engineer, a reader of report and site.

Each begins in a new home; only compiled kernels are there already. What stands in capitals in a
`next` line is what a person fills in: DIR, COPY, and VERSION, the release of the broker."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reput.jobs.engines.java import find_java_home
from reput.store_format.files.private import cache_folder
from tests.golden_stores import as_left
from tests.pages import ROOT
from tests.processes import run_words

pytestmark = pytest.mark.long
_README = (ROOT / "README.md").read_text("utf-8")
_ONE_CORE = 'SparkSession.builder.master("local[1]")'
_FILLED = {"DIR": "made", "COPY": "made", "VERSION": "5.3.3"}


class Walker:
    """Somebody at a shell, in a folder and home of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kernels = cache_folder().path
        self.env = {"HOME": str(folder / "home"), "PATH": os.environ["PATH"], "LANG": "C.UTF-8",
                     "PYTHONPATH": str(ROOT), "TZ": "UTC"}  # fmt: skip
        if kernels:
            self.env["NUMBA_CACHE_DIR"] = str(Path(kernels).parent)
        (folder / "home").mkdir()

    def python(self, *words: str) -> str:
        done = run_words(sys.executable, *words, cwd=self.folder, env=self.env, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def runs(self, command: str, code: int) -> str:
        """Run `reput ...` as it is written; returns what it says. code: the exit code."""
        name, *words = shlex.split(command)
        assert name == "reput"
        done = run_words(sys.executable, "-m", "reput", *words, cwd=self.folder, env=self.env,
                         timeout=300)  # fmt: skip
        assert done.returncode == code, (command, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done.stdout

    def next_of(self, said: str) -> Iterator[str]:
        """The commands of a `next` line, filled in."""
        (line,) = re.findall(r"^  next      (.*)$", said, re.M)
        found = re.findall(r"reput [a-z-]+(?: [^\s,;()]+)+", line)
        assert found, line
        for each in found:
            yield " ".join(_FILLED.get(word, word) for word in each.split(" "))


@pytest.fixture
def walker(tmp_path: Path) -> Walker:
    as_left("small_all_5.3.3", tmp_path)
    return Walker(tmp_path)


def _flip(store: Path) -> None:
    segment = min((store / "commitlog").iterdir())
    content = bytearray(segment.read_bytes())
    content[91] ^= 1  # in the first message's body
    segment.write_bytes(content)


_BROKEN = {
    "no index": lambda store: shutil.rmtree(store / "index"),
    "no queues": lambda store: shutil.rmtree(store / "consumequeue"),
    "a killed broker": lambda store: (store / "abort").touch(), "a flipped bit": _flip,
    "no last segment": lambda store: max((store / "commitlog").iterdir()).unlink(),
}  # fmt: skip


@pytest.mark.parametrize("broken", list(_BROKEN))
def test_an_operator_follows_the_next_lines(walker: Walker, broken: str) -> None:
    store = walker.folder / "store"
    _BROKEN[broken](store)
    assert "`reput check STORE`: only reads; its `next` lines name the command" in _README
    said = walker.runs("reput check store", 1)
    sound = "store"
    for command in walker.next_of(said):
        name = command.split()[1]
        if name == "install":
            walker.runs(f"{command} --dry-run", 1)
            walker.runs(f"{command} --yes", 0)
        elif name == "recover":
            walker.runs(command, 1)
            gone = broken == "no last segment"  # messages that queues named are cut: 1
            walker.runs(command.replace("--dry-run", "--yes"), 1 if gone else 0)
        else:
            walker.runs(command, 0)
            sound = "made" if name == "repair" else sound
    walker.runs(f"reput check {sound}", 0)
    walker.runs(f"reput query {sound} --topic Topic0", 0)


def test_a_data_engineer_takes_the_messages_along(walker: Walker) -> None:
    assert "`reput export STORE --output DIR`" in _README
    said = walker.runs("reput export store --output messages", 0)
    (many,) = re.findall(r"messages  (\d+) in", said)
    read = "import pyarrow.dataset; print(pyarrow.dataset.dataset('messages/data').count_rows())"
    assert walker.python("-c", read).strip() == many
    walker.runs("reput export store --output messages --verify", 0)
    walker.runs("reput export store --output nothing --topic Nobody", 1)
    pytest.importorskip("deltalake")
    walker.runs("reput export store --output delta --as delta", 0)
    read = ("from deltalake import DeltaTable\n"
            "print(DeltaTable('delta/messages').to_pyarrow_table().num_rows)")  # fmt: skip
    assert walker.python("-c", read).strip() == many
    assert 'spark.read.format("commitlog").load(' in _README


def test_a_data_engineer_reads_the_log_in_spark(walker: Walker) -> None:
    pytest.importorskip("pyspark")
    walker.env["JAVA_HOME"] = str(find_java_home().home)
    (block,) = re.findall(r"```python\n(.*?)```", _README, re.S)
    lines = [each for each in block.splitlines() if not each.startswith("reput.rebuild(spark")]
    program = "\n".join([*lines[:-1], f"print(({lines[-1]}).count())"])
    program = program.replace("/data/", "").replace("SparkSession.builder", _ONE_CORE)
    assert int(walker.python("-c", program).split()[-1]) == 44
    assert (walker.folder / "rebuilt/manifest.json").exists()


def test_a_reader_opens_report_and_site(walker: Walker) -> None:
    _flip(walker.folder / "store")
    walker.runs("reput report store --output report.pdf", 2)
    said = walker.runs("reput report store --output report.html", 1)
    assert "1 damaged range" in said
    page = (walker.folder / "report.html").read_text("utf-8")
    (command,) = re.findall(r'"command":"(reput repair [^"]*)"', page)
    walker.runs(command, 0)
    walker.runs("reput check repaired", 0)
    walker.runs("reput report repaired --output sound.html", 0)
    home = (ROOT / "docs/index.md").read_text("utf-8")
    first = [home.index(each) for each in (
        "repairs and reads RocketMQ message stores", "![The top of a report]", "pip install",
        "reput check", "reput recover", "reput rebuild", "| your situation",
    )]  # fmt: skip
    assert first == sorted(first)
