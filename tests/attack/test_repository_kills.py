"""Backups, restores and forgets that are killed or stopped at drawn moments, two at once by turns.

Whatever happened: each run that is listed is whole, `check` says so, and each restores to a prefix
of the log. What is stopped goes on when others have taken it for dead.
"""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reput import check_repository
from tests.built import Built
from tests.in_process import Session
from tests.jobs.repository.backing import catalogue, content, log_of, run, store, whole_log
from tests.seeds import seeds

# Forks commands, as they begin faster so; a claim dies after 0.3 s instead of ten minutes.
NURSERY = """
import json, os, signal, sys, time
from reput.jobs import cli
import reput.jobs.repository.backup, reput.jobs.repository.forget, reput.jobs.repository.restored
import reput.jobs.outputs.publish, reput.jobs.engines.local, pyarrow
from reput.jobs.repository import repository

repository._RENEW, repository._STALE, repository._SETTLES = 0.05, 0.3, 0.02
def start(words):
    child = os.fork()
    if child == 0:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 70
        try:
            code = cli.main(words)
        finally:
            os._exit(code)
    return child
for line in sys.stdin:
    children, waits = [], []
    for words, signals in json.loads(line):
        children.append(start(words))
        waits += [(at, children[-1], number) for at, number in signals]
    began = time.monotonic()
    for at, child, number in sorted(waits):
        time.sleep(max(began + at - time.monotonic(), 0))
        os.kill(child, number)  # at most a zombie: none is waited for yet
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in children]),
          flush=True)
"""
KILL, STOP, CONT = 9, 19, 18
STATES = [f'{{"topicConfigTable":{{"T":{{"perm":{n}}}}}}}' for n in (2, 4, 6)]
GIVEN = [word for name, value in Built().given().items() for word in ("--set", f"{name}={value}")]


@pytest.fixture(scope="module")
def nursery() -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen([sys.executable, "-c", NURSERY], text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    yield process
    process.communicate(timeout=60)


def words(folder: Path, command: str, made: Path) -> list[str]:
    repo = f"{folder}/repo"
    return {
        "backup": ["backup", f"{folder}/store", repo, "--rocketmq", "5.3.3", *GIVEN],
        "forget": ["forget", repo, "--keep-last", "2", "--yes"],
        "restore": ["restore", repo, "--output", str(made)],
    }[command]


def drawn_signals(drawn: random.Random, command: str) -> list[Any]:
    """Times on a grid of 3 ms, up to where the command has mostly ended."""
    at = drawn.randrange(500 if command == "restore" else 120) * 0.003
    return [[at, KILL]] if drawn.random() < 0.8 else [[at, STOP], [at + 0.6, CONT]]


def all_whole(folder: Path, log: bytes) -> None:
    for each in catalogue(folder).backups():
        ((begin, raw),) = log_of(folder, each.run).items()
        assert raw == log[begin : each.end]
        for entry in each.state:
            assert len(content(folder, each, entry.path)) == entry.length


@pytest.mark.parametrize("seed", [
    100, *(pytest.param(seed, marks=[pytest.mark.long, pytest.mark.explore])
           for seed in seeds(range(17)))])  # fmt: skip
def test_killed_or_stopped_at_any_moment(seed, tmp_path, nursery: "subprocess.Popen[str]") -> None:
    drawn, built = random.Random(seed), Built().put(count=20)
    run(tmp_path, built)
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    for step in range(12):
        built.put(count=drawn.randrange(9)).file("config/topics.json", drawn.choice(STATES))
        store(tmp_path, built)
        made = tmp_path / f"made-{step}"
        some = [["backup", "forget", "backup", "restore"][step % 4]]
        some += drawn.choices(["backup", "forget"], k=step % 2)
        asked = [[words(tmp_path, each, made), drawn_signals(drawn, each)] for each in some]
        asked[1:] = [[each, []] for each, _ in asked[1:]] if drawn.random() < 0.5 else asked[1:]
        nursery.stdin.write(json.dumps(asked) + "\n")
        nursery.stdin.flush()
        codes = json.loads(nursery.stdout.readline())
        print(f"seed {seed}, step {step}: {some} {codes}")
        assert all(code in (0, 1, 2, -KILL) for code in codes), (seed, step, some, codes)
        all_whole(tmp_path, whole_log(built))
        if made.exists():  # in one step, or not at all
            restored_is(made, whole_log(built))
    (tmp_path / "repo/store/claim.json").unlink(missing_ok=True)
    assert run(tmp_path).end == len(whole_log(built))
    (found,) = check_repository(Session(), str(tmp_path / "repo"), restore=1).stores
    assert found.good, found.text()


def restored_is(made: Path, log: bytes) -> None:
    segments = sorted((made / "commitlog").iterdir())
    raw = b"".join(path.read_bytes() for path in segments).rstrip(b"\0")
    begin = int(segments[0].name)
    assert raw == log[begin : begin + len(raw)]
