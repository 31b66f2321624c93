"""recover: RocketMQ's own files on its own crashed stores, and nothing on a sound one."""

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from reput.broker.change.expire import StagedFile, apply
from reput.broker.writer.recovery import LogEnd, LogRecovery
from reput.jobs import cli
from reput.jobs.engines.engine import Engine
from reput.jobs.expire import expire
from reput.jobs.recover import recover
from reput.store_format.derived.checkpoint import Checkpoint, decode
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import StoreError
from reput.store_format.files.protocol import StoreInUse
from reput.store_format.message.message import Message
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from tests import golden_stores
from tests.broker.writer.crashes import open_memory
from tests.broker.writer.stores import Clock, open_writer, settings
from tests.built import Built
from tests.faults.failing import FAILURES, fail_at, judge_all, numbers, same_again
from tests.faults.memory_files import Crash, MemoryFiles, crash_states
from tests.in_process import as_text
from tests.jobs.opening.writing import SETTINGS, Writing
from tests.jobs.recovering import crash, made, run
from tests.rocketmq.judge import difference
from tests.trees import flip, states, write_over

TAILS = ("torn_tail_5.3.3", "bad_magic_tail_5.3.3", "garbage_tail_5.3.3", "continued_5.3.3")


@pytest.mark.parametrize("name", TAILS)
def test_a_bad_tail_becomes_what_rocketmq_makes_of_it(name: str, tmp_path: Path) -> None:
    store, golden = golden_stores.whole(name, tmp_path, ())
    before = {int(p.name): p.read_bytes() for p in (store / "commitlog").iterdir()}
    (store / "abort").write_bytes(b"")
    about = run(store, golden.version, golden.settings)
    assert about.done
    assert about.crashed
    assert difference(store, golden.expect) is None
    end = about.log_end
    # RocketMQ's own log up to its end, and nothing after it
    for path in (store / "commitlog").iterdir():
        start, content = int(path.name), path.read_bytes()
        theirs = golden.expect / "commitlog" / path.name
        known = theirs.read_bytes() if theirs.exists() else before[start]
        keep = max(end - start, 0)
        assert content[:keep] == known[:keep]
        assert not any(content[keep:])
    # what was cut is kept, every byte
    kept = {p.name: p.read_bytes() for p in (store / "reput-cut").iterdir()}
    assert about.cut_bytes == sum(len(c.rstrip(b"\0")) for c in kept.values()) > 0
    for name_, content in kept.items():
        at = int(name_.split(".")[0])
        start = max(s for s in before if s <= at)
        assert before[start][at - start :].rstrip(b"\0") == content.rstrip(b"\0")
    assert not (store / "abort").exists()
    assert decode((store / "checkpoint").read_bytes()).physic_msg_timestamp > 0
    # once more: nothing is left to do
    state = states(store)
    assert not run(store, golden.version, golden.settings).needed
    assert states(store) == state


def test_on_an_engine(engine: Engine, tmp_path: Path) -> None:
    store, golden = golden_stores.whole("torn_tail_5.3.3", tmp_path)
    (store / "abort").write_bytes(b"")
    (wrong,) = list((store / "consumequeue").rglob("0" * 20))[:1]
    wrong.unlink()
    settings = as_text(golden.settings)
    about = recover(engine, str(store), rocketmq=golden.version, settings=settings)
    assert about.written == [str(wrong.relative_to(store))]
    assert difference(store, golden.expect) is None
    assert not recover(engine, str(store), rocketmq=golden.version, settings=settings).needed


@pytest.mark.parametrize("name", ["mixed_5.3.3", "expired_5.3.3", "lmq_batch_5.3.3"])
def test_nothing_of_a_sound_store_changes(name: str, tmp_path: Path) -> None:
    store, golden = golden_stores.whole(name, tmp_path)
    shutil.copy(golden.expect / "checkpoint", store / "checkpoint")
    for lock in (False, True):
        if lock:
            (store / "lock").write_bytes(b"lock")
        before = states(tmp_path)
        for dry_run in (True, False):
            about = run(store, golden.version, golden.settings, dry_run=dry_run)
            assert not about.needed, about
            assert not about.done
        assert states(tmp_path) == before


