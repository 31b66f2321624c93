"""Big-endian integers at any index of a uint8 array, for kernels.

numba would read such a number byte by byte and check each index for a negative value. These
functions use LLVM's own loads and stores of whole numbers instead, so no index may be negative.
With NUMBA_BOUNDSCHECK set they are checked, as indices of arrays are.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic as _numba_intrinsic

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
