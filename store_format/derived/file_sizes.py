"""What a store's files say of the sizes that its broker was configured with.

The most common size is taken, so that one damaged file changes nothing: it differs from the others
and is found as damage later. The names of files speak too: a file's name is the offset where it
begins, so that two neighbours tell the size of the first one, whatever is left of it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from reput.store_format.derived.consume_queue import entry_bytes
from reput.store_format.derived.index_sizes import Seen, pair_of, seen_index
from reput.store_format.layouts import INDEX_HEADER_BYTES
from reput.store_format.log.segments import Segment
from reput.store_format.names import INDEX, parse_index_name, segment_start
from reput.store_format.storage.listing import listed
from reput.store_format.storage.protocol import Listed, Reader, Storage

FILE_BYTES_MOST = 0x7FFFFFFF  # a MappedFile's size is a Java int
SEGMENT_BYTES_LEAST = 128
_WHOLE = 1024  # a file of no whole KiB that has no neighbour may be a part of one
_QUEUES_MOST, _FILES_MOST, _TOPICS_LISTED, _SEARCHED_MOST = 32, 512, 256, 4


class NamedFile(NamedTuple):
    """A file by the offset that its name says, and its length in bytes."""

    start: int
    length: int


class Size(NamedTuple):
    """A size that files show: of how many, and which other lengths there are."""

    value: int
    files: int
    lengths: frozenset[int]


class IndexShown(NamedTuple):
    """What index files show; pair: (slots, entries), None where no entry tells them; end: the
    newest one's endPhyOffset.
    """

    pair: tuple[int, int] | None
    end: int
    length: int
    files: int
    lengths: frozenset[int]


def segment_size(segments: Sequence[NamedFile]) -> Size | None:
    """The size of a log's segments; None where there is none that could be trusted.

    One segment alone that is no whole number of KiB, or whose name is no multiple of its length,
    shows nothing: it may be the part of one that was copied.
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
    """The size of queue files; `queues` has the files of each queue."""
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


def index_shown(
    storage: Storage, store: str, usual: dict[str, int], given: dict[str, int]
) -> IndexShown | None:
    """What the store's index files show; None where there is none with a header.

    usual: RocketMQ's defaults. At most four files are searched, the newest first.
    """
    files = [each for each in listed(storage, f"{store}/{INDEX}") if _is_index(each)]
    lengths = Counter(
        each.state.size for each in files
        if each.state and INDEX_HEADER_BYTES < each.state.size <= FILE_BYTES_MOST
    )  # fmt: skip
    if not lengths:
        return None
    length = max((count, size) for size, count in lengths.items())[1]
    pair, end, searched = None, -1, 0
    for name, state in reversed(files):
        if pair is not None or searched == _SEARCHED_MOST:
            break
        if state is None or state.size != length:
            continue
        reader: Reader = storage.open(f"{store}/{INDEX}/{name}")
        try:
            seen = seen_index(Seen(f"{INDEX}/{name}", length, reader.read_into))
            pair, end = pair_of([seen], given, usual), max(end, seen.end)
            searched += seen.next_entry > 1
        finally:
            reader.close()
    return IndexShown(pair, end, length, lengths[length], frozenset(lengths))


def _is_index(about: Listed) -> bool:
    try:
        parse_index_name(about.name)
    except ValueError:
        return False
    return about.state is not None


def segments_in(storage: Storage, folders: Iterable[str]) -> list[Segment]:
    """The segments in these folders as they are, in order; what is none is left out."""
    found = {}
    for folder in folders:
        for name, state in listed(storage, folder):
            start = segment_start(name)
            if start is not None and state is not None and state.size:
                found[start] = Segment(f"{folder}/{name}", start, state)
    return [found[start] for start in sorted(found)]


def queues_in(storage: Storage, store: str, kind: str) -> Iterator[list[NamedFile]]:
    """The files of the first queues of a store, as many as tell its size; kind: their folder."""
    queues = files = 0
    for topic, state in listed(storage, f"{store}/{kind}")[:_TOPICS_LISTED]:
        if state is not None:
            continue
        for queue, other in listed(storage, f"{store}/{kind}/{topic}"):
            if other is not None or not queue.isdigit():
                continue
            places = _places(storage, f"{store}/{kind}/{topic}/{queue}")
            yield places[:_FILES_MOST]
            queues, files = queues + 1, files + len(places)
            if queues >= _QUEUES_MOST or files >= _FILES_MOST:
                return


def _places(storage: Storage, folder: str) -> list[NamedFile]:
    places = []
    for name, state in listed(storage, folder):
        start = segment_start(name)
        if start is not None and state is not None:
            places.append(NamedFile(start, state.size))
    return places
