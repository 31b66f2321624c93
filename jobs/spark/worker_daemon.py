"""Python workers that are warm when Spark asks for them.

Spark starts a daemon at its first task, which forks a worker for each core. Started only then,
they import numba and load compiled kernels while nothing else can be done: 0.7 s. So a local
session starts the daemon itself, beside the JVM, which keeps no more than one core busy. It
loads all that tasks use and waits (`wait_warm`). What Spark starts later, this module by the
setting `spark.python.daemon.module`, is no more than a door (`hand_over`): it gives its standard
streams, environment and arguments to the daemon that waits, and lasts as long as that does.
"""

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress

SOCKET = "REPUT_WORKER_DAEMON"  # in the environment: the Unix socket at which the daemon waits
_STREAMS = (0, 1, 2)
_WITH, _WITHOUT = "wait", "wait-without-kernels"


def start(env: Mapping[str, str], kernels: bool = True) -> "subprocess.Popen[bytes]":
    """Start a daemon that waits at the socket that `env` names.

    It ends when its standard input closes, unless Spark has called for it by then. kernels:
    whether it loads ours meanwhile.
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(env[SOCKET])
        listener.listen()
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                __name__,
                _WITH if kernels else _WITHOUT,
                str(listener.fileno()),
            ],
            stdin=subprocess.PIPE,
            env=env,
            pass_fds=[listener.fileno()],
        )


def wait_warm(listener: socket.socket, kernels: bool) -> None:
    """Load what tasks use, then be Spark's daemon as soon as it calls for one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-c is the command's to handle
    gc.disable()  # it would look at what is imported again and again, 0.2 s in all
    from pyspark import worker  # noqa: F401

    if kernels:
        from reput.udfs.warm import load_kernels

        load_kernels()
    gc.freeze()  # Spark collects after each task: 0.05 s without this
    gc.enable()
    ready, _, _ = select.select([listener, sys.stdin], [], [])
    if listener not in ready:
        return
    with listener, listener.accept()[0] as door:
        told, streams, _, _ = socket.recv_fds(door, 8, len(_STREAMS))
        length = int.from_bytes(told, "big")
        environment, sys.argv = json.loads(door.recv(length, socket.MSG_WAITALL))
        for stream, number in zip(streams, _STREAMS, strict=True):
            os.dup2(stream, number)
            os.close(stream)
        os.environ.clear()
        os.environ.update(environment)
        listener.close()
        _be_daemon()


def hand_over(environment: Mapping[str, str]) -> None:
    """Let the daemon that waits take our place; be one ourselves where none does."""
    try:
        with socket.socket(socket.AF_UNIX) as door:
            door.connect(environment[SOCKET])
            message = json.dumps([dict(environment), sys.argv]).encode()
            socket.send_fds(door, [len(message).to_bytes(8, "big")], _STREAMS)
            door.sendall(message)
            for stream in _STREAMS[:2]:
                os.close(stream)
            with suppress(ConnectionError):
                door.recv(1)  # until it ends
    except (KeyError, FileNotFoundError, ConnectionRefusedError):
        _be_daemon()


def _be_daemon() -> None:
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    if sys.argv[1] in (_WITH, _WITHOUT):
        wait_warm(socket.socket(fileno=int(sys.argv[2])), sys.argv[1] == _WITH)
    else:
        hand_over(os.environ)
