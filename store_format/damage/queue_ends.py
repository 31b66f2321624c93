"""What the queues of a scan have so far: the queueOffset that each of them goes on from.

That is the queueOffset of the last message: a record of a batch queue may have several.
Not the greatest queueOffset: a single flipped bit could make that any number, and all later
messages of the queue would look like older ones. A queueOffset that does not go on by one counts
only when the queue's next queueOffset is above it.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.derived.queue_files import Bytes, decode_entries, entry_bytes
from reput.store_format.dispatch.runs import QueueRuns
from reput.store_format.dispatch.scan import Buffers
from reput.store_format.kernels.java_text import decode
from reput.store_format.kernels.jit import inlined, kernel

NEVER = -(1 << 63)  # below every queueOffset; if a record has this one, it counts as none
Int64s = npt.NDArray[np.int64]


@inlined
def follow(confirmed: Int64s, doubted: Int64s, queue: int, offset: int, messages: int) -> None:
    """Note a queue's next record, which has `messages` queueOffsets from `offset` on; a broker
    counts 0 as 1 (CommitLog.getMessageNum). doubted: the last queueOffset of the last record that
    did not go on by one, or NEVER.
    """
    last, doubt = confirmed[queue], doubted[queue]
    end = offset + (max(messages, 1) - 1)
    if (
        last == NEVER
        or offset == last + 1
        or (doubt != NEVER and (offset == doubt + 1 or last < doubt < offset))
    ):
        confirmed[queue], doubted[queue] = end, NEVER
    else:
        doubted[queue] = end


@kernel
def _follow_all(
    numbers: Int64s, offsets: Int64s, messages: Int64s, canon: Int64s, confirmed: Int64s,
    doubted: Int64s,
) -> None:  # fmt: skip
    for i in range(len(offsets)):
        follow(confirmed, doubted, canon[numbers[i]], offsets[i], messages[i])


def last_of(offsets: npt.ArrayLike, messages: npt.ArrayLike = 1) -> int:
    """The queueOffset that a queue goes on from, if its records have these queueOffsets, and so
    many messages each.
    """
    state = np.full(2, NEVER, np.int64)
    given = np.ascontiguousarray(offsets, np.int64)
    counts = np.empty(len(given), np.int64)
    counts[:] = messages
    numbers = np.zeros(len(given), np.int64)
    _follow_all(numbers, given, counts, np.zeros(1, np.int64), state[:1], state[1:])
    return int(state[0])


def last_of_run(runs: QueueRuns, number: int, batch: bool) -> int:
    """The same of one of a scan's runs; batch: it is a batch queue's."""
    count, at = int(runs.count[number]), int(runs.offsets_at[number])
    if batch:
        start = int(runs.entries_at[number])
        return last_of_batches(runs.entries[start : start + count * entry_bytes(True)])
    return int(runs.greatest[number]) if at < 0 else last_of(runs.offsets[at : at + count])


def last_of_batches(entries: Bytes) -> int:
    """The same of a batch queue's entries, as on disk."""
    decoded = decode_entries(entries, True)
    return last_of(decoded["baseOffset"], decoded["batchSize"])


class QueueEndArrays(NamedTuple):
    """The queues by their number in the buffers, for kernels that go on with them.

    canon: a queue's number -> its first number, as a queue may have several.
    confirmed, doubted: first number -> the queueOffset that the queue goes on from; see `follow`.
    seen: how many puts of the buffers were followed.
    """

    canon: Int64s
    confirmed: Int64s
    doubted: Int64s
    seen: Int64s


class QueueEnds:
    """The queues of one scan, by the puts that its buffers hold, and held before.

    It is asked at each damaged range, of which there may be a million. So that the buffers need
    not be emptied each time, it reads them as they are, and looks at each put only once.
    """

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._emptied = buffers.emptied
        self._seen = np.zeros(1, np.int64)
        # (confirmed, doubted) of the queues whose puts the buffers do not hold any more
        self._of: dict[tuple[str, int], tuple[int, int]] = {}
        self._firsts: dict[tuple[str, int], int] = {}
        self._named = 0
        # a queue's number -> the first number whose topic Java decodes alike: the index of the rest
        self._canon = np.zeros(64, np.int64)
        self._confirmed = np.full(64, NEVER, np.int64)
        self._doubted = np.full(64, NEVER, np.int64)

    def keep(self) -> None:
        """To be called before the buffers are emptied: what they hold is noted."""
        self.look()
        for key, first in self._firsts.items():
            self._of[key] = int(self._confirmed[first]), int(self._doubted[first])

    def _clear(self) -> None:
        self._emptied = self._buffers.emptied
        self._seen[0] = self._named = 0
        self._firsts.clear()
        self._confirmed.fill(NEVER)
        self._doubted.fill(NEVER)

    def last(self, key: tuple[str, int]) -> int:
        """The queueOffset that a queue goes on from, NEVER where it has none here."""
        self.look()
        first = self._firsts.get(key)
        if first is None:
            return self._of.get(key, (NEVER, NEVER))[0]
        return int(self._confirmed[first])

    def look(self) -> QueueEndArrays:
        """What the queues have, after all puts that the buffers hold."""
        if self._emptied != self._buffers.emptied:
            self._clear()
        puts = self._buffers.puts.queue[int(self._seen[0]) : int(self._buffers.puts.used[0])]
        if len(puts):
            self._name()
            self._seen[0] += len(puts)
            _follow_all(
                puts["queue"].astype(np.int64), puts["queueOffset"].astype(np.int64),
                puts["batchSize"].astype(np.int64), self._canon, self._confirmed, self._doubted,
            )  # fmt: skip
        return QueueEndArrays(
            self._canon[: self._named], self._confirmed, self._doubted, self._seen
        )

    def _name(self) -> None:
        table = self._buffers.table
        known = int(table.used[0])
        if known > len(self._confirmed):
            more = np.full(2 * known - len(self._confirmed), NEVER, np.int64)
            self._confirmed = np.append(self._confirmed, more)
            self._doubted = np.append(self._doubted, more)
            self._canon = np.append(self._canon, np.zeros(len(more), np.int64))
        for number in range(self._named, known):
            row = table.rows[number]
            name = table.names[int(row["nameAt"]) : int(row["nameEnd"])].tobytes()
            key = decode(name), int(row["queueId"])
            first = self._canon[number] = self._firsts.setdefault(key, number)
            if first == number:
                self._confirmed[number], self._doubted[number] = self._of.get(key, (NEVER, NEVER))
        self._named = known
