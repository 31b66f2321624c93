"""CRC-32 as `java.util.zip.CRC32` and zlib compute it, inside kernels.

Where the processor multiplies without carries, 64 bytes are folded a step: a CRC is a remainder,
and moving bytes on in the message multiplies theirs by a power of x. Elsewhere, and for few
bytes, sixteen tables take sixteen bytes a step. Calling zlib from a kernel would keep numba from
caching the kernel on disk.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.kernels.carryless import AVAILABLE, both, fold, half, load, pair, xor
from reput.store_format.kernels.jit import inlined, kernel

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
    """Four bytes from `at` on, as a little-endian uint32; unsigned places need no check of sign."""
    return (
        np.uint32(buf[at])
        | np.uint32(buf[at + np.uint64(1)]) << np.uint32(8)
        | np.uint32(buf[at + np.uint64(2)]) << np.uint32(16)
        | np.uint32(buf[at + np.uint64(3)]) << np.uint32(24)
    )


@inlined
def _look_up(tables: Any, word: Any, last: int) -> Any:
    """What the four bytes of a word contribute, of which the last stands `last` before the end."""
    byte = np.uint32(0xFF)
    return (tables[last + 3, word & byte] ^ tables[last + 2, word >> np.uint32(8) & byte]) ^ (
        tables[last + 1, word >> np.uint32(16) & byte] ^ tables[last, word >> np.uint32(24)]
    )


def _power(bits: int) -> np.uint64:
    """The remainder of x to that power, mirrored as the CRC is, as a factor for `fold`.

    One bit higher than the CRC has it: a product of mirrored numbers lacks its lowest bit.
    """
    remainder = 1 << 31  # mirrored: x to the 0
    for _ in range(bits):
        remainder = remainder >> 1 ^ (_POLYNOMIAL if remainder & 1 else 0)
    return np.uint64(remainder << 1)


# Factors that move 128 bits on by 16 and by 64 bytes: those of the halves.
_BY_16 = (_power(128 + 32), _power(128 - 32))
_BY_64 = (_power(512 + 32), _power(512 - 32))


@kernel
def _by_tables(buf: Bytes, at: Any, end: Any, crc: Any) -> Any:
    """Go on with a CRC's state (uint32) over buf[at:end]."""
    i = at
    for _ in range((end - i) // np.uint64(16)):
        # What does not wait for the step before comes first, so that steps overlap.
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
    """Go on with a CRC's state over the eight bytes of a little-endian uint64."""
    low, high = np.uint32(word & np.uint64(0xFFFFFFFF)), np.uint32(word >> np.uint64(32))
    return _look_up(_TABLES, crc ^ low, 4) ^ _look_up(_TABLES, high, 0)


# Loaded from place n on: what keeps the last n bytes of a block, n from 1 to 16, and what the first
# four of them are xored with, a CRC's first state, which may reach into the block after.
_KEPT = np.array([0] * 16 + [0xFF] * 16, np.uint8)
_STATE = np.array([0] * 16 + [0xFF] * 4 + [0] * 28, np.uint8)


@kernel
def _folded(buf: Bytes, at: Any, blocks: Any, first: Any) -> Any:
    """A CRC's state (uint32) after blocks * 16 bytes, at least four blocks.

    Of the first block only the last `first` bytes count: zeros before a message change nothing.
    Four sums of 128 bits are moved on by 64 bytes at a time, then become one, whose CRC is that
    of all the bytes.
    """
    sixteen = np.uint64(16)
    by_16, by_64 = pair(_BY_16[0], _BY_16[1]), pair(_BY_64[0], _BY_64[1])
    a = xor(both(load(buf, at), load(_KEPT, first)), load(_STATE, first))
    b = xor(load(buf, at + sixteen), load(_STATE, first + sixteen))
    c = load(buf, at + np.uint64(32))
    d = load(buf, at + np.uint64(48))
    for _ in range(blocks // np.uint64(4) - np.uint64(1)):
        at += np.uint64(64)
        a = fold(a, by_64, load(buf, at))
        b = fold(b, by_64, load(buf, at + sixteen))
        c = fold(c, by_64, load(buf, at + np.uint64(32)))
        d = fold(d, by_64, load(buf, at + np.uint64(48)))
    a = fold(fold(fold(a, by_16, b), by_16, c), by_16, d)
    at += np.uint64(64)
    for _ in range(blocks % np.uint64(4)):
        a = fold(a, by_16, load(buf, at))
        at += sixteen
    return _of_word(_of_word(np.uint32(0), half(a, 0)), half(a, 1))


@kernel
def crc32(buf: Bytes, at: int, end: int) -> int:
    """CRC-32 of buf[at:end], as an unsigned 32-bit value in an int64."""
    blocks = (end - at + 15) // 16
    before = end - 16 * blocks  # where the first block starts, which may be before `at`
    if AVAILABLE and blocks >= _FOLD_FROM and before >= 0:
        state = _folded(buf, np.uint64(before), np.uint64(blocks), np.uint64(16 - (at - before)))
    else:
        state = _by_tables(buf, np.uint64(at), np.uint64(end), np.uint32(0xFFFFFFFF))
    return int(state ^ np.uint32(0xFFFFFFFF))
