"""Backups and forgets of processes that are killed at drawn moments, and two at once: each run that
the catalogue has is whole, and the next backup has all.
"""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.built import Built
from tests.jobs.repository.backing import catalogue, log_of, run, store, whole_log
from tests.seeds import seeds

pytestmark = [pytest.mark.long, pytest.mark.explore]

GIVEN = [word for name, value in Built().given().items() for word in ("--set", f"{name}={value}")]


def start(folder: Path, command: str) -> subprocess.Popen[bytes]:
    repo = f"{folder}/repo"
    words = {"backup": ["backup", f"{folder}/store", repo, *GIVEN],
             "forget": ["forget", repo, "--keep-last", "2", "--yes"]}  # fmt: skip
    return subprocess.Popen([sys.executable, "-m", "reput", *words[command]],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip


def all_whole(folder: Path, built: Built) -> None:
    log = whole_log(built)
    for each in catalogue(folder).backups():
        ((begin, raw),) = log_of(folder, each.run).items()
        assert raw == log[begin : each.end]


@pytest.mark.parametrize("seed", seeds(range(2)))
def test_killed_at_any_moment(seed: int, tmp_path: Path) -> None:
    drawn, built = random.Random(seed), Built().put(count=50, body=b"x" * 300)
    run(tmp_path, built)
    for _ in range(20):
        store(tmp_path, built.put(count=drawn.randrange(60), body=b"y" * 200))
        process = start(tmp_path, drawn.choice(["backup", "backup", "forget"]))
        time.sleep(drawn.uniform(0.1, 0.9))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        all_whole(tmp_path, built)
    run(tmp_path)
    all_whole(tmp_path, built)
    newest = catalogue(tmp_path).newest()
    assert newest is not None
    assert newest.end == len(whole_log(built))


@pytest.mark.parametrize("seed", seeds(range(1)))
def test_two_at_once(seed: int, tmp_path: Path) -> None:
    drawn, built = random.Random(seed), Built().put(count=50, body=b"x" * 300)
    run(tmp_path, built)
    for _ in range(6):
        store(tmp_path, built.put(count=30))
        both = [start(tmp_path, "backup"), start(tmp_path, drawn.choice(["backup", "forget"]))]
        said = [each.communicate()[1].decode() for each in both]
        assert all(not each or "writes to the repository" in each or "others begin" in each
                   for each in said), said  # fmt: skip
        assert any(each.returncode == 0 for each in both), said
        all_whole(tmp_path, built)
