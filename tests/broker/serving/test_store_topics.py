"""Topics: as config/topics.json has them, however wrong, and those that only have queues."""

from typing import Any

import pytest

from reput.broker.serving.store import Topic, served_topics

INT_MAX = (1 << 31) - 1


def read(config: Any) -> Topic:
    return served_topics({"T": config}, {})["T"]


def test_a_configured_topic_is_as_the_file_says() -> None:
    config = {
        "readQueueNums": 3, "writeQueueNums": 2, "perm": 4, "topicSysFlag": 1, "order": True,
        "topicFilterType": "MULTI_TAG", "attributes": {"queue.type": "BatchCQ"},
    }  # fmt: skip
    made = read(config)
    assert made == Topic("T", 3, 2, 4, 1, True, "MULTI_TAG", {"queue.type": "BatchCQ"}, True)


def test_what_is_missing_is_as_a_new_topic_config_has_it() -> None:
    """TopicConfig: 16 queues to read and to write, PERM_READ | PERM_WRITE."""
    assert read({}) == Topic("T", 16, 16, 6, 0, False, "SINGLE_TAG", {}, True)


@pytest.mark.parametrize("wrong", ["4", 4.0, True, None, [], INT_MAX + 1, -(1 << 31) - 1])
def test_what_is_no_int_counts_as_missing(wrong: Any) -> None:
    made = read({"readQueueNums": wrong, "perm": wrong, "topicSysFlag": wrong})
    assert (made.read_queues, made.perm, made.sys_flag) == (16, 6, 0)
    assert read({"order": "true", "attributes": wrong})[5:8] == (False, "SINGLE_TAG", {})


@pytest.mark.parametrize(
    ("queues", "served"), [(0, 0), (1, 1), (1 << 16, 1 << 16), (INT_MAX, 1 << 16), (-5, -5)]
)
def test_a_hostile_number_of_queues_is_bounded(queues: int, served: int) -> None:
    made = read({"readQueueNums": queues, "writeQueueNums": queues})
    assert (made.read_queues, made.write_queues) == (served, served)


def test_a_topic_that_only_has_queues_has_as_many_as_its_greatest_id_says() -> None:
    both = served_topics({"T": {"perm": 2}, "bad": "text"}, {"T": 9, "U": 3, "bad": 1})
    assert (both["T"].read_queues, both["T"].perm, both["T"].configured) == (16, 2, True)
    assert both["U"] == Topic("U", 3, 3, 6, 0, False, "SINGLE_TAG", {}, False)
    assert not both["bad"].configured
    assert served_topics(None, {}) == {}


@pytest.mark.parametrize(
    ("attributes", "minimum"),
    [({}, 0), ({"queue.type": "SimpleCQ"}, 0), ({"queue.type": "BatchCQ"}, -1)],
)
def test_a_batch_queue_without_entries_begins_at_minus_1(
    attributes: dict[str, str], minimum: int
) -> None:
    assert read({"attributes": attributes}).empty_minimum == minimum
