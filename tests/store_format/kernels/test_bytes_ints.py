"""Big-endian numbers at any index, as `struct` reads and writes them."""

import struct
from typing import Any

import numpy as np
import pytest
from numba import njit

from reput.store_format.kernels.bytes import get_i16, get_i32, get_i64, put_i32, put_i64
from reput.store_format.kernels.compiler import settled


@njit
@settled
def read_all(buf: Any, at: int) -> tuple[int, int, int]:
    return get_i16(buf, at), get_i32(buf, at), get_i64(buf, at)


@njit
@settled
def write_both(buf: Any, at: int, number: int) -> None:
    put_i32(buf, at, number)
    put_i64(buf, at + 4, number)


@pytest.mark.parametrize("at", [0, 1, 7])
@pytest.mark.parametrize(
    "raw", [bytes(8), b"\xff" * 8, b"\x80" + bytes(7), b"\x7f" + b"\xff" * 7, bytes(range(1, 9))]
)
def test_numbers_are_signed_and_may_stand_anywhere(raw: bytes, at: int) -> None:
    buf = np.frombuffer(b"\xaa" * at + raw, np.uint8)
    wanted = tuple(struct.unpack_from(form, raw)[0] for form in (">h", ">i", ">q"))
    assert read_all(buf, at) == wanted


@pytest.mark.parametrize("number", [0, -1, 1, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63)])
def test_only_the_lowest_bits_are_written_and_only_to_their_place(number: int) -> None:
    buf = np.full(15, 0xAA, np.uint8)
    write_both(buf, 1, number)
    low = struct.pack(">Q", number % (1 << 64))
    assert buf.tobytes() == b"\xaa" + low[4:] + low + b"\xaa\xaa"
