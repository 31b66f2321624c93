"""The state of a store: each file that a broker reads at its start or serves from, and each topic
in which it keeps state of its own; who decides what is in it, and what a copy does with it.

Every other list of such names is read from here. `tests/rocketmq/test_fates.py` runs brokers
with the settings that write most, and fails on a file that is no row's. Settings may move some
files out of the store (storePathCommitLog, storePathEpochFile, storePathBrokerIdentity). Not here
is what lies in no store: files of controllers, name servers and proxies, conf/plain_acl.yml.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache, partial
from typing import NamedTuple

from reput.store_format.names import (
    ABORT,
    ACL_DBS,
    BATCH_CONSUME_QUEUE,
    BROKER_SETTINGS,
    CHECKPOINT,
    COMMIT_LOG,
    COMPACTION,
    COMPACTION_LOG,
    COMPACTION_POSITIONS,
    COMPACTION_QUEUE,
    CONFIG,
    CONSUME_QUEUE,
    DELAY_OFFSETS,
    DLEDGER,
    DLEDGER_DATA,
    EPOCH_FILE,
    FILTERS,
    GROUPS,
    IDENTITY,
    INDEX,
    LMQ_OFFSETS,
    LOCK,
    OFFSETS,
    ORDER_INFO,
    POP_DB,
    QUEUE_EXT,
    QUEUE_MAPPING,
    REQUEST_MODE,
    REVIVE_TOPIC,
    ROCKSDB_QUEUES,
    STORE_DB,
    TIERED_INDEX_FOLDER,
    TIERED_METADATA,
    TIMER_CHECK_FILE,
    TIMER_LOG,
    TIMER_METRICS,
    TIMER_WHEEL,
    TOPICS,
    TRANSACTION_METRICS,
)

FIRST, LAST = "4.1.0", "5.5.1"  # the releases of this table


class Decides(StrEnum):
    """Who decides what is in a file."""

    LOG = "the log"  # it follows from the log's records, or is the log
    BROKER = "the broker"  # what clients or administrators told it, and how far it has come
    CLOCK = "the clock"  # the log says what waits, the time until when
    HOST = "the host"  # this machine, this process, or other hosts of a group


class Copies(StrEnum):
    """What a command that makes or changes a store does with a file."""

    DERIVE = "derive"  # makes it from the log
    CARRY = "carry"  # takes the old one over, with names and positions as they are there
    LEAVE = "leave"  # leaves it to the broker, which makes it at its start
    REFUSE = "refuse"  # cannot make it, and must not go on without it


class Keys(StrEnum):
    """What the keys of a table in a file of config/ name."""

    NONE = ""
    TOPIC = "topic"  # `topic`, `topic@group`
    GROUP = "group"
    LEVEL = "level"  # delay levels, from 1


class StateFile(NamedTuple):
    """A file, or several whose names differ.

    path: below the store; words in <> stand for what differs (`_PARTS`). by: RocketMQ's class.
    first, last: releases that write it. bak: MixAll.string2File keeps the content before as .bak.
    page: in docs/formats/. holds: what a broker starts without where the file is lost; needed:
    whether none starts where it and its .bak are no JSON (BrokerController.initialize). table,
    keys: of the JSON in it. databases: RocksDBs below config/ that a broker may read in its place.
    positions: whether it says how far something is read, and so belongs to one end of the log.
    """

    path: str
    by: str
    decides: Decides
    copies: Copies
    page: str = "state"
    first: str = FIRST
    last: str = LAST
    bak: bool = False
    holds: str = ""
    needed: bool = True
    table: str = ""
    keys: Keys = Keys.NONE
    databases: tuple[str, ...] = ()
    positions: bool = False

    @property
    def name(self) -> str:
        """The file's name, or the pattern of it."""
        return self.path.rpartition("/")[2]

    @property
    def judged(self) -> str:
        """The function of `reput` by which `check` says what is wrong with the file; "" where a
        broker makes it anew whatever is there.
        """
        if self.by in _JUDGED and self.page != "dledger":
            return _JUDGED[self.by]
        if self.page == "dledger" and self.copies == Copies.CARRY:
            return _LOG_JUDGE
        own = self.name == "<rocksdb>" and self.copies == Copies.CARRY
        return "store_format.discover.config_faults.config_faults" if self.holds or own else ""


