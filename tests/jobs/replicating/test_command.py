"""`reput replicate` and `reput serve --ha-listen` as commands: words, exit codes, JSON."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reput.jobs import cli
from tests.jobs.replicating.stores import SETTINGS, check_prefix, log_of, make_store, record_starts

SIZES = [word for name, size in SETTINGS.items() for word in ("--set", f"{name}={size}")]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_store(tmp_path / "source")


def test_its_json_says_what_was_copied(source: Path, tmp_path, capsys) -> None:
    words = ["replicate", str(source), str(tmp_path / "replica"), "--rocketmq", "5.3.3", *SIZES]
    assert cli.main([*words, "--json", "--dry-run"]) == 1
    would = json.loads(capsys.readouterr().out)
    assert cli.main([*words, "--json", "--rate", "100M"]) == 0
    about = json.loads(capsys.readouterr().out)
    end = record_starts(log_of(source))[1]
    assert would["end"] == about["end"] == end
    assert (would["dry_run"], about["records"], about["behind"]) == (True, 40, 0)
    assert cli.main(words) == 0
    assert "new       0 records" in capsys.readouterr().out


@pytest.mark.parametrize("words",
                         [["target"], ["source", "target", "--master", "127.0.0.1:10912"],
                          ["--master", "nowhere", "target"], ["--master", "127.0.0.1:0", "target"],
                          ["--master", "127.0.0.1:10912", "target", "--dry-run"],
                          ["source", "target", "--broker", "127.0.0.1:10911"],
                          ["source", "target", "--idle", "3"],
                          ["source", "target", "--follow", "--dry-run"],
                          ["source", "target", "--every", "0"],
                          ["source", "target", "--rate", "fast"],
                          ["source", "s3://bucket/target"]])  # fmt: skip
def test_words_that_say_nothing_together(words: list[str], source: Path, tmp_path, capsys) -> None:
    places = {name: str(tmp_path / name) for name in ("source", "target")}
    words = [places.get(word, word) for word in words]
    assert cli.main(["replicate", *words, "--rocketmq", "5.3.3"]) == 2
    out, errors = capsys.readouterr()
    assert out == ""
    assert errors.count("\n") == 1
    assert not (tmp_path / "target").exists()


@pytest.mark.long
def test_a_served_store_is_replicated_over_the_wire_and_killed(source: Path, tmp_path) -> None:
    """Both as processes; the copying one is killed eight times, at whatever it does."""
    target, end = tmp_path / "replica", record_starts(log_of(source))[1]
    serve = [sys.executable, "-m", "reput", "serve", str(source), "--rocketmq", "5.3.3", *SIZES]
    serve += ["--rebuild", "--listen", "127.0.0.1:0", "--ha-listen", "127.0.0.1:0"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout
        word, _, address = serving.stdout.readline().strip().partition(" ")
        assert word == "ready", address
        from reput.jobs.replicating.from_master import Asking

        host, _, port = address.rpartition(":")
        said = Asking((host, int(port))).says()
        assert (said.start, said.end, said.release) == (0, end, "5.3.3")
        serving.terminate()
    assert serving.returncode == 0
    copy = [sys.executable, "-m", "reput", "replicate", str(source), str(target), *SIZES]
    copy += ["--rocketmq", "5.3.3", "--rate", "9K"]
    for number in range(8):
        process = subprocess.Popen(copy, stdout=subprocess.DEVNULL)
        time.sleep(0.3 + number * 0.25)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        if target.exists():
            check_prefix(source, target)
    assert subprocess.run(copy[:-2], check=False).returncode == 0
    assert log_of(target) == log_of(source)
