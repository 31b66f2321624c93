"""Spark gets the workers that were made warm for it, and plain ones where there are none."""

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from reput.jobs.spark import worker_daemon

ROOT = Path(__file__).parents[3]
Door = subprocess.Popen[bytes]


def environment(folder: Path) -> dict[str, str]:
    """What Spark's JVM tells the daemon that it starts."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": str(folder),
        worker_daemon.SOCKET: str(folder / "workers"),
    }


def open_door(env: dict[str, str]) -> Door:
    words = [sys.executable, "-m", "reput.jobs.spark.worker_daemon", "pyspark.worker"]
    return subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def forked_by(door: Door) -> int:
    """Ask for a worker, as the JVM does; the process that forked it."""
    assert door.stdout
    (length,) = struct.unpack(">i", door.stdout.read(4))
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect(door.stdout.read(length))
        (worker,) = struct.unpack(">i", asked.recv(4, socket.MSG_WAITALL))
        status = Path(f"/proc/{worker}/status").read_text()
    return int(status.split("PPid:")[1].split()[0])


def close(process: Door) -> None:
    """Close its input, which must end it; PySpark's daemon then says 1 or 0, as it happens."""
    assert process.stdin
    process.stdin.close()
    process.wait(60)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("d")  # a socket's path must be short


def test_the_waiting_daemon_takes_the_doors_place(folder: Path) -> None:
    env = environment(folder)
    waiting = worker_daemon.start(env)
    door = open_door(env)
    assert forked_by(door) == waiting.pid
    close(door)
    waiting.wait(60)  # though its own input is still open
    close(waiting)


def test_a_second_door_is_a_daemon_itself(folder: Path) -> None:
    env = environment(folder)
    waiting = worker_daemon.start(env)
    first = open_door(env)
    assert forked_by(first) == waiting.pid
    second = open_door(env)
    assert forked_by(second) == second.pid
    for process in (first, second, waiting):
        close(process)


def test_a_daemon_that_is_not_called_ends_with_its_input(folder: Path) -> None:
    close(worker_daemon.start(environment(folder)))


def test_no_daemon_waits(folder: Path) -> None:
    door = open_door(environment(folder))
    assert forked_by(door) == door.pid
    close(door)
