"""Every binary layout of a RocketMQ store, declared once.

Each layout is a numpy structured dtype with explicit byte order ('>': big-endian, as Java's
ByteBuffer writes), and its size is asserted at import. No other module writes down the offset of a
field: kernels take offsets from the `*_AT` tuples that are made here.
"""

import struct
from collections import namedtuple
from typing import Any

import numpy as np


def as_struct(layout: np.dtype[Any]) -> struct.Struct:
    """The layout as a Struct, for single records: numpy takes microseconds for each field."""
    codes = {"i1": "b", "i2": "h", "i4": "i", "i8": "q"}
    names = layout.names or ()
    return struct.Struct(">" + "".join(codes[layout[name].str[1:]] for name in names))


def _offsets(name: str, layout: np.dtype[Any]) -> Any:
    """The byte offset of each field, as a named tuple of which numba makes constants."""
    fields: Any = layout.fields
    return namedtuple(name, fields)(*(at for _, at, *_ in fields.values()))


# --- CommitLog (CommitLog, MessageExtEncoder, MessageDecoder) -------------------------------

# Magic numbers, as the Java ints they are.
MAGIC_V1 = 0xDAA320A7 - (1 << 32)  # MessageDecoder.MESSAGE_MAGIC_CODE
MAGIC_V2 = 0xDAA320AB - (1 << 32)  # MESSAGE_MAGIC_CODE_V2: two bytes of topic length
MAGIC_BLANK = 0xCBD43194 - (1 << 32)  # CommitLog.BLANK_MAGIC_CODE

IPV4_HOST = 8  # address bytes, then the port as a 4-byte int
IPV6_HOST = 20

# The start of every record, up to the first field whose offset in it depends on a flag.
RECORD_HEAD = np.dtype(
    [
        ("totalSize", ">i4"),
        ("magic", ">i4"),
        ("bodyCRC", ">i4"),  # CRC32(body) & 0x7FFFFFFF, 0 for no body
        ("queueId", ">i4"),
        ("flag", ">i4"),  # the application's own
        ("queueOffset", ">i8"),  # position in the ConsumeQueue, in entries
        ("physicalOffset", ">i8"),  # where the record starts in the log
        ("sysFlag", ">i4"),  # see SYS_* below
        ("bornTimestamp", ">i8"),  # milliseconds
    ]
)
assert RECORD_HEAD.itemsize == 48
# then bornHost, 8 or 20 bytes, storeTimestamp (8, milliseconds), storeHost, 8 or 20 bytes, and
RECORD_MIDDLE = np.dtype(
    [
        ("reconsumeTimes", ">i4"),
        ("preparedTransactionOffset", ">i8"),
        ("bodyLength", ">i4"),
    ]
)
assert RECORD_MIDDLE.itemsize == 16
# then body, topicLength (1; V2: 2), topic, propertiesLength (2), properties.
TIMESTAMP_BYTES = 8
TOPIC_LENGTH_V1 = 1
TOPIC_LENGTH_V2 = 2
V1_TOPIC_MAX = 127  # bytes of a topic that a V1 record takes (Byte.MAX_VALUE)
PROPERTIES_LENGTH = 2
# The shortest V1 record: with IPv4 hosts, and without body, topic or properties.
RECORD_FIXED_BYTES = (
    RECORD_HEAD.itemsize
    + IPV4_HOST
    + TIMESTAMP_BYTES
    + IPV4_HOST
    + RECORD_MIDDLE.itemsize
    + TOPIC_LENGTH_V1
    + PROPERTIES_LENGTH
)
assert RECORD_FIXED_BYTES == 91
# The most bytes before a body: with two IPv6 hosts.
RECORD_PREFIX_MAX = RECORD_FIXED_BYTES - 3 + 2 * (IPV6_HOST - IPV4_HOST)

BLANK = np.dtype([("size", ">i4"), ("magic", ">i4")])  # size: the rest of the segment
assert BLANK.itemsize == 8

RECORD_AT = _offsets("RecordAt", RECORD_HEAD)
MIDDLE_AT = _offsets("MiddleAt", RECORD_MIDDLE)
RECORD_HEAD_BYTES = RECORD_HEAD.itemsize
RECORD_MIDDLE_BYTES = RECORD_MIDDLE.itemsize
BLANK_BYTES = BLANK.itemsize

