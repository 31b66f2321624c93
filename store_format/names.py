"""Names of a store's files and folders, and of topics; which topics can name a folder, and which
names show what reput does not read.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from reput.store_format.faults import StoreError

COMMIT_LOG = "commitlog"
CONSUME_QUEUE = "consumequeue"
BATCH_CONSUME_QUEUE = "batchconsumequeue"
INDEX = "index"
DLEDGER = "dledger-"  # prefix of a DLedger group member's folder; its id follows
DLEDGER_DATA = "data"  # in that folder: the segments (DLedgerConfig.getDataStorePath)
STAGED_INDEX = ".reput-index"  # where a writer prepares the folder that will replace INDEX
STAGED_TIMER_LOG = ".reput-timerlog"  # where deliver-delayed prepares the new timerlog
CUT = "reput-cut"  # where a recovery keeps what it cuts off the log
COMPACTION = "compaction"
COMPACTION_LOG, COMPACTION_QUEUE = "compactionLog", "compactionCq"  # in COMPACTION
COMPACTION_POSITIONS = "position-checkpoint"  # in COMPACTION
# Folders of a tiered store's queue (FileSegmentType)
TIERED_LOG, TIERED_QUEUE, TIERED_INDEX = "COMMIT_LOG", "CONSUME_QUEUE", "INDEX"
CONFIG = "config"
CHECKPOINT = "checkpoint"
ABORT = "abort"
COMPACTION_POSITIONS = "position-checkpoint"  # in COMPACTION
EPOCH_FILE = "epochFileCheckpoint"  # in the root, unless storePathEpochFile says otherwise
IDENTITY = "brokerIdentity"  # likewise, storePathBrokerIdentity
TIMER_LOG, TIMER_WHEEL = "timerlog", "timerwheel"
TIERED_INDEX_FOLDER = "tiered_index_file"
# Below CONFIG; `state_table` says of each what it is.
TOPICS, GROUPS, OFFSETS = "topics.json", "subscriptionGroup.json", "consumerOffset.json"
LMQ_OFFSETS, DELAY_OFFSETS = "lmqConsumerOffset.json", "delayOffset.json"
ORDER_INFO, QUEUE_MAPPING = "consumerOrderInfo.json", "topicQueueMapping.json"
REQUEST_MODE, FILTERS = "messageRequestMode.json", "consumerFilter.json"
TIMER_CHECK_FILE, TIMER_METRICS = "timercheck", "timermetrics"
TRANSACTION_METRICS, BROKER_SETTINGS = "transactionMetrics", "broker.properties"
TIERED_METADATA = "tieredStoreMetadata.json"
ACL_DBS = ("users", "acls")  # RocksDBs
OFFSET_MAP = "reput-offset-map.jsonl"  # in a store that an export made: MapRows
LOCK = "lock"
UNFINISHED = ".reput-unfinished"  # exists while a set is published (manifest_last)
MANIFEST = "manifest.json"
SHARDS = "manifest"  # folder of the lists of files of a large set

# Prefixes of a group's own topics, and of light queues (MixAll).
RETRY_PREFIX = "%RETRY%"
POP_RETRY_SIGNS = "_", "+"  # then group, sign, topic (KeyBuilder.buildPopRetryTopicV1 and V2)
DLQ_PREFIX = "%DLQ%"
LMQ_PREFIX = "%LMQ%"
REVIVE_TOPIC = "rmq_sys_REVIVE_LOG_"  # PopAckConstants.REVIVE_TOPIC, then the cluster's name

# TopicValidator.SYSTEM_TOPIC_SET, and other topics that only brokers or their tools write to
SYSTEM_PREFIX = "rmq_sys_"
SYSTEM_TOPICS = frozenset(
    (
        "TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "CHECKPOINT_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
    )
)  # fmt: skip

_OFFSET_DIGITS = 20
_DEEPEST = 16  # slashes in the path of a queue
_TIERED_HASH = 8  # hexadecimal digits
_QUEUE_ID_DIGITS = 10  # of an int
_OFFSET_MOST = (1 << 63) - 1  # a long, in RocketMQ
_NAME_BYTES_MAX = 255  # of a file name, on every file system that a broker runs on
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_INDEX_TIME = (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC) - _EPOCH) // timedelta(
    milliseconds=1
) + 999


class UnsafeName(ValueError):
    """A topic that must not name a folder: it leads out of the store, or no folder can have it."""


def segment_name(offset: int) -> str:
    """A segment's name (UtilAll.offset2FileName): 20 digits. Raises ValueError below 0."""
    if offset < 0:
        raise ValueError(f"offset {offset} is negative")
    return f"{offset:0{_OFFSET_DIGITS}d}"


def parse_segment_name(name: str) -> int:
    """The offset in a segment's name.

    Raises ValueError if the name is not 20 decimal digits, or more than a Java long holds.
    """
    if len(name) != _OFFSET_DIGITS or not (name.isascii() and name.isdigit()):
        raise ValueError(f"{name!r} is not a segment's name: 20 decimal digits")
    offset = int(name)
    if offset > _OFFSET_MOST:
        raise ValueError(f"{name!r} is not a segment's name: more than a long holds")
    return offset


