"""Clues of the release that wrote a store, in the store's own files.

Each is a rule that only some releases follow. The newest index file says most: of how its header
counts, and whether tags have keys of their own. Nothing here reads more than a few records.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, cast

from reput.store_format.derived.checkpoint import Checkpoint, decode
from reput.store_format.derived.index_reader import IndexEntry, IndexFileReader, key_hash
from reput.store_format.faults import StoreError
from reput.store_format.layouts import CHECKPOINT as CHECKPOINT_LAYOUT
from reput.store_format.layouts import MAGIC_V2, SYS_TRANSACTION_ROLLBACK
from reput.store_format.log.reader import LogReader, Record
from reput.store_format.log.record_rules import record_rules
from reput.store_format.log.segments import Segment
from reput.store_format.message.property_text import parse_properties
from reput.store_format.names import ABORT, BATCH_CONSUME_QUEUE, CHECKPOINT, CONFIG, INDEX
from reput.store_format.query.config import configured_topics
from reput.store_format.query.opened import Growing
from reput.store_format.query.told import Told as Notes
from reput.store_format.release.profiles import RELEASES, profile
from reput.store_format.release.settings import Settings
from reput.store_format.release.told_release import Clue
from reput.store_format.storage.listing import listed
from reput.store_format.storage.protocol import Storage

_TOPICS = f"{CONFIG}/topics.json"
# So many entries at the end of an index file are read: any few show how the releases differ.
_ENTRIES_MOST = 256
_FOLDERS = (  # in a store's root, and the first release that makes them
    ("timerwheel", "5.0.0"),
    ("timerlog", "5.0.0"),
    (BATCH_CONSUME_QUEUE, "5.0.0"),
    ("compaction", "5.1.0"),
)


class Clues(NamedTuple):
    """What leaves out releases; what only hints at one; whether an index file has entries."""

    hard: list[Clue]
    hints: list[Clue]
    has_keys: bool


def clues_of(
    storage: Storage, store: str, segments: Sequence[Segment], settings: Settings,
    derived: tuple[Storage, str],
) -> Clues:  # fmt: skip
    """The clues in a store, and where its derived files are."""
    hard = list(_of_the_root(storage, store))
    of_checkpoint, hints = _of_the_checkpoint(*derived)
    # a broker may be writing to them
    growing = cast(Storage, Growing(storage))
    with_log = LogReader(growing, list(segments), record_rules(profile(RELEASES[-1])))
    of_index = list(_of_the_index(*derived, with_log, settings))
    return Clues(
        [*hard, *of_checkpoint, *(clue for clue in of_index if clue.seen)], hints, bool(of_index)
    )


def _of_the_root(storage: Storage, store: str) -> Iterator[Clue]:
    names = dict(listed(storage, store))
    for name, since in _FOLDERS:
        if name in names and names[name] is None:
            yield Clue(f"{name}/ (since {since})", since)
    abort = names.get(ABORT)
    if abort is not None and abort.size:
        yield Clue("abort has a process id (since 5.0.0)", "5.0.0")
    try:
        topics = configured_topics(storage, store, Notes()) or {}
    except (OSError, StoreError):
        return  # others say what is wrong with it
    if any(isinstance(about, dict) and "attributes" in about for about in topics.values()):
        yield Clue(f"{_TOPICS} has attributes (since 5.0.0)", "5.0.0")


def _of_the_checkpoint(storage: Storage, folder: str) -> tuple[list[Clue], list[Clue]]:
    """(clues, hints) of a checkpoint: a field that is 0 may still be written later.

    A broker without a slave keeps masterFlushedOffset at 0, and one that never had another state
    than its own confirmPhyOffset too: that they are 0 hints at nothing.
    """
    try:
        raw = storage.read_bytes(f"{folder}/{CHECKPOINT}")
    except (OSError, StoreError):
        return [], []
    if len(raw) < CHECKPOINT_LAYOUT.itemsize:
        return [], []
    there: Checkpoint = decode(raw)
    hard, hints = [], []
    for name, value, since in (
        ("masterFlushedOffset", there.master_flushed_offset, "5.0.0"),
        ("confirmPhyOffset", there.confirm_phy_offset, "5.1.1"),
        ("logicsPhysicalOffset", there.logics_physical_offset, "5.5.0"),
    ):
        if value:
            hard.append(Clue(f"{CHECKPOINT} has {name} (since {since})", since))
    if not there.logics_physical_offset:
        hints.append(Clue(f"{CHECKPOINT} has no logicsPhysicalOffset", "", "5.4.0"))
    return hard, hints


# --- the index -------------------------------------------------------------------------------


def _of_the_index(
    storage: Storage, folder: str, log: LogReader, settings: Settings
) -> Iterator[Clue]:
    """What the newest file with entries tells; one without text where it has any entry."""
    for name, state in reversed(listed(storage, f"{folder}/{INDEX}")):
        if state is None:
            continue
        slots, most = settings.max_hash_slot_num, settings.max_index_num
        try:
            with IndexFileReader(storage, f"{folder}/{INDEX}/{name}", slots, most) as file:
                if not 0 < file.header.entries < most:
                    continue
                first = max(file.header.next_entry - _ENTRIES_MOST, 1)
                entries = [file.entry(n) for n in range(first, file.header.next_entry)]
                yield Clue("")
                yield from _of_the_count(file, entries)
        except StoreError:
            return
        with log:
            yield from _of_the_keys(log, entries, whole_first=first == 1)
        return


def _of_the_count(file: IndexFileReader, entries: Sequence[IndexEntry]) -> Iterator[Clue]:
    """Up to 4.7.0 hashSlotCount counts all keys, then the slots in use (IndexFile.putKey)."""
    used, keys = file.header.slots_used, file.header.entries
    if used < keys:
        yield Clue("hashSlotCount of the index counts slots in use (since 4.7.1)", "4.7.1")
    elif any(entry.previous for entry in entries):
        yield Clue("hashSlotCount of the index counts all keys (up to 4.7.0)", "", "4.7.0")


def _of_the_keys(
    log: LogReader, entries: Sequence[IndexEntry], whole_first: bool
) -> Iterator[Clue]:
    """Clues by whether a message with tags has an index key for them (IndexService.buildIndex)."""
    messages = [
        (place, [entry.key_hash for entry in group])
        for place, group in groupby(entries, lambda entry: entry.physical_offset)
    ]
    long_topic = tags = None
    # `entries` may begin in the middle of a message's keys, and the file may end in the middle of
    # another's: neither of the two messages tells anything.
    for place, hashes in messages[0 if whole_first else 1 : -1] or messages:
        try:
            record = log.record_at(place)
        except StoreError:
            continue
        long_topic = long_topic or record.magic == MAGIC_V2
        if tags is None:
            tags = _has_tags(record, hashes)
    if long_topic:
        yield Clue("a record with a long topic (since 5.1.0)", "5.1.0")
    if tags is not None:
        since, until = ("5.4.0", "") if tags else ("", "5.3.4")
        which = "has keys of tags (since 5.4.0)" if tags else "has no keys of tags (up to 5.3.4)"
        yield Clue(f"the index {which}", since, until)


def _has_tags(record: Record, hashes: list[int]) -> bool | None:
    """Whether the last of a message's key hashes is that of its tags; None if that is unclear."""
    properties = parse_properties(record.properties)
    tags = properties.get("TAGS")
    if not tags or record.transaction == SYS_TRANSACTION_ROLLBACK:
        return None
    keys = [properties["UNIQ_KEY"]] if "UNIQ_KEY" in properties else []
    keys += [key for key in properties.get("KEYS", "").split(" ") if key]
    wanted = [key_hash(record.topic, key) for key in keys]
    if hashes == wanted:
        return False
    return True if hashes == [*wanted, key_hash(record.topic, f"T#{tags}")] else None
