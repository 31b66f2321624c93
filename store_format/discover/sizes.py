"""Settings completed with the sizes that a store's segments, queue files and index files show: for
a reader, and for a writer.

A reader takes what most files show. A writer never continues a file with another size, so that all
files are looked at, and must agree.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import fields, replace
from functools import cached_property
from itertools import chain, islice, pairwise
from typing import NamedTuple

import numpy as np

from reput.store_format import layouts, names
from reput.store_format.derived.index_header import decode_header
from reput.store_format.derived.index_reader import file_bytes
from reput.store_format.derived.queue_files import entry_bytes, segment_bytes
from reput.store_format.faults import StoreError
from reput.store_format.files.adapters import FilesRead
from reput.store_format.files.folder import Folder, queue_folders
from reput.store_format.files.protocol import Bytes, Files, InputStorage
from reput.store_format.log.groups import log_folders
from reput.store_format.log.segments import Segment, list_segments
from reput.store_format.release.settings import (
    SettingError,
    Settings,
    WriterSettings,
    settings_from,
)

# ---
# Finds the numbers of slots and entries of a store's index files from the files' own content.
#
# A file's length alone is not enough: many pairs of the two give the same length. A full file's
# header has the number of entries; any other file is searched for its first entry.

SLOTS, ENTRIES = "maxHashSlotNum", "maxIndexNum"

Read = Callable[[int, Bytes], None]  # fill a buffer from a place in a file
_WINDOW_ENTRIES = 1 << 20


class SizeDisagrees(SettingError):
    """A file of the store has another size than a setting says; nothing was changed."""


class SeenFile(NamedTuple):
    """A file: its path below the store, its length in bytes, and how it is read."""

    path: str
    length: int
    read: Read


class SeenIndex(NamedTuple):
    """An index file, with fields of its header."""

    file: SeenFile
    begin: int  # beginPhyOffset
    end: int  # endPhyOffset
    next_entry: int  # indexCount


def seen_index(file: SeenFile) -> SeenIndex:
    raw = np.empty(layouts.INDEX_HEADER_BYTES, np.uint8)
    file.read(0, raw)
    head = decode_header(raw)
    return SeenIndex(file, head.begin_offset, head.end_offset, head.next_entry)


def pair_of(
    seen: Sequence[SeenIndex], given: Mapping[str, int], otherwise: Mapping[str, int]
) -> tuple[int, int] | None:
    """(slots, entries) that a file's content shows, None where none does."""
    wanted, slots_wanted = (given.get(name, otherwise[name]) for name in (ENTRIES, SLOTS))
    with_entries = [each for each in seen if each.next_entry > 1]

    def likely(each: SeenIndex) -> Iterable[int]:  # the default or given numbers, a full file's
        return wanted, each.next_entry, _entries(each.file.length, slots_wanted)

    for places in (likely, _places):
        for each in with_entries:
            for entries in places(each):
                slots = _slots(each.file.length, entries)
                if slots is not None and _fits(each, slots):
                    return slots, entries
    return None


def _slots(length: int, entries: int) -> int | None:
    """How many slots leave room for `entries` entries; None where no number does."""
    rest = length - layouts.INDEX_HEADER_BYTES - entries * layouts.INDEX_ENTRY_BYTES
    fits = entries > 0 and rest > 0 and rest % layouts.INDEX_SLOT_BYTES == 0
    return rest // layouts.INDEX_SLOT_BYTES if fits else None


def _entries(length: int, slots: int) -> int:
    """How many whole entries follow `slots` slots."""
    return (
        length - layouts.INDEX_HEADER_BYTES - slots * layouts.INDEX_SLOT_BYTES
    ) // layouts.INDEX_ENTRY_BYTES


def _places(seen: SeenIndex) -> Iterator[int]:
    """Possible numbers of entries, one for each row in the file that may be the first entry.

    The entries go up to the file's end, so each starts a multiple of its size before the end.
    """
    length = seen.file.length
    whole = (length - layouts.INDEX_HEADER_BYTES) // layouts.INDEX_ENTRY_BYTES
    for left in range(whole, 0, -_WINDOW_ENTRIES):
        many = min(left, _WINDOW_ENTRIES)
        buffer = np.empty(many * layouts.INDEX_ENTRY_BYTES, np.uint8)
        seen.file.read(length - left * layouts.INDEX_ENTRY_BYTES, buffer)
        rows = np.frombuffer(buffer, layouts.INDEX_ENTRY)
        starts = (rows["physicalOffset"] == seen.begin) & (rows["previous"] == 0)
        for row in np.flatnonzero(starts & (rows["keyHash"] > 0)):
            yield left - int(row) + 1  # entry 0 is before it, and never used


