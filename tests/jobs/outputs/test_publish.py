"""Every state a crash may leave of a rebuild: the old set or the new one, and no leftovers after
the next run.
"""

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.outputs.publish import leftovers, staging_folder
from reput.jobs.pipeline.pipeline import Cut
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.disk import NotDurable
from reput.store_format.files.folder import Place
from reput.store_format.files.local import LocalStorage
from tests.built import write_log
from tests.faults.failing import FAILURES, Failure, fail_at, judge_all, numbers, same_again
from tests.faults.files_storage import FilesStorage
from tests.faults.killing import killed_at
from tests.faults.memory_files import Crash, MemoryFiles, crash_states
from tests.in_process import run
from tests.logs.encoder import Message, build_log, properties
from tests.logs.small import SETTINGS as STAGING_SETTINGS
from tests.logs.small import messages
from tests.trees import contents

SETTINGS = {
    "mappedFileSizeCommitLog": "4096", "mappedFileSizeConsumeQueue": "400",
    "maxIndexNum": "9", "maxHashSlotNum": "7",
}  # fmt: skip
OUTPUT = "data/sets/out"


def store(files: MemoryFiles, name: str, count: int) -> None:
    """A store of so many messages, durable."""
    files.make_folder(f"{name}/commitlog")
    log = build_log(
        [
            Message(queue_offset=n, body=b"b" * 20, properties=properties(("KEYS", f"k{n}")))
            for n in range(count)
        ],
        4096,
    )
    for base, content in log.items():
        file = files.create(f"{name}/commitlog/{base:020d}")
        file.write_at(0, content)


def rebuild(files: MemoryFiles, name: str, replace: bool, storage: Any = None) -> FilesStorage:
    storage = storage or FilesStorage(files)
    run(
        name, OUTPUT, rocketmq="5.3.3", settings=SETTINGS, replace=replace, storage=storage,
        cut=Cut(4096, 1, 1),
    )  # fmt: skip
    return storage


def published(files: MemoryFiles) -> dict[str, bytes]:
    return {p: c for p, c in files.tree().items() if p.startswith(OUTPUT + "/")}


class Work:
    """One rebuild of `new`, over an older set or none, and the sets before and after it."""

    def __init__(self, replace: bool) -> None:
        files = MemoryFiles()
        store(files, "old", 20)
        store(files, "new", 30)
        files.make_folder("data")
        self.replace = replace
        if replace:
            rebuild(files, "old", False)
        self.before = same_again(files)
        self.old = published(files)
        self.files = same_again(files)
        rebuild(self.files, "new", replace)
        self.new = published(self.files)
        assert self.new != self.old
        assert self.leftovers(self.files) == []

    @staticmethod
    def leftovers(files: MemoryFiles) -> list[str]:
        return [p for p in (*files.folders, *files.names_of) if ".reput-" in p]

    def judge(self, crash: Crash) -> str:
        """Which set is there; then the next run gives the new one, and cleans."""
        found = published(crash.files)
        assert found in (self.old, self.new), sorted(found)
        if found == self.new:
            manifest = json.loads(found[f"{OUTPUT}/manifest.json"])
            assert {f"{OUTPUT}/{f['path']}" for f in manifest["files"]} < found.keys()
        crash.files.ops = []
        rebuild(crash.files, "new", bool(found))
        assert published(crash.files) == self.new
        assert self.leftovers(crash.files) == [], crash
        return "old" if found == self.old else "new"


@pytest.fixture(scope="module", params=[False, True], ids=["first", "replace"])
def work(request: pytest.FixtureRequest) -> Work:
    return Work(request.param)


def check(work: Work, mixtures: int, wanted: Any) -> dict[str, int]:
    states = enumerate(crash_states(work.before, work.files.ops, 1, mixtures))
    some = (crash for number, crash in states if wanted(number, crash))
    return judge_all(some, work.files.ops, work.judge)


def steps(work: Work) -> Iterator[int]:
    """The operations that publish: from the first move into the set on."""
    first = next(
        n for n, op in enumerate(work.files.ops) if op.kind == "folder" and "/set" in op.path
    )
    return iter(range(first, len(work.files.ops)))


def test_a_crash_while_publishing_leaves_one_set_or_the_other(work: Work) -> None:
    """A selection: each state at the step itself and right behind, some before and after."""
    swap = next(n for n, op in enumerate(work.files.ops) if op.kind == "sync all")
    seen = check(work, 2, lambda number, crash: -6 < crash.after - swap < 12 or number % 23 == 0)
    assert seen["old"] > 10
    assert seen["new"] > 5
    print(len(work.files.ops), seen)


@pytest.mark.long
def test_all_states_of_a_rebuild(work: Work) -> None:
    seen = check(work, 8, lambda number, crash: True)
    print(f"{len(work.files.ops)} operations, {seen}")
    assert min(seen.values()) > 30


@pytest.mark.parametrize("how", FAILURES)
@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for ever"])
def test_an_operation_that_fails_leaves_one_set_or_the_other(work, how: str, for_ever) -> None:
    """Each operation of a rebuild in turn; those before publishing, some of them, but each write.

    A file that was written in part is never one of a set.
    """
    failure, swap = FAILURES[how], next(steps(work))
    for number in numbers(work.files.ops, failure):
        if number >= swap or number % 17 == 0 or failure.torn:
            fails_at(work, number, failure, for_ever)


