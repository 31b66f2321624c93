"""The two steps of a rebuild: which splits are scanned, and which files are built, and how many."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from reput.jobs.pipeline.link import Linked
from reput.jobs.pipeline.pipeline import Cut, OldIndex, Pipeline, index_file_count, index_files
from reput.jobs.pipeline.stages import Stages, guided
from reput.store_format.discover.purpose import REPLICATE
from reput.store_format.faults import Fault, StoreError
from reput.store_format.files.manifest_last import ManifestLast
from reput.store_format.files.protocol import Listed
from reput.store_format.notes import Done, Progress
from reput.udfs.staging import Staging, past_name
from tests.damaged import SEGMENT, START, Damaged, damaged, messages
from tests.in_process import STORE, Made, Session, rebuild_log, storage_of
from tests.jobs.found import STAGING, found, job_of
from tests.logs import Log
from tests.logs.encoder import Message, build_log, properties
from tests.memory_storage import MemoryStorage, WatchedStorage

SPLIT = 1024


def job(log: Damaged, cut: Cut | None = None, **more: Any) -> Pipeline:
    return job_of(found(log.log, cut=cut or Cut(SPLIT), **more))


def test_a_message_that_finds_the_last_index_file_full_opens_the_next() -> None:
    plan = job(damaged()).plan
    assert plan.settings.max_index_num == 50
    for puts, last_record, last_put, old, files in [
        (0, -1, -1, OldIndex(), 0),  # no message at all
        (0, 100, -1, OldIndex(), 1),  # the first message opens a file, even without a key
        (1, 100, 100, OldIndex(), 1),
        (49, 100, 100, OldIndex(), 1),  # of maxIndexNum 50 one entry is never used
        (49, 200, 100, OldIndex(), 2),  # a message without a key behind the one that filled it
        (50, 100, 100, OldIndex(), 2), (48, 200, 100, OldIndex(), 1),
        (98, 200, 100, OldIndex(), 3), (0, -1, -1, OldIndex("", 49), 1),
        (1, 100, 100, OldIndex("", 49), 2), (0, 100, -1, OldIndex("", 49), 2),
        (50, 100, 100, OldIndex(begins={1: 1}), 2),
        (52, 200, 100, OldIndex(begins={1: 1, 2: 3}), 4),
        (51, 100, 100, OldIndex("", 49, {1: 49, 2: 50}), 4),
    ]:  # fmt: skip
        row = {"index_puts": puts, "last_record": last_record, "last_put": last_put, "run": "r"}
        assert index_file_count(plan, Linked([row] * (last_record >= 0)), old) == files
    linked = Linked([{"index_puts": n, "run": f"r{n}"} for n in (3, 0, 4)])
    made = index_files(plan, Staging(MemoryStorage(), "s"), linked, 2, OldIndex("old", 10))
    assert (made.runs, made.ends) == (("old", "r3", "r0", "r4"), (10, 13, 13, 17))
    assert (made.slots, made.index_num, made.ranges) == (7, 50, 2)


def test_a_queue_file_is_as_long_as_its_setting_in_whole_entries() -> None:
    of_queue, of_batch = "mappedFileSizeConsumeQueue", "mapperFileSizeBatchConsumeQueue"
    for folder, name, configured, length in [
        ("consumequeue/T/0", of_queue, 6_000_000, 6_000_000),
        ("consumequeue/T/0", of_queue, 381, 400), ("consumequeue/T/0", of_queue, 400, 400),
        ("batchconsumequeue/B/0", of_batch, 460, 460),
    ]:  # fmt: skip
        log = damaged()
        log.settings[name] = configured
        assert job(log).queue_bytes(folder) == length


def test_each_segment_is_walked_by_itself_but_those_of_a_wrong_size() -> None:
    log = damaged(messages(100))
    log.flip(3, 1)  # a wrong totalSize
    storage = storage_of(log.log)
    storage.files[f"{STORE}/commitlog/{SEGMENT:020d}"] = bytes(SEGMENT - 1)
    walks, scanned = job_of(found(log.log, storage, Cut(SPLIT), purpose=REPLICATE)).scan_segments()
    assert sorted(walks) == [0, 2]
    assert (walks[0].end, walks[0].fault) == (log.places[3], Fault.SIZE_PAST_END)
    assert walks[2].end == log.places[-1] + log.size(99)
    in_segment = SEGMENT // SPLIT
    assert not [split for split in scanned if split // in_segment == 1]


def test_only_the_kinds_that_are_asked_for_are_built() -> None:
    log = damaged()  # 60 messages of three queues, each with a key: ten entries a file
    for cut in (Cut(SPLIT), Cut(SPLIT, 3, 3)):
        for queues, indexes in ((True, True), (True, False), (False, True), (False, False)):
            ready = job(log, cut)
            built = ready.build(ready.scan(), queues=queues, indexes=indexes)
            wanted = {f"consumequeue/T/{n}": 2 for n in range(3)} if queues else {}
            wanted |= {"index": 2} if indexes else {}
            assert Counter(row["folder"] for row in built) == wanted
    log = damaged()
    log.settings["messageIndexEnable"] = False
    ready = job(log)
    assert ready.index(linked := ready.scan())[1] == 0
    assert "index" not in {row["folder"] for row in ready.build(linked)}


def test_a_check_checks_bodies_and_whole_records_whatever_the_settings_say() -> None:
    log = damaged([Message("T", 0, 0, b"body", properties(("KEYS", "k")), START)])
    log.settings["checkCRCOnRecover"] = False
    ready = job(log)
    assert (ready.rules.check_body_crc, ready.rules.check_property_crc) == (False, False)
    ready.check_property_crc()
    assert (ready.rules.check_body_crc, ready.rules.check_property_crc) == (False, True)
    ready.check_every_crc()
    assert (ready.rules.check_body_crc, ready.rules.check_property_crc) == (True, True)
    older = damaged(messages(3))
    older.version = "5.1.4"  # __CRC32# is known from 5.2.0 on
    ready = job(older)
    ready.check_every_crc()
    assert not ready.rules.check_property_crc


# --- What people see of a stage: each piece of work counts once, and never more than all of it.
@dataclass
class Told(Progress):
    names: list[str] = field(default_factory=list)
    done: Callable[[], Done] = lambda: Done(None, "")

    @contextmanager
    def stage(self, name: str, done: Callable[[], Done]) -> Iterator[None]:
        self.names.append(name)
        self.done = done
        yield


def stages(storage: MemoryStorage) -> tuple[Stages, Told]:
    log, told = damaged(), Told()
    plan = found(log.log).plan  # two splits, each a segment
    assert (plan.splits.total, plan.splits.split_bytes) == (2, SEGMENT)
    return Stages(Session(), plan, Staging(storage, STAGING), told), told


def test_a_scan_is_done_by_the_lists_of_splits_each_task_up_to_its_last() -> None:
    storage = WatchedStorage({})
    shown, told = stages(storage)
    with shown.scanned(range(2), (0, 1)):
        assert told.done().share == 0  # no folder yet
        storage.files = dict.fromkeys((
            f"{STAGING}/scan-00000000-a.runs",
            f"{STAGING}/scan-00000000-b.runs",  # an attempt whose rows do not count
            f"{STAGING}/scan-00000009-c.runs",  # of an earlier scan
            f"{STAGING}/scan-00000001-c.entries",
        ), b"")  # fmt: skip
        assert told.done() == Done(0.5, "4,096 of 8,192 bytes")
    # in one task the first split had no record, and staged nothing
    storage.files = {f"{STAGING}/scan-00000001-c.runs": b""}
    with shown.scanned(range(2), (0,)):
        assert told.done() == Done(1.0, "8,192 of 8,192 bytes")
    with shown.scanned((1,), (0,)):  # a split that is scanned again
        assert told.done() == Done(1.0, "4,096 of 4,096 bytes")
    assert (told.names, storage.opened) == (["scanned"] * 3, [])


class Remote(ManifestLast, WatchedStorage):  # type: ignore[misc]
    """Each look at a file of it is a request."""

    def list(self, folder: str) -> list[Listed]:
        self.opened.append(folder)
        return super().list(folder)


@pytest.mark.parametrize(("share", "scanned", "built"), [
    (None, Done(None, "8,192 bytes"), Done(None, "2,400 bytes, of 20 messages")),
    (0.0, Done(0.0, "0 of 8,192 bytes"),
     Done(0.0, "about 0 of 2,400 bytes, of 20 messages")),
    (0.5, Done(0.5, "4,096 of 8,192 bytes"),
     Done(0.5, "about 1,200 of 2,400 bytes, of 20 messages")),
    (1.0, Done(1.0, "8,192 of 8,192 bytes"),
     Done(1.0, "about 2,400 of 2,400 bytes, of 20 messages")),
])  # fmt: skip
def test_far_away_no_file_is_looked_at(share: float | None, scanned: Done, built: Done) -> None:
    storage = Remote({})
    shown, told = stages(storage)
    shown._engine.share_done = lambda: share  # type: ignore[method-assign]
    with shown.scanned(range(2), (0, 1)):
        assert told.done() == scanned
    with shown.built(Linked([{"records": 20}]), 2000):
        assert told.done() == built
    assert storage.opened == []


@pytest.mark.parametrize(("files", "share", "text"), [
    ({}, 0.0, "0 of 8,192 bytes of damaged segments, 0 ranges"),
    ({0: [(100, 1), (4096, 2)], 1: [(2048, 9)]}, 0.75,
     "6,144 of 8,192 bytes of damaged segments, 11 ranges"),
    ({0: [(9000, 3)]}, 1.0, "9,000 of 8,192 bytes of damaged segments, 3 ranges"),
])  # fmt: skip
def test_past_damage_each_segment_counts_as_far_as_it_has_come(files, share, text: str) -> None:
    names = [
        past_name(f"scan-{split:08d}-x", done, ranges)
        for split, marks in files.items() for done, ranges in marks
    ]  # fmt: skip
    shown, told = stages(MemoryStorage({f"{STAGING}/{name}": b"" for name in names}))
    with shown.past_damage(2):
        assert told.done() == Done(share, text)


def test_what_writes_nothing_is_as_far_as_its_tasks() -> None:
    for share, text in [
        (None, "1,000 rows"), (0.0, "about 0 of 1,000 rows"), (0.2567, "about 256 of 1,000 rows"),
        (1.0, "about 1,000 of 1,000 rows"),
    ]:  # fmt: skip
        shown, told = stages(MemoryStorage())
        shown._engine.share_done = lambda it=share: it  # type: ignore[method-assign, misc]
        with shown.by_tasks("asked", 1000, "rows"):
            assert told.done() == Done(share, text)
        assert told.names == ["asked"]
    with shown.built(Linked(), 0):  # without any file there is no share
        assert told.done() == Done(None, "0 of 0 bytes, of 0 messages")


# --- Few tasks for many pieces, and small ones at last.
def sizes(pieces: int, cores: int) -> list[int]:
    starts = guided(pieces, cores)
    assert starts[:1] == (0,)[: min(pieces, 1)]
    return [end - start for start, end in pairwise((*starts, pieces))]


def test_a_task_gets_a_share_of_what_is_left_and_none_is_very_long() -> None:
    assert sizes(60, 2) == [15, 12, 9, 6, 5, 4, 3, 2, 1, 1, 1, 1]
    assert sizes(8, 2) == [2, 2, 1, 1, 1, 1]
    assert sizes(1, 2) == [1]
    assert guided(0, 2) == ()
    assert max(sizes(4000, 2)) == 64
    assert len(sizes(100_000, 2)) < 200  # unless there would be very many
    assert len(sizes(400_000, 1024)) < 16_000
    for piece_bytes, most in ((1 << 20, 63), (1 << 28, 12), (1 << 30, 3), (1 << 40, 2)):
        starts = guided(4000, 32, piece_bytes)  # of large pieces a task has few
        assert max(end - start for start, end in pairwise(starts)) == most


@pytest.mark.parametrize("cores", [1, 2, 16, 1000])
@pytest.mark.parametrize("pieces", [1, 7, 1000, 100_000])
def test_no_core_waits_long_for_another(pieces: int, cores: int) -> None:
    made = sizes(pieces, cores)
    assert sum(made) == pieces
    assert made == sorted(made, reverse=True)
    assert set(made[-cores:]) == {1}


class TaskRemote(ManifestLast, MemoryStorage):  # type: ignore[misc]
    """It is sent the zeros of files too."""


@pytest.mark.parametrize(
    ("entries", "runs", "queues", "tasks"),
    [
        (1000, 10, 10, 2),  # a task for each core
        (100_000_000, 10, 10, 10),  # 2 GB of entries
        (10, 50_000_000, 10, 32),  # 6.4 GB of lists
        (10, 10, 1000, 30),  # 6 GB of files, whose zeros are sent too
        (105_000_000_000, 19_000_000_000, 100_000, 22_511),  # 50 TB
    ],
)
def test_tasks_are_sized_by_what_they_hold_and_write(entries, runs, queues, tasks: int) -> None:
    log = Log(build_log([Message()], 60_000), {"mappedFileSizeCommitLog": 60_000}, "5.3.3", {})
    job = found(log).job(Staging(TaskRemote(), STAGING))
    linked = Linked([{"records": entries, "runs": runs, "queues": queues}])
    assert job.queue_tasks(linked) == tasks


@pytest.mark.parametrize(("most_cores", "tasks"), [(2, 12), (128, 60)])
def test_a_cluster_may_have_more_cores_than_it_tells(most_cores: int, tasks: int) -> None:
    """As on Spark Connect, where nothing tells: few tasks would leave most of them idle."""
    asked: list[int] = []

    class Noting(Session):
        def numbers(self, numbers: range, parts: int | None = None) -> Made:
            asked.append(len(numbers))
            return super().numbers(numbers, parts)

    session = Noting(cores=2)
    session.most_cores = most_cores
    log = Log(build_log([Message()], 60_000), {"mappedFileSizeCommitLog": 60_000}, "5.3.3", {})
    rebuild_log(log, Cut(split_bytes=1000), session)
    assert asked[0] == tasks


@pytest.mark.parametrize("partitions", [4, None])  # shuffled, or in shares
@pytest.mark.parametrize("seed", [2, 3])  # small queues, and none
def test_what_is_read_does_not_grow_as_queues_times_splits(partitions, seed: int) -> None:
    queues, splits, segment = 40, 99, 1 << 16
    messages = [Message(f"T{n % queues}", 0, n // queues) for n in range(queues * splits * 2)]
    log = Log(build_log(messages, segment), {
        "mappedFileSizeCommitLog": segment, "mappedFileSizeConsumeQueue": 2000
    }, "5.3.3", {})  # fmt: skip
    storage = WatchedStorage(storage_of(log).files)
    cut = Cut(len(log.segments) * segment // splits, partitions=partitions)
    session = Session(seed)
    assert not session.one_machine
    rebuilt = rebuild_log(log, cut, session, storage=storage)
    assert rebuilt.summary.messages == len(messages)
    reads = sum(path.endswith(".entries") for path in storage.opened)
    assert 99 <= reads <= 300  # 3,960 where each run was read by itself


@pytest.mark.parametrize(
    ("queues", "storage", "settings", "refused"),
    [
        (20_000, TaskRemote, {}, True),
        (20_000, MemoryStorage, {}, False),
        (10_000, TaskRemote, {}, False),  # 60 GB
        (20_000, TaskRemote, {"mappedFileSizeConsumeQueue": 6_000_000}, False),  # asked for
    ],
)
def test_more_zeros_than_log_are_refused_before_they_are_sent(
    queues: int, storage: type[MemoryStorage], settings: dict[str, Any], refused: bool
) -> None:
    sizes = {"mappedFileSizeCommitLog": 60_000, **settings}
    log = Log(build_log([Message()], 60_000), sizes, "5.3.3", {})
    ready = found(log).job(Staging(storage(), STAGING))
    linked = ready.scan()
    linked.accepted[0] = {**linked.accepted[0], "queues": queues}
    if refused:
        with pytest.raises(StoreError, match=r"120 GB of zeros .*--queues rocksdb"):
            ready.build(linked)
    else:
        ready._refuse_padding(linked)
