"""A queue's runs as the rules of damage read them, and what a damage search found of queues."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from reput.store_format.derived.queue_files import Entries, decode_entries

Run = dict[str, Any]  # a RUN row (udfs/schemas); offset_votes adds columns


class QueueDamage(NamedTuple):
    """What a damage search found of queues.

    strays: physical offsets of records that are in no queue.
    twins: those strays whose queueOffset another record has too.
    no_room: (topic, queueId, physical offset of the next record) of lost positions that are kept
        although the log lost too few bytes for them.
    repaired: the log lost messages, and has fillers in their place.
    """

    strays: frozenset[int] = frozenset()
    twins: frozenset[int] = frozenset()
    no_room: frozenset[tuple[str, int, int]] = frozenset()
    repaired: bool = False


NO_QUEUE_DAMAGE = QueueDamage()


class RunReader(Protocol):
    """Reads what runs only refer to (udfs.staged_runs.QueueFiles)."""

    @property
    def damage(self) -> QueueDamage:
        """What a damage search found of queues."""

    def offsets(self, row: Run) -> np.ndarray:
        """The queueOffsets of a run; empty where they go on by one from the first."""

    def entries(self, row: Run, start: int, stop: int) -> np.ndarray:
        """Entries [start, stop) of a run, as on disk."""


def all_offsets(files: RunReader, run: Run) -> np.ndarray:
    """The queueOffset of each entry of a run."""
    offsets = files.offsets(run)
    return offsets if len(offsets) else run["first"] + np.arange(run["count"], dtype=np.int64)


def all_entries(files: RunReader, run: Run) -> Entries:
    """The entries of a run, decoded."""
    return decode_entries(files.entries(run, 0, run["count"]), run["batch"])


def entry_at(files: RunReader, run: Run, number: int) -> Any:
    """An entry of a run, decoded."""
    return decode_entries(files.entries(run, number, number + 1))[0]


def place_of(files: RunReader, run: Run, number: int) -> int:
    """Where the record of an entry stands in the log."""
    return int(entry_at(files, run, number)["physicalOffset"])