def _fits(seen: SeenIndex, slots: int) -> bool:
    """Whether the first and last entry are in their places if the file has `slots` slots, and a
    slot has the last entry's number.

    The last entry's physicalOffset may be one less than the header's endPhyOffset, where reput's
    writer has left its mark (writer/index_folder).
    """
    at = layouts.INDEX_HEADER_BYTES + slots * layouts.INDEX_SLOT_BYTES
    last = at + (seen.next_entry - 1) * layouts.INDEX_ENTRY_BYTES
    if last + layouts.INDEX_ENTRY_BYTES > seen.file.length:
        return False
    rows = [_entry(seen.file, at + layouts.INDEX_ENTRY_BYTES), _entry(seen.file, last)]
    slot = np.empty(layouts.INDEX_SLOT_BYTES, np.uint8)
    if min(int(row["keyHash"]) for row in rows) < 0:
        return False
    seen.file.read(
        layouts.INDEX_HEADER_BYTES + int(rows[1]["keyHash"]) % slots * layouts.INDEX_SLOT_BYTES,
        slot,
    )
    return (
        int(rows[0]["physicalOffset"]) == seen.begin
        and int(rows[1]["physicalOffset"]) in (seen.end, seen.end - 1)
        and int.from_bytes(slot.tobytes(), "big") == seen.next_entry - 1
    )


def _entry(file: SeenFile, at: int) -> np.void:
    raw = np.empty(layouts.INDEX_ENTRY_BYTES, np.uint8)
    file.read(at, raw)
    entry: np.void = np.frombuffer(raw, layouts.INDEX_ENTRY, 1)[0]
    return entry


# ---
# The sizes that a store's files show: of segments, queue files and index files.
#
# The most common size is taken, so that one damaged file changes nothing: it differs from the
# others and is found as damage later. The names of files count too: a file's name is the offset
# where it begins, so that two neighbours show the size of the first one, whatever is left of it.

SEGMENT = "mappedFileSizeCommitLog"
QUEUE = "mappedFileSizeConsumeQueue"
BATCH_QUEUE = "mapperFileSizeBatchConsumeQueue"
SIZES = (SEGMENT, QUEUE, BATCH_QUEUE, SLOTS, ENTRIES)

FILE_BYTES_MOST = 0x7FFFFFFF  # a MappedFile's size is a Java int
SEGMENT_BYTES_LEAST = 128
_WHOLE = 1024  # a lone file that is no whole number of KiB may be a part of a file
_LEAST_POWER, _MOST_POWER = 10, 30  # a KiB, and RocketMQ's default
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

    def __init__(self, storage: InputStorage, folders: Iterable[str], derived: Folder) -> None:
        """folders: of segments; derived: where queues and index are."""
        self._storage, self._folders, self.derived = storage, folders, derived

    @cached_property
    def segments(self) -> list[Segment]:
        """The segments as they are, in order; files that are no segments are left out."""
        found = [
            Segment(f"{folder}/{name}", start, state)
            for folder in self._folders
            for name, state in Folder(self._storage, folder).listed()
            if (start := names.segment_start(name)) is not None and state is not None and state.size
        ]
        return sorted(found, key=lambda each: each.start)

    def log(self, segment_bytes: int) -> list[Segment]:
        """The segments as a reader takes them that passes over faults; none where none is."""
        starts = {each.start for each in self.segments if not each.start % segment_bytes}
        if len(starts) == len(self.segments):
            return self.segments
        try:
            return list_segments(self._storage, list(self._folders), segment_bytes).segments
        except StoreError:
            return []

    def segment(self) -> Size | None:
        """The segments' size; None where they show none, or where each has its own."""
        if self._storage.back_to_back:
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
        kind = names.BATCH_CONSUME_QUEUE if batch else names.CONSUME_QUEUE
        for queue in queue_folders(self.derived, kind, topics):
            folder = self.derived / queue
            yield [
                NamedFile(start, file.size, f"{folder}/{name}")
                for name, file in folder.listed()
                if (start := names.segment_start(name)) is not None and file is not None
            ]

    def index(
        self, usual: Mapping[str, int], given: Mapping[str, int], every: bool = False
    ) -> IndexShown | None:
        """What the index files show; None where there is none with a header.

        usual: RocketMQ's defaults. At most four files are searched, the newest first. every: all
        files are searched, and a file that is only a header counts too.
        """
        least = layouts.INDEX_HEADER_BYTES if every else layouts.INDEX_HEADER_BYTES + 1
        files = [
            (each.name, each.state.size)
            for each in self.derived.listed(names.INDEX)
            if each.state
            and names.is_index_name(each.name)
            and each.state.size >= layouts.INDEX_HEADER_BYTES
        ]
        lengths = Counter(size for _, size in files if least <= size <= FILE_BYTES_MOST)
        if not lengths:
            return None
        length = max((count, size) for size, count in lengths.items())[1]
        pair, end, searched = None, -1, 0
        for name in (name for name, size in reversed(files) if size == length):
            if pair is not None or (searched == _SEARCHED_MOST and not every):
                break
            with closing(self.derived.open(f"{names.INDEX}/{name}")) as reader:
                seen = seen_index(SeenFile(f"{names.INDEX}/{name}", length, reader.read_into))
                pair, end = pair_of([seen], given, usual), max(end, seen.end)
                searched += seen.next_entry > 1
        odd = next((each for each in files if each[1] != length), None)
        return IndexShown(pair, end, length, odd, searched > 0)


