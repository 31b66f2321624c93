"""Compares the entries of a batch queue one by one, wherever they stand in its files.

A batch entry has its own queueOffset, and a rebuilt queue begins in file 0. If a queue's first
messages have expired, the same entries stand at other places in RocketMQ's files.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from reput.jobs.judging.differences import MISSING_AT_END, ONE_TOO_MANY, Difference
from reput.store_format.derived.queue_files import decode_entries, is_message
from reput.store_format.files.protocol import InputStorage, read_part

BatchEntryAt = tuple[str, int, Any]  # a file, an offset in it, the entry there (BATCH_QUEUE_ENTRY)


def batch_entries(
    storage: InputStorage, files: Iterable[tuple[str, int]]
) -> Iterator[BatchEntryAt]:
    """The entries of batch queue files. files: (path, number of used bytes from its start)."""
    for path, used in files:
        entries = decode_entries(read_part(storage, path, 0, used), True)
        for number, entry in enumerate(entries):
            yield path, number * entries.itemsize, entry


def first_difference(
    wanted: Iterable[BatchEntryAt], there: Iterable[BatchEntryAt], last: str, log_start: int
) -> tuple[Difference, int] | None:
    """(the first difference, physicalOffset of its entry); None if there is no difference.

    Only entries of live messages count: physicalOffset >= log_start.
    last: path of the last file, to name in the difference if entries are missing at the end.
    """
    live = (each for each in there
            if is_message(each[2]) and each[2]["physicalOffset"] >= log_start)  # fmt: skip
    for _, _, entry in wanted:
        place = int(entry["physicalOffset"])
        found = next(live, None)
        if found is None:
            return Difference(last, 0, MISSING_AT_END, None, None), place
        path, at, other = found
        if other.tobytes() != entry.tobytes():
            name = next(n for n in entry.dtype.names if other[n] != entry[n])
            return Difference(path, at, name, int(other[name]), int(entry[name])), place
    more = next(live, None)
    if more is None:
        return None
    path, at, entry = more
    place = int(entry["physicalOffset"])
    return Difference(path, at, ONE_TOO_MANY, place, 0), place