SYS_COMPRESSED = 0x1  # MessageSysFlag
SYS_TRANSACTION_MASK = 0xC
SYS_TRANSACTION_PREPARED = 0x4
SYS_TRANSACTION_COMMIT = 0x8
SYS_TRANSACTION_ROLLBACK = 0xC
SYS_BORN_HOST_V6 = 0x10
SYS_STORE_HOST_V6 = 0x20
SYS_NEED_UNWRAP = 0x40  # 5.0.0 on: with the next one, the body holds several messages
SYS_INNER_BATCH = 0x80
SYS_COMPRESSION_MASK = 0x700  # 4.9.4 on: 0 and 3 are zlib, 1 is LZ4, 2 is zstd
SYS_COMPRESSION_SHIFT = 8

# In the body of an inner batch, each message's first fields (MessageDecoder.encodeMessage); then
# body, propertiesLength (2) and properties.
INNER_MESSAGE = np.dtype(
    [
        ("totalSize", ">i4"),
        ("magic", ">i4"),  # 0
        ("bodyCRC", ">i4"),  # 0
        ("flag", ">i4"),
        ("bodyLength", ">i4"),
    ]
)
assert INNER_MESSAGE.itemsize == 20
INNER_FIXED_BYTES = INNER_MESSAGE.itemsize + PROPERTIES_LENGTH  # the shortest such message
assert INNER_FIXED_BYTES == 22

PROPERTY_NAME_END = 0x01  # MessageDecoder.NAME_VALUE_SEPARATOR
PROPERTY_END = 0x02  # MessageDecoder.PROPERTY_SEPARATOR
CRC_PROPERTY_BYTES = 20  # `__CRC32#` 01, 10 digits, 02: CommitLog.CRC32_RESERVED_LEN

# --- the log of a DLedger group (DLedgerEntryCoder, MmapFileList, DLedgerMmapFileStore) --------

# The head before each record; the record is the entry's body (DLedgerEntry.BODY_OFFSET 48).
DLEDGER_HEAD = np.dtype(
    [
        ("magic", ">i4"),  # DLEDGER_NORMAL, or DLEDGER_BLANK: size is then the rest of the file
        ("size", ">i4"),  # of head and body
        ("index", ">i8"),  # one more than the entry before has
        ("term", ">i8"),  # of the leader that appended it; never lower than before
        ("pos", ">i8"),  # where the head is in the log
        ("channel", ">i4"),  # 0
        ("chainCrc", ">i4"),  # 0: nothing sets it
        ("bodyCrc", ">i4"),  # 0: nothing sets it
        ("bodyLength", ">i4"),
    ]
)
assert DLEDGER_HEAD.itemsize == 48
DLEDGER_NORMAL, DLEDGER_BLANK = 1, -1  # DLedgerEntryType.NORMAL, MmapFileList.BLANK_MAGIC_CODE
# The BLANK that ends a segment: its fields are in the other order than in a plain log.
DLEDGER_BLANK_LAYOUT = np.dtype(DLEDGER_HEAD.descr[:2])
assert DLEDGER_BLANK_LAYOUT.itemsize == BLANK_BYTES

# A unit of dledger-<id>/index, at 32 times the entry's index (DLedgerMmapFileStore).
DLEDGER_INDEX_UNIT = np.dtype(
    [
        ("magic", ">i4"),
        ("pos", ">i8"),
        ("size", ">i4"),
        ("index", ">i8"),
        ("term", ">i8"),
    ]
)
assert DLEDGER_INDEX_UNIT.itemsize == 32

DLEDGER_HEAD_BYTES = DLEDGER_HEAD.itemsize
DLEDGER_AT = _offsets("DLedgerAt", DLEDGER_HEAD)

# --- ConsumeQueue (ConsumeQueue, BatchConsumeQueue) -----------------------------------------

QUEUE_ENTRY = np.dtype(
    [
        ("physicalOffset", ">i8"),
        ("size", ">i4"),
        ("tagsCode", ">i8"),  # the tags' hash; on the schedule topic the time of delivery
    ]
)
assert QUEUE_ENTRY.itemsize == 20
# The entry that fills a queue's first segment up to its first one (ConsumeQueue.fillPreBlank).
PRE_BLANK = np.array((0, 0x7FFFFFFF, 0), QUEUE_ENTRY)

