"""CRC-32 inside kernels, and of any range of a file whose bytes are each hashed once."""

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.kernels.jit import Late, inlined, kernel, late

# ---
# CRC-32 as `java.util.zip.CRC32` and zlib compute it, inside kernels.
#
# A CRC is the remainder of a polynomial division: bytes n bits earlier in the message count x to
# the power n times as much. If the processor has the carry-less product (`carryless`), a step
# multiplies 64 bytes by such powers and xors them into the next 64 bytes ("folds" them). Otherwise,
# and for few bytes, a step looks sixteen bytes up in sixteen tables. zlib is not called, because
# numba could not cache such a kernel on disk.

_CARRYLESS = "reput.store_format.kernels.carryless"
AVAILABLE = late("reput.store_format.kernels.compiler", "CAN_FOLD")
load_block, load_pair = late(_CARRYLESS, "load_block"), late(_CARRYLESS, "load_pair")
first_block, second_block = late(_CARRYLESS, "first_block"), late(_CARRYLESS, "second_block")
factors, half = late(_CARRYLESS, "factors"), late(_CARRYLESS, "half")
xor, both, fold = late(_CARRYLESS, "xor"), late(_CARRYLESS, "both"), late(_CARRYLESS, "fold")

Bytes = npt.NDArray[np.uint8]
_POLYNOMIAL = 0xEDB88320
_FOLD_FROM = 4  # blocks of 16 bytes


