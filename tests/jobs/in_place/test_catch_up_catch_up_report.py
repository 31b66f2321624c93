"""What people are told of a catch-up: what was or would be done, and what stays lost."""

from typing import Any

import pytest

from reput.jobs.in_place.catch_up import CaughtUp


def about(**more: Any) -> CaughtUp:
    given = {"store": "s", "output": "", "rocketmq": "5.3.3", "start": 1000, "log_end": 4_310_016,
             "end_reason": "zeros"}  # fmt: skip
    return CaughtUp(**{**given, **more})


@pytest.mark.parametrize(
    ("more", "head"),
    [
        ({}, "nothing new in s: the derived files hold all up to 4,310,016"),
        ({"done": True}, "nothing new in s: the derived files hold all up to 4,310,016"),
        ({"lacking": ["x"]}, "nothing new in s: but queues have lost what they had"),
        ({"needed": True}, "would catch up s as RocketMQ 5.3.3 would"),
        ({"needed": True, "done": True}, "caught up s as RocketMQ 5.3.3 would"),
        ({"needed": True, "done": True, "output": "o"}, "caught up s -> o as RocketMQ 5.3.3 would"),
        ({"needed": True, "releases": "5.3.0 to 5.3.3"},
         "would catch up s as RocketMQ 5.3.0 to 5.3.3 would"),
    ],
)  # fmt: skip
def test_the_first_line_says_what_was_done(more: dict[str, Any], head: str) -> None:
    assert about(**more).text().splitlines()[0] == head


def test_numbers_are_of_what_is_new() -> None:
    lines = about(entries=3750, queues=1, index_keys=1, seconds=1.25).text().splitlines()
    assert lines[1:] == [
        "  log       1,000 to 4,310,016 (zeros)",
        "  new       3,750 entries in 1 queue, 1 key",
        "  time      1.2 s",
    ]
    assert "  new       0 entries in 0 queues, 0 keys" in about().text()


def test_each_lack_each_left_out_topic_and_each_warning_has_its_line() -> None:
    more: dict[str, Any] = {"resumed": True, "lacking": ["a", "b"], "left_out": ["c"],
                            "warnings": ["d"]}  # fmt: skip
    assert about(**more).text().splitlines()[4:] == [
        "  resumed   an earlier catch-up, which was killed",
        "  lacks     a", "  lacks     b", "  left out  c", "  warning   d",
    ]  # fmt: skip


def test_what_the_store_shows_is_only_for_those_who_ask() -> None:
    found = {"maxIndexNum": {"value": 50, "by": "the index files"}}
    told = about(discovered=found)
    assert "found" not in told.text()
    assert told.details() == ["  found     50 entries: the index files"]
