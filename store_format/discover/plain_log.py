"""Whether a log holds anything that releases treat differently: only then is the user asked.

Hardly any log has malformed properties, or queueOffsets that do not go on by one. A log that is not
large is read for these, where nothing else tells its release.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from reput.store_format.faults import Fault, StoreError
from reput.store_format.files.adapters import LiveFiles
from reput.store_format.files.protocol import InputStorage
from reput.store_format.log.groups import heads_from
from reput.store_format.log.reader import LogReader
from reput.store_format.log.rules import record_rules
from reput.store_format.log.segments import Segment, Stretch
from reput.store_format.message.message import parse_properties
from reput.store_format.release.profiles import RELEASES, Has, differing, profile
from reput.store_format.release.settings import Settings

_READ_MOST, _RECORDS_MOST = 1 << 30, 1 << 12
_STRETCH_BYTES = 64 << 20


def open_all(storage: InputStorage, segments: Sequence[Segment]) -> None:
    """Raise what the storage raises where a segment cannot be opened: the user is not asked for a
    release that the unreadable log would show.
    """
    for segment in segments:
        LiveFiles(storage).open(segment.path).close()


def looked_at(
    storage: InputStorage, segments: Sequence[Segment], releases: Sequence[str], has: Has,
    settings: Settings,
) -> Has:  # fmt: skip
    """`has`, less what the log does not hold, as far as these releases differ in it."""
    if sum(segment.state.size for segment in segments) > _READ_MOST:
        return has
    rules = differing(releases, has)
    rules_of_log = record_rules(profile(RELEASES[-1]), heads_from(segments))
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
    rules = scan_rules(profile(RELEASES[-1]), settings, (), heads_from=heads)
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
