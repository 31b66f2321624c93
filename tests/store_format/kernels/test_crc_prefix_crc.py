"""CRCs of ranges from prefixes that are each hashed once, against zlib's."""

import random
import zlib
from typing import Any

import numpy as np
import pytest

from reput.store_format.kernels.crc import SPACING, PrefixCrc, shift

DATA = random.Random(7).randbytes(5 * SPACING + 17)
START = 1000  # where the data begins in its file


def prefixes(data: bytes = DATA) -> PrefixCrc:
    def read(at: int, buffer: Any) -> None:
        assert at >= START
        assert at + len(buffer) <= START + len(data)
        buffer[:] = np.frombuffer(data, np.uint8, len(buffer), at - START)

    return PrefixCrc(read, START, START + len(data))


@pytest.mark.parametrize("length", [0, 1, 7, 1023, 1 << 20])
def test_a_shift_is_what_zeros_behind_would_do(length: int) -> None:
    # a CRC is linear, but for the ones that zlib begins and ends with
    assert shift(0, length) == 0
    wanted = zlib.crc32(b"a" + bytes(length)) ^ zlib.crc32(b"b" + bytes(length))
    assert shift(zlib.crc32(b"a") ^ zlib.crc32(b"b"), length) == wanted


@pytest.mark.parametrize(
    ("at", "end"),
    [
        (0, 0),
        (0, 1),
        (5, 5),
        (0, SPACING),
        (SPACING, 2 * SPACING),
        (SPACING - 1, SPACING + 1),
        (3, len(DATA)),
        (0, len(DATA)),
        (len(DATA), len(DATA)),
    ],
)
def test_any_range_has_zlibs_crc(at: int, end: int) -> None:
    assert prefixes().crc(START + at, START + end) == zlib.crc32(DATA[at:end])


def test_ranges_in_any_order_agree() -> None:
    crc = prefixes()
    for at, end in ((4000, 5000), (10, 20), (0, len(DATA)), (2000, 4100)):
        assert crc.crc(START + at, START + end) == zlib.crc32(DATA[at:end])


def test_after_the_first_pass_a_range_costs_two_spacings_at_most() -> None:
    crc = prefixes()
    crc.crc(START, START + len(DATA))
    assert crc.hashed <= len(DATA) + SPACING
    for at in range(0, 5 * SPACING, 501):
        before = crc.hashed
        crc.crc(START + at, START + len(DATA))
        assert crc.hashed - before <= 2 * SPACING


@pytest.mark.parametrize("length", [3, SPACING, 2 * SPACING])
def test_data_may_end_before_the_first_mark_or_at_one(length: int) -> None:
    crc = prefixes(DATA[:length]).crc(START + 1, START + length)
    assert crc == zlib.crc32(DATA[1:length])
