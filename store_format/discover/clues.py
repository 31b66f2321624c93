"""Clues of the releases that wrote a store, in the store's own files.

A clue is a rule that only some releases follow. Most clues are in the index (index_eras). Nothing
here reads more than a few records.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reput.store_format.derived.checkpoint import Checkpoint, decode
from reput.store_format.discover.config_folder import configured_topics
from reput.store_format.discover.databases import has_rows
from reput.store_format.discover.index_eras import of_the_index
from reput.store_format.faults import StoreError
from reput.store_format.files.adapters import LiveFiles
from reput.store_format.files.protocol import InputStorage, listed
from reput.store_format.layouts import CHECKPOINT as CHECKPOINT_LAYOUT
from reput.store_format.layouts import MAGIC_V2
from reput.store_format.log.groups import heads_from
from reput.store_format.log.reader import LogReader
from reput.store_format.log.rules import record_rules
from reput.store_format.log.segments import Segment
from reput.store_format.message.message import ROCKSDB_HALF_TOPIC
from reput.store_format.names import (
    ABORT,
    BATCH_CONSUME_QUEUE,
    CHECKPOINT,
    CONFIG,
    CONSUME_QUEUE,
    STORE_DB,
)
from reput.store_format.notes import Notes
from reput.store_format.release.profiles import (
    RELEASES,
    Clue,
    Period,
    left_by,
    merged,
    profile,
    release_key,
)
from reput.store_format.release.settings import Settings

_TOPICS = f"{CONFIG}/topics.json"
_FOLDERS = (  # in a store's root, and the first release that makes them
    ("timerwheel", "5.0.0"),
    ("timerlog", "5.0.0"),
    (BATCH_CONSUME_QUEUE, "5.0.0"),
    ("compaction", "5.1.0"),
    (STORE_DB, "5.4.0"),
)


class Clues(NamedTuple):
    """What a store shows of its releases.

    hard: clues that rule out releases of the broker that wrote last. hints: clues that only hint.
    periods: what the index shows of each broker, up to the one that wrote last.
    has_keys: whether an index file has entries.
    text_ends: whether an 02 ends the properties of the last message in the index.
    """

    hard: list[Clue]
    hints: list[Clue]
    periods: list[Period]
    has_keys: bool
    text_ends: bool | None
    again: tuple[tuple[int, int], ...]  # messages indexed twice, see ScanRules


def clues_of(
    storage: InputStorage, store: str, segments: Sequence[Segment], settings: Settings,
    derived: tuple[InputStorage, str], sweeps: bool = False,
) -> Clues:  # fmt: skip
    """The clues in a store. derived: where its derived files are; sweeps: as for `discover`."""
    hard = list(_of_the_root(storage, store))
    of_checkpoint, hints = _of_the_checkpoint(*derived)
    hard += of_checkpoint
    # a broker may be writing to the segments
    growing = LiveFiles(storage)
    rules = record_rules(profile(RELEASES[-1]), heads_from(segments))
    with LogReader(growing, list(segments), rules) as log:
        sweeps = sweeps and _may_be_indexed_again(storage, store, derived)
        index = of_the_index(*derived, log, settings, sweeps)
    if any(record.magic == MAGIC_V2 for record in index.last_records):
        hard.append(Clue("a record with a long topic (since 5.1.0)", "5.1.0"))
    periods = merged([Period(0, ())], index.counts, index.tags)
    if not any(clue.since and release_key(clue.since) >= (5,) for clue in hard):
        hints.append(Clue("no file of a broker of 5.0.0 or later", "", "4.9.8"))
    newest = periods[-1].clues
    if left_by(newest) and left_by(hard) and not left_by([*hard, *newest]):
        # a newer broker wrote last, but has put no key yet that would show it
        periods.append(Period(index.end, ()))
    if not all(left_by(period.clues) for period in periods):
        periods = [Period(0, ())]  # no broker makes such files
    hard += [clue for clue in periods[-1].clues if clue not in hard]
    texts = [record.properties for record in index.last_records if record.properties]
    return Clues(
        hard, hints, periods, index.end >= 0, texts[-1][-1] == 2 if texts else None, index.again
    )


def _may_be_indexed_again(
    storage: InputStorage, store: str, derived: tuple[InputStorage, str]
) -> bool:
    """Whether a clean start may have indexed messages again: only where RocksDB has an index, or
    half messages, which have a topic of their own.
    """
    there, folder = derived
    halves = f"{folder}/{CONSUME_QUEUE}/{ROCKSDB_HALF_TOPIC}"
    return bool(listed(there, halves)) or has_rows(storage, f"{store}/{STORE_DB}")


def _of_the_root(storage: InputStorage, store: str) -> Iterator[Clue]:
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
        return  # whoever reads topics.json for its own sake reports this
    if any(isinstance(about, dict) and "attributes" in about for about in topics.values()):
        yield Clue(f"{_TOPICS} has attributes (since 5.0.0)", "5.0.0")


def _of_the_checkpoint(storage: InputStorage, folder: str) -> tuple[list[Clue], list[Clue]]:
    """(clues, hints) of a checkpoint: a field that is 0 may still be written later.

    A broker without a slave keeps masterFlushedOffset at 0. A broker that never had another state
    than its own keeps confirmPhyOffset at 0. So zeros in these two fields hint at nothing.
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