def test_nothing_of_a_store_whose_first_messages_have_expired_changes(tmp_path: Path) -> None:
    """Queues keep the entries of what is gone, and index files are cut otherwise than ours."""
    store = tmp_path / "store"
    with open_writer(store, **SETTINGS) as writer:
        for number in range(30):
            writer.append(Message("Idle", b"b" * 60, keys=f"i{number}"))
        for number in range(1300):
            writer.append(Message(f"T{number % 2}", b"b" * 60, number % 3, keys=f"k{number}"))
    (store / "commitlog" / f"{0:020d}").unlink()
    before = states(store)
    assert not run(store).needed
    assert states(store) == before
    # what is wrong behind them is still seen
    (first,) = (p for p in (store / "consumequeue" / "T0" / "0").iterdir() if p.name == "0" * 20)
    write_over(first, -20, bytes(20))
    crash(store)
    about = run(store)
    assert about.written == [str(first.relative_to(store))]
    assert about.removed == []
    with open_writer(store, **SETTINGS) as writer:
        assert writer.append(Message("Idle", b"x")).queue_offset == 30


def test_only_what_is_behind_or_wrong_is_written(tmp_path: Path) -> None:
    store = made(tmp_path / "store")
    good = {p: c for p, c in states(store).items() if "/consumequeue/" in p or "/index/" in p}
    contents = {p: Path(p).read_bytes() for p in good if Path(p).is_file()}
    queues = sorted((store / "consumequeue" / "T0").rglob("0*0"))
    wrong, gone = (p for p in queues if p.is_file() and p.name == "0" * 20 and p.parent.name != "1")
    flip(wrong, 25)
    gone.unlink()
    extra = store / "consumequeue" / "T1" / "1" / f"{200_000:020d}"
    extra.write_bytes(b"\1" * 2000)
    newest = sorted((store / "index").iterdir())[-1]
    newest.unlink()  # as RocketMQ does after a crash
    crash(store)
    about = run(store)
    assert sorted(about.written[:2]) == sorted(str(p.relative_to(store)) for p in (wrong, gone))
    assert len(about.written) == 3
    assert about.removed == [str(extra.relative_to(store))]
    assert not about.cut_bytes
    after = states(store)
    for path, state in good.items():
        if path not in (str(wrong), str(gone), str(newest)) and Path(path).is_file():
            assert after[path] == state
    for path, content_ in contents.items():
        if path != str(newest):
            assert Path(path).read_bytes() == content_
    assert len(list((store / "index").iterdir())) == len([p for p in contents if "/index/" in p])


def test_a_record_that_lost_a_sector_of_its_properties_is_cut(tmp_path: Path) -> None:
    """Its lengths add up and its body's CRC is right: RocketMQ takes it, with wrong keys."""
    store = tmp_path / "store"
    with open_writer(store, **SETTINGS) as writer:
        for number in range(9):
            writer.append(Message("T", b"b" * 60, keys=f"k{number}"))
        at = writer.append(
            Message("T", b"b" * 10, properties={"p": "v" * 1500}, keys="k")
        ).physical_offset
        end = writer.log.end
    with (store / "commitlog" / f"{0:020d}").open("r+b") as file:
        sector = (end - 600) // 512 * 512
        assert sector > at + 200
        file.seek(sector)
        file.write(bytes(512))
    (store / "checkpoint").write_bytes(bytes(4096))
    crash(store)
    about = run(store)
    assert about.log_end == at
    assert (store / "reput-cut" / f"{at:020d}").read_bytes()[:4] != bytes(4)


def test_not_while_a_broker_has_the_lock(tmp_path: Path) -> None:
    broker = Writing(tmp_path / "store")
    broker.append(9)
    for dry_run in (False, True):
        with pytest.raises(StoreInUse):
            run(tmp_path / "store", dry_run=dry_run)
    broker.stop()
    assert not run(tmp_path / "store").needed


def test_a_last_segment_that_lacks_its_length(tmp_path: Path) -> None:
    store = made(tmp_path / "store", 50)
    segment = store / "commitlog" / f"{0:020d}"
    os.truncate(segment, (1 << 16) - 9000)
    crash(store)
    with pytest.raises(StoreError, match="a crash left it unfinished"):
        run(store, dry_run=True)
    asked: list[str] = []
    assert run(store, confirm=asked.append).done
    assert "extend" in asked[0]
    assert segment.stat().st_size == 1 << 16
    assert not run(store).needed


