"""Installing a set: refused where it does not fit, whole whatever happens, and undone."""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

from reput.broker.change.install import (
    DERIVED,
    NOTE,
    SetFile,
    clean_up,
    expired_queues,
    install,
    kept_name,
    last_offset,
    undo,
    unfinished,
)
from reput.jobs.cli import main
from reput.jobs.install import install_set, undo_install
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.disk import NotDurable
from reput.store_format.files.protocol import StoreInUse
from reput.store_format.layouts import BATCH_QUEUE_ENTRY, PRE_BLANK, QUEUE_ENTRY
from reput.store_format.message.message import Message
from reput.store_format.names import segment_name
from tests.broker.writer.stores import open_writer
from tests.faults.failing import FAILURES, fail_at, judge_all, numbers, same_again
from tests.faults.memory_files import Crash, MemoryFiles, crash_states
from tests.in_process import run
from tests.jobs.installing import derived, others, rebuilt, store
from tests.jobs.opening.writing import SETTINGS, Writing
from tests.trees import contents, flip

FIRST = segment_name(0)

__all__ = ["rebuilt", "store"]  # fixtures


def _list_in_shards(folder: Path) -> None:
    """Let a set's manifest list its queue files as that of a large set does."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    queues = [each for each in manifest["files"] if each["path"].startswith("consumequeue/")]
    assert len(queues) > 1
    manifest["files"] = [each for each in manifest["files"] if each not in queues]
    (folder / "manifest").mkdir()
    manifest["shards"] = []
    for number, some in enumerate((queues[:1], queues[1:])):
        raw = "".join(json.dumps(each) + "\n" for each in some).encode()
        name = f"manifest/{number:08d}.jsonl"
        (folder / name).write_bytes(raw)
        about = {"length": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
        manifest["shards"].append({"path": name, "files": len(some), **about})
    path.write_text(json.dumps({**manifest, "format": "reput-manifest-2"}))


@pytest.mark.parametrize("in_shards", [False, True])
def test_a_set_takes_the_place_of_the_stores_own_and_back(store, rebuilt, in_shards) -> None:
    if in_shards:
        _list_in_shards(rebuilt)
    old, rest, modes = derived(store), others(store), store.stat().st_mode
    wanted = derived(rebuilt)
    assert wanted != old
    done = install_set(str(store), str(rebuilt))
    assert done.done
    assert derived(store) == wanted
    assert derived(rebuilt) == wanted
    assert others(store) == rest
    assert store.stat().st_mode == modes
    assert derived(Path(kept_name(str(store)))) == old
    undone = undo_install(str(store))
    assert undone.done
    assert derived(store) == old
    assert others(store) == rest
    undo_install(str(store))  # and forward again
    assert derived(store) == wanted
    assert sorted(p.name for p in store.parent.iterdir()) == ["set", "store", "store.reput-old"]
    with open_writer(store, **SETTINGS) as writer:  # which goes on from there
        assert writer.append(Message("T1", b"x", 1)).queue_offset == 20


def test_nothing_changes_by_a_dry_run_or_while_a_broker_has_the_lock(store, rebuilt) -> None:
    def stamps() -> dict[str, tuple[int, int]]:
        found = {str(p): p.lstat() for p in store.parent.rglob("*")}
        return {path: (s.st_mtime_ns, s.st_ctime_ns) for path, s in found.items()}

    before = stamps()
    assert not install_set(str(store), str(rebuilt), dry_run=True).done
    assert stamps() == before
    broker = Writing(store)
    broker.append(0)
    there = derived(store)
    for dry_run in (True, False):
        with pytest.raises(StoreInUse, match=f"process {broker.process} holds its lock"):
            install_set(str(store), str(rebuilt), dry_run)
    assert derived(store) == there
    broker.stop()


def test_not_when_the_log_has_grown_and_not_back_either(store: Path, rebuilt: Path) -> None:
    install_set(str(store), str(rebuilt))
    with open_writer(store, **SETTINGS) as writer:
        at = writer.log.end
        writer.append(Message("T0", b"new"))
    with pytest.raises(StoreChanged, match="has grown"):
        undo_install(str(store))
    with pytest.raises(StoreChanged, match=f"has grown since the rebuild: a record stands at {at}"):
        install_set(str(store), str(rebuilt))


def test_not_a_set_of_another_store_and_not_what_is_none(store, rebuilt, tmp_path: Path) -> None:
    with open_writer(tmp_path / "other", **SETTINGS) as writer:
        for number in range(300):
            writer.append(Message("T0", bytes(33), keys=f"k{number}"))
    with pytest.raises(StoreError, match=r"it is a set of another store|log has grown"):
        install_set(str(tmp_path / "other"), str(rebuilt))
    (tmp_path / "no_set").mkdir()
    with pytest.raises(StoreError, match=r"manifest\.json: no such file"):
        install_set(str(store), str(tmp_path / "no_set"))
    with pytest.raises(StoreError, match="no set that an install has replaced"):
        undo_install(str(store))


def test_not_a_set_that_was_changed(store: Path, rebuilt: Path) -> None:
    (path,) = (rebuilt / "consumequeue" / "T0" / "0").iterdir()
    before = others(store.parent), derived(store)
    flip(path, 21)
    with pytest.raises(StoreChanged, match="is not the file that the manifest names"):
        install_set(str(store), str(rebuilt))
    assert sorted(p.name for p in store.parent.iterdir()) == ["set", "store"]
    assert derived(store) == before[1]
    path.unlink()
    with pytest.raises(StoreError, match=f"{path}: is missing, and manifest.json lists it"):
        install_set(str(store), str(rebuilt))


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_not_a_store_with_what_cannot_be_given_a_second_name(store, rebuilt, kind) -> None:
    if kind == "link":
        (store / "more").symlink_to("/tmp")
    else:
        os.mkfifo(store / "more")
    with pytest.raises(StoreError, match=r"more: is (a link|neither a file nor a folder)"):
        install_set(str(store), str(rebuilt))
    assert sorted(p.name for p in store.parent.iterdir()) == ["set", "store"]


def test_a_queue_whose_messages_have_expired_keeps_its_position(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with open_writer(root, **SETTINGS) as writer:
        for number in range(10):
            writer.append(Message("Idle", bytes(50), keys=f"i{number}"))
        while writer.log.end < (1 << 16) + 500:
            writer.append(Message("Busy", bytes(1000)))
    os.unlink(root / "commitlog" / f"{0:020d}")
    run(str(root), str(tmp_path / "set"), rocketmq="5.3.3", settings=SETTINGS)
    assert not (tmp_path / "set" / "consumequeue" / "Idle").exists()
    install_set(str(root), str(tmp_path / "set"))
    with open_writer(root, **SETTINGS) as writer:
        assert writer.append(Message("Idle", b"x")).queue_offset == 10


def test_entries_are_read_by_the_layout_of_their_folder() -> None:
    """A batch queue's are of 46 bytes; what fills a queue up to its first one is of no message."""
    files = MemoryFiles()
    batch = np.zeros(3, BATCH_QUEUE_ENTRY)
    batch["physicalOffset"][:2], batch["size"][:2], batch["baseOffset"] = (100, 900), 77, 1 << 40
    blank = PRE_BLANK.tobytes() * 4
    queue = blank + np.array((500, 77, 1 << 60), QUEUE_ENTRY).tobytes() + bytes(20)
    put(files, "", {
        f"batchconsumequeue/B/0/{FIRST}": batch.tobytes(),
        f"batchconsumequeue/C/0/{FIRST}": batch[:1].tobytes(),
        f"consumequeue/Q/0/{FIRST}": queue, f"consumequeue/Q/1/{FIRST}": blank + bytes(40),
        f"consumequeue/Q/2/{FIRST}": bytes(40)})  # fmt: skip
    assert last_offset(files, f"batchconsumequeue/B/0/{FIRST}") == 900
    assert last_offset(files, f"consumequeue/Q/0/{FIRST}") == 500
    assert last_offset(files, f"consumequeue/Q/1/{FIRST}") is None
    assert last_offset(files, f"consumequeue/Q/2/{FIRST}") is None
    # before 600 all of Q/0 and C/0 has expired, and of B/0 not; Q/1 and Q/2 never had a message
    assert expired_queues(files, "", set(), 600) == ["consumequeue/Q/0", "batchconsumequeue/C/0"]
    assert expired_queues(files, "", {"batchconsumequeue/C/0"}, 600) == ["consumequeue/Q/0"]


