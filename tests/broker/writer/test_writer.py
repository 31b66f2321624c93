"""A writer's promises to its caller: what a batch may hold, what a put answers, how it ends."""

import os
import re
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reput.broker.writer.writer import AppendResult, CommitLogWriter
from reput.store_format.discover.sizes import SizeDisagrees
from reput.store_format.files.protocol import StoreInUse
from reput.store_format.layouts import SYS_TRANSACTION_PREPARED
from reput.store_format.message.message import Message
from reput.store_format.message.refusals import BatchIllegal, ForkedWriter
from reput.store_format.names import ABORT
from reput.store_format.release.settings import SettingError, writer_settings_from
from tests.broker.services.preparing import Transactions
from tests.broker.writer.stores import TINY, Clock, open_writer, settings, stored_records
from tests.faults.memory_files import MemoryFiles
from tests.pages import ROOT
from tests.trees import contents

SIZE = 91 + 1 + 9  # of each record


def message(queue_id: int = 0, topic: str = "T", **more: Any) -> Message:
    return Message(topic, b"123456789", queue_id, **{"properties": b"", **more})


def opened(files: MemoryFiles, **named: object) -> CommitLogWriter:
    return CommitLogWriter.open(
        "", settings(**named), clock=Clock(5000), files=files, background=False)  # fmt: skip


def test_a_put_is_answered_with_its_places() -> None:
    """MessageDecoder.createMessageId: address, int port, long offset; a batch has one for each."""
    host = bytes([10, 0, 0, 255]) + (10911).to_bytes(4, "big")
    result = AppendResult("PUT_OK", 255, 0, 300, 5000, host, (255, 1 << 33))
    assert result.message_id == "0A0000FF00002A9F00000000000000FF,0A0000FF00002A9F0000000200000000"
    with opened(MemoryFiles()) as writer:
        writer.append(message(1))
        done = writer.append_batch([message()] * 3)
        assert (done.status, done.queue_offset, done.size) == ("PUT_OK", 0, 3 * SIZE)
        assert (done.physical_offset, done.store_timestamp) == (SIZE, 5000)
        assert done.offsets == (SIZE, 2 * SIZE, 3 * SIZE)
        assert writer.append(message()).queue_offset == 3


@pytest.mark.parametrize(("messages", "why"), [
    ([], "no messages"), ([message(), message(topic="U")], "one topic and one queue"),
    ([message(0), message(1)], "one topic and one queue"),
    ([message(), message(delay_level=1, properties=None)], "no delayed message"),
    ([message(), message(transaction=SYS_TRANSACTION_PREPARED)], "no half message"),
    ([message(), message(wait=False)], "one WAIT"),
    ([message(), message(store_host="10.0.0.1:1")], "one store host")])  # fmt: skip
def test_a_batch_that_is_of_no_one_kind_leaves_the_log_alone(messages, why: str) -> None:
    with opened(MemoryFiles()) as writer:
        with pytest.raises(BatchIllegal, match=why):
            writer.append_batch(messages)
        assert (writer.log.end, writer.append(message()).queue_offset) == (0, 0)


def test_an_error_of_the_callers_own_is_a_clean_end_and_abandon_is_none() -> None:
    files = MemoryFiles()
    with suppress(KeyError), opened(files) as writer:
        writer.append(message())
        assert files.exists(ABORT)
        raise KeyError
    assert (files.exists(ABORT), files.locked) == (False, False)
    opened(files).abandon()
    assert (files.exists(ABORT), files.locked) == (True, False)


def test_an_open_that_fails_makes_nothing_and_lets_go_of_the_lock() -> None:
    files = MemoryFiles()
    with pytest.raises(SettingError, match="enableDLegerCommitLog"):
        opened(files, enableDLegerCommitLog="true")
    assert (files.ops, files.locked) == ([], False)
    files = MemoryFiles(fail=lambda op: op.path == ABORT)
    with pytest.raises(OSError, match=ABORT):
        opened(files)
    assert not files.locked


# --- A writer continues no file with another size than it has: the files show it, or it refuses.
def opened_sizes(root: Path, **named: object) -> CommitLogWriter:
    given = writer_settings_from({name: str(value) for name, value in named.items()})
    return CommitLogWriter.open(str(root), given, clock=Clock(), background=False)


def made(root: Path, messages: int = 60, **named: object) -> dict[str, bytes]:
    with opened_sizes(root, **(TINY | named)) as writer:
        write(writer, messages)
    return contents(root)


def write(writer: CommitLogWriter, messages: int, first: int = 0) -> None:
    for number in range(first, first + messages):
        writer.append(Message("T", bytes(50), keys=f"k{number}", unique_key=f"U{number:032}"))


@pytest.mark.parametrize("messages", [1, 5, 60, 19])
@pytest.mark.parametrize("crashed", [False, True])
def test_sizes_that_are_not_given_are_the_files(tmp_path, messages: int, crashed: bool) -> None:
    """Before, all index files were removed, and the last queue file grew to 6,000,000 bytes."""
    made(tmp_path / "a", messages)
    if crashed:
        (tmp_path / "a" / "abort").write_bytes(b"1")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with opened_sizes(tmp_path / "a") as writer:
        assert writer.sizes_found == TINY
        write(writer, 30, messages)
    with opened_sizes(tmp_path / "b", **TINY) as writer:
        assert writer.sizes_found == {}
        write(writer, 30, messages)
    assert {n: c for n, c in contents(tmp_path / "a").items() if n != "checkpoint"} == {
        n: c for n, c in contents(tmp_path / "b").items() if n != "checkpoint"}  # fmt: skip