_STATE = "store_format.state.judge"
_OF_COMPACTION, _OF_TIMERS = "store_format.query.compacted.hole_faults", f"{_STATE}.timer_faults"
_LOG_JUDGE, _QUEUE_JUDGE = "jobs.salvaging.judge_end.judge_end", "jobs.judging.verdict.judge"
_JUDGED = {  # by RocketMQ's class
    "CommitLog": _LOG_JUDGE,
    "ConsumeQueue": _QUEUE_JUDGE, "BatchConsumeQueue": _QUEUE_JUDGE, "IndexFile": _QUEUE_JUDGE,
    "ConsumeQueueExt": "store_format.names.refuse_foreign",
    "ConsumeQueueRocksDBStorage": "jobs.judging.rocksdb.compare_rocksdb",
    "MessageRocksDBStorage": "jobs.judging.rocksdb.compare_index",
    "StoreCheckpoint": "jobs.judging.check.knows_more",
    "TimerLog": _OF_TIMERS, "TimerWheel": _OF_TIMERS, "TimerCheckpoint": _OF_TIMERS,
    "CompactionLog": _OF_COMPACTION, "SparseConsumeQueue": _OF_COMPACTION,
    "BrokerPathConfigHelper": "store_format.discover.config.found_conf",
    "EpochFileCache": "store_format.log.groups.read_epochs",
}  # fmt: skip


_LOG, _BROKER, _CLOCK, _HOST = Decides.LOG, Decides.BROKER, Decides.CLOCK, Decides.HOST
_DERIVE, _CARRY, _LEAVE, _REFUSE = Copies.DERIVE, Copies.CARRY, Copies.LEAVE, Copies.REFUSE

# A file of config/ that a copy takes over.
_config = partial(StateFile, decides=_BROKER, copies=_CARRY, bak=True)

