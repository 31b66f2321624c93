"""Big-endian integers and blocks of bytes for kernels, by LLVM's own instructions.

Who imports this module imports numba, so kernels name what is in it by `late` (`jit`).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.kernels.compiler import cgutils, intrinsic, ir, types
from reput.store_format.kernels.jit import BLOCK

# ---
# Big-endian integers at any index of a uint8 array, for kernels.
#
# numba would read such a number byte by byte and check each index for a negative value. These
# functions use LLVM's own loads and stores of whole numbers instead, so no index may be negative.
# With NUMBA_BOUNDSCHECK set they are checked, as indices of arrays are.

Bytes = npt.NDArray[np.uint8]

_WORD = ir.IntType(64)


def pointer(context: Any, builder: Any, kinds: Any, values: Any, to: Any) -> Any:
    """A pointer to a `to` at values, (buf, at), of these numba types."""
    array = context.make_array(kinds[0])(context, builder, values[0])
    if context.enable_boundscheck:
        length = builder.extract_value(array.shape, 0)
        last = builder.add(values[1], _WORD(context.get_abi_sizeof(to) - 1))
        for index in (values[1], last):
            cgutils.do_boundscheck(context, builder, index, length, 0)
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
# A block of 32 bytes of a text, looked at or copied at once.
#
# A block is an LLVM vector, compiled to the processor's vector instructions. A block may reach past
# the text's end, but not past the buffer's: near the buffer's end the kernels go byte by byte.

_FLAGS = ir.IntType(BLOCK)
_BYTE, _HALF = ir.IntType(8), ir.IntType(32)
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
def first_of(_context: Any, buf: Any, _at: Any, _byte: Any) -> Any:
    """(buf, at, byte): how many bytes of the block at `at` come before the first `byte` in it."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        found = _load_block(context, builder, signature.args[:2], values[:2])
        return _first(builder, "==", found, _in_all(builder, values[2]))

    return types.int64(buf, types.int64, types.int64), build


@intrinsic
def unlike_at(_context: Any, buf: Any, _at: Any, other: Any, _other_at: Any) -> Any:
    """(buf, at, other, other_at): how many bytes at the start of the two blocks are equal."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        one = _load_block(context, builder, signature.args[:2], values[:2])
        two = _load_block(context, builder, signature.args[2:], values[2:])
        return _first(builder, "!=", one, two)

    return types.int64(buf, types.int64, other, types.int64), build


@intrinsic
def copy_block(_context: Any, out: Any, _at: Any, source: Any, _start: Any) -> Any:
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