def fails_at(work: Work, number: int, how: Failure, for_ever: bool) -> None:
    files = same_again(work.before)
    fail_at(files, number, how, for_ever)
    raised: list[BaseException] = []
    try:
        rebuild(files, "new", work.replace)
    except OSError as found:
        raised.append(found)
    assert all(getattr(found, "errno", None) == how.error for found in raised)
    done = list(files.ops)
    files.fail = lambda op: False
    found_set = published(files)
    assert found_set in (work.old, work.new)
    if not raised:
        assert found_set == work.new
    if raised and isinstance(raised[0], NotDurable):
        # the step's own fsync: either set may be there after a power cut, so both must be whole
        for crash in crash_states(work.before, done, number, 2, every=len(done)):
            assert published(crash.files) in (work.old, work.new), crash.how
        # and neither was removed: what was exchanged keeps its names when the exchange is undone
        kept = {p.partition("/set/")[2]: c for p, c in files.tree().items() if ".reput-" in p}
        assert kept == {p.removeprefix(f"{OUTPUT}/"): c for p, c in work.old.items()}
    rebuild(files, "new", bool(found_set))
    assert published(files) == work.new
    assert work.leftovers(files) == []


# --- Drivers killed at each step, and what the next run makes of what they left.
class Kills:
    """One rebuild over an older set or none, again and again, each time killed later."""

    def __init__(self, folder: Path, replace: bool) -> None:
        self.folder, self.replace = folder, replace
        self.older = write_log(folder / "older", build_log(messages(40), 4096))
        self.store = write_log(folder / "store", build_log(messages(), 4096))
        self.output = folder / "sets" / "output"
        self.old: dict[str, bytes] = {}
        if replace:
            self.rebuild(self.older)
            self.old = contents(self.output)
        else:
            (folder / "sets").mkdir()
        shutil.copytree(folder / "sets", folder / "before")
        self.rebuild(self.store)
        self.new = contents(self.output)

    def rebuild(self, store: Path) -> None:
        run(
            str(store), str(self.output), rocketmq="5.3.3", settings=STAGING_SETTINGS,
            replace=self.output.exists(),
        )  # fmt: skip

    def kill(self, step: int) -> str | None:
        """Which set a kill before this step leaves; None where there is no such step."""
        shutil.rmtree(self.folder / "sets")
        shutil.copytree(self.folder / "before", self.folder / "sets")
        _, code = killed_at(step, lambda: self.rebuild(self.store))
        assert code in (0, -signal.SIGKILL), code
        found = contents(self.output)
        assert found in (self.old, self.new), sorted(found)
        again = [p.name for p in (self.folder / "sets").iterdir() if p != self.output]
        left = leftovers(Place(LocalStorage(), str(self.output)))
        assert [Path(path).name for path in left] == again  # all there is, is known to be dead
        self.rebuild(self.store)
        assert contents(self.output) == self.new
        assert [p.name for p in (self.folder / "sets").iterdir()] == ["output"]
        if code == 0:
            return None
        return "new" if found == self.new else "old"


@pytest.mark.parametrize("replace", [False, True], ids=["first", "replace"])
def test_a_driver_killed_at_any_step(tmp_path: Path, replace: bool) -> None:
    """A selection: some steps before publishing, all around it."""
    kills = Kills(tmp_path, replace)
    total, _ = killed_at(1 << 30, lambda: kills.rebuild(kills.store))
    seen = {"old": 0, "new": 0}
    for step in (*range(0, total - 40, 29), *range(total - 40, total, 3)):
        seen[kills.kill(step) or "new"] += 1
    assert min(seen.values()) > 1, (total, seen)


@pytest.mark.long
def test_a_driver_killed_at_each_step(tmp_path: Path) -> None:
    kills = Kills(tmp_path, replace=True)
    seen, step = {"old": 0, "new": 0}, 0
    while (which := kills.kill(step)) is not None:
        seen[which] += 1
        step += 1
    assert min(seen.values()) > 1, seen


def test_tasks_of_other_machines_sync_what_is_to_be_published(tmp_path, monkeypatch) -> None:
    """The publisher's syncfs reaches its own machine's writes only."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    for shared in (False, True):
        storage = storage_for(str(tmp_path), shared)
        for digest in (False, True):
            file = storage.create(str(tmp_path / f"{shared}{digest}"), digest)
            file.write(b"x")
            file.finish(1)
            assert len(synced) == (shared and digest)


def test_what_is_in_use_is_no_leftover_and_a_late_claim_leaves_nothing(tmp_path) -> None:
    class Interrupted(LocalStorage):
        def claim(self, folder: str) -> Callable[[], None] | None:
            release = super().claim(folder)
            assert release is not None
            release()
            raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        staging_folder(Place(Interrupted(), str(tmp_path)), ".x.reput"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
    storage = LocalStorage()
    with staging_folder(Place(storage, str(tmp_path)), ".output.reput") as staging:
        late = storage.create(staging.path("begun"))
    with pytest.raises(FileNotFoundError):
        storage.create(staging.path("late"))
    late.write(b"late")
    late.finish(4)
    assert list(tmp_path.iterdir()) == []
    storage, output = LocalStorage(), str(tmp_path / "output")
    with staging_folder(Place(storage, str(tmp_path)), ".output.reput") as staging:
        assert leftovers(Place(storage, output)) == []
        held = Path(staging.folder)
        dead = tmp_path / f".output.reput-{'0' * 32}"
        for other in (f".output.reput-{'g' * 32}", f".other.reput-{'0' * 32}", dead.name):
            (tmp_path / other).mkdir()
        assert leftovers(Place(storage, output)) == [str(dead)]
    assert not held.exists()
    assert dead.exists()
