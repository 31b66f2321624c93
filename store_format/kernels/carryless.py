"""Blocks of 16 bytes for kernels, pairs of blocks, and the carry-less product that folds a CRC.

numba has no such types, so their operations are built from LLVM's. The product is one instruction
of x86: PCLMULQDQ for a block, and VPCLMULQDQ for a pair if the processor has it, which takes no
longer. `AVAILABLE` is False if the processor lacks the first, or if numba compiles for another
processor; then nothing of this module may be compiled.
"""

from typing import Any

from reput.store_format.kernels.compiler import (
    CAN_FOLD,
    has,
    intrinsic,
    ir,
    models,
    register_model,
    types,
)
from reput.store_format.kernels.llvm import pointer

_HALF = ir.IntType(64)
_INDEX = ir.IntType(32)


AVAILABLE = CAN_FOLD
_PAIRS_AT_ONCE = has("vpclmulqdq")


class Blocks(types.Type):
    """One block or two, of two uint64 each, in the order of their bytes in memory."""

    def __init__(self, count: int) -> None:
        super().__init__(name=f"Blocks{count}")
        self.count = count
        self.bits = ir.VectorType(_HALF, 2 * count)


@register_model(Blocks)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, fe_type.bits)  # type: ignore[no-untyped-call]


_block, _pair = Blocks(1), Blocks(2)


def _loader(kind: Blocks) -> Any:
    """load(buf, at): a block of a uint8 array from `at` on."""

    @intrinsic
    def load(_context: Any, buf: Any, at: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            place = pointer(context, builder, signature.args, values, kind.bits)
            return builder.load(place, align=1)

        return kind(buf, at), build

    return load


load_block, load_pair = _loader(_block), _loader(_pair)


@intrinsic
def factors(_context: Any, low: Any, high: Any) -> Any:
    """A block from two uint64."""

    def build(_: Any, builder: Any, _signature: Any, values: Any) -> Any:
        bits = ir.Constant(_block.bits, ir.Undefined)
        for number, half in enumerate(values):
            bits = builder.insert_element(bits, half, _INDEX(number))
        return bits

    return _block(low, high), build


@intrinsic
def half(_context: Any, block: Any, number: Any) -> Any:
    """One of the two uint64 of a block: 0 or 1."""

    def build(_: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.extract_element(*values)

    return types.uint64(block, number), build


def _taken(builder: Any, bits: Any, *halves: int) -> Any:
    """A vector of these halves of the vector `bits`."""
    numbers = ir.Constant(ir.VectorType(_INDEX, len(halves)), list(halves))
    return builder.shuffle_vector(bits, bits, numbers)


def _block_of(*halves: int) -> Any:
    """block(pair): these two halves of a pair."""

    @intrinsic
    def block(_context: Any, pair: Any) -> Any:
        def build(_: Any, builder: Any, _signature: Any, values: Any) -> Any:
            return _taken(builder, values[0], *halves)

        return _block(pair), build

    return block


first_block, second_block = _block_of(0, 1), _block_of(2, 3)


@intrinsic
def xor(_context: Any, one: Any, other: Any) -> Any:
    def build(_: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.xor(*values)

    return one(one, other), build


@intrinsic
def both(_context: Any, one: Any, other: Any) -> Any:
    """The bits that are set in both."""

    def build(_: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.and_(*values)

    return one(one, other), build


def _products(builder: Any, bits: Any, factors: Any, kind: Blocks, name: str) -> Any:
    """(first half * first factor) xor (second half * second factor), of each block."""
    function = ir.FunctionType(kind.bits, [kind.bits, kind.bits, ir.IntType(8)])
    multiply = builder.module.declare_intrinsic(name, fnty=function)
    halves = (ir.IntType(8)(0x00), ir.IntType(8)(0x11))
    return builder.xor(*(builder.call(multiply, [bits, factors, which]) for which in halves))


def _products_of_block(builder: Any, bits: Any, factors: Any) -> Any:
    return _products(builder, bits, factors, _block, "llvm.x86.pclmulqdq")


def _products_of_pair(builder: Any, bits: Any, factors: Any) -> Any:
    if _PAIRS_AT_ONCE:
        twice = _taken(builder, factors, 0, 1, 0, 1)
        return _products(builder, bits, twice, _pair, "llvm.x86.pclmulqdq.256")
    blocks = (_taken(builder, bits, 0, 1), _taken(builder, bits, 2, 3))
    first, second = (_products_of_block(builder, block, factors) for block in blocks)
    in_order = ir.Constant(ir.VectorType(_INDEX, 4), [0, 1, 2, 3])
    return builder.shuffle_vector(first, second, in_order)


@intrinsic
def fold(_context: Any, bits: Any, factors: Any, data: Any) -> Any:
    """For each block, (first half * first factor) xor (second half * second factor) xor data.

    Products are carry-less. bits, data: both a block or both a pair; factors: a block.
    """
    products = _products_of_pair if bits.count == 2 else _products_of_block

    def build(_: Any, builder: Any, _signature: Any, values: Any) -> Any:
        bits, factors, data = values
        return builder.xor(products(builder, bits, factors), data)

    return data(bits, factors, data), build
