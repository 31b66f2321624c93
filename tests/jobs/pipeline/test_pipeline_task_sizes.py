"""Few tasks for many pieces, and small ones at last."""

from itertools import pairwise
from typing import Any

import pytest

from reput.jobs.pipeline.link import Linked
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.pipeline.stages import guided
from reput.store_format.faults import StoreError
from reput.store_format.files.manifest_last import ManifestLast
from reput.udfs.staging import Staging
from tests.in_process import Made, Session, rebuild_log, storage_of
from tests.jobs.found import STAGING, found
from tests.logs import Log
from tests.logs.encoder import Message, build_log
from tests.memory_storage import MemoryStorage, WatchedStorage


def sizes(pieces: int, cores: int) -> list[int]:
    starts = guided(pieces, cores)
    assert starts[:1] == (0,)[: min(pieces, 1)]
    return [end - start for start, end in pairwise((*starts, pieces))]


def test_a_task_gets_a_share_of_what_is_left() -> None:
    assert sizes(60, 2) == [15, 12, 9, 6, 5, 4, 3, 2, 1, 1, 1, 1]
    assert sizes(8, 2) == [2, 2, 1, 1, 1, 1]
    assert sizes(1, 2) == [1]
    assert guided(0, 2) == ()


@pytest.mark.parametrize("cores", [1, 2, 16, 1000])
@pytest.mark.parametrize("pieces", [1, 7, 1000, 100_000])
def test_no_core_waits_long_for_another(pieces: int, cores: int) -> None:
    made = sizes(pieces, cores)
    assert sum(made) == pieces
    assert made == sorted(made, reverse=True)
    assert set(made[-cores:]) == {1}


def test_no_task_is_very_long_unless_there_would_be_very_many() -> None:
    assert max(sizes(4000, 2)) == 64
    assert len(sizes(100_000, 2)) < 200
    assert len(sizes(400_000, 1024)) < 16_000


@pytest.mark.parametrize(
    ("piece_bytes", "most"), [(1 << 20, 63), (1 << 28, 12), (1 << 30, 3), (1 << 40, 2)]
)
def test_a_task_of_large_pieces_has_few(piece_bytes: int, most: int) -> None:
    starts = guided(4000, 32, piece_bytes)
    assert max(end - start for start, end in pairwise(starts)) == most


class Remote(ManifestLast, MemoryStorage):  # type: ignore[misc]
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
def test_tasks_are_sized_by_what_they_hold_and_write(
    entries: int, runs: int, queues: int, tasks: int
) -> None:
    log = Log(build_log([Message()], 60_000), {"mappedFileSizeCommitLog": 60_000}, "5.3.3", {})
    job = found(log).job(Staging(Remote(), STAGING))
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
def test_what_is_read_does_not_grow_as_queues_times_splits(
    partitions: int | None, seed: int
) -> None:
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
        (20_000, Remote, {}, True),
        (20_000, MemoryStorage, {}, False),
        (10_000, Remote, {}, False),  # 60 GB
        (20_000, Remote, {"mappedFileSizeConsumeQueue": 6_000_000}, False),  # asked for
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
