"""`reput demo`: it proves a bundled store, damages, finds and repairs; nothing else is wanted."""

import json

import pytest

from reput.jobs.cli import main
from reput.jobs.demo import compare
from tests.built import write
from tests.processes import run_python


@pytest.mark.long
def test_the_demo_proves_damages_and_repairs(tmp_path, capsys) -> None:
    kept = tmp_path / "demo"
    done = run_python("-m", "reput", "demo", "--keep", kept, timeout=300)
    said = done.stdout
    assert done.returncode == 0, done.stderr
    for text in (
        "$ reput rebuild store --output rebuilt\n", "--engine spark\n",
        "20 files are byte for byte what RocketMQ",
        "534,000,040 bytes, of which", "sparse files", "$ reput check damaged\n", "NOT sound",
        "bodyCRC: does not match the body", "$ reput repair damaged --output repaired\n",
        "What to try next:", "reput report "):  # fmt: skip
        assert text in said, text
    assert sorted(each.name for each in kept.iterdir()) == [
        "damaged", "expect", "rebuilt", "rebuilt-by-spark", "repaired", "store"]  # fmt: skip
    assert main(["demo", "--keep", str(kept), "--json"]) == 2
    assert "is there already" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_the_demo_in_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--json", "--engine", "local"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert (whole["same"], whole["files"], whole["repaired"]) == (True, 20, True)


@pytest.mark.parametrize(
    ("ours", "differing"),
    [
        ({"consumequeue/T/0/0": b"abc", "index/8": b"x"}, []),  # an index file's name is a time
        ({"consumequeue/T/0/0": b"abd", "index/8": b"x"}, ["0"]),
        ({"consumequeue/T/1/0": b"abc", "index/8": b"x"}, ["0"]),
        ({"consumequeue/T/0/0": b"abc"}, ["1 files for 2"]),
    ],
)
def test_files_are_compared_by_their_bytes_and_names(ours, differing, tmp_path) -> None:
    wanted = write(tmp_path / "expect", {"consumequeue/T/0/0": b"abc", "index/9": b"x"})
    assert compare(wanted, write(tmp_path / "ours", ours)).differing == differing
