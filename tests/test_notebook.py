"""The notebooks run as they are, from the same source as on Databricks, and prove what they say."""

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from notebooks.helpers import Notebook
from notebooks.queue_chart import queue_chart
from reput.jobs.outputs.report import OutputFile, Summary
from tests.processes import run_python

FOLDER = Path(__file__).parent.parent / "notebooks"
ALL = sorted(path for path in FOLDER.glob("*.py") if path.stem != "queue_chart")  # a picture


def ran(work: Path, *names: str) -> str:
    """What notebooks print, run as scripts in a folder of their own, one after the other."""
    program = "import runpy, sys\nfor name in sys.argv[1:]: runpy.run_path(name)"
    paths = [FOLDER / name for name in names]
    result = run_python(
        "-c", program, *paths, cwd=work, timeout=300,
        env={"REPUT_NOTEBOOK_WORK": str(work), "PYTHONPATH": str(FOLDER)},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.spark
@pytest.mark.long
def test_the_notebooks_rebuild_inspect_and_lose_one_message_and_not_thousands(tmp_path) -> None:
    said = ran(tmp_path, "rebuild_store.py", "inspect_store.py", "after_crash.py")
    assert re.search(r"^messages .*\n-+ .*\n *3,750 +19 ", said, re.M)
    assert "the same, byte for byte" in said
    assert (tmp_path / "queues.svg").read_text().count("<rect") == 19
    assert "Sound: 3,750 messages" in said
    assert re.search(r"^topic +kind +queues +messages$", said, re.M)
    assert (tmp_path / "report.html").stat().st_size > 800_000
    assert re.search(r"^ *270,392 +521 +magic not a record's magic number", said, re.M)
    assert "1 message lost" in said
    assert "before: Not sound" in said
    assert "after: Sound" in said
    assert {"before.html", "after.html"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.long
def test_the_archive_grows_and_can_be_looked_back_at(tmp_path: Path) -> None:
    said = ran(tmp_path, "message_archive.py")
    assert "exported 3,333 messages" in said
    assert "added 3 messages, then 0" in said
    assert re.search(r"^ *\d+ +3,333\n *\d+ +3,336$", said, re.M)
    assert (tmp_path / "report.html").is_file()


def test_what_never_arrived_is_found(tmp_path: Path) -> None:
    said = ran(tmp_path, "never_arrived.py")
    assert "never delivered" in said
    assert re.search(r"^pending +\d", said, re.M)
    assert {"skipped.html", "lived.html"} <= {path.name for path in tmp_path.iterdir()}


class Session:
    """A session, or Databricks' utilities, with one setting or widget."""

    def __init__(self, said: str) -> None:
        self.conf = self.widgets = self
        self.said = said

    def text(self, *words: str) -> None:
        pass

    def get(self, name: str, default: str = "") -> str:
        return self.said


def test_databricks_shows_tables_and_pages_as_html(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("REPUT_NOTEBOOK_WORK", str(tmp_path))
    shown: list[str] = []
    here = Notebook({"displayHTML": shown.append, "spark": (theirs := Session(""))})
    here.table(("a", "b"), [("<x>", 1000)])
    here.page("p.html").write_text("page")
    here.show(tmp_path / "p.html")
    head, row = "<th>a</th><th>b</th>", "<td>&lt;x&gt;</td><td>1,000</td>"
    assert shown == [f"<table><tr>{head}</tr><tr>{row}</tr></table>", "page"]
    assert here.spark() is theirs


def test_workers_elsewhere_need_a_folder_that_they_see(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("REPUT_NOTEBOOK_WORK", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for master in ("spark://host:7077", "local-cluster[2,1,1024]", ""):  # serverless shows none
        names = {"spark": Session(master)}
        with pytest.raises(ValueError, match="`work`"):
            Notebook(names | {"dbutils": Session("")}).spark()
        here = Notebook(names | {"dbutils": Session(str(tmp_path / "volume"))})
        assert (here.spark(), here.work) == (names["spark"], tmp_path / "volume")
    assert Notebook({"spark": Session("local[8]")}).spark().said == "local[8]"


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_a_notebook_is_imports_prose_calls_and_pictures(path: Path) -> None:
    source = path.read_text()
    assert source.startswith("# Databricks notebook source\n# MAGIC %md\n# MAGIC # ")
    assert "def " not in source
    assert "class " not in source
    assert "here = Notebook(globals())" in source
    assert source.count("import os") == 0
    assert f"python notebooks/{path.name}" in source.replace("\n# MAGIC ", " ")


# --- The chart of a rebuild's queues: a bar for each, as long as it has entries.
SVG = "{http://www.w3.org/2000/svg}"
LONGEST = 400  # pixels of the longest bar


def drawn(*files: tuple[str, int]) -> list[tuple[str, int, str]]:
    """(queue, pixels of its bar, number beside it) of each row."""
    made = [OutputFile(path, 20, "", entries) for path, entries in files]
    summary = Summary("s", "o", "5.3.3", {}, {}, 0, 0, "", files=made)
    root = ElementTree.fromstring(queue_chart(summary))
    texts = [str(each.text) for each in root.iter(f"{SVG}text")]
    assert texts[0] == "Entries a queue"
    widths = [int(each.attrib["width"]) for each in root.iter(f"{SVG}rect")]
    return list(zip(texts[1::2], widths, texts[2::2], strict=True))


@pytest.mark.parametrize(
    ("files", "rows"),
    [
        ((("consumequeue/T/0/00000000000000000000", 300),
          ("consumequeue/T/0/00000000000000006000", 100),
          ("batchconsumequeue/B/1/00000000000000000000", 100)),
         [("B/1", LONGEST // 4, "100"), ("T/0", LONGEST, "400")]),
        ((("index/20261125000000000", 9000), ("checkpoint", 0), ("config/timercheck", 0),
          ("timerlog/00000000000000000000", 7), ("consumequeue/T/0/0", 2)),
         [("T/0", LONGEST, "2")]),
        ((), []),
        ((("consumequeue/A/0/0", 1), ("consumequeue/B/0/0", 1_000_000)),
         [("A/0", 1, "1"), ("B/0", LONGEST, "1,000,000")]),
        # a name is text and no markup, and has no character that XML does not know
        *((((f"consumequeue/{topic}/0/0", 1),), [(f"{shown}/0", LONGEST, "1")])
          for topic, shown in (("</svg><script>",) * 2, ("a&b",) * 2, ('"x"',) * 2,
                               ("a\x00\x1bb", r"a\x00\x1bb"))),
    ],
)  # fmt: skip
def test_each_queue_and_nothing_else_has_a_bar(files, rows) -> None:
    assert drawn(*files) == rows


def test_each_queue_has_a_row_of_its_own_within_the_picture() -> None:
    files = [OutputFile(f"consumequeue/T/{n}/0", 20, "", 1) for n in range(3)]
    text = queue_chart(Summary("s", "o", "5.3.3", {}, {}, 0, 0, "", files=files))
    rows = [int(y) for y in re.findall(r'<rect x="\d+" y="(\d+)"', text)]
    assert sorted(set(rows)) == rows
    assert {b - a for a, b in pairwise(rows)} == {20}
    assert rows[-1] + 13 <= int(re.findall(r' height="(\d+)"', text)[0])
