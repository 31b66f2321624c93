"""What people see of a stage: each piece of work counts once, and never more than all of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from reput.jobs.pipeline.link import Linked
from reput.jobs.pipeline.pipeline import Stages
from reput.store_format.notes import Done, Progress
from reput.udfs.staging import Staging, past_name
from tests.damaged import SEGMENT, damaged
from tests.in_process import Session
from tests.jobs.found import STAGING, found
from tests.memory_storage import MemoryStorage


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


def runs(splits: int, records: int) -> bytes:
    """A .runs file without rows: only the counts of its task."""
    said = {"splits": str(splits), "records": str(records)}
    output = pa.BufferOutputStream()
    with pa.ipc.new_stream(output, pa.schema([], said)):
        pass
    raw: bytes = output.getvalue().to_pybytes()
    return raw


def test_a_scan_is_done_by_the_splits_of_its_lists_each_split_once() -> None:
    storage = MemoryStorage()
    shown, told = stages(storage)
    with shown.scanned():
        assert told.done().share == 0  # no folder yet
        storage.files = {
            f"{STAGING}/scan-00000000-a.runs": runs(1, 20),
            f"{STAGING}/scan-00000000-b.runs": runs(1, 20),  # an attempt whose rows do not count
            f"{STAGING}/scan-00000002-c.runs": b"",  # still being written
            f"{STAGING}/scan-00000002-c.entries": bytes(99),
        }
        assert told.done().text == "4,096 of 8,192 bytes, 20 messages"
        assert (told.names, told.done().share) == (["scanned"], 0.5)


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