BATCH_QUEUE_ENTRY = np.dtype(
    [
        ("physicalOffset", ">i8"),
        ("size", ">i4"),
        ("tagsCode", ">i8"),
        ("storeTimestamp", ">i8"),  # milliseconds
        ("baseOffset", ">i8"),  # the batch's first position in the queue
        ("batchSize", ">i2"),  # messages in the batch
        ("compactedOffset", ">i4"),  # always -1 (BatchConsumeQueue.INVALID_POS)
        ("reserved", ">i4"),
    ]
)
assert BATCH_QUEUE_ENTRY.itemsize == 46

QUEUE_ENTRY_BYTES = QUEUE_ENTRY.itemsize
BATCH_QUEUE_ENTRY_BYTES = BATCH_QUEUE_ENTRY.itemsize
QUEUE_AT = _offsets("QueueAt", QUEUE_ENTRY)
BATCH_AT = _offsets("BatchAt", BATCH_QUEUE_ENTRY)

# --- queues in RocksDB (RocksDBConsumeQueueTable, RocksDBConsumeQueueOffsetTable) --------------

ROCKSDB_ENTRY = np.dtype([*QUEUE_ENTRY.descr, ("storeTimestamp", ">i8")])
assert ROCKSDB_ENTRY.itemsize == 28
ROCKSDB_OFFSET = np.dtype([("physicalOffset", ">i8"), ("queueOffset", ">i8")])
assert ROCKSDB_OFFSET.itemsize == 16

# --- IndexFile (IndexHeader, IndexFile) -----------------------------------------------------

INDEX_HEADER = np.dtype(
    [
        ("beginTimestamp", ">i8"),  # milliseconds, store time of the first entry
        ("endTimestamp", ">i8"),
        ("beginPhyOffset", ">i8"),
        ("endPhyOffset", ">i8"),
        ("hashSlotCount", ">i4"),  # slots in use (up to 4.7.0: puts)
        ("indexCount", ">i4"),  # the next entry's number; the first is 1
    ]
)
assert INDEX_HEADER.itemsize == 40
INDEX_SLOT = np.dtype(">i4")  # the newest entry's number in this slot, 0: none
INDEX_ENTRY = np.dtype(
    [
        ("keyHash", ">i4"),
        ("physicalOffset", ">i8"),
        ("timeDiff", ">i4"),  # seconds after beginTimestamp
        ("previous", ">i4"),  # the entry before in the same slot, 0: none
    ]
)
assert INDEX_ENTRY.itemsize == 20

INDEX_HEADER_BYTES = INDEX_HEADER.itemsize
INDEX_SLOT_BYTES = INDEX_SLOT.itemsize
INDEX_ENTRY_BYTES = INDEX_ENTRY.itemsize
INDEX_AT = _offsets("IndexAt", INDEX_ENTRY)

# --- checkpoint (StoreCheckpoint) -----------------------------------------------------------

CHECKPOINT = np.dtype(
    [
        ("physicMsgTimestamp", ">i8"),
        ("logicsMsgTimestamp", ">i8"),
        ("indexMsgTimestamp", ">i8"),
        ("masterFlushedOffset", ">i8"),  # 5.0.0 on
        ("confirmPhyOffset", ">i8"),  # 5.1.1 on
        ("logicsPhysicalOffset", ">i8"),  # 5.5.0 on
    ]
)
assert CHECKPOINT.itemsize == 48
CHECKPOINT_FILE_BYTES = 4096

# --- config/timercheck (TimerCheckpoint) ----------------------------------------------------

TIMER_CHECK = np.dtype(
    [
        ("lastReadTimeMs", ">i8"),  # messages due before it are delivered
        ("lastTimerLogFlushPos", ">i8"),
        ("lastTimerQueueOffset", ">i8"),  # the next position of rmq_sys_wheel_timer to read
        ("masterTimerQueueOffset", ">i8"),
    ]
)
assert TIMER_CHECK.itemsize == 32
TIMER_CHECK_FILE_BYTES = 4096

# --- timerlog (TimerLog): units, each a message that waits in a slot of the timer wheel --------

