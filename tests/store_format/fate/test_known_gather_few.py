"""Marks of records whose places are known, against those that a walk of the log finds."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from reput.store_format.fate.known import gather_few
from tests.store_format.fate.logs import OP, SmallLog


class OpQueue:
    """The op messages in the order of the log, as their queue has them."""

    def __init__(self, places: list[int]) -> None:
        self.places = places

    def maximum(self) -> int:
        return len(self.places)

    def entries(self, first: int, stop: int | None = None) -> Iterator[Any]:
        for position in range(first, self.maximum() if stop is None else stop):
            yield SimpleNamespace(position=position, physical_offset=self.places[position])


def few(log: SmallLog, halves: list[int], ops: list[int]) -> list[int]:
    """The places of the op messages that are found."""

    def queue(topic: str) -> Any:
        return OpQueue(ops if topic == OP else [])

    found = gather_few(log.reader(), halves, queue, split=False, near_end=0)
    assert sorted({*halves, *found.ended["physicalOffset"].tolist()}) == (
        found.marks["physicalOffset"].tolist()
    )
    return found.ended["physicalOffset"].tolist()  # type: ignore[no-any-return]


def test_ops_are_read_until_each_half_message_is_named(log: SmallLog) -> None:
    halves = [log.half("a"), log.half("b")]
    ops = [log.op(b"1,"), log.op(b"0,"), log.op(b"0,1,")]
    assert few(log, halves, ops) == ops[:2]
    assert few(log, halves[:1], ops) == ops[1:2]


def test_an_op_names_no_half_message_that_stands_behind_it(log: SmallLog) -> None:
    """It is of one that had the same queueOffset before; a walk of the log says so too."""
    first = log.half("a")
    early = log.op(b"0,1,")
    second = log.half("b")
    late = log.op(b"1,")
    assert few(log, [first, second], [early, late]) == [early, late]
    assert few(log, [second], [early, late]) == [late]