def test_a_dry_run_says_what_would_be_done_and_a_killed_one_s_staging_goes(tmp_path: Path) -> None:
    store = made(tmp_path / "store", 50)
    shutil.rmtree(store / "consumequeue" / "T1")
    crash(store)
    before = states(store)
    about = run(store, dry_run=True)
    assert about.needed
    assert not about.done
    assert len(about.written) == 3
    assert "would recover" in about.text()
    assert states(store) == before
    store = made(tmp_path / "store", 50)
    left = store / f".reput-recover-{'0' * 32}"
    left.mkdir()
    (left / "queue-x").write_bytes(b"x")
    crash(store)
    run(store)
    assert not [name for name in os.listdir(store) if name.startswith(".")]


# --- every state that a crash of recovery itself may leave -----------------------------------
class Recovery:
    """The steps of one recovery on files in memory: a log with a torn tail, and derived files."""

    SEGMENT = 2048
    WANTED = {"consumequeue/T/0/0": b"right" * 300, "consumequeue/U/0/0": b"new" * 100}

    def __init__(self, segments_cut: int) -> None:
        whole = MemoryFiles()
        writer = open_memory(whole, settings(mappedFileSizeCommitLog=self.SEGMENT), Clock())
        ends = [0]
        for number in range(24):
            writer.append(Message("T", b"b" * 40, number % 2, keys=f"k{number}"))
            ends.append(writer.log.end)
        writer.close()
        self.rules = scan_rules(profile("5.3.3"), settings_from({}), ())
        self.sound = whole
        self.end = next(
            end for end in reversed(ends) if end < ends[-1] - segments_cut * self.SEGMENT
        )
        files = MemoryFiles()
        for path, content in whole.tree().items():
            if path.startswith("commitlog/"):
                files.make_folder("commitlog")
                start = int(path.partition("/")[2])
                if start <= self.end < start + self.SEGMENT:  # the record there is torn
                    at = self.end - start
                    content = content[:at] + b"\0\0\0\x70torn" + content[at + 8 :]
                files.create(path).write_at(0, content)
        for path, content in (
            ("abort", b"1"), ("checkpoint", bytes(4096)), ("consumequeue/T/0/0", b"wrong"),
            ("consumequeue/T/9/0", b"extra"), ("lock", b"lock")):  # fmt: skip
            if "/" in path:
                files.make_folder(path.rpartition("/")[0])
            files.create(path).write_at(0, content)
        files.ops = []
        self.before = files
        self.log = {p: c for p, c in files.tree().items() if p.startswith("commitlog/")}
        after = same_again(self.before)
        self.work(after)
        self.after = after
        self.done = self.result(after)
        assert "abort" not in self.done
        assert self.done["consumequeue/T/0/0"] == b"right" * 300

    def work(self, files: MemoryFiles) -> None:
        """As a run of the command does it: what is right already is not written again."""
        log = LogRecovery(files, self.SEGMENT, self.rules, Checkpoint())
        for name in files.names(""):
            if name.startswith(".stage"):
                for file in files.names(name):
                    files.remove(f"{name}/{file}")
                files.remove(name)
        files.add_folder(".stage")
        placed = []
        for number, (path, content) in enumerate(self.WANTED.items()):
            if files.tree().get(path) != content:
                files.create(f".stage/{number}").write_at(0, content)
                placed.append(StagedFile(f".stage/{number}", path))
        removed = [p for p in ("consumequeue/T/9/0",) if files.exists(p)]
        end = LogEnd(0, self.end, 0)
        apply(files, log, end, placed, removed, b"clean".ljust(4096, b"\0"), b"2", lambda: None)

    @staticmethod
    def result(files: MemoryFiles) -> dict[str, bytes]:
        return {p: c for p, c in files.tree().items() if p[0] != "." and "reput-cut" not in p}

    def judge(self, crash: Crash) -> str:
        files = crash.files
        clean = not files.exists("abort")
        if clean:  # then all of it is done, and durable
            assert self.result(files) == self.done
        self.nothing_is_lost(files)
        # a broker that starts now meets no file that is neither the old one nor the new
        for path, content in self.WANTED.items():
            assert files.tree().get(path) in (self.before.tree().get(path), content), path
        if not clean:
            self.work(files)
            assert self.result(files) == self.done
            self.nothing_is_lost(files)
        return "done" if clean else "crashed"

    def nothing_is_lost(self, files: MemoryFiles) -> None:
        """Every byte of the log as it was stands in the log, or in what was cut and kept."""
        there = files.tree()
        kept = [
            (int(p.rpartition("/")[2].split(".")[0]), c)
            for p, c in there.items() if p.startswith("reput-cut/") and not p.endswith(".part")
        ]  # fmt: skip
        for path, content in self.log.items():
            start = int(path.partition("/")[2])
            now = there.get(path, b"")
            if now == content:
                continue
            again = bytearray(now.ljust(len(content), b"\0"))
            for at, part in kept:
                stands = again[at - start : at - start + len(part)]
                within = start <= at < start + len(content)
                # cut, wholly or in part
                if within and _is_part_of(stands, part[: len(stands)]):
                    again[at - start : at - start + len(part)] = part
            assert bytes(again) == content, path
        prefix = b"".join(c for p, c in sorted(there.items()) if p.startswith("commitlog/"))
        whole = b"".join(c for _, c in sorted(self.log.items()))
        assert prefix[: self.end] == whole[: self.end]


