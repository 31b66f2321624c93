"""Popped messages outlive the server as JSON, and wrong rows of it are left out."""

import json
from typing import Any

import pytest

from reput.broker.serving.popped import (
    IN_FLIGHT,
    IN_ORDER,
    CheckPoint,
    InFlight,
    Orders,
    popped_rows,
    restore,
)

POINT = ["g", "t", 2, [10, 11], 0b11, 1000, 1060, 0]
INFINITE = json.loads("1e999")
ORDER = ["g", "t", 2, "first", 1000, 60, [10, 11], 0b11, [[11, 5000]], [[10, 1]]]


def restored(table: dict[str, Any]) -> tuple[InFlight, Orders, int]:
    in_flight, orders = InFlight(), Orders()
    return in_flight, orders, restore(table, in_flight, orders)


def test_what_was_popped_is_the_same_after_a_restart() -> None:
    in_flight, orders = InFlight(), Orders()
    point = CheckPoint(2, [10, 11, 14], 1000, 1060, 1)
    point.left &= 0b101
    in_flight.add("g", "t", point)
    orders.popped("first", "g", "t", 2, 1000, 60, [10, 11])
    orders.commit("g", "t", 2, 10, 1000)
    orders.show_at("g", "t", 2, 11, 1000, 5000)
    rows = json.loads(json.dumps(popped_rows(in_flight, orders)))
    again, ordered, wrong = restored(rows)
    assert wrong == 0
    (found,) = again.all()
    assert found[:2] == ("g", "t")
    assert (list(found[2].positions), found[2].left, found[2].times) == ([10, 11, 14], 0b101, 1)
    assert ordered.blocked_until(None, "g", "t", 2, 1000) == 5000
    assert ordered.blocked_until("first", "g", "t", 2, 1000) is None
    assert ordered.commit("g", "t", 2, 11, 1000) == 12


@pytest.mark.parametrize("table", [{}, {IN_FLIGHT: None, IN_ORDER: 7}, {"other": [1]}])
def test_a_file_without_rows_restores_nothing(table: dict[str, Any]) -> None:
    in_flight, orders, wrong = restored(table)
    assert (list(in_flight.all()), list(orders.all()), wrong) == ([], [], 0)


def changed(row: list[Any], at: int, value: Any) -> list[Any]:
    return [*row[:at], value, *row[at + 1 :]]


@pytest.mark.parametrize(
    "row",
    [
        7,
        [],
        POINT[:-1],
        [*POINT, 0],
        changed(POINT, 2, "x"),
        changed(POINT, 3, []),
        changed(POINT, 3, [11, 10]),
        changed(POINT, 3, [10, 10]),
        changed(POINT, 3, 10),
        changed(POINT, 3, list(range(1025))),
        changed(POINT, 4, None),
        *(changed(POINT, at, INFINITE) for at in (2, 4, 5, 6, 7)),
        changed(POINT, 3, [INFINITE]),
    ],
)
def test_a_wrong_row_is_counted_and_the_others_are_restored(row: Any) -> None:
    in_flight, _, wrong = restored({IN_FLIGHT: [row, POINT]})
    assert (len(list(in_flight.all())), wrong) == (1, 1)


@pytest.mark.parametrize(
    "row",
    [
        ORDER[:-1], changed(ORDER, 6, []), changed(ORDER, 8, [[1]]), changed(ORDER, 9, None),
        *(changed(ORDER, at, INFINITE) for at in (2, 4, 5, 7)), changed(ORDER, 9, [[1, INFINITE]]),
    ],
)  # fmt: skip
def test_so_is_one_of_a_queue_in_order(row: Any) -> None:
    _, orders, wrong = restored({IN_ORDER: [row, changed(ORDER, 3, None)]})
    (found,) = orders.all()
    assert (found[0], found[1].attempt, wrong) == (("g", "t", 2), None, 1)


def test_a_check_point_of_which_nothing_is_left_is_dropped() -> None:
    for left in (0, 0b100):  # a bit of no message
        in_flight, _, wrong = restored({IN_FLIGHT: [changed(POINT, 4, left)]})
        assert (list(in_flight.all()), wrong) == ([], 0)
