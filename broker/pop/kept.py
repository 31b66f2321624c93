"""Popped messages as JSON, for a file that outlives the server."""

from collections.abc import Mapping
from typing import Any

from reput.broker.pop.in_flight import CheckPoint, InFlight, TooManyInFlight
from reput.broker.pop.order import OrderInfo, Orders

IN_FLIGHT, IN_ORDER = "popInFlight", "popOrder"
_WRONG = (ValueError, TypeError, IndexError, OverflowError)  # the last of int(1e999)
_POSITIONS_MOST = 1 << 10  # positions of one row; a pop gives 32 at most


def popped_rows(in_flight: InFlight, orders: Orders) -> dict[str, list[list[Any]]]:
    """Rows of all check points, and of all queues that are popped in order."""
    return {
        IN_FLIGHT: [
            [group, topic, each.queue_id, list(each.positions), each.left, each.pop_time,
             each.visible, each.times]
            for group, topic, each in in_flight.all()
        ],
        IN_ORDER: [
            [*key, each.attempt, each.pop_time, each.invisible, list(each.positions), each.left,
             list(each.visible.items()), list(each.counts.items())]
            for key, each in orders.all()
        ],
    }  # fmt: skip


def restore(table: Mapping[str, Any], in_flight: InFlight, orders: Orders) -> int:
    """Restore the rows of `popped_rows`. Returns the number of wrong rows, which are left out."""
    wrong = 0
    for row in _rows(table, IN_FLIGHT):
        try:
            group, topic, *numbers = row
            queue_id, positions, left, pop_time, visible, times = numbers
            point = CheckPoint(
                int(queue_id), _positions(positions), int(pop_time), int(visible), int(times)
            )
            point.left &= int(left)
            if point.left:
                in_flight.add(str(group), str(topic), point)
        except (*_WRONG, TooManyInFlight):
            wrong += 1
    for row in _rows(table, IN_ORDER):
        try:
            group, topic, queue_id, attempt, pop_time, invisible, positions, left, *pairs = row
            visible, counts = ({int(k): int(v) for k, v in each} for each in pairs)
            info = OrderInfo(
                None if attempt is None else str(attempt), int(pop_time), int(invisible),
                _positions(positions), int(left), visible, counts,
            )  # fmt: skip
            orders.put(str(group), str(topic), int(queue_id), info)
        except _WRONG:
            wrong += 1
    return wrong


def _rows(table: Mapping[str, Any], name: str) -> list[Any]:
    rows = table.get(name)
    return rows if isinstance(rows, list) else []


def _positions(given: Any) -> list[int]:
    positions = [int(each) for each in given]
    if not 0 < len(positions) <= _POSITIONS_MOST or positions != sorted(set(positions)):
        raise ValueError("no positions of a pop")
    return positions
