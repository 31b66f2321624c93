"""Big-endian integers in uint8 buffers, for kernels. LLVM makes one swapped load of each."""

from typing import Any

import numpy as np
import numpy.typing as npt

from store_format.kernels import inlined

Bytes = npt.NDArray[np.uint8]


@inlined
def get_u16(buf: Bytes, at: int) -> int:
    return int(np.int64(buf[at]) << 8 | np.int64(buf[at + 1]))


@inlined
def get_i32(buf: Bytes, at: int) -> int:
    return int(
        np.int32(
            np.uint32(buf[at]) << np.uint32(24)
            | np.uint32(buf[at + 1]) << np.uint32(16)
            | np.uint32(buf[at + 2]) << np.uint32(8)
            | np.uint32(buf[at + 3])
        )
    )


@inlined
def get_i64(buf: Bytes, at: int) -> int:
    return int(
        np.uint64(buf[at]) << np.uint64(56)
        | np.uint64(buf[at + 1]) << np.uint64(48)
        | np.uint64(buf[at + 2]) << np.uint64(40)
        | np.uint64(buf[at + 3]) << np.uint64(32)
        | np.uint64(buf[at + 4]) << np.uint64(24)
        | np.uint64(buf[at + 5]) << np.uint64(16)
        | np.uint64(buf[at + 6]) << np.uint64(8)
        | np.uint64(buf[at + 7])
    )


@inlined
def put_i32(buf: Bytes, at: int, value: int) -> None:
    bits = np.uint32(value)
    buf[at] = bits >> np.uint32(24)
    buf[at + 1] = bits >> np.uint32(16)
    buf[at + 2] = bits >> np.uint32(8)
    buf[at + 3] = bits


@inlined
def put_i64(buf: Bytes, at: int, value: int) -> None:
    bits = np.uint64(value)
    put_i32(buf, at, int(bits >> np.uint64(32)))
    put_i32(buf, at + 4, int(bits & np.uint64(0xFFFFFFFF)))


@inlined
def word(buf: Bytes, at: int) -> Any:
    """Eight bytes from `at` on as a little-endian uint64; LLVM makes one load of it."""
    i = np.uint64(at)
    return (
        np.uint64(buf[i])
        | np.uint64(buf[i + np.uint64(1)]) << np.uint64(8)
        | np.uint64(buf[i + np.uint64(2)]) << np.uint64(16)
        | np.uint64(buf[i + np.uint64(3)]) << np.uint64(24)
        | np.uint64(buf[i + np.uint64(4)]) << np.uint64(32)
        | np.uint64(buf[i + np.uint64(5)]) << np.uint64(40)
        | np.uint64(buf[i + np.uint64(6)]) << np.uint64(48)
        | np.uint64(buf[i + np.uint64(7)]) << np.uint64(56)
    )


@inlined
def find_byte(buf: Bytes, at: int, end: int, byte: int) -> int:
    """The first place in buf[at:end] that holds `byte`; `end` if none does.

    Eight bytes at a time: of x - 0x01.. & ~x & 0x80.. the lowest bit that is set is that of the
    first byte of x that is zero. Times its own place, reversed, it has that place on top.
    """
    ones = np.uint64(0x0101010101010101)
    highs = np.uint64(0x8080808080808080)
    pattern = ones * np.uint64(byte)
    while end - at >= 8:
        differs = word(buf, at) ^ pattern
        found = (differs - ones) & ~differs & highs
        if found:
            lowest = (found & (~found + np.uint64(1))) >> np.uint64(7)
            return at + int(lowest * np.uint64(0x0001020304050607) >> np.uint64(56))
        at += 8
    while at < end and buf[at] != byte:
        at += 1
    return at
