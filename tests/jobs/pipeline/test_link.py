"""Splits that were walked apart become one log only where each begins where the one before ends."""

import gc
import tracemalloc
from typing import Any

import pyarrow as pa
import pytest

from reput.jobs.pipeline.link import Linked, by_split, link, link_all
from reput.store_format.faults import Fault
from reput.store_format.files.protocol import FileState
from reput.store_format.log.segments import Segment, Splits
from reput.udfs.staging import SCANNED

SEGMENT, SPLIT = 1000, 400  # splits of a segment: 0 to 400, 400 to 800, 800 to 1000
Scanned = dict[int, dict[str, Any]]


def splits(segments: int = 2, limit: int | None = None) -> Splits:
    files = [Segment(f"log/{n}", n * SEGMENT, FileState(SEGMENT, 0, 0)) for n in range(segments)]
    return Splits(files, SPLIT, SEGMENT, limit)


def rows(*walks: tuple[int, int, Fault], zeros: bool = False) -> Scanned:
    """(first, next, fault) of each split's walk, from split 0 on."""
    return {
        n: {"split": n, "first": first, "next": end, "fault": int(fault), "size": 7,
            "run": f"r{n}", "records": 1 if end > first >= 0 else 0, "rest_is_zero": zeros}
        for n, (first, end, fault) in enumerate(walks)
    }  # fmt: skip


WHOLE = [(0, 450, Fault.NONE), (450, 810, Fault.NONE), (810, 1000, Fault.BLANK),
         (1000, 1400, Fault.NONE), (1400, 1800, Fault.NONE), (1800, 2000, Fault.BLANK)]  # fmt: skip


def test_all_is_scanned_once_and_then_what_was_walked_wrongly() -> None:
    asked: list[tuple[list[int], dict[int, int]]] = []

    def scan(scanned: Scanned, numbers: Any, firsts: dict[int, int]) -> None:
        asked.append((list(numbers), firsts))
        right = rows(*WHOLE)
        wrong = rows(*[(max(at - 1, 0), end, fault) for at, end, fault in WHOLE])
        for n in numbers:
            scanned[n] = right[n] if n in firsts or n in (0, 3) else wrong[n]

    assert link_all(splits(), scan).end == 2000
    assert asked == [([0, 1, 2, 3, 4, 5], {}), ([1], {1: 450}), ([2], {2: 810}),
                     ([4], {4: 1400}), ([5], {5: 1800})]  # fmt: skip


@pytest.mark.parametrize("zeros", [False, True])
def test_a_log_ends_at_its_first_fault(zeros: bool) -> None:
    walks = [WHOLE[0], (450, 600, Fault.ZEROS), *[(-1, -1, Fault.ZEROS)] * 4]
    walks[3] = (1000, 1000, Fault.ZEROS)
    scanned = rows(*walks, zeros=zeros)
    found = link(splits(), scanned)
    assert isinstance(found, Linked)
    assert found.broke == (1, 600, Fault.ZEROS, 7, zeros)
    assert (found.end, list(found.runs)) == (600, [0, 1])
    scanned[5] |= {"first": 1850, "records": 1}
    again = link(splits(), scanned)
    assert isinstance(again, Linked)
    assert again.broke is not None
    assert not again.broke.rest_is_zero


SEQUENCES = [  # (index, term) of a split's first and last entry, the fault, the value that is told
    ((10, 2), None, 10),
    ((12, 2), Fault.HEAD_INDEX, 12),
    ((9, 2), Fault.HEAD_INDEX, 9),
    ((10, 1), Fault.HEAD_TERM, 1),
    ((10, 3), None, 10),
]


@pytest.mark.parametrize(("first", "fault", "value"), SEQUENCES)
@pytest.mark.parametrize("split", [1, 3, 6])
def test_a_group_s_entries_go_on_by_one_and_its_terms_never_fall(
    first: tuple[int, int], fault: Fault | None, value: int, split: int
) -> None:
    walks = [*WHOLE, *((a + 2000, b + 2000, fault) for a, b, fault in WHOLE[:3])]
    scanned = rows(*walks)
    for row in scanned.values():
        row["sequence"] = [-1, -1, -1, -1]
    scanned[0]["sequence"] = [5, 2, 9, 2]
    scanned[split]["sequence"] = [*first, 20, 3]
    found = link(splits(3), scanned)
    assert isinstance(found, Linked)
    if fault is None:
        assert found.broke is None
    else:
        assert found.broke == (split, walks[split][0], fault, value, False)
        assert found.end == walks[split][0]
        assert list(found.runs) == list(range(split))


def test_a_split_is_columns_in_the_driver() -> None:
    """As a dict it took 1.2 KB: 220 MB for the 186,264 splits of 50 TB."""
    count = 5000
    walk = {n: {"split": n, "run": f"scan-{n:08d}-{n:032x}", "first": n * 100, "records": 1,
                "next": n * 100 + 100, "fault": 0, "size": 0, "rest_is_zero": False, "queues": 9}
            for n in range(count)}  # fmt: skip
    log = Splits([Segment("0", 0, FileState(count * 100, 0, 0))], 100, count * 100, None)
    table = pa.Table.from_pylist(list(walk.values()), SCANNED)
    gc.collect()
    tracemalloc.start()
    found = link_all(log, lambda scanned, *_: scanned.update(by_split(table)))
    held = tracemalloc.get_traced_memory()[0] + table.nbytes
    tracemalloc.stop()
    assert found.runs == {n: row["run"] for n, row in walk.items()}
    assert [dict(row) for row in found.accepted[:2]] == table.slice(0, 2).to_pylist()
    assert held / count < 400
