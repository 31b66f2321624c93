"""What people see of a stage: each piece of work counts once, and never more than all of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from reput.jobs.pipeline.link import Linked
from reput.jobs.pipeline.stages import Stages
from reput.store_format.files.manifest_last import ManifestLast
from reput.store_format.files.protocol import Listed
from reput.store_format.notes import Done, Progress
from reput.udfs.staging import Staging, past_name
from tests.damaged import SEGMENT, damaged
from tests.in_process import Session
from tests.jobs.found import STAGING, found
from tests.memory_storage import MemoryStorage, WatchedStorage


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


@pytest.mark.parametrize(
    ("share", "scanned", "built"),
    [
        (None, Done(None, "8,192 bytes"), Done(None, "2,400 bytes, of 20 messages")),
        (0.0, Done(0.0, "0 of 8,192 bytes"),
         Done(0.0, "about 0 of 2,400 bytes, of 20 messages")),
        (0.5, Done(0.5, "4,096 of 8,192 bytes"),
         Done(0.5, "about 1,200 of 2,400 bytes, of 20 messages")),
        (1.0, Done(1.0, "8,192 of 8,192 bytes"),
         Done(1.0, "about 2,400 of 2,400 bytes, of 20 messages")),
    ],
)  # fmt: skip
def test_far_away_no_file_is_looked_at(share: float | None, scanned: Done, built: Done) -> None:
    storage = Remote({})
    shown, told = stages(storage)
    shown._engine.share_done = lambda: share  # type: ignore[method-assign]
    with shown.scanned(range(2), (0, 1)):
        assert told.done() == scanned
    with shown.built(Linked([{"records": 20}]), 2000):
        assert told.done() == built
    assert storage.opened == []


@pytest.mark.parametrize(
    ("files", "share", "text"),
    [
        ({}, 0.0, "0 of 8,192 bytes of damaged segments, 0 ranges"),
        ({0: [(100, 1), (4096, 2)], 1: [(2048, 9)]}, 0.75,
         "6,144 of 8,192 bytes of damaged segments, 11 ranges"),
        ({0: [(9000, 3)]}, 1.0, "9,000 of 8,192 bytes of damaged segments, 3 ranges"),
    ],
)  # fmt: skip
def test_past_damage_each_segment_counts_as_far_as_it_has_come(
    files: dict[int, list[tuple[int, int]]], share: float, text: str
) -> None:
    names = [
        past_name(f"scan-{split:08d}-x", done, ranges)
        for split, marks in files.items() for done, ranges in marks
    ]  # fmt: skip
    shown, told = stages(MemoryStorage({f"{STAGING}/{name}": b"" for name in names}))
    with shown.past_damage(2):
        assert told.done() == Done(share, text)


@pytest.mark.parametrize(
    ("share", "done"),
    [
        (None, Done(None, "1,000 rows")),
        (0.0, Done(0.0, "about 0 of 1,000 rows")),
        (0.2567, Done(0.2567, "about 256 of 1,000 rows")),
        (1.0, Done(1.0, "about 1,000 of 1,000 rows")),
    ],
)
def test_what_writes_nothing_is_as_far_as_its_tasks(share: float | None, done: Done) -> None:
    shown, told = stages(MemoryStorage())
    shown._engine.share_done = lambda: share  # type: ignore[method-assign]
    with shown.by_tasks("asked", 1000, "rows"):
        assert told.done() == done
    assert told.names == ["asked"]


def test_a_build_without_any_file_has_no_share() -> None:
    shown, told = stages(MemoryStorage())
    with shown.built(Linked(), 0):
        assert told.done() == Done(None, "0 of 0 bytes, of 0 messages")