def _is_part_of(stands: bytes, whole: bytes) -> bool:
    """Whether each byte is that of the whole, or 0."""
    left = np.frombuffer(stands, np.uint8)
    return bool(((left == 0) | (left == np.frombuffer(whole, np.uint8)[: len(left)])).all())


@pytest.fixture(scope="module", params=[0, 2], ids=["tail", "segments"])
def recovery(request: pytest.FixtureRequest) -> Recovery:
    return Recovery(request.param)


@pytest.mark.parametrize("mixtures", [2, pytest.param(20, marks=pytest.mark.long)])
def test_a_crash_of_recovery_at_any_step(recovery: Recovery, mixtures: int) -> None:
    ops = recovery.after.ops
    seen = judge_all(crash_states(recovery.before, ops, 5, mixtures), ops, recovery.judge)
    print(f"{len(ops)} operations, {seen}")
    assert seen["crashed"] > 50
    assert seen["done"] > 3


@pytest.mark.parametrize("every", [9, pytest.param(4, marks=pytest.mark.long)])
def test_a_crash_of_the_recovery_after_a_crash(recovery: Recovery, every: int) -> None:
    checked = 0
    for state in list(crash_states(recovery.before, recovery.after.ops, 6, 1))[::every]:
        if not state.files.exists("abort"):
            continue
        state.files.ops = []
        before = same_again(state.files)
        recovery.work(state.files)
        for again in crash_states(before, state.files.ops, 7, 1):
            recovery.judge(Crash(state.after, again.how, again.files))
            checked += 1
    print(f"{checked} states")
    assert checked > 300


@pytest.mark.parametrize("how", FAILURES)
@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for ever"])
def test_an_operation_of_recovery_that_fails(recovery: Recovery, how: str, for_ever: bool) -> None:
    failure = FAILURES[how]
    for number in numbers(recovery.after.ops, failure):
        files = same_again(recovery.before)
        fail_at(files, number, failure, for_ever)
        with pytest.raises(OSError) as found:
            recovery.work(files)
        assert found.value.errno == failure.error
        files.fail = lambda op: False
        recovery.judge(Crash(number, "failed", same_again(files)))
        for state in crash_states(recovery.before, files.ops, 8, 1, every=max(len(files.ops), 1)):
            recovery.judge(state)


def test_the_stores_own_log_may_be_named(tmp_path: Path) -> None:
    """Most templates of a broker.conf have storePathCommitLog=STORE/commitlog."""
    store, golden = golden_stores.whole("torn_tail_5.3.3", tmp_path)
    (store / "abort").write_bytes(b"")
    (tmp_path / "link").symlink_to(store)
    named = {"storePathCommitLog": f"{tmp_path}/link/commitlog/"}
    assert run(store, golden.version, {**golden.settings, **named}).done
    with pytest.raises(
        StoreError, match=r"/elsewhere: no such folder; .* leave storePathCommitLog"
    ):
        run(store, golden.version, {**golden.settings, "storePathCommitLog": "/elsewhere"})


