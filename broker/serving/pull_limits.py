"""How many messages and bytes one pull takes, by the broker's settings (MessageStoreConfig)."""

from typing import NamedTuple

import numpy as np

from reput.store_format.derived.queue_files import entry_bytes
from reput.store_format.derived.queues import Numbers, Slice
from reput.store_format.kernels.jit import kernel


class Taken(NamedTuple):
    """What a pull has taken so far."""

    messages: int
    bytes: int


class PullLimits(NamedTuple):
    """The settings with their defaults; RocketMQ's names are beside them."""

    bytes_in_memory: int = 256 << 10  # maxTransferBytesOnMessageInMemory
    count_in_memory: int = 32  # maxTransferCountOnMessageInMemory
    bytes_in_disk: int = 64 << 10  # maxTransferBytesOnMessageInDisk
    count_in_disk: int = 8  # maxTransferCountOnMessageInDisk
    filter_bytes: int = 16000  # maxFilterMessageSize: bytes of queue entries
    memory_bytes: int = 1 << 62  # bytes at the log's end that count as in memory

    def has_enough(self, taken: Taken, most: int) -> bool:
        """Whether a pull may not take any further record."""
        count = min(most, max(self.count_in_memory, self.count_in_disk))
        return taken.messages > 0 and taken.messages >= count

    def looked_at(self, most: int, batch: bool) -> int:
        """The most positions that a pull goes through if its filter wants none of them."""
        return max(-(-self.filter_bytes // entry_bytes(batch)), most)

    def passed(
        self, entries: Slice, wanted: np.ndarray, taken: Taken, most: int, log_end: int
    ) -> int:
        """The number of entries that a pull goes through until it is full, if each wanted entry has
        a record (DefaultMessageStore.isTheBatchFull).

        most: number of messages that the client asks for.
        """
        return _passed(
            entries.places, entries.sizes, entries.messages, wanted, taken, most, log_end, self
        )


@kernel
def _passed(  # noqa: PLR0913 (a kernel takes its arrays one by one)
    places: Numbers,
    sizes: Numbers,
    messages: Numbers,
    wanted: np.ndarray,
    taken: Taken,
    most: int,
    log_end: int,
    limits: PullLimits,
) -> int:
    count, total = taken.messages, taken.bytes
    for i in range(len(places)):
        if count > 0:
            in_memory = log_end - places[i] <= limits.memory_bytes
            bytes_most = limits.bytes_in_memory if in_memory else limits.bytes_in_disk
            count_most = limits.count_in_memory if in_memory else limits.count_in_disk
            if (
                count + messages[i] > most
                or total + sizes[i] > bytes_most
                or count > count_most - 1
            ):
                return i
        if wanted[i]:
            count += messages[i]
            total += sizes[i]
    return len(places)
