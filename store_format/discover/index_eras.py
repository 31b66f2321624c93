"""Which releases put the entries of a store's index, in the order of the log (decision 0024).

Two rules show where a broker was upgraded: up to 4.7.0 hashSlotCount grows with every key, and from
5.4.0 on tags have a key of their own. An upgraded broker continues the newest file, so one file may
begin by the old rule and end by the new rule. Only headers and a few entries and records are read.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice, pairwise, takewhile
from typing import Any, NamedTuple

import numpy as np

from reput.store_format.derived.checkpoint import Checkpoint
from reput.store_format.derived.index_header import listed_index
from reput.store_format.derived.index_reader import IndexFileReader, key_hash
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.layouts import INDEX_SLOT, INDEX_SLOT_BYTES, SYS_TRANSACTION_ROLLBACK
from reput.store_format.log.reader import LogReader, Record
from reput.store_format.message.message import parse_properties
from reput.store_format.names import ABORT, INDEX
from reput.store_format.release.profiles import NEVER, Clue, Period
from reput.store_format.release.settings import Settings

_EVERY_KEY = Clue("hashSlotCount of the index counts all keys (up to 4.7.0)", "", "4.7.0")
_SLOTS_IN_USE = Clue("hashSlotCount of the index counts slots in use (since 4.7.1)", "4.7.1")
_TAGS = Clue("the index has keys of tags (since 5.4.0)", "5.4.0")
_NO_TAGS = Clue("the index has no keys of tags (up to 5.3.4)", "", "5.3.4")
# Entries per read, and the most reads, until a message shows whether tags have keys.
_ENTRIES, _TIMES = 256, 16
# Where messages have no tags none shows it: after so many in vain few more of each file are read.
# Each is a request or two on S3, and 50 TB have thousands of files.
_IN_VAIN, _OF_A_FILE = 1 << 7, 3
_READ = 1 << 16


class OfIndex(NamedTuple):
    """What a store's index shows. end: last physicalOffset in it + 1, or -1 without an entry."""

    counts: list[Period]
    tags: list[Period]
    end: int
    last_records: list[Record]  # some of its last messages
    again: tuple[tuple[int, int], ...]  # messages that were indexed twice, see ScanRules


def dispatched_again(folder: Folder, settings: Settings, checkpoint: Checkpoint | None) -> int:
    """The physical offset from which a broker's recovery indexes again; NEVER if it does not.

    On loading after a crash a broker deletes each index file whose endTimestamp is above the
    checkpoint's indexMsgTimestamp (IndexService.load).
    """
    known = checkpoint.index_msg_timestamp if checkpoint else 0
    start = NEVER
    for file in _files(folder, settings):
        with file:
            if file.header.end_timestamp > known:
                start = min(start, file.header.begin_offset)
    return start


class _Shown(NamedTuple):
    """A message that shows whether tags have keys."""

    place: int
    entry: int  # the number of its first entry
    tags: bool


def of_the_index(
    folder: Folder, log: LogReader, settings: Settings, sweeps: bool = False
) -> OfIndex:
    """What the index files below a folder show. What cannot be read shows nothing here.

    sweeps: all entries are read for messages that were indexed again.
    """
    files = list(_files(folder, settings))
    try:
        last = [_record(log, each.place) for file in files[-1:]
                for each in _groups(file, *_last_numbers(file))]  # fmt: skip
        end = max((file.header.end_offset + 1 for file in files), default=-1)
        stopped = ABORT not in dict(folder.listed())
        again = (_every_again if sweeps else _again)(log, files)
        return OfIndex(
            list(_counts(files)), list(_tags(log, files, stopped)), end,
            [record for record in last if record is not None], tuple(again),
        )  # fmt: skip
    except StoreChanged:
        raise
    except StoreError:
        return OfIndex([], [], -1, [], ())
    finally:
        for file in files:
            file.close()


def _files(folder: Folder, settings: Settings) -> Iterator[IndexFileReader]:
    """The index files that have entries, oldest first."""
    slots, most = settings.max_hash_slot_num, settings.max_index_num
    for name, state in listed_index(folder):
        if state is None:
            continue
        try:
            file = IndexFileReader(folder.storage, f"{folder}/{INDEX}/{name}", slots, most)
        except StoreError:
            continue
        if 0 < file.header.entries < most:
            yield file
        else:
            file.close()


# --- hashSlotCount -----------------------------------------------------------------------------


