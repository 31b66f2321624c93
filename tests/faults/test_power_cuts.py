"""The power is cut at any step of any command that writes: run again, it ends as if it never was.

And what a command has done when it ends is durable: it stays though power goes at that moment."""

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reput.jobs import cli
from reput.store_format.files.catalogue import Catalogue, stores_of
from reput.store_format.files.frames import decode_all
from reput.store_format.files.local import LocalStorage
from tests.attack.works import GIVEN, WORKS, make, run
from tests.broker.services.stores import T0
from tests.faults.memory_files import Crash, MemoryFiles, Op, crash_states
from tests.faults.power import Recorded, put, recorded, same_inodes
from tests.jobs.sources.reading import table
from tests.seeds import seeds

# Commands that leave all files as they are, but for their own staging or a page for people.
READ_ONLY = {
    "check", "verify", "compare", "topics", "queues", "groups", "stats", "query", "trace",
    "transactions", "delayed", "dump", "serve", "demo", "doctor", "warm", "completion",
    "backups", "metrics",
    "send",  # its checkpoint: tests/jobs/sending/test_sender.py
    "clean",  # removes what no command reads again
}  # fmt: skip
OUTPUTS = ("made", "page.html")  # are whole, or not there
# Stores that are written to record by record, where clocks differ: their messages are compared.
BY_MESSAGES = {"append": "store", "deliver-delayed": "store", "resolve-transactions": "store",
               "export": "made"}  # fmt: skip
# What tells the time of a run, or who held a store.
_OF_A_RUN = ("checkpoint", "manifest.json", "reput-catch-up.json", "reput-replica.json",
           "reput-install.json", "page.html")  # fmt: skip
FEW = {"append": 8, "catch-up": 12}  # states of a quick test; by default all
Row = tuple[str, int, bytes]


def test_each_command_that_writes_is_here() -> None:
    assert {words[0] for words in WORKS.values()} == cli._COMMANDS.keys() - READ_ONLY


def test_a_sector_is_as_one_of_the_writes_to_it_left_it() -> None:
    """A disk gets it whole, with all that was written to it by then, such as a BLANK's record."""
    files = MemoryFiles()
    file = files.create("log")
    file.write_at(0, b"a" * 700)
    file.write_at(700, b"b")
    ends = crash_states(MemoryFiles(), files.ops, 1, 64, every=len(files.ops))
    second = {crash.files.tree().get("log", b"")[512:] for crash in ends}
    assert {raw.strip(b"\0") for raw in second} == {b"", b"a" * 188, b"a" * 188 + b"b"}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    make(folder)
    return folder