def test_a_queue_file_that_is_a_link_is_read_and_not_replaced(tmp_path: Path) -> None:
    """What it leads to may be on a disk that the operator has chosen."""
    store, golden = golden_stores.whole("torn_tail_5.3.3", tmp_path)
    run(store, golden.version, golden.settings)
    path = next(each for each in (store / "consumequeue").rglob("0*0") if each.is_file())
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert not run(store, golden.version, golden.settings).needed
    (tmp_path / "elsewhere").write_bytes(bytes((tmp_path / "elsewhere").stat().st_size))
    with pytest.raises(StoreError, match=f"/{path.name}: is a link, and must be written anew"):
        run(store, golden.version, golden.settings)


def spread(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A store of many segments, every other one on a second disk; what its broker's file says."""
    store, other = tmp_path / "store", tmp_path / "disk2" / "commitlog"
    other.mkdir(parents=True)
    with open_writer(store, **SETTINGS) as writer:
        for number in range(1500):
            writer.append(Message("T", bytes(60), number % 3, keys=f"k{number}"))
    for path in sorted((store / "commitlog").iterdir())[1::2]:
        path.rename(other / path.name)
    (other / "lost+found").mkdir()
    return store, {**SETTINGS, "storePathCommitLog": f"{store}/commitlog,{other}"}


@pytest.mark.parametrize("apart", [True, False])
def test_a_log_on_several_disks_is_recovered_where_it_lies(apart, tmp_path, monkeypatch) -> None:
    """MultiPathMappedFileQueue. apart: whether the disks are two file systems."""
    store, given = spread(tmp_path)
    folders = [store / "commitlog", tmp_path / "disk2" / "commitlog"]
    log = sorted((path for each in folders for path in each.glob("0*")), key=lambda p: p.name)
    damaged, behind = log[2], log[3:]
    content = bytearray(damaged.read_bytes())
    content[30_000:] = b"\xff" * (len(content) - 30_000)
    damaged.write_bytes(content)
    (store / "abort").write_bytes(b"1")
    plain = os.rename

    def rename(source: str, to: str) -> None:
        if apart and "disk2" in source and "reput-cut" in to:
            raise OSError(errno.EXDEV, "another disk", source)
        plain(source, to)

    monkeypatch.setattr(os, "rename", rename)
    about = run(store, settings=given, on_damage="truncate")
    assert about.done
    assert not any(path.exists() for path in behind)
    assert not any(damaged.read_bytes()[about.log_end - int(damaged.name) :])
    kept = sum(len(p.read_bytes().rstrip(b"\0")) for p in (store / "reput-cut").iterdir())
    assert kept == about.cut_bytes
    assert not run(store, settings=given).needed


def test_what_expires_goes_on_each_disk(tmp_path: Path) -> None:
    store, given = spread(tmp_path)
    other = tmp_path / "disk2" / "commitlog"
    for path in [*(store / "commitlog").iterdir(), *other.glob("0*")]:
        os.utime(path, (1e9, 1e9))
    about = expire(str(store), rocketmq="5.3.3", settings=given, any_hour=True)
    assert about.done
    assert len(about.segments) > 2
    left = [*(store / "commitlog").iterdir(), *other.glob("0*")]
    assert [int(path.name) for path in left] == [about.log_start]
    assert not run(store, settings=given).needed


def test_what_keeps_a_broker_from_its_start_is_said_also_where_nothing_is_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], commands_in_process: None
) -> None:
    built = Built().put(count=9).derive().file("commitlog/.DS_Store", "x")
    for name in ("topics.json", "topics.json.bak"):
        built.file(f"config/{name}", bytes(20))
    store = str(built.write(tmp_path / "store"))
    given = [word for name, value in built.given().items() for word in ("--set", f"{name}={value}")]
    for code in (1, 1):  # the first writes a checkpoint
        assert cli.main(["recover", store, "--yes", "--rocketmq", "5.3.3", *given]) == code
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in said[-2:]] == [["next", "move"], ["next", "restore"]]
