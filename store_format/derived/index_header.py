"""An index file's header as a value, and the order of index files that their headers prove.

This is the one place that decodes and encodes a header (IndexHeader). IndexService.load orders
files by their names, which are local time; headers say the true order, as each file begins where
the one before it ended.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from reput.store_format.faults import StoreChanged
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import Bytes, Files, Listed, Reader
from reput.store_format.layouts import INDEX_HEADER, INDEX_HEADER_BYTES
from reput.store_format.names import INDEX, index_name, is_index_name, parse_index_name


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


def header_in(files: Files, path: str) -> tuple[IndexHeader, int]:
    """An index file's header (NO_HEADER in a shorter file), and its length in bytes."""
    with closing(files.open_read(path)) as file:
        length = file.length()
        raw = np.empty(min(length, INDEX_HEADER_BYTES), np.uint8)
        file.read_at(0, raw)
        return decode_header(raw), length


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


def index_files(store: Folder) -> list[tuple[Listed, IndexHeader]]:
    """The index files of a store or a set, in the order of the log, with their headers.

    What is no regular file has NO_HEADER; names of no index file are left out, and files before the
    last one that no key was put into: a broker that moved west made it behind a full file, had no
    key in that life, and took a newer name in the next.
    """
    there = index_by_name(store)
    heads = {
        name: _header(store, name) if state is not None else NO_HEADER for name, state in there
    }
    by_name = {each.name: each for each in there}
    order = in_log_order(heads.items())
    return [
        (by_name[name], heads[name]) for name in order
        if name == order[-1] or heads[name].entries
        or not 0 < heads[name].begin_offset == heads[name].end_offset
    ]  # fmt: skip


def listed_index(store: Folder) -> list[Listed]:
    """The index files, in the order of the log. Headers are only read of several files."""
    there = index_by_name(store)
    return there if len(there) < 2 else [about for about, _ in index_files(store)]


_HOUR = 3_600_000
_WESTMOST, _EASTMOST = -12 * _HOUR, 14 * _HOUR  # of all time zones


def newest_first(store: Folder, names: list[str]) -> Iterator[str]:
    """The index files' names, the newest by the log first; names: in order.

    A name that sorts before another one's is a newer file's only where the broker's clock was set
    to a zone further west meanwhile: by its first message's time less twelve hours, at most. So
    only headers of names within these hours of the last one are read.
    """
    heads: dict[str, IndexHeader] = {}

    def head_of(name: str) -> IndexHeader:
        if name not in heads:
            heads[name] = _header(store, name)
        return heads[name]

    rest = list(names)
    while len(rest) > 1:
        least = _least_newer(rest[-1], head_of(rest[-1]))
        near = [name for name in rest if name >= least]
        last = in_log_order((name, head_of(name)) for name in near)[-1]
        rest.remove(last)
        yield last
    yield from rest


def _least_newer(name: str, head: IndexHeader) -> str:
    """The least name that a newer file can have than this one, whose name is the last."""
    ahead = parse_index_name(name) - head.begin_timestamp
    if not head.entries or not _WESTMOST - _HOUR <= ahead <= _EASTMOST + _HOUR:
        return ""  # a header or a name that tells no zone
    return index_name(head.begin_timestamp + _WESTMOST)


def index_by_name(store: Folder) -> list[Listed]:
    """The index files in the order of their names.

    RocketMQ passes over other names too (IndexService.load).
    """
    return [each for each in store.listed(INDEX) if is_index_name(each.name)]


def _header(store: Folder, name: str) -> IndexHeader:
    head = NO_HEADER
    try:
        with closing(store.open(f"{INDEX}/{name}")) as file:
            if file.state.size >= INDEX_HEADER_BYTES:
                head = read_header(file)
    except (FileNotFoundError, StoreChanged):
        pass  # a running broker writes to it
    return head