_COMPACTED = f"{COMPACTION}/{COMPACTION_LOG}/<topic>/<queue>"
_COMPACTED_QUEUE = f"{COMPACTION}/{COMPACTION_QUEUE}/<topic>/<queue>"
_MEMBER = f"{DLEDGER}<id>"
FILES: tuple[StateFile, ...] = (
    # the log, what is dispatched from it, and how a broker was stopped
    StateFile(f"{COMMIT_LOG}/<offset>", "CommitLog", _LOG, _CARRY, "commitlog"),
    StateFile(f"{_MEMBER}/{DLEDGER_DATA}/<offset>", "DLedgerMmapFileStore", _LOG, _CARRY,
              "dledger", "4.5.0"),
    StateFile(f"{_MEMBER}/{INDEX}/<offset>", "DLedgerMmapFileStore", _LOG, _LEAVE, "dledger",
              "4.5.0"),
    StateFile(f"{_MEMBER}/{CHECKPOINT}", "DLedgerMmapFileStore", _HOST, _LEAVE, "dledger", "4.5.0",
              bak=True),
    StateFile(f"{_MEMBER}/currterm", "MemberState", _HOST, _LEAVE, "dledger", "4.5.0", bak=True),
    StateFile(f"{CONSUME_QUEUE}/<topic>/<queue>/<offset>", "ConsumeQueue", _LOG, _DERIVE,
              "consumequeue"),
    StateFile(f"{BATCH_CONSUME_QUEUE}/<topic>/<queue>/<offset>", "BatchConsumeQueue", _LOG, _DERIVE,
              "batchconsumequeue", "5.0.0"),
    StateFile(f"{QUEUE_EXT}/<topic>/<queue>/<offset>", "ConsumeQueueExt", _BROKER, _REFUSE),
    StateFile(f"{ROCKSDB_QUEUES[0]}/<rocksdb>", "ConsumeQueueRocksDBStorage", _LOG, _DERIVE,
              "rocksdb", "5.1.4"),
    StateFile(f"{ROCKSDB_QUEUES[1]}/<rocksdb>", "ConsumeQueueRocksDBStorage", _LOG, _DERIVE,
              "rocksdb", "5.5.0"),
    StateFile(f"{INDEX}/<time>", "IndexFile", _LOG, _DERIVE, "indexfile"),
    # an index, timers (timerRocksDBEnable) and half messages (transRocksDBEnable)
    StateFile(f"{STORE_DB}/<rocksdb>", "MessageRocksDBStorage", _LOG, _DERIVE, "rocksdb", "5.4.0"),
    StateFile(CHECKPOINT, "StoreCheckpoint", _LOG, _DERIVE, "checkpoint"),
    StateFile(ABORT, "DefaultMessageStore", _HOST, _LEAVE, "names", bak=True),
    StateFile(LOCK, "DefaultMessageStore", _HOST, _LEAVE, "names", "4.2.0"),
    # timers
    StateFile(f"{TIMER_LOG}/<offset>", "TimerLog", _LOG, _DERIVE, first="5.0.0"),
    StateFile(TIMER_WHEEL, "TimerWheel", _CLOCK, _LEAVE, first="5.0.0"),
    StateFile(f"{TIMER_WHEEL}.<number>", "TimerWheel", _CLOCK, _LEAVE, first="5.4.0"),
    StateFile(f"{CONFIG}/{TIMER_CHECK_FILE}", "TimerCheckpoint", _CLOCK, _DERIVE, first="5.0.0",
              positions=True),
    StateFile(f"{CONFIG}/{TIMER_METRICS}", "TimerMetrics", _LOG, _LEAVE, first="5.0.0", bak=True,
              holds="counts of timers"),
    # compacted topics: older segments have left the log
    StateFile(f"{_COMPACTED}/<offset>", "CompactionLog", _BROKER, _CARRY,
              "compaction", "5.1.0"),
    StateFile(f"{_COMPACTED}/compacting/<offset>", "CompactionLog", _BROKER,
              _LEAVE, "compaction", "5.1.0"),
    StateFile(f"{_COMPACTED_QUEUE}/<offset>", "SparseConsumeQueue", _BROKER,
              _CARRY, "compaction", "5.1.0"),
    StateFile(f"{_COMPACTED_QUEUE}/compacting/<offset>", "SparseConsumeQueue",
              _BROKER, _LEAVE, "compaction", "5.1.0"),
    StateFile(f"{COMPACTION}/{COMPACTION_POSITIONS}", "CompactionPositionMgr", _BROKER, _CARRY,
              "compaction", "5.1.0", bak=True, table="queueOffsetMap", positions=True,
              holds="how far topics are compacted", needed=False),
    # configuration, and how far groups and services have come
    _config(f"{CONFIG}/{TOPICS}", "TopicConfigManager", table="topicConfigTable", keys=Keys.TOPIC,
            databases=("topics", "metadata", "rdb"), holds="its topics"),
    _config(f"{CONFIG}/{GROUPS}", "SubscriptionGroupManager", table="subscriptionGroupTable",
            keys=Keys.GROUP, databases=("subscriptionGroups", "metadata", "rdb"),
            holds="its groups"),
    _config(f"{CONFIG}/{QUEUE_MAPPING}", "TopicQueueMappingManager", first="5.0.0",
            table="topicQueueMappingInfoMap", keys=Keys.TOPIC, holds="static topics"),
    _config(f"{CONFIG}/{REQUEST_MODE}", "MessageRequestModeManager", first="5.0.0",
            table="messageRequestModeMap", keys=Keys.TOPIC, holds="groups' modes of pull and pop",
            needed=False),
    _config(f"{CONFIG}/{FILTERS}", "ConsumerFilterManager", table="filterDataByTopic",
            keys=Keys.TOPIC, holds="consumers' filters"),
    _config(f"{CONFIG}/{OFFSETS}", "ConsumerOffsetManager", table="offsetTable", keys=Keys.TOPIC,
            databases=("consumerOffsets", "metadata", "rdb"), positions=True,
            holds="the groups' offsets"),
    _config(f"{CONFIG}/{DELAY_OFFSETS}", "ScheduleMessageService", table="offsetTable",
            keys=Keys.LEVEL, positions=True, holds="how far delayed messages were delivered"),
    _config(f"{CONFIG}/{ORDER_INFO}", "ConsumerOrderInfoManager", first="5.0.0", table="table",
            keys=Keys.TOPIC, positions=True, holds="what ordered pops hold"),
    _config(f"{CONFIG}/{LMQ_OFFSETS}", "LmqConsumerOffsetManager", first="4.9.3",
            table="offsetTable", keys=Keys.TOPIC, positions=True, holds="offsets of light queues"),
    StateFile(f"{CONFIG}/{TRANSACTION_METRICS}", "TransactionMetrics", _LOG, _LEAVE, first="5.2.0",
              bak=True, holds="counts of half messages", needed=False),
    StateFile(f"{CONFIG}/{BROKER_SETTINGS}", "BrokerPathConfigHelper", _HOST, _CARRY, bak=True),
    *(StateFile(f"{CONFIG}/{name}/<rocksdb>", "ConfigRocksDBStorage", _BROKER, _CARRY, "rocksdb",
                first)
      for name, first in (("topics", "5.1.4"), ("subscriptionGroups", "5.1.4"),
                          ("consumerOffsets", "5.1.4"), ("metadata", "5.4.0"), ("rdb", "5.3.2"))),
    *(StateFile(f"{CONFIG}/{name}/<rocksdb>", f"LocalAuth{kind}MetadataProvider", _BROKER, _CARRY,
                first="5.3.0")
      for name, kind in zip(ACL_DBS, ("entication", "orization"), strict=True)),
    # pop's messages in flight (popConsumerKVServiceEnable), and suspended ones from 5.5.1 on
    StateFile(f"{POP_DB}/<rocksdb>", "PopConsumerRocksdbStore", _BROKER, _CARRY, first="5.3.2"),
    # replication
    StateFile(EPOCH_FILE, "EpochFileCache", _HOST, _CARRY, first="5.0.0", bak=True),
    StateFile(IDENTITY, "BrokerMetadata", _HOST, _LEAVE, first="5.1.1"),
    StateFile(f"{IDENTITY}-temp", "TempBrokerMetadata", _HOST, _LEAVE, first="5.1.1"),
    # tiered storage
    StateFile(f"{CONFIG}/{TIERED_METADATA}", "DefaultMetadataStore", _BROKER, _CARRY,
              first="5.1.0", bak=True, holds="where tiered files end", needed=False),
    StateFile(f"{TIERED_INDEX_FOLDER}/<time>", "IndexStoreFile", _LOG, _LEAVE, first="5.1.0"),
)  # fmt: skip


