"""An index file's header as a value, and the order of index files that their headers prove.

This is the one place that decodes and encodes a header (IndexHeader). IndexService.load orders
files by their names, which are local time; headers say the true order, as each file begins where
the one before it ended.
"""

from collections.abc import Iterable
from contextlib import closing
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from reput.store_format.faults import StoreChanged
from reput.store_format.files.protocol import Bytes, InputStorage, Listed, Reader, listed
from reput.store_format.layouts import INDEX_HEADER, INDEX_HEADER_BYTES
from reput.store_format.names import INDEX, is_index_name


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


Named = tuple[str, IndexHeader]


def in_log_order(files: Iterable[Named]) -> list[str]:
    """The names of index files, in the order in which a broker made them: that of the log.

    files: in the order of their names, which stays unless all headers prove another one: by their
    offsets each file begins where, or after, the one before it ends. A header that says nothing (a
    file without entries, or a damaged one) leaves its file behind the one before it by name.
    """
    named, keys = list(files), list[tuple[int, int]]()
    for _, head in named:
        says = head.end_timestamp > 0 or head.entries
        before = keys[-1] if keys else (-1, -1)
        keys.append((head.begin_offset, head.end_offset) if says else before)
    order = sorted(range(len(named)), key=keys.__getitem__)
    told = [keys[n] for n in order]
    apart = all(begin <= end for begin, end in told) and all(
        a == b or a[1] <= b[0] for a, b in pairwise(told)
    )
    return [named[n][0] for n in (order if apart else range(len(named)))]


def index_files(storage: InputStorage, store: str) -> list[tuple[Listed, IndexHeader]]:
    """The index files of a store or a set, in the order of the log, with their headers.

    What is no regular file has NO_HEADER; names of no index file are left out.
    """
    there = _listed(storage, store)
    heads = {each.name: _header(storage, f"{store}/{INDEX}/{each.name}", each) for each in there}
    by_name = {each.name: each for each in there}
    return [(by_name[name], heads[name]) for name in in_log_order(heads.items())]


def listed_index(storage: InputStorage, store: str) -> list[Listed]:
    """The index files, in the order of the log. Headers are only read of several files."""
    there = _listed(storage, store)
    return there if len(there) < 2 else [about for about, _ in index_files(storage, store)]


def _listed(storage: InputStorage, store: str) -> list[Listed]:
    """RocketMQ passes over other names too (IndexService.load)."""
    return [each for each in listed(storage, f"{store}/{INDEX}") if is_index_name(each.name)]


def _header(storage: InputStorage, path: str, about: Listed) -> IndexHeader:
    if about.state is None:
        return NO_HEADER
    head = NO_HEADER
    try:
        with closing(storage.open(path)) as file:
            if file.state.size >= INDEX_HEADER_BYTES:
                head = read_header(file)
    except (FileNotFoundError, StoreChanged):
        pass  # a running broker writes to it
    return head