def _counts(files: Sequence[IndexFileReader]) -> Iterator[Period]:
    """Up to 4.7.0 hashSlotCount counts all keys, then the slots in use (IndexFile.putKey)."""
    old = [n for n, file in enumerate(files) if _counts_every_key(file)]
    heads = [file.header for file in files]
    rest = range(old[-1] + 1 if old else 0, len(files))
    after = [n for n in rest if heads[n].slots_used < heads[n].entries]
    if old and not after:
        yield Period(0, (_EVERY_KEY,))
    if not after:
        return
    file = files[after[0]]
    start = _first_slot_counted(file, known=bool(old))
    if not start and old:
        straddles = files[old[-1]].header.end_offset == file.header.begin_offset
        start = file.header.begin_offset + int(straddles)
    if start:
        yield Period(0, (_EVERY_KEY,))
    yield Period(start, (_SLOTS_IN_USE,))


def _counts_every_key(file: IndexFileReader) -> bool:
    """Whether a slot that was in use was counted again."""
    if file.header.slots_used != file.header.entries:
        return False
    return bool((file.entries_at(*_last_numbers(file))["previous"] != 0).any())


def _first_slot_counted(file: IndexFileReader, known: bool) -> int:
    """The place of the first message for which a broker counted slots in use, after an older broker
    had counted every key; 0 where one broker put all keys of the file.

    The older broker also counted keys whose slot was in use (`previous` is not 0): hashSlotCount
    exceeds the slots in use by their number. known: an earlier file counts every key; otherwise a
    count that one flipped bit may have made is not believed.
    """
    in_use = _slots_in_use(file)
    besides = file.header.slots_used - in_use
    one_bit = (file.header.slots_used ^ in_use).bit_count() == 1
    if besides <= 0 or (one_bit and not known):
        return 0
    if sum(int(np.count_nonzero(some["previous"] == 0)) for some in _pieces(file)) != in_use:
        return 0  # it is damaged
    for some in _pieces(file):
        shared = np.cumsum(some["previous"] != 0)
        if besides < int(shared[-1]):
            return int(some["physicalOffset"][np.searchsorted(shared, besides, side="right")])
        besides -= int(shared[-1])
    return 0


def _slots_in_use(file: IndexFileReader) -> int:
    found = 0
    for at in range(0, file.slots, _READ):
        raw = np.empty(min(_READ, file.slots - at) * INDEX_SLOT_BYTES, np.uint8)
        file.read_slots(at, raw)
        slots = raw.view(INDEX_SLOT)
        found += int(np.count_nonzero((slots > 0) & (slots <= file.header.entries)))
    return found


def _pieces(file: IndexFileReader) -> Iterator[Any]:
    for first in range(1, file.header.next_entry, _READ):
        yield file.entries_at(first, min(_READ, file.header.next_entry - first))


def _last_numbers(file: IndexFileReader) -> tuple[int, int]:
    """(first, how many) of the last entries."""
    count = min(_ENTRIES, file.header.entries)
    return file.header.next_entry - count, count


# --- keys of tags ------------------------------------------------------------------------------


def _tags(log: LogReader, files: Sequence[IndexFileReader], stopped: bool) -> Iterator[Period]:
    """Where tags began, or ceased, to have keys (IndexService.buildIndex).

    stopped: the broker was not killed, which might have kept the last message's last key back.
    """
    shown: list[tuple[int, _Shown]] = []
    left = _IN_VAIN
    for number, file in enumerate(files):
        parted = _in_two(log, files[number - 1], file) if number else None
        most = max(left, _OF_A_FILE)
        first = next(_shown(log, islice(_from(file, 1, _TIMES), most)), None)
        last = next(_shown(log, islice(_from_last(file), most)), None)
        left = _IN_VAIN if first or last else left - most
        if number == len(files) - 1:
            last = _very_last(log, file, stopped) or last
        shown += [(number, each) for each in (parted, first, last) if each is not None]
    if shown:
        yield Period(0, (_TAGS if shown[0][1].tags else _NO_TAGS,))
    for (number, before), (other, after) in pairwise(shown):
        if before.tags != after.tags:
            same = number == other
            place = _between(log, files[number], before, after) if same else after.place
            yield Period(place, (_TAGS if after.tags else _NO_TAGS,))


def _between(log: LogReader, file: IndexFileReader, low: _Shown, high: _Shown) -> int:
    """The place of the first message that shows the rule of `high`; `low` shows the other."""
    stop = file.header.next_entry
    while high.entry - low.entry > _ENTRIES:
        middle = (low.entry + high.entry) // 2
        found = next(_shown_from(log, file, middle, high.entry), None)
        if found is None:
            high = high._replace(entry=middle)
        elif found.tags == high.tags:
            high = found
        else:
            low = found
    shown = (each for each in _shown_from(log, file, low.entry, stop) if each.tags == high.tags)
    return next(shown, high).place


