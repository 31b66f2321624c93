"""Topics, groups and offsets of two stores: names that one lacks, and fields that differ."""

from typing import Any

import pytest

from reput.jobs.comparing.contents import ConfigsDiffer, Named, OffsetDiffers, compare_configs
from reput.jobs.comparing.logs import Side, open_side
from reput.store_format.discover.store import store_at
from tests.jobs.comparing.pairs import COMMON, MASTER, SLAVE, store
from tests.memory_storage import MemoryStorage

NO_TOPICS: dict[str, Any] = {"topics.json": {"topicConfigTable": {}}}
NO_GROUPS: dict[str, Any] = {"subscriptionGroup.json": {"subscriptionGroupTable": {}}}


def side(name: str, config: dict[str, Any]) -> Side:
    files = store(name, COMMON[:1], config={**NO_TOPICS, **NO_GROUPS, **config})
    return open_side(store_at(name, "5.3.3", {}, MemoryStorage(files)))


def compared(ours: dict[str, Any], theirs: dict[str, Any]) -> ConfigsDiffer:
    return compare_configs(side(MASTER, ours), side(SLAVE, theirs))


def consumed(table: Any) -> dict[str, Any]:
    return {"consumerOffset.json": {"offsetTable": table}}


def topics(**table: Any) -> dict[str, Any]:
    return {"topics.json": {"topicConfigTable": table}}


def test_a_topic_differs_by_its_fields_and_a_field_may_be_lacking() -> None:
    found = compared(
        topics(A={"perm": 6}, B={"perm": 6, "order": False}, D={}),
        topics(B={"perm": 4, "readQueueNums": 8}, C={"perm": 6}, D={}),
    )
    fields = {"perm": (6, 4), "order": (False, None), "readQueueNums": (None, 8)}
    assert found.topics == Named(["A"], ["C"], {"B": fields})
    assert bool(found)


@pytest.mark.parametrize(
    ("ours", "theirs", "differs"),
    [({}, {}, False), ({"0": 5}, {"0": 5}, False), ({"0": 5}, {}, True), ({"0": 0}, {}, True)],
)
def test_an_offset_of_0_is_not_no_offset(
    ours: dict[str, int], theirs: dict[str, int], differs: bool
) -> None:
    one, other = (
        {"consumerOffset.json": {"offsetTable": {"T@g": each}}} for each in (ours, theirs)
    )
    found = compared(one, other)
    assert found.offsets == ([OffsetDiffers("g", "T", 0, ours["0"], None)] if differs else [])
    assert bool(found) is differs


def test_offsets_are_compared_queue_by_queue() -> None:
    ours = {"T@g": {"0": 5, "10": 7, "2": 1}, "T@h": {"0": 1}}
    theirs = {"T@g": {"0": 6, "10": 7}, "U@g": {"1": 3}}
    assert compared(consumed(ours), consumed(theirs)).offsets == [
        OffsetDiffers("g", "T", 0, 5, 6), OffsetDiffers("g", "T", 2, 1, None),
        OffsetDiffers("g", "U", 1, None, 3), OffsetDiffers("h", "T", 0, 1, None),
    ]  # fmt: skip


def test_delays_differ_by_their_level() -> None:
    one, other = (
        {"delayOffset.json": {"offsetTable": each}} for each in ({"1": 5, "3": 2}, {"1": 5, "2": 9})
    )
    assert compared(one, other).delays == [("2", None, 9), ("3", 2, None)]


def test_a_table_that_one_store_lacks_is_noted_and_not_compared() -> None:
    files = store(SLAVE, COMMON[:1], config=NO_GROUPS)
    theirs = open_side(store_at(SLAVE, "5.3.3", {}, MemoryStorage(files)))
    found = compare_configs(side(MASTER, topics(A={})), theirs)
    assert not found
    assert found.notes == [f"{SLAVE}: config/ has no topics: they are not compared"]
    neither = compare_configs(theirs, theirs)
    assert (bool(neither), neither.notes) == (False, [])