def segment_start(name: str) -> int | None:
    """The offset in a segment's name; None for another name."""
    try:
        return parse_segment_name(name)
    except ValueError:
        return None


def segments_among(names: Iterable[str]) -> list[str]:
    """Those of these names that a segment or a queue's file can have, in order."""
    return sorted(name for name in names if segment_start(name) is not None)


def is_wheel(name: str) -> bool:
    """Whether this is the timer wheel's file, or a snapshot of it (`timerwheel.NUMBER`)."""
    first, _, number = name.partition(".")
    return first == TIMER_WHEEL and (name == first or (number.isascii() and number.isdecimal()))


def is_index_name(name: str) -> bool:
    """Whether an IndexFile can have the name."""
    try:
        parse_index_name(name)
    except ValueError:
        return False
    return True


def index_files_among(names: Iterable[str]) -> list[str]:
    """Those of these names that an IndexFile can have, in order."""
    return sorted(filter(is_index_name, names))


def tiered_name(offset: int) -> str:
    """A tiered segment's name (MessageStoreUtil.offset2FileName): eight digits of a hash first."""
    digest = hashlib.md5(str(offset).encode(), usedforsecurity=False).hexdigest()
    return f"{digest[:_TIERED_HASH]}{segment_name(offset)}"


def tiered_start(name: str) -> int | None:
    """The offset in a tiered segment's name; None for another name."""
    start = segment_start(name[_TIERED_HASH:])
    return start if start is not None and name == tiered_name(start) else None


class QueuePath(NamedTuple):
    """A queue's folder below the store's root."""

    folder: str  # CONSUME_QUEUE or BATCH_CONSUME_QUEUE
    topic: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.folder}/{self.topic}/{self.queue_id}"


def is_queue_folder(name: str) -> bool:
    """Whether a folder's name is a queue's id as RocketMQ writes it: any int, also a negative one
    (ConsumeQueueStore.load takes what Integer.parseInt takes).
    """
    digits = name.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _QUEUE_ID_DIGITS):
        return False
    return str(int(name)) == name and -(1 << 31) <= int(name) < 1 << 31


def is_queue_id(name: str) -> bool:
    """Whether a name is a queue's id as a broker writes it."""
    return name.isascii() and name.isdigit() and name == name[:10].lstrip("0").rjust(1, "0")


def queue_paths(
    kind: str, names: Callable[[str], Iterable[str]], is_folder: Callable[[str], bool]
) -> Iterator[QueuePath]:
    """The queues in a store's folder `kind`: CONSUME_QUEUE or BATCH_CONSUME_QUEUE.

    names: of what a folder holds; is_folder: whether a path is one; both take paths below a store.
    """
    for topic in names(kind):
        if is_folder(f"{kind}/{topic}"):
            yield from queues_of_topic(kind, topic, names, is_folder)


def queues_of_topic(
    kind: str, topic: str, names: Callable[[str], Iterable[str]], is_folder: Callable[[str], bool]
) -> Iterator[QueuePath]:
    """The queues of a topic; and of those whose names go on with a slash after the name of an LMQ.

    Up to 5.1.1 the queue of an LMQ whose name has slashes lies in folders within each other
    (#6747). These are found as they lie: no name of a record is followed.
    """
    light = topic.startswith(LMQ_PREFIX)
    for name in names(f"{kind}/{topic}"):
        below = f"{kind}/{topic}/{name}"
        if not (light or is_queue_folder(name)) or not is_folder(below):
            continue
        if not light:
            yield QueuePath(kind, topic, int(name))
            continue
        inside = list(names(below))
        folders = [n for n in inside if segment_start(n) is None and is_folder(f"{below}/{n}")]
        if is_queue_folder(name) and (len(folders) < len(inside) or not inside):
            yield QueuePath(kind, topic, int(name))
        if folders and below.count("/") < _DEEPEST:
            yield from queues_of_topic(kind, f"{topic}/{name}", names, is_folder)


def parse_queue_path(path: str) -> QueuePath:
    """The queue that a folder below a store is of. Raises ValueError."""
    kind, _, rest = path.partition("/")
    topic, _, queue_id = rest.rpartition("/")
    return QueuePath(kind, topic, int(queue_id))


def check_queue_topic(topic: str) -> str:
    """The topic, if it can name a queue's folder; an LMQ's may have slashes, and each part names
    a folder. Raises UnsafeName.
    """
    if topic.startswith(LMQ_PREFIX) and topic.count("/") < _DEEPEST:
        try:
            for part in topic.split("/"):
                check_topic(part)
        except UnsafeName as error:
            raise UnsafeName(f"topic {topic[:80]!r}: {error}") from None
        return topic
    return check_topic(topic)


