"""Keys of queues in RocksDB, as functions of bytes. Numbers are big-endian.

Of the family `default`, entries (RocksDBConsumeQueueTable):
    int topicLength | 01 | topic | 01 | int queueId | 01 | long queueOffset -> ROCKSDB_ENTRY
Of the family `offset` (RocksDBConsumeQueueOffsetTable):
    int topicLength | 01 | topic | 01 | "max" or "min" | 01 | int queueId   -> ROCKSDB_OFFSET
"""

from typing import NamedTuple

from reput.store_format.names import UnsafeName, check_topic

ENTRIES, OFFSETS = "default", "offset"  # column families
MAX, MIN = b"max", b"min"
_SEPARATOR = b"\x01"
_BEHIND = b"\x02"  # sorts after _SEPARATOR, and so after all of a queue's keys
CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"  # TopicValidator.RMQ_SYS_ROCKSDB_OFFSET_TOPIC
_POSITION_MOST = (1 << 63) - 1


class QueueOffset(NamedTuple):
    """The parts of a key of the family `offset`."""

    topic: str
    queue_id: int
    kind: bytes  # MAX or MIN


def _int(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def topic_key(topic: str) -> bytes:
    """The prefix of all keys of a topic's entries."""
    raw = topic.encode("utf-8", "surrogatepass")
    return b"%b\x01%b\x01" % (_int(len(raw)), raw)


def queue_of_topic(topic: bytes, queue_id: bytes) -> bytes:
    """As `queue_key`. topic: from `topic_key`; queue_id: its four bytes."""
    return topic + queue_id + _SEPARATOR


def queue_key(topic: str, queue_id: int) -> bytes:
    """The prefix of all keys of a queue's entries."""
    return queue_of_topic(topic_key(topic), _int(queue_id))


def entry_key(queue: bytes, position: int) -> bytes:
    """The key of an entry. queue: from `queue_key`."""
    return queue + min(max(position, 0), _POSITION_MOST).to_bytes(8, "big")


def behind_queue(queue: bytes) -> bytes:
    """A key after all of a queue's entries (RocksDBConsumeQueueTable.buildDeleteCQKey)."""
    return queue[:-1] + _BEHIND


def offset_key(topic: str, queue_id: int, kind: bytes) -> bytes:
    raw = topic.encode("utf-8", "surrogatepass")
    return b"%b\x01%b\x01%b\x01%b" % (_int(len(raw)), raw, kind, _int(queue_id))


CHECKPOINT_KEY = offset_key(CHECKPOINT_TOPIC, 0, MAX)  # its value: 8 bytes, a physical offset


def parse_offset_key(key: bytes) -> QueueOffset | None:
    """The parts of an `offset` row's key; None for another key, or an impossible topic."""
    length = int.from_bytes(key[:4], "big")
    if len(key) != 14 + length or key[4:5] != _SEPARATOR:
        return None
    rest = key[5 + length :]
    if rest[:1] != _SEPARATOR or rest[4:5] != _SEPARATOR or rest[1:4] not in (MAX, MIN):
        return None
    try:
        topic = check_topic(key[5 : 5 + length].decode())
    except (UnicodeDecodeError, UnsafeName):
        return None
    return QueueOffset(topic, int.from_bytes(rest[5:], "big", signed=True), rest[1:4])


def parse_entry_key(key: bytes) -> tuple[bytes, int] | None:
    """(the queue's key prefix, position) of an entry's key; None for another key."""
    length = int.from_bytes(key[:4], "big")
    at = 4 + 1 + length
    marks = key[4:5] + key[at : at + 1] + key[at + 5 : at + 6]
    if len(key) != 19 + length or marks != _SEPARATOR * 3:
        return None
    return key[:-8], int.from_bytes(key[-8:], "big", signed=True)


def topic_of(queue: bytes) -> tuple[str, int]:
    """(topic, queue id) of a queue's key prefix."""
    return queue[5:-6].decode("utf-8", "replace"), int.from_bytes(queue[-5:-1], "big", signed=True)
