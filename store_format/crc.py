"""CRC-32 as `java.util.zip.CRC32` and zlib compute it, inside kernels.

Slicing by 16: sixteen tables take sixteen bytes a step. Calling zlib from a kernel would be
faster on large bodies only, and would keep numba from caching the kernel on disk.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from store_format.kernels import inlined, kernel

Bytes = npt.NDArray[np.uint8]
_POLYNOMIAL = 0xEDB88320


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


@kernel
def crc32(buf: Bytes, at: int, end: int) -> int:
    """CRC-32 of buf[at:end], as an unsigned 32-bit value in an int64."""
    crc = np.uint32(0xFFFFFFFF)
    i = np.uint64(at)
    for _ in range((end - at) // 16):
        # What does not wait for the step before comes first, so that steps overlap.
        rest = (
            _look_up(_TABLES, _word(buf, i + np.uint64(4)), 8)
            ^ _look_up(_TABLES, _word(buf, i + np.uint64(8)), 4)
            ^ _look_up(_TABLES, _word(buf, i + np.uint64(12)), 0)
        )
        crc = rest ^ _look_up(_TABLES, crc ^ _word(buf, i), 12)
        i += np.uint64(16)
    for _ in range((end - at) % 16 // 4):
        crc = _look_up(_TABLES, crc ^ _word(buf, i), 0)
        i += np.uint64(4)
    for _ in range((end - at) % 4):
        crc = _TABLES[0, (crc ^ np.uint32(buf[i])) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
        i += np.uint64(1)
    return int(crc ^ np.uint32(0xFFFFFFFF))
