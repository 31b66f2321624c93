"""An index file's header as a value: the one place that decodes and encodes it (IndexHeader)."""

from typing import NamedTuple

import numpy as np

from reput.store_format.files.protocol import Bytes, Reader
from reput.store_format.layouts import INDEX_HEADER, INDEX_HEADER_BYTES


class IndexHeader(NamedTuple):
    """A file's first 40 bytes, in their order; times in milliseconds, offsets physical."""

    begin_timestamp: int
    end_timestamp: int
    begin_offset: int
    end_offset: int
    slots_used: int  # hashSlotCount: slots in use; up to 4.7.0 the number of all entries
    next_entry: int  # indexCount: the next entry's number; 0 or 1 in a file without entries

    @property
    def entries(self) -> int:
        return max(self.next_entry - 1, 0)

    def matches(self, begin: int, end: int) -> bool:
        """Whether the file may hold messages of [begin, end] (IndexFile.isTimeMatched)."""
        first, last = self.begin_timestamp, self.end_timestamp
        return (begin < first and end > last) or first <= begin <= last or first <= end <= last


NO_HEADER = IndexHeader(0, 0, 0, 0, 0, 0)


def decode_header(raw: "bytes | Bytes") -> IndexHeader:
    """The header that a file begins with; NO_HEADER where the bytes are too few for one."""
    if len(raw) < INDEX_HEADER_BYTES:
        return NO_HEADER
    return IndexHeader(*np.frombuffer(raw, INDEX_HEADER, 1)[0].item())


def encode_header(header: IndexHeader) -> bytes:
    return np.array(tuple(header), INDEX_HEADER).tobytes()


def read_header(file: Reader) -> IndexHeader:
    """An open file's header; NO_HEADER where the file is shorter than a header."""
    raw = np.empty(min(file.state.size, INDEX_HEADER_BYTES), np.uint8)
    file.read_into(0, raw)
    return decode_header(raw)
