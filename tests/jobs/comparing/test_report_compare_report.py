"""The verdict on two logs, from the spans in which they differ."""

from typing import Any

import pytest

from reput.jobs.comparing.contents import ConfigsDiffer, Found, Named, QueueOnly
from reput.jobs.comparing.logs import Parting, Side, There, open_side
from reput.jobs.comparing.report import (
    AHEAD,
    BEHIND,
    DAMAGED,
    PARTED,
    SAME,
    CompareReport,
    Comparison,
    Epochs,
)
from reput.store_format.discover.store import store_at
from reput.store_format.log.groups import Epoch
from tests.jobs.comparing.pairs import COMMON, MASTER, SLAVE, store
from tests.memory_storage import MemoryStorage

ONLY = Found(queues=[QueueOnly("T", 0, "only", messages=1)])
AGAIN = Found(queues=[QueueOnly("T", 0, "again", messages=1)])
ALIKE = Parting((), (), ())


def side(name: str, count: int) -> Side:
    files = store(name, COMMON[:count])
    return open_side(store_at(name, "5.3.3", {}, MemoryStorage(files)))


OURS, THEIRS = side(MASTER, 9), side(SLAVE, 5)
END = THEIRS.end  # the shorter log's


def comparison(parting: Parting, found: Found | None = None, **more: Any) -> Comparison:
    given: dict[str, Any] = {
        "there": None, "found": (found or Found(), Found()), "configs": ConfigsDiffer(),
        "epochs": Epochs(), **more,
    }  # fmt: skip
    return Comparison(OURS, THEIRS, parting, **given)


@pytest.mark.parametrize(
    ("parting", "found", "verdict"),
    [
        (ALIKE, None, SAME),
        (Parting((), ((END, END + 9),), ()), None, BEHIND),
        (Parting((), (), ((END, END + 9),)), None, AHEAD),
        (Parting((), ((0, 9),), ((END, END + 9),)), None, PARTED),
        (Parting(((5, END - 1),), (), ()), None, DAMAGED),
        (Parting(((5, END - 1),), (), ()), AGAIN, DAMAGED),
        (Parting(((5, END - 1),), (), ()), ONLY, PARTED),
        (Parting(((5, END),), (), ()), None, PARTED),
        (Parting(((5, 6), (7, END)), (), ()), None, PARTED),
    ],
)
def test_bytes_that_differ_up_to_an_end_or_with_their_messages_part_logs(
    parting: Parting, found: Found | None, verdict: str
) -> None:
    assert comparison(parting, found).verdict == verdict


def test_logs_part_at_the_first_of_both_records() -> None:
    there = There(70, None, "x"), There(50, None, "y")
    assert comparison(Parting(((60, 80),), (), ()), there=there).at == 50
    assert comparison(ALIKE).at is None


@pytest.mark.parametrize(
    ("more", "same"),
    [
        ({}, True),
        ({"configs": ConfigsDiffer(notes=["no topics"])}, True),
        ({"configs": ConfigsDiffer(topics=Named(["A"]))}, False),
        ({"epochs": Epochs((Epoch(1, 0),), (Epoch(1, 0),))}, True),
        ({"epochs": Epochs((Epoch(1, 0),), None)}, False),
    ],
)
def test_stores_are_the_same_only_with_their_config_and_epochs(
    more: dict[str, Any], same: bool
) -> None:
    pair = comparison(ALIKE, **more)
    assert pair.same is same
    assert CompareReport([OURS, THEIRS], [comparison(ALIKE), pair]).same is same
    assert pair.verdict == SAME
