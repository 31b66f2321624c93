"""Blocks of 16 bytes and their carry-less product, against a product bit by bit."""

from typing import Any

import numpy as np
import pytest
from numba import njit

from reput.store_format.kernels import carryless as c

pytestmark = pytest.mark.skipif(not c.AVAILABLE, reason="this processor has no PCLMULQDQ")

ONES = (1 << 64) - 1
U = np.uint64


def product(one: int, other: int) -> int:
    """The product of two polynomials over the field of two elements: addition is xor."""
    found = 0
    for bit in range(64):
        if other >> bit & 1:
            found ^= one << bit
    return found


if c.AVAILABLE:

    @njit
    def folded(buf: Any, at: Any, low: Any, high: Any) -> tuple[Any, Any]:
        done = c.fold(c.load_block(buf, at), c.factors(low, high), c.load_block(buf, at + 32))
        return c.half(done, 0), c.half(done, 1)

    @njit
    def folded_pair(buf: Any, at: Any, low: Any, high: Any) -> tuple[Any, Any, Any, Any]:
        pair = c.fold(c.load_pair(buf, at), c.factors(low, high), c.load_pair(buf, at + 32))
        one, two = c.first_block(pair), c.second_block(pair)
        return c.half(one, 0), c.half(one, 1), c.half(two, 0), c.half(two, 1)

    @njit
    def bits(buf: Any, at: Any) -> tuple[Any, Any, Any, Any]:
        one, other = c.load_block(buf, at), c.load_block(buf, at + 16)
        xored, anded = c.xor(one, other), c.both(one, other)
        return c.half(xored, 0), c.half(xored, 1), c.half(anded, 0), c.half(anded, 1)


def halves(data: bytes, at: int) -> tuple[int, int]:
    low, high = data[at : at + 8], data[at + 8 : at + 16]
    return int.from_bytes(low, "little"), int.from_bytes(high, "little")


def wanted(data: bytes, at: int, low: int, high: int) -> tuple[int, int]:
    """A block times its factors, xor the block 32 bytes on, which `fold` gets as data."""
    first, second = halves(data, at)
    done = (product(first, low) ^ product(second, high)).to_bytes(16, "little")
    block = bytes(a ^ b for a, b in zip(done, data[at + 32 : at + 48], strict=True))
    return halves(block, 0)


DATA = bytes((i * 167 + 41) & 0xFF for i in range(80))
FACTORS = [(0, 0), (1, 0), (0, 1), (ONES, ONES), (1 << 63, 3), (0x9BA54C6F, 0x174359406)]


@pytest.mark.parametrize("data", [DATA, b"\xff" * 80, bytes(80)], ids=["mixed", "ones", "zeros"])
@pytest.mark.parametrize(("low", "high"), FACTORS)
def test_each_half_is_multiplied_by_its_own_factor(data: bytes, low: int, high: int) -> None:
    buf = np.frombuffer(data, np.uint8)
    for at in (0, 1, 7):  # a block need not be aligned
        block = wanted(data, at, low, high)
        assert folded(buf, at, U(low), U(high)) == block
        assert folded_pair(buf, at, U(low), U(high)) == (*block, *wanted(data, at + 16, low, high))


def test_a_product_carries_nothing_and_bits_of_two_blocks_are_set_in_one_or_in_both() -> None:
    """(x + 1) squared is x squared + 1: 3 times 3 is 5, where numbers would make 9."""
    data = (3).to_bytes(8, "little") + bytes(72)
    assert folded(np.frombuffer(data, np.uint8), 0, U(3), U(0)) == (5, 0)
    (a, b), (x, y) = halves(DATA, 3), halves(DATA, 19)
    assert bits(np.frombuffer(DATA, np.uint8), 3) == (a ^ x, b ^ y, a & x, b & y)
