"""A session's process, known by its folder in its command line: how it ended, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from reput.jobs.engines.java import cause_of_death, end_jvm, jvm_of

FOLDER = "/tmp/reput-spark-of-a-test"


class Started:
    """Shells of this test, which name a folder as a session's JVM does."""

    def __init__(self) -> None:
        self.all: list[subprocess.Popen[bytes]] = []

    def __call__(self, script: str, folder: str = FOLDER) -> subprocess.Popen[bytes]:
        made = subprocess.Popen(
            ["sh", "-c", script, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.all.append(made)
        return made


@pytest.fixture
def started() -> Iterator[Started]:
    made = Started()
    yield made
    for each in made.all:
        each.kill()
        each.communicate()


def line_of(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


def test_the_child_that_names_the_folder_is_it(started: Started) -> None:
    other, wanted = started("echo up; read x", "/tmp/another"), started("echo up; read x")
    assert line_of(other) == line_of(wanted) == "up"
    assert jvm_of(FOLDER) == wanted.pid
    assert jvm_of("/tmp/reput-spark-of-nobody") is None


def test_its_end_is_the_end_of_all_that_it_started(started: Started) -> None:
    process = started("sleep 60 & echo $!; wait")
    child = int(line_of(process))
    assert Path(f"/proc/{child}").exists()
    end_jvm(FOLDER)
    gone = Path(f"/proc/{child}/stat")
    assert not gone.exists() or gone.read_text().rpartition(")")[2].split()[0] == "Z"
    assert process.wait() == -signal.SIGKILL
    end_jvm(FOLDER)  # there is none any more


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("exit 3", "the Java process ended, with code 3"),
        ("kill -TERM $$", "the Java process ended, killed by SIGTERM"),
        (
            "kill -KILL $$",
            "SIGKILL: where nobody did that, the machine ran out of memory",
        ),
        ("kill -40 $$", "the Java process ended, killed by signal 40"),
    ],
)
def test_how_it_ended_is_told_and_can_be_told_again(
    started: Started, script: str, cause: str
) -> None:
    process = started(script)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    for _ in range(2):
        assert (cause_of_death(process.pid) or "").endswith(cause)


def test_one_that_was_waited_for_and_none_at_all_have_no_cause(started: Started) -> None:
    process = started("exit 0")
    process.wait()
    assert cause_of_death(process.pid) is None
    assert cause_of_death(None) is None
