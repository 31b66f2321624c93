"""Topics, groups and offsets of two stores: names that one lacks, and fields that differ."""

from types import SimpleNamespace
from typing import Any

import pytest

from reput.jobs.comparing import contents
from reput.jobs.comparing.logs import Side, open_side
from reput.store_format.discover.store import store_at
from tests.jobs.comparing.pairs import COMMON, MASTER, SLAVE, store
from tests.memory_storage import MemoryStorage

NO_TOPICS: dict[str, Any] = {"topics.json": {"topicConfigTable": {}}}
NO_GROUPS: dict[str, Any] = {"subscriptionGroup.json": {"subscriptionGroupTable": {}}}


def side(name: str, config: dict[str, Any]) -> Side:
    files = store(name, COMMON[:1], config={**NO_TOPICS, **NO_GROUPS, **config})
    return open_side(store_at(name, "5.3.3", {}, MemoryStorage(files)))


def compared(ours: dict[str, Any], theirs: dict[str, Any]) -> contents.ConfigsDiffer:
    return contents.compare_configs(side(MASTER, ours), side(SLAVE, theirs))


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
    assert found.topics == contents.Named(["A"], ["C"], {"B": fields})
    assert bool(found)
    two: dict[str, Any] = {"subscriptionGroup.json": {"subscriptionGroupTable": {"g": {}, "h": {}}}}
    one: dict[str, Any] = {"subscriptionGroup.json": {"subscriptionGroupTable": {"g": {}}}}
    assert compared(two, one).groups == contents.Named(["h"])


def test_offsets_and_delays_are_compared_by_queue_and_level_and_0_is_not_none() -> None:
    pairs: Any = [({}, {}), ({"0": 5}, {"0": 5}), ({"0": 5}, {}), ({"0": 0}, {})]
    for ours, theirs in pairs:
        found = compared(consumed({"T@g": ours}), consumed({"T@g": theirs}))
        differs = ours != theirs
        assert found.offsets == (
            [contents.OffsetDiffers("g", "T", 0, ours["0"], None)] if differs else []
        )
        assert bool(found) is differs
    one = {"T@g": {"0": 5, "10": 7, "2": 1}, "T@h": {"0": 1}}
    other = {"T@g": {"0": 6, "10": 7}, "U@g": {"1": 3}}
    assert compared(consumed(one), consumed(other)).offsets == [
        contents.OffsetDiffers("g", "T", 0, 5, 6), contents.OffsetDiffers("g", "T", 2, 1, None),
        contents.OffsetDiffers("g", "U", 1, None, 3), contents.OffsetDiffers("h", "T", 0, 1, None),
    ]  # fmt: skip
    levels = ({"delayOffset.json": {"offsetTable": each}}
              for each in ({"1": 5, "3": 2}, {"1": 5, "2": 9}))  # fmt: skip
    assert compared(*levels).delays == [("2", None, 9), ("3", 2, None)]


def test_a_table_that_one_store_lacks_is_noted_and_not_compared() -> None:
    files = store(SLAVE, COMMON[:1], config=NO_GROUPS)
    theirs = open_side(store_at(SLAVE, "5.3.3", {}, MemoryStorage(files)))
    found = contents.compare_configs(side(MASTER, topics(A={})), theirs)
    assert not found
    assert found.notes == [f"{SLAVE}: config/ has no topics: they are not compared"]
    neither = contents.compare_configs(theirs, theirs)
    assert (bool(neither), neither.notes) == (False, [])


# --- What only one store has, added up by queue: -1 is not a number of a message.
ROW = {"messages": 1, "bytes": 100, "least": 5, "greatest": 5, "oldest": 70, "newest": 70}


@pytest.mark.parametrize(("more", "least", "greatest"), [
    ({"least": 3, "greatest": 4}, 3, 5), ({"least": 7, "greatest": 9}, 5, 9),
    ({"least": -1, "greatest": -1}, 5, 5), ({"least": 0, "greatest": 0}, 0, 5),
])  # fmt: skip
def test_rows_of_a_queue_become_one(more: dict[str, int], least: int, greatest: int) -> None:
    other = {**ROW, "oldest": 60, "newest": 80, **more}
    for rows in ([ROW, other], [other, ROW]):
        queue = contents.QueueOnly("T", 0, "only")
        for row in rows:
            queue.add(row)
        assert (queue.messages, queue.bytes) == (2, 200)
        assert (queue.least, queue.greatest) == (least, greatest)
        assert (queue.oldest, queue.newest) == (60, 80)


def test_messages_are_counted_by_kind_and_those_of_brokers_apart() -> None:
    found = contents.Found(
        same=9,
        queues=[
            contents.QueueOnly("T", 0, "only", messages=2),
            contents.QueueOnly("T", 1, "only", messages=3),
            contents.QueueOnly("SCHEDULE_TOPIC_XXXX", 4, "only", messages=10),
            contents.QueueOnly("T", 0, "again", messages=100),
        ],
    )  # fmt: skip
    assert [found.count("only", system) for system in (None, True, False)] == [15, 10, 5]
    assert [found.count(kind) for kind in ("again", "damaged")] == [100, 0]
    told = found.as_json()
    assert {name: told[name] for name in ("same", "only", "again", "damaged")} == {
        "same": 9, "only": 15, "again": 100, "damaged": 0,
    }  # fmt: skip
    assert contents.Found().count("only") == 0
    assert contents.QueueOnly("T", 0, "only").least == -1


def test_a_report_names_twenty_messages_of_each_kind() -> None:
    row = {"log": 0, "topic": "T", "queue_id": 0, "kind": 0, **ROW, "first": ["{}"] * 20}
    found = contents.Found(), contents.Found()
    contents._add_up(
        [{**row, "walk": n, "lines": ""} for n in range(len(contents.KINDS) + 1)], found
    )
    assert [len(each.first) for each in found] == [20 * len(contents.KINDS), 0]


def test_a_log_is_walked_to_its_own_end() -> None:
    log = SimpleNamespace(segments=[SimpleNamespace(start=n, end=n + 100) for n in (0, 100)])
    sides = [SimpleNamespace(log=log, end=end) for end in (150, 200)]
    walks = [(each.log, *each.spans) for each in contents.walks_of(sides, [(40, 180)])]
    assert walks == [(0, (40, 100)), (0, (100, 150)), (1, (40, 100)), (1, (100, 180))]