def segment_size(segments: Sequence[NamedFile]) -> Size | None:
    """The size of a log's segments; None where there is none that could be trusted.

    It is what nearly all files are long: some may have been renamed, so that their names are no
    multiples of it. A lone segment that is no whole number of KiB, or whose name is no multiple of
    its length, shows nothing: it may be a part of a segment that was copied.
    """
    there = sorted(each for each in segments if each.length)
    votes = Counter(each.length for each in there)
    votes.update(after.start - before.start for before, after in pairwise(there))
    size = _most(votes, SEGMENT_BYTES_LEAST)
    if size is None:
        return None
    misnamed = [each.start % size > 0 for each in there if each.length == size]
    doubtful = 2 * sum(misnamed) > len(misnamed) or (len(there) == 1 and size % _WHOLE)
    return None if doubtful else _size(size, there)


def fitting_sizes(segments: Sequence[Segment]) -> list[int]:
    """The sizes, powers of two, that segments which show none may have had, smallest first."""
    longest = max(each.state.size for each in segments)
    strides = [after.start - before.start for before, after in pairwise(segments)]
    return [
        size
        for size in (1 << power for power in range(_LEAST_POWER, _MOST_POWER + 1))
        if longest <= size <= min(strides, default=size)
        and not any(each.start % size for each in segments)
    ]


def queue_size(queues: Iterable[Sequence[NamedFile]], batch: bool) -> Size | None:
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


def agreed_pair(
    where: str, shown: IndexShown, pair: tuple[int, int], given: Mapping[str, int]
) -> dict[str, int]:
    """Slots and entries by name. Raises SizeDisagrees where a given number differs."""
    found = dict(zip((SLOTS, ENTRIES), pair, strict=True))
    for name, value in found.items():
        if given.get(name, value) != value:
            both = f"--set {SLOTS}={pair[0]} --set {ENTRIES}={pair[1]}"
            raise SizeDisagrees(
                f"{where}: its files have {shown.length} bytes and were made with {name}={value}, "
                f"and {name} is {given[name]}; give {both}"
            )
    return found


# --- for a reader ---------------------------------------------------------------------------


def settings_to_read(
    store: Folder, given: Mapping[str, str], release: str,
    derived: Folder | None = None,
) -> tuple[Settings, str | None]:  # fmt: skip
    """The settings given, with the sizes that the files show where none is given. A reader of
    queues needs no size of theirs.

    derived: where queues and index are, if not in the store. The second value says why the sizes of
    index files are not known, if they are not. Raises SettingError.
    """
    settings = settings_from(given, release=release)
    files = FileSizes(store.storage, log_folders(store, settings), derived or store)
    segment = None if SEGMENT in given else files.segment()
    if segment is not None:
        settings = replace(settings, mapped_file_size_commit_log=segment.value)
    if SLOTS in given and ENTRIES in given:
        return settings, None
    usual = {name: settings.by_name()[name] for name in (SLOTS, ENTRIES)}
    shown = files.index(usual, {name: usual[name] for name in usual if name in given})
    if shown is not None and shown.pair is not None:
        slots, entries = shown.pair
        return replace(settings, max_hash_slot_num=slots, max_index_num=entries), None
    if shown is None or shown.length == file_bytes(usual[SLOTS], usual[ENTRIES]):
        return settings, None
    return settings, (
        f"{files.derived}/{names.INDEX}: the files have {shown.length} bytes, which do not show "
        f"{SLOTS} and {ENTRIES}: give them with --set"
    )


