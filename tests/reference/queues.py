"""ConsumeQueue and BatchConsumeQueue: a queue's files as appends make them."""

import math
import struct

from tests.reference.javatext import remainder, wrap32, wrap64
from tests.reference.log import Message
from tests.reference.rules import Rules

PRE_BLANK = struct.pack(">qiq", 0, 0x7FFF_FFFF, 0)


def file_name(offset: int) -> str:
    """UtilAll.offset2FileName: at least 20 digits."""
    return f"{'-' if offset < 0 else ''}{abs(offset):020d}"


class QueueFile:
    """A mapped file and its wrote position: what was appended so far."""

    def __init__(self, start: int, first: bool) -> None:
        self.start = start
        self.first = first
        self.content = bytearray()


class FileQueue:
    """MappedFileQueue: equal files, appended to the last."""

    def __init__(self, file_size: int) -> None:
        self.file_size = file_size
        self.files: list[QueueFile] = []

    def last(self, start_offset: int) -> QueueFile:
        """getLastMappedFile: creates the first file, and the next after a full one."""
        if not self.files:
            start = wrap64(start_offset - remainder(start_offset, self.file_size))
            self.files.append(QueueFile(start, first=True))
        elif len(self.files[-1].content) == self.file_size:
            start = wrap64(self.files[-1].start + self.file_size)
            self.files.append(QueueFile(start, first=False))
        return self.files[-1]


class ConsumeQueue:
    """Entries of 20 bytes: physicalOffset, size, tagsCode (class ConsumeQueue)."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.queue = FileQueue(rules.queue_file_size())
        self.max_physical_offset = -1

    def put(self, message: Message, queue_offset: int) -> None:
        """putMessagePositionInfo, which decides by its own position and not by queueOffset."""
        offset, size = message.physical_offset, message.size
        reaches = offset + size if self.rules.since(4, 5, 1) else offset
        if reaches <= self.max_physical_offset:
            return
        expected = wrap64(queue_offset * 20)
        # Looked up before the position is compared: a repeat may leave an empty next file.
        file = self.queue.last(expected)
        if file.first and queue_offset != 0 and not file.content:
            until = wrap32(remainder(expected, self.queue.file_size))
            file.content += PRE_BLANK * max(math.ceil(until / 20), 0)
        position = wrap64(file.start + len(file.content))
        if queue_offset != 0 and expected < position and self.rules.since(4, 2, 0):
            return
        self.max_physical_offset = reaches
        file.content += struct.pack(">qiq", offset, size, message.tags_code)


class BatchConsumeQueue:
    """Entries of 46 bytes (class BatchConsumeQueue, 5.0.0 on)."""

    def __init__(self, rules: Rules) -> None:
        file_size = rules.number("mapperFileSizeBatchConsumeQueue")
        if file_size % 46:
            # RocketMQ does not round this one: the entry that does not fit fails for ever.
            raise ValueError("mapperFileSizeBatchConsumeQueue is not a multiple of 46")
        self.queue = FileQueue(file_size)
        self.max_physical_offset = -1

    def put(self, message: Message) -> None:
        """putMessagePositionInfoWrapper and putBatchMessagePositionInfo."""
        if message.base_offset < 0 or message.batch_size < 0:
            return
        if message.physical_offset <= self.max_physical_offset:
            return
        self.max_physical_offset = message.physical_offset
        self.queue.last(0).content += struct.pack(">qiqqqhii", message.physical_offset,
            message.size, message.tags_code, message.store_timestamp, message.base_offset,
            message.batch_size, -1, 0)  # fmt: skip
