"""Which release wrote a store last, by clues in its files; and whether the log holds anything that
the releases which are left treat differently.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from reput.store_format.derived.checkpoint import Checkpoint, decode
from reput.store_format.discover.config import configured_topics, has_rows
from reput.store_format.discover.index_eras import of_the_index
from reput.store_format.faults import Fault, StoreError
from reput.store_format.files.adapters import LiveFiles
from reput.store_format.files.folder import Folder, slash_queue
from reput.store_format.files.protocol import InputStorage
from reput.store_format.layouts import CHECKPOINT as CHECKPOINT_LAYOUT
from reput.store_format.layouts import MAGIC_V2
from reput.store_format.log.groups import heads_from
from reput.store_format.log.reader import LogReader
from reput.store_format.log.rules import record_rules
from reput.store_format.log.segments import Segment, Stretch
from reput.store_format.message.message import ROCKSDB_HALF_TOPIC, parse_properties
from reput.store_format.names import (
    ABORT,
    CHECKPOINT,
    CONFIG,
    CONSUME_QUEUE,
    LMQ_PREFIX,
    LOCK,
    ROCKSDB_QUEUES,
    STORE_DB,
    TOPICS,
)
from reput.store_format.notes import Notes
from reput.store_format.release import profiles
from reput.store_format.release.settings import Settings
from reput.store_format.state_table import FILES, FIRST

# ---
# Clues of the releases that wrote a store, in the store's own files.
#
# A clue is a rule that only some releases follow. Most clues are in the index (index_eras). Nothing
# here reads more than a few records.

# reput makes a lock too; queues in RocksDB are asked for by `refuse_foreign`
_NO_CLUE = (LOCK, CONFIG, *ROCKSDB_QUEUES)
# What is in a store's root, and the first release that makes it.
_ROOT = {
    name: row.first for row in FILES
    if row.first != FIRST and (name := row.path.split("/")[0]) not in _NO_CLUE and "<" not in name
}  # fmt: skip


_TOPIC_BYTES_V1 = 127  # a byte has the length (MessageVersion.MESSAGE_VERSION_V1)


class Clues(NamedTuple):
    """What a store shows of its releases.

    hard: clues that rule out releases of the broker that wrote last. hints: clues that only hint.
    periods: what the index shows of each broker, up to the one that wrote last.
    has_keys: whether an index file has entries.
    text_ends: whether an 02 ends the properties of the last message in the index.
    """

    hard: list[profiles.Clue]
    hints: list[profiles.Clue]
    periods: list[profiles.Period]
    has_keys: bool
    text_ends: bool | None
    again: tuple[tuple[int, int], ...]  # messages indexed twice, see ScanRules


def clues_of(
    store: Folder, segments: Sequence[Segment], settings: Settings,
    derived: Folder, sweeps: bool = False,
) -> Clues:  # fmt: skip
    """The clues in a store. derived: where its derived files are; sweeps: as for `discover`."""
    hard = list(_of_the_root(store))
    if slash_queue(derived) is not None:
        hard.append(
            profiles.Clue("a queue of an LMQ with a slash in its name (up to 5.1.1)", "", "5.1.1")
        )
    of_checkpoint, hints = _of_the_checkpoint(derived)
    hard += of_checkpoint
    # a broker may be writing to the segments
    growing = LiveFiles(store.storage)
    rules = record_rules(profiles.profile(profiles.RELEASES[-1]), heads_from(segments))
    with LogReader(growing, list(segments), rules) as log:
        sweeps = sweeps and _may_be_indexed_again(store, derived)
        index = of_the_index(derived, log, settings, sweeps)
    long_record = any(record.magic == MAGIC_V2 for record in index.last_records)
    if long_record or (not settings.enable_multi_dispatch and _has_long_queue(derived)):
        hard.append(profiles.Clue("a record with a long topic (since 5.1.0)", "5.1.0"))
    periods = profiles.merged([profiles.Period(0, ())], index.counts, index.tags)
    if not any(clue.since and profiles.release_key(clue.since) >= (5,) for clue in hard):
        hints.append(profiles.Clue("no file of a broker of 5.0.0 or later", "", "4.9.8"))
    newest = periods[-1].clues
    if (
        profiles.left_by(newest)
        and profiles.left_by(hard)
        and not profiles.left_by([*hard, *newest])
    ):
        # a newer broker wrote last, but has put no key yet that would show it
        periods.append(profiles.Period(index.end, ()))
    if not all(profiles.left_by(period.clues) for period in periods):
        periods = [profiles.Period(0, ())]  # no broker makes such files
    hard += [clue for clue in periods[-1].clues if clue not in hard]
    texts = [record.properties for record in index.last_records if record.properties]
    return Clues(
        hard, hints, periods, index.end >= 0, texts[-1][-1] == 2 if texts else None, index.again
    )


def _has_long_queue(folder: Folder) -> bool:
    """Whether a queue is of a topic of more than 127 bytes; an LMQ's name is no topic's."""
    names = dict(folder.listed(CONSUME_QUEUE))
    long = (name for name in names if len(os.fsencode(name)) > _TOPIC_BYTES_V1)
    return any(not name.startswith(LMQ_PREFIX) for name in long)


def _may_be_indexed_again(store: Folder, derived: Folder) -> bool:
    """Whether a clean start may have indexed messages again: only where RocksDB has an index, or
    half messages, which have a topic of their own.
    """
    halves = derived.listed(f"{CONSUME_QUEUE}/{ROCKSDB_HALF_TOPIC}")
    return bool(halves) or has_rows(store / STORE_DB)


def _of_the_root(store: Folder) -> Iterator[profiles.Clue]:
    names = dict(store.listed())
    for name, since in _ROOT.items():
        if name in names:
            slash = "" if names[name] else "/"
            yield profiles.Clue(f"{name}{slash} (since {since})", since)
    abort = names.get(ABORT)
    if abort is not None and abort.size:
        yield profiles.Clue("abort has a process id (since 5.0.0)", "5.0.0")
    try:
        topics = configured_topics(store, Notes()) or {}
    except (OSError, StoreError):
        return  # whoever reads topics.json for its own sake reports this
    if any(isinstance(about, dict) and "attributes" in about for about in topics.values()):
        yield profiles.Clue(f"{CONFIG}/{TOPICS} has attributes (since 5.0.0)", "5.0.0")


def _of_the_checkpoint(folder: Folder) -> tuple[list[profiles.Clue], list[profiles.Clue]]:
    """(clues, hints) of a checkpoint: a field that is 0 may still be written later.

    A broker without a slave keeps masterFlushedOffset at 0. A broker that never had another state
    than its own keeps confirmPhyOffset at 0. So zeros in these two fields hint at nothing.
    """
    try:
        raw = folder.read(CHECKPOINT)
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
            hard.append(profiles.Clue(f"{CHECKPOINT} has {name} (since {since})", since))
    if not there.logics_physical_offset:
        hints.append(profiles.Clue(f"{CHECKPOINT} has no logicsPhysicalOffset", "", "5.4.0"))
    return hard, hints


# ---
# The release that wrote a store last, by its clues; where these do not tell, the user is asked.

_WHICH = "Which RocketMQ release should this store follow?"
_LISTED = 4  # groups of releases, in a question
_EXAMPLE = "Example: --rocketmq 5.3.3 (`reput help releases` says what differs)"


class ReleaseFound(NamedTuple):
    """A release that a store's files show, and by what. others: if the release is only assumed, one
    of each group of releases that might be meant instead, newest first.
    """

    release: str
    by: str
    others: tuple[str, ...] = ()
    alike: str = ""  # the releases that would write the same, as a text


def release_found(
    clues: Sequence[profiles.Clue], hints: Sequence[profiles.Clue], has: profiles.Has,
    look: Callable[[profiles.Has], profiles.Has] = lambda has: has, assume: bool = False,
) -> ReleaseFound:  # fmt: skip
    """The release that wrote last.

    hints: clues that choose among releases that derive the same files. look: reads the log for what
    `has` asks, only if that matters. assume: take the newest where several releases are left.

    Raises UnknownRelease where more than one is left: it lists them.
    """
    releases = profiles.left_by(clues)
    seen = "; ".join(dict.fromkeys(clue.seen for clue in clues)) or "the files show nothing"
    if not releases:
        raise profiles.UnknownRelease(f"{_WHICH} Its files fit no single one: {seen}. {_EXAMPLE}")
    grouped, by = profiles.groups(releases, has), "write the same"
    plain = has._replace(odd_positions=False, malformed=False, index_without_keys=False)
    if len(grouped) > 1 and not assume and len(profiles.groups(releases, plain)) == 1:
        grouped, by = profiles.groups(releases, look(has)), "derive the same from this log"
    if len(grouped) > 1 and not assume:
        raise profiles.UnknownRelease(
            f"{_WHICH} Its files don't say: it may be {_any_of(grouped)}. {_EXAMPLE}"
        )
    chosen = releases[-1]
    for release in reversed(grouped[-1]):
        if all(release in profiles.left_by([hint]) for hint in hints):
            chosen = release
            break
    if len(grouped) > 1:
        others = tuple(group[-1] for group in reversed(grouped[:-1]))
        fit = profiles.groups(releases, plain)
        older = (fit if len(fit) > 1 else grouped)[:-1]
        alike = f"{profiles.span(grouped[-1])} assumed; {_any_of(older)} would fit as well"
        return ReleaseFound(chosen, f"assumed, of {profiles.span(releases)}: {seen}", others, alike)
    by = f"{profiles.span(releases)} {by}: {seen}" if len(releases) > 1 else seen
    return ReleaseFound(chosen, by, alike=profiles.span(releases))


def _any_of(grouped: Sequence[Sequence[str]]) -> str:
    """`4.7.1 to 4.9.0 or 4.9.1 to 5.3.4`; of many only the first and the last."""
    if len(grouped) > _LISTED:
        return f"any from {grouped[0][0]} to {grouped[-1][-1]}"
    return " or ".join(
        filter(None, (", ".join(map(profiles.span, grouped[:-1])), profiles.span(grouped[-1])))
    )


# ---
# Whether a log holds anything that releases treat differently: only then is the user asked.
#
# Hardly any log has malformed properties, or queueOffsets that do not go on by one. A log that is
# not large is read for these, where nothing else tells its release.

_READ_MOST, _RECORDS_MOST = 1 << 30, 1 << 12
_STRETCH_BYTES = 64 << 20


def open_all(storage: InputStorage, segments: Sequence[Segment]) -> None:
    """Raise what the storage raises where a segment cannot be opened: the user is not asked for a
    release that the unreadable log would show.
    """
    for segment in segments:
        LiveFiles(storage).open(segment.path).close()


def looked_at(
    storage: InputStorage, segments: Sequence[Segment], releases: Sequence[str], has: profiles.Has,
    settings: Settings,
) -> profiles.Has:  # fmt: skip
    """`has`, less what the log does not hold, as far as these releases differ in it."""
    if sum(segment.state.size for segment in segments) > _READ_MOST:
        return has
    rules = profiles.differing(releases, has)
    rules_of_log = record_rules(profiles.profile(profiles.RELEASES[-1]), heads_from(segments))
    with LogReader(LiveFiles(storage), list(segments), rules_of_log) as log:
        if "empty_index_count" in rules:
            has = has._replace(index_without_keys=not _begins_with_keys(log))
        if "split_properties" in rules:
            has = has._replace(malformed=_has_malformed(log))
        if {"skip_lower_offsets", "skip_by_end"} & rules:
            has = has._replace(odd_positions=_has_odd_positions(log, settings))
    return has


def _begins_with_keys(log: LogReader) -> bool:
    """Whether one of the first messages has a key, so that no index file is without any."""
    try:
        first = islice(log.records(log.start), _RECORDS_MOST)
        texts = (parse_properties(record.properties) for record in first)
        return any({"UNIQ_KEY", "KEYS"} & text.keys() for text in texts)
    except StoreError:
        return False


def _has_malformed(log: LogReader) -> bool:
    """Whether a record has properties that are no `name 01 value 02`, name and value not empty."""
    from reput.store_format.log.properties import malformed

    try:
        return any(malformed(step.window, step.rows) for step in log.steps(log.start))
    except StoreError:
        return True  # a record after the damage may have any


def _has_odd_positions(log: LogReader, settings: Settings) -> bool:
    """Whether a queueOffset does not go on from the one before it in its queue."""
    from reput.store_format.dispatch.scan import Runs, scan_rules

    heads = heads_from(log.segments)
    rules = scan_rules(profiles.profile(profiles.RELEASES[-1]), settings, (), heads_from=heads)
    expected: dict[Any, int] = {}
    for out in _scanned(log, rules):
        if not isinstance(out, Runs):
            continue
        runs = out.runs
        for number in np.flatnonzero(runs.count).tolist():
            first, key = int(runs.first[number]), out.queues[number]
            if runs.offsets_at[number] >= 0 or expected.get(key, first) != first or first < 0:
                return True
            expected[key] = first + int(runs.count[number])
    return False


def _scanned(log: LogReader, rules: Any) -> Iterator[Any]:
    from reput.store_format.dispatch.scan import Buffers, End, scan

    buffers = Buffers(_STRETCH_BYTES)
    for segment in log.segments:
        at, fault = segment.start, Fault.NONE
        while fault == Fault.NONE and at < segment.end:
            stop = min(at + _STRETCH_BYTES, segment.end)
            read = segment.read_by(log.reader(segment))
            for out in scan(
                read, Stretch(segment.start, segment.end, at, stop, at), rules, buffers
            ):
                if isinstance(out, End):
                    at, fault = max(out.next, at + 1), out.fault
                yield out
