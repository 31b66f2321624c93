"""The sizes that a store's files show: of segments, queue files and index files.

The most common size is taken, so that one damaged file changes nothing: it differs from the others
and is found as damage later. The names of files count too: a file's name is the offset where it
begins, so that two neighbours show the size of the first one, whatever is left of it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from itertools import islice, pairwise
from typing import NamedTuple

from reput.store_format.derived.queue_files import entry_bytes, segment_bytes
from reput.store_format.discover.index_sizes import ENTRIES, SLOTS, SeenFile, pair_of, seen_index
from reput.store_format.files.protocol import InputStorage, Listed, is_back_to_back, listed
from reput.store_format.layouts import INDEX_HEADER_BYTES
from reput.store_format.log.segments import Segment
from reput.store_format.names import (
    BATCH_CONSUME_QUEUE,
    CONSUME_QUEUE,
    INDEX,
    is_queue_folder,
    parse_index_name,
    segment_start,
)

SEGMENT = "mappedFileSizeCommitLog"
QUEUE = "mappedFileSizeConsumeQueue"
BATCH_QUEUE = "mapperFileSizeBatchConsumeQueue"
SIZES = (SEGMENT, QUEUE, BATCH_QUEUE, SLOTS, ENTRIES)

FILE_BYTES_MOST = 0x7FFFFFFF  # a MappedFile's size is a Java int
SEGMENT_BYTES_LEAST = 128
_WHOLE = 1024  # a lone file that is no whole number of KiB may be a part of a file
_QUEUES_MOST, _FILES_MOST, _TOPICS_LISTED, _SEARCHED_MOST = 32, 512, 256, 4


def rounded(name: str, size: int) -> int:
    """The size that a broker makes of a configured size."""
    return segment_bytes(size, False) if name == QUEUE else size


class NamedFile(NamedTuple):
    """A file: the offset in its name, its length in bytes, its path."""

    start: int
    length: int
    path: str = ""


class Size(NamedTuple):
    """A size that files show. files: how many have this length; lengths: all lengths."""

    value: int
    files: int
    lengths: frozenset[int]


class IndexShown(NamedTuple):
    """What index files show. pair: (slots, entries), None where no entry shows them; end: the
    greatest endPhyOffset; odd: (name, length) of a file that is not as long as most; has_entries:
    whether a searched file has any.
    """

    pair: tuple[int, int] | None
    end: int
    length: int
    odd: tuple[str, int] | None
    has_entries: bool


class FileSizes:
    """A store's files, and the sizes that they show. Files are read when a size is asked for."""

    def __init__(
        self, storage: InputStorage, folders: Iterable[str], derived: tuple[InputStorage, str]
    ) -> None:
        """folders: of segments; derived: where queues and index are."""
        self._storage, self._folders, (self._there, self.derived) = storage, folders, derived

    @cached_property
    def segments(self) -> list[Segment]:
        """The segments as they are, in order; files that are no segments are left out."""
        found = {}
        for folder in self._folders:
            for name, state in listed(self._storage, folder):
                start = segment_start(name)
                if start is not None and state is not None and state.size:
                    found[start] = Segment(f"{folder}/{name}", start, state)
        return [found[start] for start in sorted(found)]

    def segment(self) -> Size | None:
        """The segments' size; None where they show none, or where each has its own."""
        if is_back_to_back(self._storage):
            return None
        return segment_size([NamedFile(each.start, each.state.size) for each in self.segments])

    def queue(self, batch: bool) -> Size | None:
        """The size of queue files, by the first queues (_QUEUES_MOST, or _FILES_MOST files)."""
        queues, files = [], 0
        for queue in islice(self.queues(batch, _TOPICS_LISTED), _QUEUES_MOST):
            queues.append(queue[:_FILES_MOST])
            files += len(queue)
            if files >= _FILES_MOST:
                break
        return queue_size(queues, batch)

    def queues(self, batch: bool, topics: int | None = None) -> Iterator[list[NamedFile]]:
        """The files of each queue; topics: only of this many topics."""
        root = f"{self.derived}/{BATCH_CONSUME_QUEUE if batch else CONSUME_QUEUE}"
        for topic, state in listed(self._there, root)[:topics]:
            if state is not None:
                continue
            for queue, other in listed(self._there, f"{root}/{topic}"):
                if other is None and is_queue_folder(queue):
                    yield [
                        NamedFile(start, file.size, f"{root}/{topic}/{queue}/{name}")
                        for name, file in listed(self._there, f"{root}/{topic}/{queue}")
                        if (start := segment_start(name)) is not None and file is not None
                    ]

    def index(
        self, usual: Mapping[str, int], given: Mapping[str, int], every: bool = False
    ) -> IndexShown | None:
        """What the index files show; None where there is none with a header.

        usual: RocketMQ's defaults. At most four files are searched, the newest first. every: all
        files are searched, and a file that is only a header counts too.
        """
        least = INDEX_HEADER_BYTES if every else INDEX_HEADER_BYTES + 1
        files = [
            (each.name, each.state.size)
            for each in listed(self._there, f"{self.derived}/{INDEX}")
            if each.state and _is_index(each) and each.state.size >= INDEX_HEADER_BYTES
        ]
        lengths = Counter(size for _, size in files if least <= size <= FILE_BYTES_MOST)
        if not lengths:
            return None
        length = max((count, size) for size, count in lengths.items())[1]
        pair, end, searched = None, -1, 0
        for name in (name for name, size in reversed(files) if size == length):
            if pair is not None or (searched == _SEARCHED_MOST and not every):
                break
            with closing(self._there.open(f"{self.derived}/{INDEX}/{name}")) as reader:
                seen = seen_index(SeenFile(f"{INDEX}/{name}", length, reader.read_into))
                pair, end = pair_of([seen], given, usual), max(end, seen.end)
                searched += seen.next_entry > 1
        odd = next((each for each in files if each[1] != length), None)
        return IndexShown(pair, end, length, odd, searched > 0)