def _shown_from(log: LogReader, file: IndexFileReader, first: int, stop: int) -> Iterator[_Shown]:
    """The messages that show whether tags have keys, in [first, stop)."""
    groups = takewhile(lambda each: each.entry < stop, _from(file, first))
    return _shown(log, groups)


def _from(file: IndexFileReader, first: int, times: int | None = None) -> Iterator["_Group"]:
    """The messages from an entry on. times: most reads."""
    while first < file.header.next_entry and times != 0:
        groups = _groups(file, first, min(_ENTRIES, file.header.next_entry - first))
        yield from groups
        # the last group may go on
        first = groups[-1].entry if len(groups) > 1 else first + _ENTRIES
        if groups[-1].last:
            return
        times = None if times is None else times - 1


def _from_last(file: IndexFileReader) -> Iterator["_Group"]:
    end = file.header.next_entry
    for _ in range(_TIMES):
        first = max(end - _ENTRIES, 1)
        yield from reversed(_groups(file, first, end - first))
        if first == 1:
            return
        end = first


def _very_last(log: LogReader, file: IndexFileReader, stopped: bool) -> _Shown | None:
    """What the last message of the index shows, after which no entry shows that it is complete."""
    group = _groups(file, *_last_numbers(file))[-1]
    shown = next(_shown(log, [group._replace(whole=True)]), None)
    return shown if shown is not None and (shown.tags or stopped) else None


def _in_two(log: LogReader, before: IndexFileReader, file: IndexFileReader) -> _Shown | None:
    """What a message shows whose keys are in two files, as the first of them was full."""
    last = _groups(before, *_last_numbers(before))[-1]
    first = _groups(file, 1, min(_ENTRIES, file.header.entries))[0]
    if last.place != first.place:
        return None
    whole = first._replace(hashes=last.hashes + first.hashes, whole=True)
    return next(_shown(log, [whole]), None)


class _Group(NamedTuple):
    """Neighbouring entries of one message; whole: these seem to be all that it has."""

    place: int
    entry: int
    hashes: list[int]
    whole: bool
    last: bool  # of the file


def _groups(file: IndexFileReader, first: int, count: int) -> list[_Group]:
    """The messages of `count` entries. A file's last message may go on in the next file."""
    entries = file.entries_at(first, count)
    places, hashes = entries["physicalOffset"].tolist(), entries["keyHash"].tolist()
    found: list[_Group] = []
    for place, group in groupby(range(count), places.__getitem__):
        numbers = list(group)
        whole = (numbers[0] > 0 or first == 1) and numbers[-1] + 1 < count
        last = first + numbers[-1] + 1 == file.header.next_entry
        found.append(_Group(place, first + numbers[0], [hashes[n] for n in numbers], whole, last))
    if len(found) == 1 and first == 1 and found[0].last:
        return [found[0]._replace(whole=True)]  # the store's only message
    return found


def _shown(log: LogReader, groups: Iterable[_Group]) -> Iterator[_Shown]:
    for group in groups:
        record = _record(log, group.place) if group.whole else None
        tags = None if record is None else _has_tags(record, group.hashes)
        if tags is not None:
            yield _Shown(group.place, group.entry, tags)


def _record(log: LogReader, place: int) -> Record | None:
    try:
        return log.record_at(place)
    except StoreChanged:
        raise  # each further record would be asked for in vain
    except StoreError:
        return None


def _has_tags(record: Record, hashes: list[int]) -> bool | None:
    """Whether the last of a message's key hashes is that of its tags; None if that is unclear."""
    keys, tags = _keys(record)
    if not tags or record.transaction == SYS_TRANSACTION_ROLLBACK:
        return None
    return False if hashes == keys else True if hashes == keys + tags else None


def _keys(record: Record) -> tuple[list[int], list[int]]:
    """(the hashes of a message's keys, the hash of its tags' key, if it has tags)."""
    properties = parse_properties(record.properties)
    keys = [properties["UNIQ_KEY"]] if "UNIQ_KEY" in properties else []
    keys += [key for key in properties.get("KEYS", "").split(" ") if key]
    tags = [f"T#{properties['TAGS']}"] if properties.get("TAGS") else []
    first, second = ([key_hash(record.topic, key) for key in each] for each in (keys, tags))
    return first, second


