"""CRC-32 as `java.util.zip.CRC32` and zlib compute it, inside kernels.

Slicing by 16: sixteen tables take sixteen bytes a step. Calling zlib from a kernel would be
faster on large bodies only, and would keep numba from caching the kernel on disk.
"""

import numpy as np
import numpy.typing as npt

from store_format.kernels import kernel

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


@kernel
def crc32(buf: Bytes, at: int, end: int) -> int:
    """CRC-32 of buf[at:end], as an unsigned 32-bit value in an int64."""
    t = _TABLES
    mask = np.uint32(0xFF)
    crc = np.uint32(0xFFFFFFFF)
    while end - at >= 16:
        a = crc ^ (
            np.uint32(buf[at])
            | np.uint32(buf[at + 1]) << np.uint32(8)
            | np.uint32(buf[at + 2]) << np.uint32(16)
            | np.uint32(buf[at + 3]) << np.uint32(24)
        )
        crc = (
            t[15, a & mask]
            ^ t[14, (a >> np.uint32(8)) & mask]
            ^ t[13, (a >> np.uint32(16)) & mask]
            ^ t[12, a >> np.uint32(24)]
            ^ t[11, buf[at + 4]]
            ^ t[10, buf[at + 5]]
            ^ t[9, buf[at + 6]]
            ^ t[8, buf[at + 7]]
            ^ t[7, buf[at + 8]]
            ^ t[6, buf[at + 9]]
            ^ t[5, buf[at + 10]]
            ^ t[4, buf[at + 11]]
            ^ t[3, buf[at + 12]]
            ^ t[2, buf[at + 13]]
            ^ t[1, buf[at + 14]]
            ^ t[0, buf[at + 15]]
        )
        at += 16
    while at < end:
        crc = t[0, (crc ^ np.uint32(buf[at])) & mask] ^ (crc >> np.uint32(8))
        at += 1
    return int(crc ^ np.uint32(0xFFFFFFFF))