def test_a_size_that_is_given_and_disagrees_is_refused(tmp_path: Path) -> None:
    before = made(tmp_path)
    for name, size in (("CommitLog", 8192), ("ConsumeQueue", 6_000_000)):
        name = f"mappedFileSize{name}"
        with pytest.raises(SizeDisagrees, match=f"(?s){size}.*--set {name}={TINY[name]}"):
            opened_sizes(tmp_path, **{name: size})
    assert contents(tmp_path) == before
    # 16 slots and 20 entries make the length of 21 and 19.
    (tmp_path := tmp_path / "1").mkdir()
    before = made(tmp_path, 3)
    with pytest.raises(SizeDisagrees, match=r"--set maxHashSlotNum=16 --set maxIndexNum=20"):
        opened_sizes(tmp_path, maxHashSlotNum=21, maxIndexNum=19)
    assert contents(tmp_path) == before
    (tmp_path := tmp_path / "2").mkdir()
    made(tmp_path)
    path = sorted((tmp_path / "consumequeue/T/0").iterdir())[1]
    path.write_bytes(path.read_bytes() + bytes(20))
    before = contents(tmp_path)
    with pytest.raises(SizeDisagrees, match=f"{path.name}: has 420 bytes"):
        opened_sizes(tmp_path)
    assert contents(tmp_path) == before


def test_what_the_content_does_not_tell_is_asked_for_but_defaults(tmp_path: Path) -> None:
    """A file without entries: messages without keys."""
    with opened_sizes(tmp_path, **TINY) as writer:
        writer.append(Message("T", b"x", properties=b""))
    before = contents(tmp_path)
    with pytest.raises(SettingError, match="content does not show them"):
        opened_sizes(tmp_path)
    assert contents(tmp_path) == before
    with opened_sizes(tmp_path, maxHashSlotNum=16, maxIndexNum=20) as writer:
        write(writer, 3)
    (tmp_path := tmp_path / "1").mkdir()
    given = {"mappedFileSizeCommitLog": 1 << 16}
    with opened_sizes(tmp_path, **given) as writer:
        write(writer, 3)
    with opened_sizes(tmp_path) as writer:
        assert writer.sizes_found == given
        write(writer, 3)


# --- What root's writer makes in a store belongs to the store's owner: its broker has to write it.
_OWNER = (12345, 12346)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_all_that_a_writer_makes_is_the_stores_owners(tmp_path: Path) -> None:
    """Also the folder index/, which another one takes the place of."""
    store = tmp_path / "store"
    store.mkdir(mode=0o750)
    os.chown(store, *_OWNER)
    for times in range(2):  # made, and reopened
        writer = open_writer(store)
        for number in range(40):
            writer.append(Message("T", bytes(300), keys=f"k{times}.{number}"))
        writer.dispatch()
        (writer.close if times else writer.abandon)()
        paths = [store, *store.rglob("*")]
        assert {p.name for p in paths} >= {"index", "commitlog", "lock", "checkpoint"}
        for path in paths:
            about = path.lstat()
            assert (about.st_uid, about.st_gid) == _OWNER, path
            assert not about.st_mode & 0o007, path


# --- The example of docs/writer.md runs as it stands.
PAGE = ROOT / "docs" / "writer.md"


def test_the_first_example_of_the_page_runs_as_it_stands(tmp_path: Path) -> None:
    example = re.search(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert example
    done = subprocess.run(
        [sys.executable, "-c", example[1]], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    by_table, record = stored_records(tmp_path / "store" / "commitlog")
    place = record.physical_offset
    assert done.stdout == f"PUT_OK {place} 0 7F00000100002A9F{place:016X}\n"
    assert (record.topic, record.queue_id, record.body) == ("Orders", 2, b"...")
    assert (by_table.topic, by_table.queue_id, by_table.body) == ("Orders", 0, b"...")


# --- A writer belongs to the process that opened it: a fork of that can neither write nor close.
Use = Callable[[CommitLogWriter], object]

USES: dict[str, Use] = {
    "append": lambda w: w.append(Message("T", b"x")),
    "append_batch": lambda w: w.append_batch([Message("T", b"x")]),
    "put": lambda w: w.put(w.encoder.draft(Message("T", b"x"))),
    "appending": lambda w: w.appending().__enter__(), "wait_durable": lambda w: w.wait_durable(1),
    "prepare": lambda w: Transactions(w).prepare(Message("T", b"x")), "flush": lambda w: w.flush(),
    "dispatch": lambda w: w.dispatch(), "keep_checkpoint": lambda w: w.keep_checkpoint(),
    "check_usable": lambda w: w.guard.check_usable(), "close": lambda w: w.close(),
    "abandon": lambda w: w.abandon(), "with": lambda w: w.__enter__(),
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


def in_use(root: Path) -> bool:
    try:
        open_writer(root)
    except StoreInUse:
        return True
    return False


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_fork_can_do_nothing_and_its_end_lets_go_of_nothing(tmp_path: Path, mode: str) -> None:
    """Before, both got PUT_OK for the same place, and one message was lost."""
    with open_writer(tmp_path, flushDiskType=mode, background=True) as writer:
        writer.append(Message("T", b"before"))
        with writer.appender.lock, writer.store._lock:  # as another thread may hold them
            for name, use in USES.items():
                assert in_a_fork(lambda use=use: refused(use, writer)), name
        assert in_a_fork(lambda: in_use(tmp_path))
        assert (tmp_path / "abort").exists()
        assert writer.append(Message("T", b"after")).status == "PUT_OK"
    assert [r.body for r in stored_records(tmp_path / "commitlog")] == [b"before", b"after"]
    assert not (tmp_path / "abort").exists()
