"""Small queues are built where they are numbered; that changes no byte, and no promise."""

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reput.store_format.derived.queue_files import pre_blank
from reput.store_format.dispatch.scan import place_rules
from reput.store_format.names import segment_name
from reput.store_format.release.profiles import profile
from reput.udfs.rebuild import queues
from reput.udfs.rebuild.queues import SmallQueues, built_rows
from reput.udfs.rebuild.runs import StagedRuns
from reput.udfs.staging import ENTRIES, PLACED_TREE, RUN, Staging
from tests.memory_storage import MemoryStorage

Row = dict[str, Any]
IN_FILE = 5  # entries
BYTES = 20


def entry(queue: int, number: int) -> bytes:
    return bytes([queue, number]) * (BYTES // 2)


class Job:
    """Runs in staging: (queue, split, first queueOffset, how many entries)."""

    def __init__(self, *runs: tuple[int, int, int, int]) -> None:
        self.storage = MemoryStorage()
        self.files = StagedRuns(
            Staging(self.storage, "staging"), {0: "a", 1: "b"},
            place_rules(profile("5.3.3")), IN_FILE * BYTES, 46,
        )  # fmt: skip
        content = {0: bytearray(), 1: bytearray()}
        self.rows: list[Row] = []
        for queue, split, first, count in runs:
            self.rows.append({
                "topic": "T", "queue_id": queue, "batch": False, "split": split, "part": 0,
                "entries_at": len(content[split]), "count": count, "offsets_at": -1,
                "first": first, "greatest": first + count - 1, "times_at": -1,
            })  # fmt: skip
            content[split] += b"".join(entry(queue, first + n) for n in range(count))
            content[split] += b"other"  # what is between runs is not read for entries
        for split, name in self.files.runs.items():
            self.storage.files[f"staging/{name}{ENTRIES}"] = bytes(content[split])

    def run(self, rows_a_batch: int = 100) -> tuple[list[Row], list[Row]]:
        """(rows of queues that are handed on, BUILT rows)"""
        small = SmallQueues(self.files)
        table = pa.Table.from_pylist(self.rows, RUN)
        others = list(small.others(iter(table.to_batches(rows_a_batch))))
        built = [row for stream in small.take() for some in built_rows(stream)
                 for row in some.to_pylist()]  # fmt: skip
        return [row for some in others for row in some.to_pylist()], built


@pytest.mark.parametrize("rows_a_batch", [1, 2, 100])
@pytest.mark.parametrize("at_once", [3, 4, 1000])
def test_files_of_small_queues(monkeypatch, rows_a_batch: int, at_once: int) -> None:
    monkeypatch.setattr(queues, "_RUNS_AT_ONCE", at_once)
    job = Job((1, 0, 0, 2), (1, 1, 2, 2), (2, 0, 3, 4), (2, 1, 7, 1), (3, 1, 0, 1))
    others, built = job.run(rows_a_batch)
    assert others == []
    blank = pre_blank(1)
    wanted = {
        ("1", 0): b"".join(entry(1, n) for n in range(4)),
        ("2", 0): blank * 3 + entry(2, 3) + entry(2, 4),
        ("2", 1): b"".join(entry(2, n) for n in (5, 6, 7)),
        ("3", 0): entry(3, 0),
    }
    assert len(built) == len(wanted)
    for row in built:
        queue = row["folder"].rpartition("/")[2]
        content = wanted[queue, row["number"]]
        whole = content.ljust(IN_FILE * BYTES, b"\0")
        name = f"{PLACED_TREE}/{row['folder']}/{segment_name(row['number'] * len(whole))}"
        assert row["name"] == name
        assert job.storage.files[f"staging/{name}"] == whole
        assert row["sha256"] == hashlib.sha256(content).hexdigest()
        assert (row["length"], row["used"]) == (len(whole), len(content))
    assert sum(row["entries"] for row in built) == 10


@pytest.mark.parametrize(
    "change",
    [
        {"offsets_at": 0},
        {"batch": True},
        {"first": -1},
        {"first": (1 << 63) - 5},
        {"first": 1 << 60},
        {"count": 1 << 13},
    ],
    ids=str,
)
def test_other_queues_are_handed_on(change: Row) -> None:
    job = Job((1, 0, 0, 2), (2, 0, 0, 2), (3, 0, 0, 2))
    job.rows[1] |= change
    others, built = job.run(2)
    assert others == [job.rows[1]]
    assert [row["folder"] for row in built] == ["consumequeue/T/1", "consumequeue/T/3"]


def test_a_queue_that_does_not_go_on_is_handed_on_whole() -> None:
    job = Job((1, 0, 0, 2), (1, 1, 3, 2), (2, 0, 0, 2))
    others, built = job.run()
    assert others == job.rows[:2]
    assert len(built) == 1


def test_a_queue_of_more_rows_than_are_looked_at_is_handed_on_whole(monkeypatch) -> None:
    monkeypatch.setattr(queues, "_RUNS_AT_ONCE", 2)
    job = Job(*[(1, 0, n, 1) for n in range(5)], (2, 0, 0, 2))
    others, built = job.run(1)
    assert others == job.rows[:5]
    assert len(built) == 1


def test_a_second_attempt_makes_files_of_its_own() -> None:
    job = Job((1, 0, 0, 2))
    _, (first,) = job.run()
    job.storage.files[f"staging/{first['name']}"] = b"half"
    _, (second,) = job.run()
    assert second["name"] != first["name"]
    assert second["sha256"] == first["sha256"]
    whole = job.storage.files[f"staging/{second['name']}"]
    assert whole == np.frombuffer(entry(1, 0) + entry(1, 1), np.uint8).tobytes().ljust(100, b"\0")
