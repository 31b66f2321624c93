"""The steps of a recovery: in which order they reach the disk."""

from reput.broker.change.expire import CUT, StagedFile, apply
from reput.broker.writer.recovery import LogRecovery
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import Settings
from tests.faults.memory_files import MemoryFiles
from tests.logs import Message, build_log

SEGMENT = 1024
QUEUE = "consumequeue/T/0/00000000000000000000"


def a_store(stale: bytes = b"") -> tuple[MemoryFiles, LogRecovery]:
    """One record, bytes behind the zeros after it, an old queue and a staged new one."""
    files = MemoryFiles()
    log = bytearray(build_log([Message(body=b"body")], SEGMENT)[0])
    log[500 : 500 + len(stale)] = stale
    content = {"commitlog/00000000000000000000": bytes(log), "checkpoint": b"old",
               "consumequeue/old": b"old", "staging/1": b"new"}  # fmt: skip
    for path, raw in content.items():
        files.make_folder(path.rpartition("/")[0])
        files.create(path).write_at(0, raw)
    files.ops.clear()
    return files, LogRecovery(files, SEGMENT, scan_rules(profile("5.3.3"), Settings(), ()), None)


def recover(files: MemoryFiles, log: LogRecovery, *placed: StagedFile, removed: str = "") -> None:
    apply(files, log, log.find_end(), placed, [removed] if removed else [], b"new", b"4711",
          lambda: None)  # fmt: skip


def content(files: MemoryFiles, path: str) -> bytes:
    return bytes(files.contents[files.names_of[path]])


def steps(files: MemoryFiles) -> list[str]:
    return [f"{op.kind} {op.path}" for op in files.ops]


def test_abort_is_there_first_and_last_and_the_store_has_a_clean_stop() -> None:
    files, log = a_store()
    recover(files, log, StagedFile("staging/1", QUEUE), removed="consumequeue/old")
    assert content(files, QUEUE) == b"new"
    assert content(files, "checkpoint") == b"new"
    assert not any(map(files.exists, ("abort", "staging/1", "consumequeue/old")))
    files, log = a_store()
    recover(files, log, StagedFile("staging/1", QUEUE), removed="consumequeue/old")
    done = steps(files)
    assert done[:4] == ["create abort", "write abort", "sync abort", "sync folder "]
    assert done[-2:] == ["remove abort", "sync folder "]
    assert files.ops[1].data == b"4711"
    files, log = a_store()
    files.create("abort").write_at(0, b"1")
    files.ops.clear()
    recover(files, log)
    assert [step for step in steps(files) if step.endswith("abort")] == ["remove abort"]


def test_files_are_durable_before_their_names_and_what_is_cut_off_is_kept() -> None:
    files, log = a_store()
    recover(files, log, StagedFile("staging/1", QUEUE))
    done = steps(files)
    named = done.index("rename staging/1")
    replaced = done.index("rename checkpoint.part")
    assert [step for step in done[:named] if step.startswith("sync all")] == ["sync all "]
    assert "sync all " in done[named:replaced]
    assert done[replaced:] == [
        "rename checkpoint.part", "sync folder ", "remove abort", "sync folder "]  # fmt: skip
    files, log = a_store(stale=b"stale")
    recover(files, log)
    assert not any(content(files, "commitlog/00000000000000000000")[500:])
    kept = [path for path in files.names_of if path.startswith(f"{CUT}/")]
    assert any(b"stale" in content(files, path) for path in kept)