# --- messages that were indexed again ------------------------------------------------------------


def _again(log: LogReader, files: Sequence[IndexFileReader]) -> Iterator[tuple[int, int]]:
    """The messages that a broker's recovery indexed again.

    After a crash it deletes the newest files and dispatches again, and skips what lies before the
    last file's endPhyOffset, but not the message that begins there (IndexService.buildIndex). A
    file that is not full stays only if its last message is no newer than the checkpoint's
    indexMsgTimestamp, which a full file sets: so it had just begun.
    """
    begins = [_groups(file, 1, min(_ENTRIES, file.header.entries)) for file in files]
    at_borders = dict(_again_at_borders(log, files, begins))
    yield from at_borders.items()
    for groups in begins:
        for group in groups:
            if group.place not in at_borders and len(set(group.hashes)) < len(group.hashes):
                yield from _extra(log, group.place, group.hashes)


def _again_at_borders(
    log: LogReader, files: Sequence[IndexFileReader], begins: Sequence[list[_Group]]
) -> Iterator[tuple[int, int]]:
    """Those whose entries end one file and begin the next."""
    for before, file, groups in zip(files, files[1:], begins[1:], strict=False):
        place = file.header.begin_offset
        if not groups or place != before.header.end_offset:
            continue
        last, first = _groups(before, *_last_numbers(before))[-1], groups[0]
        if last.place == first.place == place:
            yield from _extra(log, place, last.hashes + first.hashes)


def _every_again(log: LogReader, files: Sequence[IndexFileReader]) -> Iterator[tuple[int, int]]:
    """Messages that were indexed again anywhere in a file, as `_extra` yields them.

    From 5.5.0 on a clean start (DefaultMessageStore.recover) dispatches again what follows the last
    half message or op message of transRocksDBEnable, or the last message in the index of
    indexRocksDBEnable. So it indexes the log's last message once more.
    """
    for run in _runs(files):
        if run.twice and run.entries <= _READ:
            yield from _extra(log, run.place, _hashes(files, run))


def _extra(log: LogReader, place: int, hashes: list[int]) -> Iterator[tuple[int, int]]:
    """(place, number of entries before the last indexing) of a message whose entries are all its
    keys several times. Of the first time the beginning alone may be left: a full file ended there.
    """
    record = _record(log, place)
    if record is None:
        return
    keys, tags = _keys(record)
    for every in (keys + tags, keys):
        extra = len(hashes) - len(every)
        if every and extra > 0:
            times, rest = divmod(len(hashes), len(every))
            if hashes == every[:rest] + every * times:
                yield place, extra
                return


class _Run(NamedTuple):
    """The entries of one message, which may go on in the next file."""

    place: int
    file: int
    entry: int
    entries: int
    hashed: int  # the first entry's keyHash
    twice: bool  # whether another entry has that keyHash


def _runs(files: Sequence[IndexFileReader]) -> Iterator[_Run]:
    run = _Run(-1, 0, 0, 0, 0, False)
    for number, file in enumerate(files):
        entry = 1
        for some in _pieces(file):
            places, hashes = some["physicalOffset"], some["keyHash"]
            starts = np.flatnonzero(np.diff(places, prepend=~places[:1]))
            counts = np.diff(starts, append=len(places))
            heads = hashes[starts]
            if places[0] == run.place:
                heads[0] = run.hashed
            else:
                yield run
                run = _Run(int(places[0]), number, entry, 0, int(heads[0]), False)
            same = hashes == np.repeat(heads, counts)
            same[starts[1:]] = False
            same[0] &= run.entries > 0
            twice = np.logical_or.reduceat(same, starts)
            run = run._replace(
                entries=run.entries + int(counts[0]), twice=run.twice or bool(twice[0])
            )
            for n in [*(np.flatnonzero(twice[1:-1]) + 1).tolist(), *range(1, len(starts))[-1:]]:
                yield run
                at = int(starts[n])
                run = _Run(int(places[at]), number, entry + at, int(counts[n]), int(heads[n]),
                           bool(twice[n]))  # fmt: skip
            entry += len(places)
    yield run


def _hashes(files: Sequence[IndexFileReader], run: _Run) -> list[int]:
    hashes: list[int] = []
    for file in files[run.file :]:
        first = run.entry if file is files[run.file] else 1
        count = min(run.entries - len(hashes), file.header.next_entry - first)
        hashes += file.entries_at(first, count)["keyHash"].tolist()
    return hashes
