"""Fields that no checksum covers: two witnesses must contradict one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reput.store_format.damage.contradictions import Neighbours
from reput.store_format.faults import Fault
from tests.logs.encoder import HOST, Message, properties
from tests.store_format.damage.walked import RULES, walked

START = 1_700_000_000_512
FAR = 1 << 30  # a bit of a time: twelve days
ODD = START + 3 ^ FAR
BAD_HOST = bytes((127, 0, 0, 3)) + HOST[4:]
OTHER_HOST = bytes((127, 0, 0, 6)) + HOST[4:]


def log_of(count: int = 7, **over: Any) -> list[Message]:
    return [
        Message(store_timestamp=START + n, born_timestamp=START + n - 1, body=b"body", **over)
        for n in range(count)
    ]


def marks(log: list[Message], lost: int | None = None) -> dict[int, Fault]:
    """The fault of each record, by its number; the record of number `lost` is no row."""
    raw, rows = walked(*log)
    kept = [n for n in range(len(log)) if n != lost]
    found = Neighbours(RULES).contradictions(raw, rows[kept])
    return {} if found is None else {kept[i]: Fault(found[i]) for i in np.flatnonzero(found)}


def with_third(**over: Any) -> list[Message]:
    log = log_of()
    log[3] = replace(log[3], **over)
    return log


@pytest.mark.parametrize(
    ("over", "lost", "fault"),
    [
        ({}, None, None),
        ({"store_timestamp": ODD}, None, Fault.TIME),
        ({"store_timestamp": START + 3 ^ 1 << 62}, None, Fault.TIME),
        ({"store_timestamp": ODD, "born_timestamp": ODD}, None, None),
        ({"store_timestamp": ODD, "born_timestamp": ODD}, 2, Fault.TIME),
        ({"store_timestamp": ODD, "born_timestamp": ODD}, 4, Fault.TIME),
        # of two times as odd as each other its own is nearer to the born one, or theirs is
        ({"store_timestamp": ODD, "born_timestamp": START + (ODD - START) * 6 // 10}, None, None),
        ({"store_timestamp": ODD, "born_timestamp": START + (ODD - START) // 3}, None, Fault.TIME),
        ({"store_timestamp": START - 86_400_000}, None, None),  # no one bit makes it right
        # a clock is corrected by up to a second
        ({"store_timestamp": START + 3 - (1 << 9)}, 2, None),
        ({"store_timestamp": START + 3 + (1 << 8)}, 2, None),
        ({"store_timestamp": START + 3 + (1 << 10)}, 2, Fault.TIME),
        ({"store_timestamp": START + 3 - (1 << 11)}, 2, Fault.TIME),
        ({"store_host": BAD_HOST}, None, None),  # one witness
        ({"store_host": BAD_HOST}, 4, Fault.HOST),  # damage right beside it
        ({"store_host": OTHER_HOST}, 4, None),  # three bits: it may be another broker
    ],
)  # fmt: skip
def test_a_time_or_a_host_is_doubted_by_two(
    over: dict[str, Any], lost: int | None, fault: Fault | None
) -> None:
    assert marks(with_third(**over), lost) == ({} if fault is None else {3: fault})


@pytest.mark.parametrize("number", [0, 1, 5, 6])
def test_a_host_wants_two_records_on_each_side(number: int) -> None:
    log = log_of()
    log[number] = replace(log[number], store_host=BAD_HOST)
    assert marks(log, number + 1 if number < 3 else number - 1) == {}


@pytest.mark.parametrize("number", [0, 6])
def test_the_first_and_the_last_record_have_one_neighbour(number: int) -> None:
    log = log_of()
    log[number] = replace(log[number], store_timestamp=START ^ FAR)
    assert marks(log) == {}


NEARLY = properties(("__CRC32'", "0000000000"))  # one bit from its name
SEALED = properties(("__CRC32#", "0000000000"))


@pytest.mark.parametrize(
    ("text", "lost", "fault"),
    [
        (SEALED, 2, None),
        (NEARLY, None, Fault.UNSEALED),
        (b"KEYS\x01k\x06" + SEALED, None, Fault.UNSEALED),  # or from the separator before it
        (b"KEYS\x01k\x02" + SEALED, 2, None),
        (b"KEYS\x01k\x07" + SEALED, None, None),
        (b"KEYS\x01k\x02", None, None),  # another release may have stored it
        (b"KEYS\x01k\x02", 2, Fault.UNSEALED),
        (b"KEYS\x01k\x02", 4, Fault.UNSEALED),
        (b"", 4, Fault.UNSEALED),
    ],
)
def test_a_seal_that_both_neighbours_have_is_missed(
    text: bytes, lost: int | None, fault: Fault | None
) -> None:
    log = log_of(properties=SEALED)
    log[3] = replace(log[3], properties=text)
    assert marks(log, lost) == ({} if fault is None else {3: fault})


def test_a_seal_that_one_neighbour_has_is_not_missed() -> None:
    sealed = log_of(properties=SEALED)
    assert marks([*sealed[:3], *log_of()[3:]], 4) == {}
    assert marks([*log_of()[:4], *sealed[4:]], 2) == {}


def test_a_windows_first_records_have_neighbours_in_the_window_before() -> None:
    """The last records come again in the next window."""
    log = with_third(store_timestamp=ODD)
    raw, rows = walked(*log)
    neighbours = Neighbours(RULES)
    assert neighbours.contradictions(raw, rows[:0]) is None
    assert neighbours.contradictions(raw, rows[:4]) is None
    found = neighbours.contradictions(raw, rows[3:])
    assert found is not None
    assert found.tolist() == [Fault.TIME, 0, 0, 0]