def test_the_command_asks(store: Path, rebuilt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = derived(store)
    assert main(["install", str(rebuilt), str(store)]) == 2
    assert "--yes does it" in capsys.readouterr().err
    assert derived(store) == old
    assert main(["install", str(rebuilt), str(store), "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["done"]
    assert derived(store) == derived(rebuilt)
    assert main(["install", "--undo", str(store), "--yes"]) == 0
    assert derived(store) == old
    assert "store.reput-old" in capsys.readouterr().out
    assert main(["install", str(store)]) == 2


# --- every state a crash may leave ----------------------------------------------------------
OLD = {"commitlog/0": b"log" * 900, "config/c.json": b"{}", "lock": b"lock", "abort": b"1",
       f"consumequeue/T/0/{FIRST}": b"old" * 400, f"consumequeue/U/1/{FIRST}": b"gone",
       "checkpoint": b"old", "index/20240101000000001": b"index" * 300}  # fmt: skip
NEW = {f"consumequeue/T/0/{FIRST}": b"new" * 400, f"consumequeue/V/0/{FIRST}": b"more" * 9,
       "checkpoint": b"new",
       "index/20240101000000002": b"INDEX" * 300, "index/20240101000000003": b""}  # fmt: skip


def put(files: MemoryFiles, root: str, tree: dict[str, bytes]) -> None:
    for path, content in tree.items():
        files.make_folder(f"{root}/{path}".rpartition("/")[0].strip("/"))
        file = files.create(f"{root}/{path}".strip("/"))
        file.write_at(0, content)


def below(files: MemoryFiles, root: str) -> dict[str, bytes]:
    return {p[len(root) + 1 :]: c for p, c in files.tree().items() if p.startswith(root + "/")}


class Step:
    """An installation over an earlier one's kept set, or its undoing."""

    def __init__(self, undoes: bool) -> None:
        self.undoes, self.source = undoes, MemoryFiles()
        put(self.source, "", NEW)
        self.wanted = [SetFile(path, len(content), hashlib.sha256(content).hexdigest())
                       for path, content in NEW.items()]  # fmt: skip
        files = MemoryFiles()
        put(files, "s", OLD)
        if undoes:
            self.work(files, install_only=True)
        else:
            put(files, "s.reput-old", {"consumequeue/older": b"older", "reput-install.json": b"{}"})
        files.ops = []
        self.before = files
        self.old = below(files, "s")
        after = same_again(self.before)
        self.work(after)
        self.new, self.after = below(after, "s"), after
        rest = {p: c for p, c in OLD.items() if p.split("/")[0] not in DERIVED}
        assert self.new == ({**OLD} if undoes else {**rest, **NEW})
        self.kept = self.kept_in(after)
        assert self.kept == {p: c for p, c in self.old.items() if p.split("/")[0] in DERIVED}

    def work(self, files: MemoryFiles, install_only: bool = False) -> None:
        if self.undoes and not install_only:
            undo(files, "s", "b", {})
        else:
            install(files, "s", "a", {}, self.source, self.wanted, 0)

    @staticmethod
    def kept_in(files: MemoryFiles) -> dict[str, bytes]:
        kept = below(files, "s.reput-old")
        kept.pop("reput-install.json", None)
        return kept

    def judge(self, crash: Crash) -> str:
        """One store or the other, whole; then the next run finishes, and can go on."""
        files = crash.files
        found = below(files, "s")
        assert found in (self.old, self.new), sorted(found)
        clean_up(files, "s")
        assert below(files, "s") == found
        assert unfinished(files, "s") == []
        if found == self.new:
            assert self.kept_in(files) == self.kept
            return "new"
        self.work(files)
        assert below(files, "s") == self.new
        assert self.kept_in(files) == self.kept
        return "old"


@pytest.fixture(scope="module", params=[False, True], ids=["install", "undo"])
def step(request: pytest.FixtureRequest) -> Step:
    return Step(request.param)


@pytest.mark.parametrize("mixtures", [2, pytest.param(60, marks=pytest.mark.long)])
def test_a_crash_leaves_one_store_or_the_other(step: Step, mixtures: int) -> None:
    ops = step.after.ops
    seen = judge_all(crash_states(step.before, ops, 1, mixtures), ops, step.judge)
    print(f"{len(ops)} operations, {seen}")
    assert min(seen["old"], seen["new"]) > 20


def test_a_crash_while_cleaning_up_changes_nothing_of_that(step: Step) -> None:
    checked = 0
    firsts = list(crash_states(step.before, step.after.ops, 2, 1))
    for crash in firsts[:: max(len(firsts) // 12, 1)]:
        crash.files.ops = []
        before = same_again(crash.files)
        clean_up(crash.files, "s")
        for again in crash_states(before, crash.files.ops, 3, 1):
            step.judge(Crash(crash.after, again.how, again.files))
            checked += 1
    print(f"{checked} states")
    assert checked > 50


def test_what_a_killed_run_exchanged_is_durable_before_anything_goes(step: Step) -> None:
    """The next run goes on from names that no disk has yet, and power goes there."""
    number = next(n for n, op in enumerate(step.after.ops, 1) if op.kind == "exchange")
    states = crash_states(step.before, step.after.ops[:number], 1, 0)
    files = next(each.files for each in states if (each.after, each.how) == (number, "killed"))
    clean_up(files, "s")
    ops = [*step.after.ops[:number], *files.ops]
    some = (each for each in crash_states(step.before, ops, 1, 4) if each.after > number)
    assert judge_all(some, ops, step.judge)["new"] > 20


@pytest.mark.parametrize("how", FAILURES)
@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for ever"])
def test_an_operation_that_fails(step: Step, how: str, for_ever: bool) -> None:
    failure = FAILURES[how]
    for number in numbers(step.after.ops, failure):
        files = same_again(step.before)
        fail_at(files, number, failure, for_ever)
        with pytest.raises(OSError) as failed:
            step.work(files)
        assert failed.value.errno == failure.error
        files.fail = lambda op: False
        if isinstance(failed.value, NotDurable):
            for crash in crash_states(step.before, files.ops, 4, 2, every=len(files.ops)):
                assert below(crash.files, "s") in (step.old, step.new)
        step.judge(Crash(number, "failed", files))


SHAPES = {
    "store": (None, 5, [], "a\0b"), "rocketmq": (None, 5, {}, "9.9.9"),
    "settings": (None, 5, "x", [], {"maxIndexNum": None}, {"maxIndexNum": []}, {"none": 1}),
    "log_start": (None, "x", -1, True, 2**70), "log_end": (None, "x", -1, 1.5, 2**70),
    "inputs": (None, 5, "x", [1], {"a": 1}, [{}], [{"path": 5, "mtime_ns": 1}],
               [{"path": "x", "mtime_ns": 1}], [{"path": "0" * 20, "mtime_ns": "x"}])}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_a_manifest_or_a_note_of_another_shape_is_named(store, rebuilt, name, capsys) -> None:
    install_set(str(store), str(rebuilt))
    manifest, note = rebuilt / "manifest.json", store.parent / "store.reput-old" / NOTE
    before = contents(store)
    for path, words in ((manifest, ["install", str(rebuilt), str(store), "--yes"]),
                        (note, ["install", "--undo", str(store), "--yes"])):  # fmt: skip
        good = json.loads(path.read_text())
        for wrong in SHAPES[name]:
            path.write_text(json.dumps({**good, name: wrong}))
            capsys.readouterr()
            assert main(words) == 2, wrong
            said = capsys.readouterr().err
            assert said.startswith("reput: error: "), said
            assert said.count("\n") == 1
            assert contents(store) == before
        path.write_text(json.dumps(good))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"files": []}, "lists no whole set"),
        ({"format": "reput-repair-1"}, "start a broker on it, in place of the old store"),
        ({"format": "reput-convert-1"}, "start a broker on it, in place of the old store"),
    ],
)
def test_what_is_no_whole_set_takes_the_place_of_none(store, rebuilt, change, said) -> None:
    """An empty list of files took all queues and the index away."""
    old = derived(store)
    manifest = rebuilt / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **change}))
    with pytest.raises(StoreError, match=said):
        install_set(str(store), str(rebuilt))
    assert derived(store) == old


def test_a_second_install_says_that_the_set_kept_before_goes(store: Path, rebuilt: Path) -> None:
    asked: list[str] = []
    assert "replaced" not in install_set(str(store), str(rebuilt), confirm=asked.append).text()
    again = install_set(str(store), str(rebuilt), confirm=asked.append)
    assert "  replaced  the set that an earlier install kept there, which is gone" in again.text()
    assert asked[1].endswith(f", and remove {store}.reput-old")