def _tables() -> npt.NDArray[np.uint32]:
    tables = np.zeros((16, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        tables[0, byte] = crc
    for step in range(1, 16):
        before = tables[step - 1]
        tables[step] = before >> np.uint32(8) ^ tables[0, before & np.uint32(0xFF)]
    return tables


_TABLES = _tables()


@inlined
def _word(buf: Bytes, at: Any) -> Any:
    """Four bytes from `at` on, little-endian. Unsigned, so that numba checks no negative index."""
    return (
        np.uint32(buf[at])
        | np.uint32(buf[at + np.uint64(1)]) << np.uint32(8)
        | np.uint32(buf[at + np.uint64(2)]) << np.uint32(16)
        | np.uint32(buf[at + np.uint64(3)]) << np.uint32(24)
    )


@inlined
def _look_up(tables: Any, word: Any, last: int) -> Any:
    """What four bytes contribute to the CRC; the last of them has `last` bytes after it."""
    byte = np.uint32(0xFF)
    return (tables[last + 3, word & byte] ^ tables[last + 2, word >> np.uint32(8) & byte]) ^ (
        tables[last + 1, word >> np.uint32(16) & byte] ^ tables[last, word >> np.uint32(24)]
    )


def _power(bits: int) -> np.uint64:
    """The remainder of x to the power `bits`, with its bits mirrored as in a CRC, for `fold`.

    It is shifted up by one bit, because the product of two mirrored numbers comes out one bit low.
    """
    remainder = 1 << 31  # mirrored: x to the 0
    for _ in range(bits):
        remainder = remainder >> 1 ^ (_POLYNOMIAL if remainder & 1 else 0)
    return np.uint64(remainder << 1)


# The factors, one for each half, that move a block on by 16, 32 and 64 bytes.
_BY_16, _BY_32, _BY_64 = ((_power(8 * n + 32), _power(8 * n - 32)) for n in (16, 32, 64))


@kernel
def _by_tables(buf: Bytes, at: Any, end: Any, crc: Any) -> Any:
    """The CRC state (uint32) after buf[at:end], from the state `crc` before it."""
    i = at
    for _ in range((end - i) // np.uint64(16)):
        # These look-ups do not need the step before. They come first, so that the processor can
        # do them while that step still runs.
        rest = (
            _look_up(_TABLES, _word(buf, i + np.uint64(4)), 8)
            ^ _look_up(_TABLES, _word(buf, i + np.uint64(8)), 4)
            ^ _look_up(_TABLES, _word(buf, i + np.uint64(12)), 0)
        )
        crc = rest ^ _look_up(_TABLES, crc ^ _word(buf, i), 12)
        i += np.uint64(16)
    for _ in range((end - i) // np.uint64(4)):
        crc = _look_up(_TABLES, crc ^ _word(buf, i), 0)
        i += np.uint64(4)
    for _ in range(end - i):
        crc = _TABLES[0, (crc ^ np.uint32(buf[i])) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
        i += np.uint64(1)
    return crc


@inlined
def _of_word(crc: Any, word: Any) -> Any:
    """The CRC state after the eight bytes of a little-endian uint64."""
    low, high = np.uint32(word & np.uint64(0xFFFFFFFF)), np.uint32(word >> np.uint64(32))
    return _look_up(_TABLES, crc ^ low, 4) ^ _look_up(_TABLES, high, 0)


# Masks for a message whose first block has n bytes, 1 to 16. Each is loaded from index n on. _KEPT
# keeps the last n bytes of a block, and the next block. _STATE xors a CRC's first state into the
# first four of these bytes, of which some may be in the next block.
_KEPT = np.array([0] * 16 + [0xFF] * 32, np.uint8)
_STATE = np.array([0] * 16 + [0xFF] * 4 + [0] * 28, np.uint8)


@kernel
def _folded(buf: Bytes, at: Any, blocks: Any, first: Any) -> Any:
    """A CRC's state (uint32) after blocks * 16 bytes, at least four blocks.

    Only the last `first` bytes of the first block count; the others are taken as zeros, which
    change nothing before a message. Two sums of two blocks each are moved on by 64 bytes at a time.
    Then they are folded into one block, which has the same CRC as all the bytes.
    """
    by_16, by_32 = factors(_BY_16[0], _BY_16[1]), factors(_BY_32[0], _BY_32[1])
    by_64 = factors(_BY_64[0], _BY_64[1])
    a = xor(both(load_pair(buf, at), load_pair(_KEPT, first)), load_pair(_STATE, first))
    b = load_pair(buf, at + np.uint64(32))
    for _ in range(blocks // np.uint64(4) - np.uint64(1)):
        at += np.uint64(64)
        a = fold(a, by_64, load_pair(buf, at))
        b = fold(b, by_64, load_pair(buf, at + np.uint64(32)))
    a = fold(a, by_32, b)
    at += np.uint64(64)
    if blocks & np.uint64(2):
        a = fold(a, by_32, load_pair(buf, at))
        at += np.uint64(32)
    last = fold(first_block(a), by_16, second_block(a))
    if blocks & np.uint64(1):
        last = fold(last, by_16, load_block(buf, at))
    return _of_word(_of_word(np.uint32(0), half(last, 0)), half(last, 1))


@kernel
def crc32(buf: Bytes, at: int, end: int) -> int:
    """CRC-32 of buf[at:end], as an unsigned 32-bit value in an int64."""
    blocks = (end - at + 15) // 16
    before = end - 16 * blocks  # the first block starts here, maybe before `at`
    if AVAILABLE and blocks >= _FOLD_FROM and before >= 0:
        state = _folded(buf, np.uint64(before), np.uint64(blocks), np.uint64(16 - (at - before)))
    else:
        state = _by_tables(buf, np.uint64(at), np.uint64(end), np.uint32(0xFFFFFFFF))
    return int(state ^ np.uint32(0xFFFFFFFF))


def crc_of(data: "Bytes | memoryview") -> int:
    """The CRC-32 of many bytes, by what is fastest here."""
    folds = AVAILABLE.made() if isinstance(AVAILABLE, Late) else AVAILABLE  # a kernel has made it
    if not folds:
        return zlib.crc32(data)
    return int(crc32(np.frombuffer(data, np.uint8), 0, len(data)))


# ---
# The CRC-32 of any range of a file, although each byte of the file is hashed only once.
#
# It is computed from the CRCs of two prefixes of the file, one up to the range's start and one up
# to its end. `damage/resync` needs this: in a damaged segment thousands of offsets may look like
# records, and each may claim a body of megabytes. Hashing each of these bodies would take time that
# grows with the square of the input. Here each further range costs at most 2 * `SPACING` bytes.

Read = Callable[[int, Bytes], None]

SPACING = 1024
_PIECE_BYTES = 1 << 20
_ONE = 1 << 31  # the polynomial 1, its lowest power in the highest bit


def _multiply(a: int, b: int) -> int:
    """The product of two polynomials modulo CRC-32's."""
    product = 0
    bit = _ONE
    while a:
        if a & bit:
            product ^= b
            a ^= bit
        bit >>= 1
        b = b >> 1 ^ _POLYNOMIAL if b & 1 else b >> 1
    return product


def _powers() -> list[int]:
    powers = [1 << 30]  # x, then x squared again and again
    while len(powers) < 64:
        powers.append(_multiply(powers[-1], powers[-1]))
    return powers


_SQUARES = _powers()


def shift(crc: int, length: int) -> int:
    """What the CRC of some bytes contributes to the CRC of these and `length` more bytes."""
    for power in range((8 * length).bit_length()):
        if 8 * length >> power & 1:
            crc = _multiply(_SQUARES[power], crc)
    return crc


class PrefixCrc:
    """CRCs of ranges within [start, end) of what `read` reads.

    It keeps the CRC (4 bytes) of the prefix up to each SPACING-th byte. hashed: how many bytes were
    put through CRC-32 so far.
    """

    def __init__(self, read: Read, start: int, end: int) -> None:
        self._read, self._start, self._end = read, start, end
        self._marks: npt.NDArray[Any] = np.zeros((end - start) // SPACING + 1, np.uint32)
        self._known = 0  # how many prefixes have their CRC, without the empty prefix
        self.hashed = 0

    def crc(self, at: int, end: int) -> int:
        """CRC-32 of the bytes at [at, end), as zlib.crc32 has it."""
        return self._prefix(end) ^ shift(self._prefix(at), end - at)

    def _prefix(self, to: int) -> int:
        mark = (to - self._start) // SPACING
        self._fill(mark)
        at = self._start + mark * SPACING
        return self._hash(self._bytes(at, to), int(self._marks[mark]))

    def _fill(self, mark: int) -> None:
        while self._known < mark:
            at = self._start + self._known * SPACING
            piece = self._bytes(at, min(at + _PIECE_BYTES, self._end))
            crc = int(self._marks[self._known])
            for cut in range(SPACING, len(piece) + 1, SPACING):
                crc = self._hash(piece[cut - SPACING : cut], crc)
                self._known += 1
                self._marks[self._known] = crc

    def _hash(self, data: Bytes, crc: int) -> int:
        self.hashed += len(data)
        return zlib.crc32(data.data, crc)

    def _bytes(self, at: int, end: int) -> Bytes:
        buffer = np.empty(end - at, np.uint8)
        if len(buffer):
            self._read(at, buffer)
        return buffer
