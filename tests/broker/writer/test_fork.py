"""A writer belongs to the process that opened it: a fork of that can neither write nor close."""

import multiprocessing
import os
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.files.protocol import StoreInUse
from reput.store_format.message.message import Message
from reput.store_format.message.refusals import ForkedWriter
from tests.broker.services.preparing import Transactions
from tests.broker.writer.stores import Clock, open_writer, stored_records

Use = Callable[[CommitLogWriter], object]

USES: dict[str, Use] = {"append": lambda w: w.append(Message("T", b"x")),
                        "append_batch": lambda w: w.append_batch([Message("T", b"x")]),
                        "put": lambda w: w.put(w.encoder.draft(Message("T", b"x"))),
                        "appending": lambda w: w.appending().__enter__(),
                        "wait_durable": lambda w: w.wait_durable(1),
                        "prepare": lambda w: Transactions(w).prepare(Message("T", b"x")),
                        "flush": lambda w: w.flush(), "dispatch": lambda w: w.dispatch(),
                        "keep_checkpoint": lambda w: w.keep_checkpoint(),
                        "check_usable": lambda w: w.guard.check_usable(),
                        "close": lambda w: w.close(), "abandon": lambda w: w.abandon(),
                        "with": lambda w: w.__enter__(),
                        "the end of with": lambda w: w.__exit__(None, None, None)}  # fmt: skip


def refused(use: Use, writer: CommitLogWriter) -> bool:
    try:
        use(writer)
    except ForkedWriter as error:
        return "\n" not in str(error)
    return False


def in_a_fork(work: Callable[[], bool]) -> bool:
    """Whether it was so in a forked child; one that hangs was not."""
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if work() else 1
        except BaseException:  # noqa: BLE001 - the parent is shown by the exit code
            traceback.print_exc()
        os._exit(code)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_fork_can_do_nothing_with_a_writer(tmp_path: Path, mode: str) -> None:
    """Before, both got PUT_OK for the same place, and one message was lost."""
    with open_writer(tmp_path, flushDiskType=mode, background=True) as writer:
        writer.append(Message("T", b"before"))
        with writer.appender.lock, writer.store._lock:  # as another thread may hold them
            for name, use in USES.items():
                assert in_a_fork(lambda use=use: refused(use, writer)), name
        assert writer.append(Message("T", b"after")).status == "PUT_OK"
    assert [r.body for r in stored_records(tmp_path / "commitlog")] == [b"before", b"after"]
    assert not (tmp_path / "abort").exists()


def test_a_forks_end_lets_go_of_nothing(tmp_path: Path) -> None:
    """Neither its way out of `with` nor its end flushes, closes or unlocks the parent's store."""
    with open_writer(tmp_path, Clock(), background=True) as writer:
        writer.append(Message("T", b"before"))

        def leave() -> bool:
            try:
                with writer.__class__.__enter__(writer):
                    return False
            except ForkedWriter:
                pass
            try:
                writer.__exit__(SystemExit, SystemExit(3), None)
            finally:
                opened = _opened_in_a_thread(tmp_path)
            return opened == ["StoreInUse"]

        assert in_a_fork(leave)
        assert (tmp_path / "abort").exists()
        assert in_a_fork(lambda: _opened_in_a_thread(tmp_path) == ["StoreInUse"])
        writer.append(Message("T", b"after"))
    assert len(list(stored_records(tmp_path / "commitlog"))) == 2


def _opened_in_a_thread(root: Path) -> list[str]:
    found: list[str] = []

    def work() -> None:
        try:
            open_writer(root)
            found.append("opened")
        except StoreInUse:
            found.append("StoreInUse")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    return found


def _child(writer: CommitLogWriter, reported: Connection) -> None:
    reported.send([name for name, use in USES.items() if not refused(use, writer)])


def test_multiprocessing_by_fork(tmp_path: Path) -> None:
    forking = multiprocessing.get_context("fork")
    with open_writer(tmp_path, background=True) as writer:
        writer.append(Message("T", b"before"))
        here, there = forking.Pipe()
        child = forking.Process(target=_child, args=(writer, there))
        child.start()
        assert here.poll(60)
        assert here.recv() == []
        child.join(60)
        assert child.exitcode == 0
        writer.append(Message("T", b"after"))
    assert len(list(stored_records(tmp_path / "commitlog"))) == 2