class StateTopic(NamedTuple):
    """A topic of a broker's own, or their prefix, whose records say what waits.

    by: RocketMQ's class. done: the file that says up to where they are worked off; group: whose
    offset in it that is.
    """

    topic: str
    by: str
    done: str
    group: str = ""
    first: str = FIRST


TOPICS_OF_STATE: tuple[StateTopic, ...] = (
    StateTopic("SCHEDULE_TOPIC_XXXX", "ScheduleMessageService", DELAY_OFFSETS),
    StateTopic("rmq_sys_wheel_timer", "TimerMessageStore", TIMER_CHECK_FILE, first="5.0.0"),
    StateTopic("RMQ_SYS_TRANS_HALF_TOPIC", "TransactionalMessageServiceImpl", OFFSETS,
               "CID_RMQ_SYS_TRANS", "4.3.0"),
    StateTopic("RMQ_SYS_TRANS_OP_HALF_TOPIC", "TransactionalMessageServiceImpl", OFFSETS,
               "CID_RMQ_SYS_TRANS", "4.3.0"),
    StateTopic("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "TransMessageRocksDBStore", STORE_DB,
               first="5.4.0"),
    StateTopic("RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", "TransMessageRocksDBStore", STORE_DB,
               first="5.4.0"),
    StateTopic(REVIVE_TOPIC, "PopReviveService", OFFSETS, "CID_RMQ_SYS_REVIVE_GROUP",
               "5.0.0"),
)  # fmt: skip

# ---
# Finds a row by a path.

_PARTS = {
    "<offset>": r"\d{20}",
    "<time>": r"\d{17}",
    "<queue>": r"-?\d+",
    "<number>": r"\d+(\.tmp)?",  # written as .tmp
    "<id>": "[^/]+",
    # the name of a light queue (LMQ) may have slashes
    "<topic>": "(%LMQ%[^/]*(/[^/]+)*|[^/]+)",
    "<rocksdb>": r"(CURRENT|IDENTITY|LOCK|LOG(\.old\.\d+)?|\d+\.(sst|log|blob)|MANIFEST-\d+"
    r"|OPTIONS-\d+|\d+\.dbtmp|OPTIONS-\d+\.dbtmp)",
}
_PART = re.compile("|".join(_PARTS))
_LEFT = r"(\.bak)?(\.tmp)?"  # MixAll.string2File writes .tmp, .bak and renames


@cache
def pattern(row: StateFile) -> re.Pattern[str]:
    """What matches the paths of a row's files below a store, with .bak where it has them."""
    return re.compile(_regex(row.path) + (_LEFT if row.bak else ""), re.ASCII)


def folders_of(row: StateFile) -> list[str]:
    """Regular expressions of the folders in which a row's files are."""
    parts = row.path.split("/")
    return [_regex("/".join(parts[:number])) for number in range(1, len(parts))]


def _regex(path: str) -> str:
    parts, at = [], 0
    for found in _PART.finditer(path):
        parts += [re.escape(path[at : found.start()]), _PARTS[found[0]]]
        at = found.end()
    return "".join((*parts, re.escape(path[at:])))


def row_of(path: str) -> StateFile | None:
    """The row of a file by its path below a store; None for one that the table does not know."""
    return next((row for row in FILES if pattern(row).fullmatch(path)), None)


def config_to_carry(positions: bool = True) -> tuple[str, ...]:
    """The files of config/, of JSON, that a copy takes over.

    positions: with those that say how far something is read, after the others.
    """
    carried = [(row.positions, name) for name, row in CONFIG_ROWS.items()
               if row.table and row.copies == Copies.CARRY]  # fmt: skip
    return tuple(name for last in (False, True)[: 1 + positions] for at, name in carried
                 if at == last)  # fmt: skip


def _config_rows() -> Iterator[tuple[str, StateFile]]:
    for row in FILES:
        folder, _, name = row.path.rpartition("/")
        if folder == CONFIG:
            yield name, row


CONFIG_ROWS = dict(_config_rows())  # name below config/ -> its row
# What RocksDBs may have in place of files: JSON file -> RocksDBs below config/, by preference.
CONFIG_DBS = {name: row.databases for name, row in CONFIG_ROWS.items() if row.databases}
