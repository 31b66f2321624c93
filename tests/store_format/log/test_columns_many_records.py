"""The records at many places: those that are whole in the window, and those left to another."""

from typing import Any

import numpy as np
import pytest

from reput.store_format.log.columns import records_at
from tests.logs import Message, build_log
from tests.logs.damage import record_places
from tests.store_format.log.windows import reader_of

SEGMENT = 1 << 15
MESSAGES = [Message(queue_offset=n, body=bytes(n % 7 * 40)) for n in range(500)]
LOG = build_log(MESSAGES, SEGMENT, SEGMENT)
PLACES = record_places(LOG)


def found(segments: dict[int, bytes], places: list[int]) -> tuple[list[int], list[int]]:
    """(the places that were read, the others), each in the order that they came."""
    log, _ = reader_of(segments)
    read, others = [], list[int]()
    with log:
        for records in records_at(log, np.array(places, np.int64)):
            read += records.rows["physicalOffset"].tolist()
            others += records.others
    return read, others


@pytest.mark.parametrize("step", [1, 2, 60, 499, 500])
def test_all_places_are_read_whatever_lies_between_them(step: int) -> None:
    assert len(LOG) > 2
    assert found(LOG, PLACES[::step]) == (PLACES[::step], [])


def test_fields_are_those_of_the_record_at_its_place() -> None:
    log, _ = reader_of(LOG)
    with log:
        (some,) = records_at(log, np.array(PLACES[:3]))
        offsets = [int(row["queueOffset"]) for row in some.rows]
        assert offsets == [0, 1, 2]
        window = some.window.data
        assert [bytes(window[row["bodyAt"] :][: row["bodyLength"]]) for row in some.rows] == [
            message.body for message in MESSAGES[:3]
        ]


def test_places_outside_the_log_or_within_a_record_are_left_to_another() -> None:
    end = max(LOG) + SEGMENT
    wrong = [0, SEGMENT - 1, PLACES[1] + 4, end - 3, end, 1 << 60]
    read, others = found(LOG, sorted([*wrong, PLACES[0], PLACES[1], PLACES[2]]))
    assert (read, sorted(others)) == (PLACES[:3], wrong)


def test_a_record_of_more_bytes_than_are_read_ahead_is_left_to_another() -> None:
    sizes = [2048 - 92, 2048 - 91, 10]
    log = build_log([Message(body=bytes(size)) for size in sizes], SEGMENT)
    first, second, third = record_places(log)
    assert (second - first, third - second) == (2048, 2049)
    assert found(log, [first]) == ([first], [])
    assert found(log, [second]) == ([], [second])
    assert found(log, [first, second, third]) == ([first, third], [second])


def test_of_no_place_there_is_nothing() -> None:
    assert found(LOG, []) == ([], [])


def test_neighbours_are_read_in_one_piece() -> None:
    log, storage = reader_of(LOG)
    asked = list[tuple[int, int]]()
    opened = storage.open

    def counted(path: str, state: Any = None) -> Any:
        reader = opened(path, state)
        read_into = reader.read_into

        def noted(offset: int, buffer: Any) -> None:
            asked.append((offset, len(buffer)))
            read_into(offset, buffer)

        reader.read_into = noted  # type: ignore[method-assign]
        return reader

    storage.open = counted  # type: ignore[method-assign]
    with log:
        list(records_at(log, np.array([*PLACES[:3], PLACES[100]])))
    wanted = PLACES[2] - PLACES[0] + 2048
    assert asked == [(0, wanted), (PLACES[100] - SEGMENT, 2048)]