TIMER_UNIT = np.dtype(
    [
        ("size", ">i4"),  # of this unit, or of the blank that ends a file
        ("previous", ">i8"),  # the unit before it in the same slot, -1 without one
        ("magic", ">i4"),  # bits TIMER_DEFAULT, ... below
        ("writeTime", ">i8"),  # milliseconds; the slot is that of writeTime + delay
        ("delay", ">i4"),
        ("physicalOffset", ">i8"),  # of the message in rmq_sys_wheel_timer
        ("messageSize", ">i4"),
        ("topicHash", ">i4"),  # String.hashCode of REAL_TOPIC
        ("reserved", ">i8"),
    ]
)
assert TIMER_UNIT.itemsize == 52
TIMER_DEFAULT, TIMER_ROLL, TIMER_DELETE = 1, 2, 4  # bits of a unit's magic
TIMER_BLANK_BYTES = 16  # size, 8 bytes of zeros, magic
MAGIC_TIMER_BLANK = (0xBBCCDDEE ^ (1880681586 + 8)) - (1 << 32)  # TimerLog.BLANK_MAGIC_CODE

# --- timerwheel (TimerWheel): twice its slots ------------------------------------------------

TIMER_SLOT = np.dtype(
    [
        ("time", ">i8"),  # in units of timerPrecisionMs; 0: the slot was never used
        ("first", ">i8"),  # positions of units in timerlog, -1 without one
        ("last", ">i8"),
        ("count", ">i4"),
        ("reserved", ">i4"),
    ]
)
assert TIMER_SLOT.itemsize == 32
# TIMER_WHEEL_TTL_DAY * DAY_SECS slots, twice
TIMER_WHEEL_FILE_BYTES = 2 * 7 * 24 * 3600 * TIMER_SLOT.itemsize

# --- index of a tiered store (tieredstore's IndexStoreFile, IndexItem) ---------------------------

TIERED_INDEX_HEADER = np.dtype(
    [
        ("magic", ">i4"),
        ("beginTimestamp", ">i8"),  # milliseconds
        ("endTimestamp", ">i8"),
        ("hashSlotCount", ">i4"),  # slots in use
        ("indexItemCount", ">i4"),
    ]
)
assert TIERED_INDEX_HEADER.itemsize == 28
MAGIC_TIERED_INDEX = 0xBCC50289 - (1 << 32)  # IndexStoreFile.BEGIN_MAGIC_CODE: being written to
MAGIC_TIERED_INDEX_END = 0xBCC50285 - (1 << 32)  # END_MAGIC_CODE: compacted
# In a compacted file: where a slot's items are (from the file's start), and their bytes.
TIERED_INDEX_SLOT = np.dtype([("position", ">i4"), ("length", ">i4")])
assert TIERED_INDEX_SLOT.itemsize == 8
TIERED_INDEX_ITEM = np.dtype(
    [
        ("keyHash", ">i4"),
        ("topicId", ">i4"),
        ("queueId", ">i4"),
        ("offset", ">i8"),  # in the queue's own log
        ("size", ">i4"),
        ("timeDiff", ">i4"),  # seconds after beginTimestamp
    ]
)
assert TIERED_INDEX_ITEM.itemsize == 28

# --- what a scan hands to the builders: in staging files only, in native byte order ----------

# One message for one queue, as the scan kernel writes it before grouping by queue.
QUEUE_PUT = np.dtype(
    [
        ("physicalOffset", "<i8"),
        ("queueOffset", "<i8"),  # for a batch queue: the batch's first position
        ("tagsCode", "<i8"),
        ("storeTimestamp", "<i8"),
        ("size", "<i4"),
        ("queue", "<i4"),  # number of the queue in this scan
        ("batchSize", "<i4"),
        ("reserved", "<i4"),
    ]
)
assert QUEUE_PUT.itemsize == 48

# One key of one message, in the order of IndexService.buildIndex.
INDEX_PUT = np.dtype(
    [
        ("physicalOffset", "<i8"),
        ("storeTimestamp", "<i8"),
        ("keyHash", "<i4"),
    ]
)
assert INDEX_PUT.itemsize == 20

# The fields that the puts of one message have in common (reput.store_format.dispatch.dispatch).
INDEX_MESSAGE = np.dtype([("physicalOffset", "<i8"), ("storeTimestamp", "<i8")])
assert INDEX_MESSAGE.itemsize == 16
