"""Several logs in one: by store time, each log's order kept, and numbered anew."""

from typing import Any

import numpy as np
import pytest

from reput.store_format.rewrite.placing import BEGINS, EXHAUSTED, interleave

SEGMENT = 100


class Joined:
    """Logs of (store time, size, queue) records, and the new log's places and numbers so far.

    puts: for each record its (queue, messages); by default that queue, if any, and one.
    """

    def __init__(
        self, *logs: list[tuple[int, int, int]], following: tuple[int, ...] = (0,),
        puts: list[list[tuple[int, int]]] | None = None,
    ) -> None:  # fmt: skip
        records = np.array([each for log in logs for each in log], np.int64).reshape(-1, 3)
        self.times, self.sizes, queues = (np.ascontiguousarray(column) for column in records.T)
        puts = puts or [[(queue, 1)] for queue in queues.tolist()]
        self.stops = np.cumsum([len(each) for each in puts], dtype=np.int64)
        flat = np.array([put for each in puts for put in each], np.int64).reshape(-1, 2)
        self.queues, self.messages = (np.ascontiguousarray(column) for column in flat.T)
        self.ends = np.cumsum([len(log) for log in logs], dtype=np.int64)
        self.cursors = np.concatenate(([0], self.ends[:-1])).astype(np.int64)
        self.following = np.array(following, np.int64)
        self.places = np.full(len(records), -7, np.int64)
        self.numbers = np.full(len(flat), -7, np.int64)

    def run(self, at: int = 0, begun: bool = True) -> Any:
        return interleave(
            self.times, self.sizes, self.stops, self.queues, self.messages, self.cursors,
            self.ends, self.following, at, SEGMENT, begun, self.places, self.numbers,
        )  # fmt: skip


def test_the_earliest_comes_first_and_of_equal_times_the_first_logs() -> None:
    joined = Joined([(5, 10, 0), (7, 10, 0), (7, 10, 0)], [(5, 10, 0), (6, 10, 0), (9, 10, 0)])
    assert joined.run() == (EXHAUSTED, 50)
    assert joined.places.tolist() == [0, 30, 40, 10, 20, -7]
    assert joined.numbers.tolist() == [0, 3, 4, 1, 2, -7]
    assert joined.cursors.tolist() == [3, 5]


def test_a_log_without_more_records_to_come_does_not_stop_the_others() -> None:
    joined = Joined([(1, 10, 0)], [(2, 10, 0), (3, 10, 0)])
    joined.run()
    joined.ends[0] = joined.cursors[0] = -1  # the caller has nothing left of it
    assert joined.run(10) == (EXHAUSTED, 30)
    joined.ends[1] = joined.cursors[1] = -1
    assert joined.run(30) == (EXHAUSTED, 30)


def test_queues_are_numbered_on_but_for_what_keeps_its_number() -> None:
    joined = Joined([(1, 9, 1), (2, 9, 0), (3, 9, -1), (4, 9, 1)], following=(70, 5))
    joined.run()
    assert joined.numbers.tolist() == [5, 70, -1, 6]
    assert joined.following.tolist() == [71, 7]


def test_a_record_has_a_number_in_each_of_its_queues_and_a_batch_several() -> None:
    puts = [[(0, 3), (2, 1)], [], [(1, 1), (2, 1), (-1, 1)]]
    log = [(1, 9, 0), (2, 9, 0), (3, 9, 0)]
    joined = Joined(log, log, following=(70, 5, 0), puts=[*puts, *puts])
    joined.run()
    assert joined.numbers.tolist() == [70, 0, 5, 2, -1, 73, 1, -7, -7, -7]
    assert joined.following.tolist() == [76, 6, 3]


@pytest.mark.parametrize(
    ("size", "why", "end"),
    [
        (32, EXHAUSTED, 92),  # 8 bytes are left for a BLANK
        (33, BEGINS, 100),
    ],
)
def test_a_record_that_leaves_no_room_for_a_blank_begins_a_segment(
    size: int, why: int, end: int
) -> None:
    joined = Joined([(1, 60, 0), (2, size, 0)])
    assert joined.run() == (why, end)
    if why == BEGINS:
        assert joined.cursors.tolist() == [1]
        assert joined.run(end) == (EXHAUSTED, end + size)
        assert joined.places.tolist() == [0, 100]


def test_the_callers_first_segment_is_told_unless_it_is_known() -> None:
    joined = Joined([(1, 60, 0)])
    assert joined.run(200, begun=False) == (BEGINS, 200)
    assert joined.run(200, begun=True) == (EXHAUSTED, 260)
