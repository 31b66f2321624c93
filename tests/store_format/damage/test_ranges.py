"""Ranges of a log as rows: nothing of them is lost, however odd their numbers are."""

import json

import numpy as np
import pytest

from reput.store_format.damage.ranges import (
    CONTENT,
    FOLLOWS,
    KINDS,
    RANGE,
    Damage,
    DamageKind,
    as_row,
    damages,
)
from reput.store_format.faults import Fault

LONG_MAX, INT_MIN = (1 << 63) - 1, -(1 << 31)
SOUGHT = Damage(4096, 4200, DamageKind.DAMAGED, Fault.BAD_MAGIC, 104, 7, "record")


def there_and_back(*ranges: Damage) -> list[Damage]:
    return list(damages(np.array([as_row(each) for each in ranges], RANGE)))


def test_a_range_ends_before_its_end() -> None:
    assert SOUGHT.length == 104
    assert SOUGHT._replace(end=SOUGHT.offset).length == 0


@pytest.mark.parametrize("value", [None, 0, -1, INT_MIN, LONG_MAX, ~LONG_MAX])
def test_a_value_of_nought_is_a_value_and_none_is_none(value: int | None) -> None:
    assert there_and_back(SOUGHT._replace(value=value)) == [SOUGHT._replace(value=value)]


def test_every_kind_fault_and_end_comes_back() -> None:
    ranges = [
        *(SOUGHT._replace(kind=kind) for kind in DamageKind),
        *(SOUGHT._replace(fault=fault) for fault in Fault),
        *(SOUGHT._replace(follows=follows) for follows in FOLLOWS),
    ]
    assert there_and_back(*ranges) == ranges


def test_a_damaged_size_and_the_end_of_the_longest_log_fit() -> None:
    far = SOUGHT._replace(offset=LONG_MAX - 1, end=LONG_MAX, size=INT_MIN)
    assert there_and_back(far, SOUGHT) == [far, SOUGHT]


def test_no_rows_are_no_ranges() -> None:
    assert there_and_back() == []


def test_a_content_range_is_known_by_its_number() -> None:
    rows = np.array([as_row(SOUGHT._replace(kind=kind)) for kind in KINDS], RANGE)
    assert [KINDS[n] for n in np.flatnonzero(rows["kind"] == CONTENT)] == [DamageKind.CONTENT]


def test_a_range_out_of_rows_can_be_written_as_json() -> None:
    [found] = there_and_back(SOUGHT)
    assert json.loads(json.dumps(found)) == [4096, 4200, "damaged", 5, 104, 7, "record"]