def is_queue_topic(topic: str) -> bool:
    try:
        check_queue_topic(topic)
    except UnsafeName:
        return False
    return True


def check_topic(topic: str) -> str:
    """The topic, if it can be one folder's name; raises UnsafeName with the reason.

    A record's topic may be any bytes; RocketMQ uses it as a path unchecked.
    """
    if topic in ("", ".", ".."):
        reason = "is not a folder's name"
    elif "/" in topic or "\\" in topic:
        reason = "holds a path separator"
    elif "\0" in topic:
        reason = "holds a NUL"
    elif len(topic.encode("utf-8", "replace")) > _NAME_BYTES_MAX:
        reason = f"is longer than {_NAME_BYTES_MAX} bytes"
    else:
        return topic
    raise UnsafeName(f"topic {topic[:80]!r} {reason}")


def index_name(timestamp: int) -> str:
    """An IndexFile's name for a local time in milliseconds: yyyyMMddHHmmssSSS.

    Local time is the time since 1970 plus the zone's offset (`NameZone.local`), as RocketMQ names
    by local time (UtilAll.timeMillisToHumanString). A time outside the years 1970 to 9999 becomes
    the nearest one within.
    """
    within = min(max(timestamp, 0), LAST_INDEX_TIME)
    moment = _EPOCH + timedelta(milliseconds=within)
    return moment.strftime("%Y%m%d%H%M%S").zfill(14) + f"{within % 1000:03d}"


def parse_index_name(name: str) -> int:
    """The local time in an IndexFile's name, in milliseconds. Raises ValueError."""
    if len(name) != 17 or not (name.isascii() and name.isdigit()):
        raise ValueError(f"{name!r} is not an index file's name: yyyyMMddHHmmssSSS")
    moment = datetime.strptime(name[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1) + int(name[14:])


def next_index_time(wanted: int, previous: int | None) -> int:
    """The local time (milliseconds) in the next IndexFile's name: the wanted time, or a later one
    if the previous file already has that name, or a later one.
    """
    within = min(max(wanted, 0), LAST_INDEX_TIME)
    return within if previous is None else max(within, previous + 1)


# ---
# Finds, by a store's file names, what reput does not build or read.

QUEUE_EXT = "consumequeue_ext"  # StorePathConfigHelper.getStorePathConsumeQueueExt
CURRENT = "CURRENT"  # every RocksDB has this file
# Folders of queues in RocksDB: beside the topics' folders (RocksDBConsumeQueueStore), or from 5.5.0
# on with useSeparateStorePathForRocksdbCQ in a folder of their own.
ROCKSDB_QUEUES = (CONSUME_QUEUE, "consumequeue_rocksdb")

# The settings that put queues, and the index, into RocksDB.
IN_ROCKSDB = ("storeType", "indexRocksDBEnable")

STORE_DB = "rocksdbstore"  # MessageRocksDBStorage; from 5.4.0 on made at each start
POP_DB = "kvStore"  # PopConsumerRocksdbStore


def refuse_foreign(
    store: str, names: Callable[[str], Iterable[str]], even_rocksdb: bool = False
) -> None:
    """Raise StoreError if a store's queues are of a kind that a command does not build.

    names: lists a folder of the store. even_rocksdb: queues in RocksDB are allowed, because no file
    is replaced. Otherwise queues in RocksDB (alone, or beside files with
    rocksdbCQDoubleWriteEnable) would disagree with files that reput has cut or replaced. With
    ConsumeQueueExt, queue entries have addresses in the ext files, whose content depends on the
    consumers' filters of that time, which no log has; of a deleted topic brokers up to 5.1.0 leave
    an empty folder there.
    """
    above = f"{store}/" if store else ""
    queues = (f"{QUEUE_EXT}/{topic}/{queue}" for topic in names(QUEUE_EXT)
              for queue in names(f"{QUEUE_EXT}/{topic}"))  # fmt: skip
    if any(True for queue in queues for _ in names(queue)):
        raise StoreError(
            f"{above}{QUEUE_EXT}: the store has ConsumeQueueExt files (enableConsumeQueueExt), "
            f"and entries of its queues may point into them: reput does not build them"
        )
    for folder in () if even_rocksdb else ROCKSDB_QUEUES:
        if CURRENT in names(folder):
            raise StoreError(
                f"{above}{folder}/{CURRENT}: the store has queues in RocksDB (storeType or "
                f"rocksdbCQDoubleWriteEnable), which this command does not change; reput rebuild "
                f"builds them (docs/rocksdb.md)"
            )


def holds_rows(files: Iterable[tuple[str, int]]) -> bool:
    """Whether a RocksDB has any rows, by the names and lengths of its files.

    A RocksDB that a broker only opened, and closed or was killed, has no table (.sst) and an empty
    write-ahead log: seen with 5.4.0, 5.5.0 and 5.5.1.
    """
    return any(
        name.endswith(".sst") or (name.endswith(".log") and length > 0) for name, length in files
    )
