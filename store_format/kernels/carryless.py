"""Numbers of 128 bits for kernels, and the carry-less product by which `crc32` folds them.

numba has no such type, so its operations are built from LLVM's. The product is one instruction of
x86 (PCLMULQDQ). `AVAILABLE` is False where the processor lacks it or numba compiles for another
processor; then nothing of this module may be compiled.
"""

from typing import Any

from llvmlite import binding, ir
from numba.core import config, types
from numba.core.datamodel import models
from numba.extending import register_model

from reput.store_format.kernels.ints import intrinsic, pointer

# What numba's stubs do not say: its settings are attributes.
_config: Any = config

_HALF = ir.IntType(64)
_BITS = ir.VectorType(_HALF, 2)


def _available() -> bool:
    for_this_processor = not (_config.CPU_NAME or _config.CPU_FEATURES)
    return for_this_processor and bool(binding.get_host_cpu_features().get("pclmul"))


AVAILABLE = _available()


class Bits128(types.Type):
    """Two uint64; the first one holds the first eight bytes in memory."""

    def __init__(self) -> None:
        super().__init__(name="Bits128")


@register_model(Bits128)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, _BITS)  # type: ignore[no-untyped-call]


_bits128 = Bits128()


@intrinsic
def load(_context: Any, buf: Any, at: Any) -> Any:
    """The 16 bytes of a uint8 array from `at` on."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = pointer(context, builder, signature.args, values, _BITS)
        return builder.load(place, align=1)

    return _bits128(buf, at), build


@intrinsic
def pair(_context: Any, low: Any, high: Any) -> Any:
    """128 bits from two uint64."""

    def build(_: Any, builder: Any, _signature: Any, values: Any) -> Any:
        bits = ir.Constant(_BITS, ir.Undefined)
        for number, half in enumerate(values):
            bits = builder.insert_element(bits, half, ir.IntType(32)(number))
        return bits

    return _bits128(low, high), build


@intrinsic
def half(_context: Any, bits: Any, number: Any) -> Any:
    """One of the two uint64: 0 or 1."""

    def build(_: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.extract_element(*values)

    return types.uint64(bits, number), build


@intrinsic
def xor(_context: Any, one: Any, other: Any) -> Any:
    def build(_: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.xor(*values)

    return _bits128(one, other), build


@intrinsic
def both(_context: Any, one: Any, other: Any) -> Any:
    """The bits that are set in both."""

    def build(_: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.and_(*values)

    return _bits128(one, other), build


@intrinsic
def fold(_context: Any, bits: Any, factors: Any, data: Any) -> Any:
    """(first half * first factor) xor (second half * second factor) xor data, all carry-less."""

    def build(_: Any, builder: Any, _signature: Any, values: Any) -> Any:
        bits, factors, data = values
        kind = ir.FunctionType(_BITS, [_BITS, _BITS, ir.IntType(8)])
        multiply = builder.module.declare_intrinsic("llvm.x86.pclmulqdq", fnty=kind)
        halves = (ir.IntType(8)(0x00), ir.IntType(8)(0x11))
        first, second = (builder.call(multiply, [bits, factors, which]) for which in halves)
        return builder.xor(builder.xor(first, second), data)

    return _bits128(bits, factors, data), build
