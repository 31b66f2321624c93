"""How much one pull takes, by the broker's settings (MessageStoreConfig)."""

from dataclasses import dataclass
from typing import NamedTuple


class Taken(NamedTuple):
    """What a pull has so far."""

    messages: int
    bytes: int


@dataclass(frozen=True)
class PullLimits:
    """The settings, named as RocketMQ names them, with its defaults."""

    max_transfer_bytes_in_memory: int = 256 << 10  # maxTransferBytesOnMessageInMemory
    max_transfer_count_in_memory: int = 32  # maxTransferCountOnMessageInMemory
    max_transfer_bytes_in_disk: int = 64 << 10  # maxTransferBytesOnMessageInDisk
    max_transfer_count_in_disk: int = 8  # maxTransferCountOnMessageInDisk
    max_filter_message_size: int = 16000  # maxFilterMessageSize, in bytes of queue entries
    memory_bytes: int = 1 << 62  # of the log's end that count as in memory

    def is_full(self, taken: Taken, size: int, messages: int, most: int, behind: int) -> bool:
        """Whether a record is left to the next pull (DefaultMessageStore.isTheBatchFull).

        size, messages: the record's; most: what the client asks for; behind: so many bytes before
        the log's end it stands. The first record is always taken.
        """
        if not taken.messages:
            return False
        if taken.messages + messages > most:
            return True
        if behind <= self.memory_bytes:
            bytes_most, count = self.max_transfer_bytes_in_memory, self.max_transfer_count_in_memory
        else:
            bytes_most, count = self.max_transfer_bytes_in_disk, self.max_transfer_count_in_disk
        return taken.bytes + size > bytes_most or taken.messages > count - 1