def segment_size(segments: Sequence[NamedFile]) -> Size | None:
    """The size of a log's segments; None where there is none that could be trusted.

    A lone segment that is no whole number of KiB, or whose name is no multiple of its length, shows
    nothing: it may be a part of a segment that was copied.
    """
    there = sorted(each for each in segments if each.length)
    votes = Counter(each.length for each in there)
    votes.update(after.start - before.start for before, after in pairwise(there))
    size = _most(votes, SEGMENT_BYTES_LEAST)
    if size is None or any(each.start % size for each in there if each.length == size):
        return None
    if len(there) == 1 and size % _WHOLE:
        return None
    return _size(size, there)


def queue_size(queues: Iterable[Sequence[NamedFile]], batch: bool) -> Size | None:
    """The size of queue files. queues: the files of each queue."""
    unit = entry_bytes(batch)
    votes: Counter[int] = Counter()
    there: list[NamedFile] = []
    for files in queues:
        found = sorted(each for each in files if each.length)
        there += found
        votes.update(each.length for each in found if not each.start % each.length)
        votes.update(b.start - a.start for a, b in pairwise(found) if a.length == b.start - a.start)
    whole = Counter({length: count for length, count in votes.items() if not length % unit})
    size = _most(whole, unit)
    return None if size is None else _size(size, there)


def _most(votes: Counter[int], least: int) -> int | None:
    """The size with most votes, of several the largest."""
    able = [(count, size) for size, count in votes.items() if least <= size <= FILE_BYTES_MOST]
    return max(able)[1] if able else None


def _size(size: int, there: Sequence[NamedFile]) -> Size:
    lengths = [each.length for each in there]
    return Size(size, lengths.count(size), frozenset(lengths))


def _is_index(about: Listed) -> bool:
    try:
        parse_index_name(about.name)
    except ValueError:
        return False
    return True