@pytest.fixture
def top(
    tmp_path: Path, commands_in_process: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The disk whose power is cut."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "disk").mkdir()
    return tmp_path / "disk"


def messages(store: Path) -> list[Row]:
    """A store's messages, in the log's order."""
    rows = table(store, rocketmq="5.3.3", columns="topic,queueId,body").to_pylist()
    return [(r["topic"], r["queueId"], r["body"]) for r in rows]


def state(top: Path) -> dict[str, Any]:
    """What is there for good: each file by name, those of an index by their order, and of files
    that tell of a run that they are there."""
    found: dict[str, Any] = {}
    if (top / "repo").is_dir():
        found["repo"] = newest(top / "repo")
    for path in sorted(top.rglob("*")):
        name = str(path.relative_to(top))
        if name.startswith("repo/"):
            continue
        if not path.is_file() or "/." in f"/{name}" or name.endswith(("/lock", ".part")):
            continue
        if path.name in _OF_A_RUN:
            found[name] = "there"
        elif path.parent.name == "index":
            found.setdefault(str(path.parent), []).append(path.read_bytes())
        else:
            found[name] = path.read_bytes()
    return found


def newest(repository: Path) -> dict[str, Any]:
    """The log and the other files that the newest backup of each store has."""
    storage, found = LocalStorage(), dict[str, Any]()
    for name in stores_of(storage, str(repository)):
        there = Catalogue(storage, str(repository), name)
        there.read_all()
        run = there.newest()
        if run is None:
            continue
        for piece, used in there.chain(run):
            raw = Path(there.piece_path(piece)).read_bytes()
            found[f"{name} {piece.offset}"] = decode_all(raw, piece.length).tobytes()[:used]
        for entry in run.state:
            raw = Path(there.state_path(entry)).read_bytes()
            found[f"{name} {entry.path}"] = decode_all(raw, entry.length).tobytes()
    return found


class Cut:
    """A command whose work was recorded, and what must be after a cut."""

    def __init__(self, name: str, stores: Path, top: Path) -> None:
        self.name, self.stores, self.top = name, stores, top
        for each in ("store", "behind", *(["repo"] if name == "forget" else [])):
            shutil.copytree(stores / each, top / each)
        self.before = self.rows()
        self.recorded: Recorded = recorded(top, lambda: self.run())
        self.wanted, self.wanted_rows = state(top), self.rows()

    def run(self, *more: str) -> None:
        words = [*WORKS[self.name], *more]
        done = run(words, self.stores, self.top)
        if "use `reput recover` first" in done[1]:  # the log's end is torn, and a writer asks first
            self.recover()
            done = run(words, self.stores, self.top)
        assert done == (0, ""), done

    def recover(self) -> None:
        assert run(["recover", "{store}", "--yes", *GIVEN], self.stores, self.top)[0] == 0

    def rows(self) -> list[Row]:
        store = self.top / BY_MESSAGES.get(self.name, "-")
        return messages(store) if store.is_dir() else []

    def judge(self, crash: Crash) -> None:
        put(crash.files, self.top)
        for path in self.top.glob("*/commitlog/*"):
            os.utime(path, (T0 / 1000, T0 / 1000))  # a disk keeps when they were written to
        with same_inodes(crash.files, self.top):
            if crash.after == len(self.recorded.ops) and crash.how == "lost":
                self.check()
            if any((self.top / name).exists() for name in OUTPUTS):
                self.check()
                return
            self.again()
        self.check()

    def again(self) -> None:
        if self.name != "append":
            self.run()
            return
        self.recover()
        there = self.rows()
        assert there == self.wanted_rows[: len(there)]
        self.run("--skip", str(len(there) - len(self.before)))

    def check(self) -> None:
        if self.name in BY_MESSAGES:
            assert Counter(self.rows()) == Counter(self.wanted_rows)
            return
        there = state(self.top)
        differ = [
            n for n in there.keys() | self.wanted.keys() if there.get(n) != self.wanted.get(n)
        ]
        assert not differ, differ


def lost_states(start: MemoryFiles, ops: list[Op]) -> Iterator[Crash]:
    """What is left of what was synced, after each sync, and at the end."""
    for crash in crash_states(start, ops, 1, 0):
        last = ops[crash.after - 1].kind if crash.after else ""
        if crash.how == "lost" and (last.startswith("sync") or crash.after == len(ops)):
            yield crash


def judge_all(cut: Cut, states: Iterable[Crash]) -> int:
    """Judge the states that a cut may leave, each once; how many."""
    ops, seen = cut.recorded.ops, set[int]()
    for crash in states:
        at_end = crash.after == len(ops) and crash.how == "lost"
        tree = sorted(crash.files.tree().items())
        left = hash((tuple(tree), tuple(sorted(crash.files.folders)), at_end))
        if left in seen:
            continue
        seen.add(left)
        try:
            cut.judge(crash)
        except Exception as error:
            op = ops[crash.after - 1] if crash.after else None
            at = op and (op.kind, op.path, op.at, len(op.data))
            raise AssertionError(f"after {crash.after} {at}, {crash.how}: {error!r}") from error
    return len(seen)


@pytest.mark.parametrize("name", WORKS)
def test_nothing_is_on_the_disk_that_was_not_synced(name: str, stores: Path, top: Path) -> None:
    cut = Cut(name, stores, top)
    states = list(lost_states(cut.recorded.start, cut.recorded.ops))
    some = states[:: -(-len(states) // FEW.get(name, len(states)))]
    assert judge_all(cut, [*some, states[-1]]) > 1


def test_a_replicas_note_comes_behind_the_log_that_it_vouches_for(stores: Path, top: Path) -> None:
    dirty: set[int] = set()
    for op in Cut("replicate", stores, top).recorded.ops:
        if op.kind in ("write", "length") and "/commitlog/" in op.path:
            dirty.add(op.inode)
        elif op.kind == "sync":
            dirty.discard(op.inode)
        elif op.data == b"replica/reput-replica.json":
            assert not dirty


@pytest.mark.parametrize("name", ["catch-up", "recover", "replicate"])
def test_nothing_is_written_once_abort_is_gone(name: str, stores: Path, top: Path) -> None:
    """Without it a broker takes the store for one that was stopped cleanly, and so do we."""
    store = "replica" if name == "replicate" else "behind"
    ops = Cut(name, stores, top).recorded.ops
    at = max(n for n, op in enumerate(ops) if (op.kind, op.path) == ("remove", f"{store}/abort"))
    later = [op.path for op in ops[at:] if op.kind in ("create", "write", "length")]
    assert not [path for path in later if "/index/" not in path], later  # its mark goes
    assert any(op.data == f"{store}/config/delayOffset.json".encode() for op in ops[:at])


def test_a_service_that_recovers_a_store_leaves_nothing_lost(stores: Path, top: Path) -> None:
    """It takes `abort` away, by which others would know that delayOffset.json was not written."""
    shutil.copytree(stores / "store", top / "store")
    (top / "store/abort").touch()
    assert run(WORKS["resolve-transactions"], stores, top) == (0, "")
    assert not (top / "store/abort").exists()
    assert (top / "store/config/delayOffset.json").exists()


@pytest.mark.long
@pytest.mark.explore
@pytest.mark.parametrize("seed", seeds([3]))
@pytest.mark.parametrize("name", WORKS)
def test_anything_may_be_on_the_disk(name: str, seed: int, stores: Path, top: Path) -> None:
    """After each of a dozen of a command's steps."""
    cut = Cut(name, stores, top)
    start, ops = cut.recorded.start, cut.recorded.ops
    least = 7 if name == "expire" else 9  # its ten steps leave seven states, by whatever chance
    assert judge_all(cut, crash_states(start, ops, seed, 2, -(-len(ops) // 12))) >= least