# --- for a writer ---------------------------------------------------------------------------


def settings_to_continue(
    settings: WriterSettings, files: Files
) -> tuple[WriterSettings, dict[str, int]]:
    """The settings with the sizes that the store's files have; and by name those that are neither
    given nor RocketMQ's defaults.

    A default never wins over a file. Raises SizeDisagrees where a given size does not agree, or the
    files have several; it names the option to give.
    """
    default, mine = WriterSettings().by_name(), settings.by_name()
    given = {name: mine[name] for name in SIZES if name in settings.given_names}
    found = _sizes_of_all(files, given, {name: default[name] for name in SIZES})
    found = {n: found[n] for n in found if n not in given and found[n] != default[n]}
    field_of = {f.metadata["name"]: f.name for f in fields(settings)}
    changed = {field_of[name]: size for name, size in found.items()}
    return replace(settings, given=settings.given_names, **changed), found  # type: ignore[arg-type]


def _sizes_of_all(
    files: Files, given: Mapping[str, int], usual: Mapping[str, int]
) -> dict[str, int]:
    """The sizes that all files have; a size that no file shows is left out."""
    storage = FilesRead(files)
    there = FileSizes(storage, [names.COMMIT_LOG], Folder(storage, ""))
    found = {}
    for name, some in (
        (SEGMENT, [NamedFile(each.start, each.state.size, each.path) for each in there.segments]),
        (QUEUE, chain.from_iterable(there.queues(False))),
        (BATCH_QUEUE, chain.from_iterable(there.queues(True))),
    ):
        length = _one_length(name, some, given)
        if length is not None:
            found[name] = length
    shown = there.index(usual, given, every=True)
    return found if shown is None else found | _one_pair(shown, given, usual)


def _one_length(name: str, files: Iterable[NamedFile], given: Mapping[str, int]) -> int | None:
    """The length that all files have, which must be the given one if there is one."""
    first: NamedFile | None = None
    for file in files:
        # A crash may leave an empty file, and a segment too short: recovery gives it its length.
        wanted = given.get(name, first.length if first else file.length)
        torn = name == SEGMENT and first is not None and file.length < wanted
        if not file.length or torn:
            continue
        path = file.path.lstrip("/")
        if name in given and file.length != rounded(name, wanted):
            raise SizeDisagrees(
                f"{path}: has {file.length} bytes, and {name} is {wanted}; "
                f"give --set {name}={file.length}"
            )
        if first is not None and file.length != first.length:
            raise SizeDisagrees(
                f"{path}: has {file.length} bytes, and {first.path.lstrip('/')} has "
                f"{first.length}; one of them is damaged: give --set {name}=... and use "
                f"`reput recover`"
            )
        first = first or file
    return first.length if first else None


def _one_pair(
    shown: IndexShown, given: Mapping[str, int], usual: Mapping[str, int]
) -> dict[str, int]:
    """Slots and entries of all index files; many pairs of the two give the same length."""
    if shown.odd is not None:
        name, length = shown.odd
        raise SizeDisagrees(
            f"{names.INDEX}/{name}: has {length} bytes, and others have {shown.length}: the store "
            f"was written with two sizes of {SLOTS} and {ENTRIES}"
        )
    if shown.pair is not None:
        return agreed_pair(f"{names.INDEX}/", shown, shown.pair, given)
    slots, entries = given.get(SLOTS, usual[SLOTS]), given.get(ENTRIES, usual[ENTRIES])
    if shown.length == file_bytes(slots, entries) and not shown.has_entries:
        return {SLOTS: slots, ENTRIES: entries}
    raise SizeDisagrees(
        f"{names.INDEX}/: its files have {shown.length} bytes, and {SLOTS}={slots} with {ENTRIES}="
        f"{entries} makes {file_bytes(slots, entries)}; their content does not show them: "
        f"give --set {SLOTS}=... --set {ENTRIES}=... as the broker has them"
    )
