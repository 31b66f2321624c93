"""Every state a crash may leave of a rebuild: the old set or the new one, and no leftovers after
the next run."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from reput.jobs.pipeline.pipeline import Cut
from reput.store_format.files.disk import NotDurable
from tests.faults.failing import FAILURES, Failure, fail_at, judge_all, numbers, same_again
from tests.faults.files_storage import FilesStorage
from tests.faults.memory_files import Crash, MemoryFiles, crash_states
from tests.in_process import run
from tests.logs.encoder import Message, build_log, properties

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
    seen = check(
        work, 2,
        lambda number, crash: -6 < crash.after - swap < 12 or number % 23 == 0,
    )  # fmt: skip
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
def test_an_operation_that_fails_leaves_one_set_or_the_other(
    work: Work, how: str, for_ever: bool
) -> None:
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
