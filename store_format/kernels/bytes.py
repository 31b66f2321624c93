"""Kernels on uint8 arrays: big-endian integers, and texts found, compared and hashed a block at a
time.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic as _numba_intrinsic

from reput.store_format.kernels.jit import inlined, kernel

# ---
# Big-endian integers at any index of a uint8 array, for kernels.
#
# numba would read such a number byte by byte and check each index for a negative value. These
# functions use LLVM's own loads and stores of whole numbers instead, so no index may be negative.
# With NUMBA_BOUNDSCHECK set they are checked, as indices of arrays are.

Bytes = npt.NDArray[np.uint8]

# What numba's stubs do not say: an intrinsic loses its context.
intrinsic: Any = _numba_intrinsic
_cgutils: Any = cgutils

_WORD = ir.IntType(64)


def pointer(context: Any, builder: Any, kinds: Any, values: Any, to: Any) -> Any:
    """A pointer to a `to` at values, (buf, at), of these numba types."""
    array = context.make_array(kinds[0])(context, builder, values[0])
    if context.enable_boundscheck:
        length = builder.extract_value(array.shape, 0)
        last = builder.add(values[1], _WORD(context.get_abi_sizeof(to) - 1))
        for index in (values[1], last):
            _cgutils.do_boundscheck(context, builder, index, length, 0)
    return builder.bitcast(builder.gep(array.data, [values[1]]), to.as_pointer())


def _getter(bits: int) -> Any:
    """get(buf, at): the signed number in the `bits` bits at `at`, big-endian."""

    @intrinsic
    def get(_context: Any, buf: Any, _at: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            stored = ir.IntType(bits)
            place = pointer(context, builder, signature.args, values, stored)
            number = builder.load(place, align=1)
            return builder.sext(builder.bswap(number), _WORD)

        return types.int64(buf, types.int64), build

    return get


def _putter(bits: int) -> Any:
    """put(buf, at, number): the number's lowest `bits` bits, big-endian, to `at`."""

    @intrinsic
    def put(_context: Any, buf: Any, _at: Any, _number: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            stored = ir.IntType(bits)
            place = pointer(context, builder, signature.args, values, stored)
            builder.store(builder.bswap(builder.trunc(values[2], stored)), place, align=1)
            return context.get_dummy_value()

        return types.void(buf, types.int64, types.int64), build

    return put


get_i16: Callable[[Bytes, int], int] = _getter(16)
get_i32: Callable[[Bytes, int], int] = _getter(32)
get_i64: Callable[[Bytes, int], int] = _getter(64)
put_i32: Callable[[Bytes, int, int], None] = _putter(32)
put_i64: Callable[[Bytes, int, int], None] = _putter(64)


# ---
# Kernels that find, compare and hash texts in uint8 arrays, a block of 32 bytes at a time.
#
# A block is an LLVM vector, compiled to the processor's vector instructions. A block may reach past
# the text's end, but not past the buffer's: near the buffer's end the kernels go byte by byte.

BLOCK = 32  # bytes
_FLAGS = ir.IntType(BLOCK)
_BYTE, _HALF, _WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_BYTES, _HALVES = ir.VectorType(_BYTE, BLOCK), ir.VectorType(_HALF, BLOCK)
_ZEROS = ir.Constant(_BYTES, [0] * BLOCK)


def _load_block(context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    place = pointer(context, builder, kinds, values, _BYTES)
    return builder.load(place, align=1)


def _in_all(builder: Any, byte: Any) -> Any:
    """A block in which every byte is the lowest byte of a word."""
    one = ir.Constant(_BYTES, ir.Undefined)
    one = builder.insert_element(one, builder.trunc(byte, _BYTE), _HALF(0))
    return builder.shuffle_vector(one, one, ir.Constant(_HALVES, [0] * BLOCK))


def _first(builder: Any, sign: str, one: Any, other: Any) -> Any:
    """The number of the first byte at which the comparison `sign` of two blocks holds, or BLOCK."""
    flags = builder.bitcast(builder.icmp_unsigned(sign, one, other), _FLAGS)
    may_be_zero = ir.IntType(1)(0)
    return builder.zext(builder.cttz(flags, may_be_zero), _WORD)


@intrinsic
def _first_of(_context: Any, buf: Any, _at: Any, _byte: Any) -> Any:
    """(buf, at, byte): how many bytes of the block at `at` come before the first `byte` in it."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        found = _load_block(context, builder, signature.args[:2], values[:2])
        return _first(builder, "==", found, _in_all(builder, values[2]))

    return types.int64(buf, types.int64, types.int64), build


@intrinsic
def _first_unlike(_context: Any, buf: Any, _at: Any, other: Any, _other_at: Any) -> Any:
    """(buf, at, other, other_at): how many bytes at the start of the two blocks are equal."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        one = _load_block(context, builder, signature.args[:2], values[:2])
        two = _load_block(context, builder, signature.args[2:], values[2:])
        return _first(builder, "!=", one, two)

    return types.int64(buf, types.int64, other, types.int64), build


@intrinsic
def _copy_block(_context: Any, out: Any, _at: Any, source: Any, _start: Any) -> Any:
    """(out, at, source, start): put a block of source into out."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        block = _load_block(context, builder, signature.args[2:], values[2:])
        place = pointer(context, builder, signature.args[:2], values[:2], _BYTES)
        builder.store(block, place, align=1)
        return context.get_dummy_value()

    return types.void(out, types.int64, source, types.int64), build


@intrinsic
def ascii_sum(_context: Any, buf: Any, _at: Any, _skipped: Any) -> Any:
    """(buf, at, skipped): what the bytes of a block add to String.hashCode.

    Each byte is multiplied by 31 to the power of the number of bytes after it in the block. The
    sum is a uint32 in an int64, or -1 if a byte is above 7F. The first `skipped` bytes count as 0.
    """

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        block = _load_block(context, builder, signature.args[:2], values[:2])
        places = ir.Constant(_BYTES, list(range(BLOCK)))
        kept = builder.icmp_unsigned(">=", places, _in_all(builder, values[2]))
        units = builder.select(kept, block, _ZEROS)
        powers = ir.Constant(_HALVES, [31**i & 0xFFFFFFFF for i in reversed(range(BLOCK))])
        terms = builder.mul(builder.zext(units, _HALVES), powers)
        kind = ir.FunctionType(_HALF, [_HALVES])
        add_up = builder.module.declare_intrinsic(f"llvm.vector.reduce.add.v{BLOCK}i32", fnty=kind)
        total = builder.zext(builder.call(add_up, [terms]), _WORD)
        above = builder.icmp_signed("<", units, _ZEROS)
        some = builder.icmp_unsigned("!=", builder.bitcast(above, _FLAGS), _FLAGS(0))
        return builder.select(some, _WORD(-1), total)

    return types.int64(buf, types.int64, types.int64), build


@kernel
def copy_bytes(out: Bytes, at: int, source: Bytes, start: int, length: int) -> None:
    """Copy source[start:][:length] to out[at:], which must not overlap.

    It copies blocks, because numba's own loop copies byte by byte.
    """
    if length >= BLOCK:
        for i in range(0, length - BLOCK, BLOCK):
            _copy_block(out, at + i, source, start + i)
        _copy_block(out, at + length - BLOCK, source, start + length - BLOCK)
        return
    for i in range(length):
        out[at + i] = source[start + i]


@inlined
def find_byte(buf: Bytes, at: int, end: int, byte: int) -> int:
    """The first place in buf[at:end] that holds `byte`; `end` if none does."""
    while at < end and at + BLOCK <= len(buf):
        before = _first_of(buf, at, byte)
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
        alike = _first_unlike(buf, at + i, other, other_at + i)
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
        alike = _first_unlike(one, at, other, at)
        if alike < BLOCK:
            return int(at + alike)
        at += BLOCK
    while at < end and one[at] == other[at]:
        at += 1
    return at
