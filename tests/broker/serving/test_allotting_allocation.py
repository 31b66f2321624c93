"""Who gets which queue, against what RocketMQ's own strategies gave (allocation_cases.py)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.broker.serving.allotting import (
    CannotAllocate,
    MessageQueue,
    allocation,
    averagely,
    in_order,
    machine_room,
    strategies,
)
from tests.broker.allocation_cases import FILE, case, ours

THEIRS = json.loads(FILE.read_text("utf-8"))


def test_what_rocketmq_gives() -> None:
    wrong = [
        (seed, case(seed)["strategy"], ours(case(seed)), theirs)
        for seed, theirs in enumerate(THEIRS)
        if ours(case(seed)) != theirs
    ]
    assert wrong == []
    assert {case(seed)["strategy"] for seed, theirs in enumerate(THEIRS) if theirs} == {
        "AVG", "AVG_BY_CIRCLE", "MACHINE_ROOM", "CONSISTENT_HASH", "CONFIG",
    }  # fmt: skip
    assert None in THEIRS


@given(
    st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=9, unique=True),
    st.integers(1, 40),
)
def test_every_queue_has_exactly_one_client(clients: list[str], count: int) -> None:
    queues = [MessageQueue("T", "r@b", number) for number in range(count)]
    for name, strategy in strategies(rooms=["r"]).items():
        shares = allocation(strategy, queues, clients)
        assert sorted(q for share in shares.values() for q in share) == queues, name


def test_queues_and_clients_are_sorted_as_java_sorts_them() -> None:
    emoji, last = (
        "\U0001f600",
        "\uffee",
    )  # the first is the greater code point, not the greater unit
    queues = [MessageQueue("T", "b", 10), MessageQueue("T", "b", 9), MessageQueue("S", "c", 1)]
    ordered, ids = in_order(queues, [last, emoji, "a"])
    assert ordered == [queues[2], queues[1], queues[0]]
    assert ids == ["a", emoji, last]


def test_machine_rooms_are_left_out_where_none_is_named() -> None:
    assert "MACHINE_ROOM" not in strategies()
    assert allocation(averagely, [MessageQueue("T", "b", 0)], ["x", "y"]) == {
        "x": [MessageQueue("T", "b", 0)],
        "y": [],
    }
    with pytest.raises(CannotAllocate):
        allocation(averagely, [], ["x"])


@pytest.mark.parametrize(
    ("broker", "room"), [("r1@x", "r1"), ("r1@x@", "r1"), ("@x", ""), ("r1@", None), ("r1", None)]
)
def test_a_brokers_room_is_what_java_splits_off(broker: str, room: str | None) -> None:
    queues = [MessageQueue("T", broker, 0)]
    for each in ("r1", ""):
        assert machine_room("c", queues, ["c"], [each]) == (queues if each == room else [])
