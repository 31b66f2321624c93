"""The CRC-32 of any range of a file, although each byte of the file is hashed only once.

It is computed from the CRCs of two prefixes of the file, one up to the range's start and one up to
its end. `damage/resync` needs this: in a damaged segment thousands of offsets may look like
records, and each may claim a body of megabytes. Hashing each of these bodies would take time that
grows with the square of the input. Here each further range costs at most 2 * `SPACING` bytes.
"""

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Read = Callable[[int, Bytes], None]

SPACING = 1024
_PIECE_BYTES = 1 << 20
_POLYNOMIAL = 0xEDB88320
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
