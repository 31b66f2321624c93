"""Kernels on uint8 arrays: big-endian integers, and texts found, compared and copied a block of 32
bytes at a time.

A block may reach past the text's end, but not past the buffer's: near the buffer's end the kernels
go byte by byte.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from reput.store_format.kernels.jit import BLOCK as BLOCK
from reput.store_format.kernels.jit import inlined, kernel, late

Bytes = npt.NDArray[np.uint8]

_LLVM = "reput.store_format.kernels.llvm"
get_i16: Callable[[Bytes, int], int] = late(_LLVM, "get_i16")
get_i32: Callable[[Bytes, int], int] = late(_LLVM, "get_i32")
get_i64: Callable[[Bytes, int], int] = late(_LLVM, "get_i64")
put_i32: Callable[[Bytes, int, int], None] = late(_LLVM, "put_i32")
put_i64: Callable[[Bytes, int, int], None] = late(_LLVM, "put_i64")
first_of: Callable[[Bytes, int, int], int] = late(_LLVM, "first_of")
unlike_at: Callable[[Bytes, int, Bytes, int], int] = late(_LLVM, "unlike_at")
copy_block: Callable[[Bytes, int, Bytes, int], None] = late(_LLVM, "copy_block")
ascii_sum: Callable[[Bytes, int, int], int] = late(_LLVM, "ascii_sum")


@kernel
def copy_bytes(out: Bytes, at: int, source: Bytes, start: int, length: int) -> None:
    """Copy source[start:][:length] to out[at:], which must not overlap.

    It copies blocks, because numba's own loop copies byte by byte.
    """
    if length >= BLOCK:
        for i in range(0, length - BLOCK, BLOCK):
            copy_block(out, at + i, source, start + i)
        copy_block(out, at + length - BLOCK, source, start + length - BLOCK)
        return
    for i in range(length):
        out[at + i] = source[start + i]


@inlined
def find_byte(buf: Bytes, at: int, end: int, byte: int) -> int:
    """The first place in buf[at:end] that holds `byte`; `end` if none does."""
    while at < end and at + BLOCK <= len(buf):
        before = first_of(buf, at, byte)
        at += before
        if before < BLOCK:
            return min(at, end)
    while at < end and buf[at] != byte:
        at += 1
    return min(at, end)


@inlined
def same_bytes(buf: Bytes, at: int, other: Bytes, other_at: int, length: int) -> bool:
    """buf[at:] and other[other_at:] begin with the same `length` bytes."""
    i = 0
    while i < length and at + i + BLOCK <= len(buf) and other_at + i + BLOCK <= len(other):
        alike = unlike_at(buf, at + i, other, other_at + i)
        if alike < BLOCK:
            return bool(i + alike >= length)
        i += BLOCK
    while i < length:
        if buf[at + i] != other[other_at + i]:
            return False
        i += 1
    return True


@kernel
def first_unlike(one: Bytes, other: Bytes, end: int) -> int:
    """The first place below `end` where two buffers differ, or `end`. Both have `end` bytes."""
    at = 0
    while at + BLOCK <= end:
        alike = unlike_at(one, at, other, at)
        if alike < BLOCK:
            return int(at + alike)
        at += BLOCK
    while at < end and one[at] == other[at]:
        at += 1
    return at
