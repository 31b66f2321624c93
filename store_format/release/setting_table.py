"""Every setting of a broker, once: its names, releases, type, default, and how reput treats it."""

import re
from enum import StrEnum
from importlib import resources
from typing import NamedTuple

from reput.store_format.release.profiles import RELEASES, release_key

# ---
# Every setting that a RocketMQ broker's file may hold, 4.1.0 to 5.5.1, and how reput treats it.
#
# This is the only declaration: `KnownSetting`s are read from it, `settings.py` parses by it, and
# warnings and docs/settings.md are made from it. Names, types, releases and defaults are those of
# the setters of MessageStoreConfig, BrokerConfig, NettyServerConfig, NettyClientConfig and
# AuthConfig, which MixAll.properties2Object calls; tests/rocketmq/test_setting_releases.py compares
# them with RocketMQ's own jars.
#
# Each heading says how the commands that derive files treat the settings below it, how append
# treats them, and why:
#
# - obeyed: reput does what RocketMQ does;
# - harmless: the setting changes neither what is derived or written nor when it is durable;
# - warned: RocketMQ would do something else, and a warning says so unless the value is the default;
# - refused: reput does not touch a store with any other value than the default.
#
# The five hundred others are harmless to both: `harmless_settings.txt` has their names.
#
# A line is NAME TYPE FIRST_RELEASE[-LAST_RELEASE] [also:OLDER_NAME@FIRST-LAST] [= DEFAULT]. A `-`
# in place of a release means that no broker's class has the name; a default of `*` depends on the
# machine.

TABLE = """
[obeyed refused] where the log is; append writes to STORE/commitlog and refuses any other folder
storePathCommitLog text 4.1.0 = *
readOnlyCommitLogStorePaths text 4.9.2
[obeyed obeyed] sizes of files
mappedFileSizeCommitLog int 4.5.2 also:mapedFileSizeCommitLog@4.1.0-4.5.1 = 1073741824
mappedFileSizeConsumeQueue int 4.5.2 also:mapedFileSizeConsumeQueue@4.1.0-4.5.1 = 6000000
maxHashSlotNum int 4.1.0 = 5000000
maxIndexNum int 4.1.0 = 20000000
[obeyed harmless] size of files; append writes to no batch queue
mapperFileSizeBatchConsumeQueue int 5.0.0 = 13800000
[obeyed obeyed] time zone of the broker's JVM (-Duser.timezone, --timezone): names of index files
user.timezone text -
[obeyed obeyed] whether there is an index
messageIndexEnable boolean 4.1.0 = true
indexFileWriteEnable boolean 5.4.0 = true
[obeyed obeyed] when delayed messages are due: their tagsCode
messageDelayLevel text 4.1.0 = 1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h
[obeyed obeyed] further queues of one message
enableMultiDispatch boolean 4.9.3 = false
enableLmq boolean 4.9.3 = false
[obeyed obeyed] with rocksdbCQDoubleWriteEnable: such further queues have no files then
combineCQUseRocksdbForLmq boolean 5.5.0 = false
[obeyed obeyed] whether topics are compacted, and files of which size `compaction/` gets
enableCompaction boolean 5.1.0 = true
compactionMappedFileSize int 5.1.0 = 104857600
compactionCqMappedFileSize int 5.1.0 = 10485760
[obeyed obeyed] what is checked of a record
checkCRCOnRecover boolean 4.1.0 = true
forceVerifyPropCRC boolean 5.2.0 = false
[obeyed obeyed] the __CRC32# property of records that are written
enabledAppendPropCRC boolean 5.2.0 = false
[harmless obeyed] what a record may be
maxMessageSize int 4.1.0 = 4194304
maxTopicLength int 5.0.0 = 127
autoMessageVersionOnTopicLen boolean 5.1.0 = true
[harmless obeyed] when what was appended is durable
flushDiskType ASYNC_FLUSH|SYNC_FLUSH 4.1.0 = ASYNC_FLUSH
syncFlushTimeout int 4.1.0 = 5000
flushIntervalCommitLog int 4.1.0 = 500
flushCommitLogLeastPages int 4.1.0 = 4
flushCommitLogThoroughInterval int 4.1.0 = 10000
transientStorePoolEnable boolean 4.1.0 = false
commitIntervalCommitLog int 4.1.0 = 200
commitCommitLogLeastPages int 4.1.0 = 4
commitCommitLogThoroughInterval int 4.1.0 = 200
flushConsumeQueueThoroughInterval int 4.1.0 = 60000
flushIntervalConsumeQueue int 4.1.0 = 1000
flushConsumeQueueLeastPages int 4.1.0 = 2
warmMapedFileEnable boolean 4.1.0 = false
[harmless obeyed] how much may wait in the write buffer, and what happens where it is full
transientStorePoolSize int 4.1.0 = 5
fastFailIfNoBufferInStorePool boolean 4.1.0 = false
[harmless obeyed] when no message is taken
osPageCacheBusyTimeOutMills long 4.1.0 = 1000
cleanResourceInterval int 4.1.0 = 10000
diskSpaceWarningLevelRatio int 5.0.0 = 90
[harmless obeyed] whether and how timer messages are put
timerWheelEnable boolean 5.0.0 = true
timerPrecisionMs int 5.0.0 = 1000
timerMaxDelaySec int 5.0.0 = 259200
[harmless obeyed] when resolve-transactions discards, and how many offsets an op message of it has
transactionCheckMax int 4.3.0 = 15
transactionOpMsgMaxSize int 5.1.0 = 4096
[harmless obeyed] size of timerlog/ files, where deliver-delayed finds none
mappedFileSizeTimerLog int 5.0.0 = 104857600
[refused refused] queues in RocksDB but by `rebuild` (and `verify`, `check`, `expire` read them)
storeType text 5.1.4 = default
[refused refused] queues in RocksDB (a name of its own, which no broker has)
enableRocksDBStore boolean - = false
[harmless refused] a DLedger group's log, found by its folder; no command writes to such a log
enableDLegerCommitLog boolean 4.5.0 = false
[obeyed harmless] which member's log it is, where a store has the logs of several
dLegerSelfId text 4.5.0
[obeyed harmless] what lies behind a DLedger group's committed index is taken too
readUnCommitted boolean 5.3.0 = false
[refused refused] a DLedger log in another folder than STORE/dledger-ID/data: make a link there
storePathDLedgerCommitLog text 4.9.4
[refused refused] ConsumeQueueExt, which needs live consumer filters
enableConsumeQueueExt boolean 4.1.0 = false
[obeyed warned] RocksDB gets no rows: `rebuild` builds queues and index there
rocksdbCQDoubleWriteEnable boolean 5.3.1 = false
[harmless warned] RocksDB gets no rows: `rebuild` builds queues and index there
rocksdbCQSelectiveDoubleWriteEnable boolean 5.5.1 = false
indexRocksDBEnable boolean 5.4.0 = false
[warned warned] RocksDB gets no rows of timers and half messages
timerRocksDBEnable boolean 5.4.0 = false
transRocksDBEnable boolean 5.4.0 = false
[harmless warned] half messages are written to the log as by default
transWriteOriginTransHalfEnable boolean 5.4.0 = true
[warned warned] what the plug-in does of its own, as tiered storage, is not done
messageStorePlugIn text 4.1.0
[warned warned] what is dispatched is not bounded by a confirmed offset of its copy
duplicationEnable boolean 4.1.0 = false
[warned harmless] which records recovery takes is reported as without it
checkCommitLogOffsetOnRecover boolean 5.5.0 = false
[harmless refused] a SLAVE takes no messages; SYNC_MASTER is warned of: nothing is replicated
brokerRole ASYNC_MASTER|SYNC_MASTER|SLAVE 4.1.0 = ASYNC_MASTER
[harmless warned] nothing is replicated: PUT_OK speaks of this disk alone
inSyncReplicas int 5.0.0 = 1
minInSyncReplicas int 5.0.0 = 1
totalReplicas int 5.0.0 = 1
allAckInSyncStateSet boolean 5.0.0 = false
enableAutoInSyncReplicas boolean 5.0.0 = false
[harmless warned] no epoch is written, nothing is replicated: PUT_OK speaks of this disk alone
enableControllerMode boolean 5.0.0 = false
[harmless warned] the log is flushed at its intervals, not by each message
flushCommitLogTimed boolean 4.1.0 = true
wakeFlushWhenPutMessage boolean 5.0.0 = false
[harmless warned] append waits for syncFlushTimeout alone
putMessageTimeout int 5.0.0 = 8000
[harmless warned] delayed messages go to the levels of messageDelayLevel
timerInterceptDelayLevel boolean 5.0.0 = false
[harmless warned] append takes any number of light queues
maxLmqConsumeQueueNum int 4.9.3 = 20000
enableLmqQuota boolean 5.5.0 = false
[harmless obeyed] the store host that records get
brokerIP1 text 4.1.0 = *
listenPort int 4.1.0 = *
"""
HARMLESS = resources.files(__package__).joinpath("harmless_settings.txt").read_text("utf-8")


_ALSO = "also:"
_INT = re.compile(r"([+-]?)([0-9]+)")
_DIGITS_MOST = 20  # that are looked at; a long has 19
_BITS = {"int": 32, "long": 64}
_MACHINE = "*"


class SettingError(ValueError):
    """A setting is unknown, malformed, or asks for something that reput does not do."""


class Status(StrEnum):
    """How reput treats a setting; see the comment above the table."""

    OBEYED = "obeyed"
    HARMLESS = "harmless"
    WARNED = "warned"
    REFUSED = "refused"


def parse_number(text: str) -> int:
    """The number of a text that Integer.parseInt takes: one sign at most, then ASCII digits.

    Of a number beyond every long its first digits. Raises ValueError.
    """
    found = _INT.fullmatch(text)
    if found is None:
        raise ValueError("no number")
    return int(found[1] + (found[2].lstrip("0")[:_DIGITS_MOST] or "0"))


class Spelling(NamedTuple):
    """A name, and the releases whose classes have it; if `since` is empty, no class has it."""

    name: str
    since: str
    until: str  # the last release; empty: up to now

    def known_to(self, release: str) -> bool:
        """Whether this release's broker takes the name from its file."""
        if not self.since:
            return False
        last = release_key(self.until or RELEASES[-1])
        return release_key(self.since) <= release_key(release) <= last


class KnownSetting(NamedTuple):
    """One setting: its newest spelling, its older ones, and how reput treats it.

    A plain tuple, as each start makes some hundreds of them.

    kind: int, long, double, boolean, text, or all allowed values with | between them.
    default: as text in a broker's file; None if it depends on the machine.
    """

    name: str
    since: str
    until: str
    older: tuple[Spelling, ...]
    kind: str
    default: str | None
    derive: Status
    append: Status
    reason: str

    @property
    def in_any(self) -> tuple[Spelling, ...]:
        """All spellings, the newest first."""
        return (Spelling(self.name, self.since, self.until), *self.older)

    def known_to(self, release: str) -> bool:
        """`Spelling.known_to` of the newest name."""
        return self.in_any[0].known_to(release)

    def value(self, text: str, name: str = "") -> bool | int | str:
        """The value that MixAll.properties2Object reads from a text.

        Raises SettingError, with the given name, if RocketMQ would silently keep its default (a
        number with a blank after it) or read false (yes, 1, on).
        """
        name = name or self.name
        if self.kind == "boolean":
            if text.lower() not in ("true", "false"):
                raise SettingError(
                    f"{name}={text!r}: expected true or false (RocketMQ reads all else as false)"
                )
            return text.lower() == "true"
        if self.kind in _BITS:
            return self._number(text, name)
        text = text.strip()  # RocketMQ strips texts, but not numbers
        if "|" in self.kind and text not in self.kind.split("|"):
            raise SettingError(f"{name}={text}: expected one of {self.kind.replace('|', ', ')}")
        return text

    def _number(self, text: str, name: str) -> int:
        try:
            value, limit = parse_number(text), 1 << (_BITS[self.kind] - 1)
        except ValueError:
            raise SettingError(
                f"{name}={text!r}: expected a whole number, without blanks or other characters "
                f"(RocketMQ would keep its default{self._default_text})"
            ) from None
        if not -limit <= value < limit:
            raise SettingError(
                f"{name}={text[:40]}: out of range {-limit}..{limit - 1} of a Java {self.kind} "
                f"(RocketMQ would keep its default{self._default_text})"
            )
        return value

    @property
    def _default_text(self) -> str:
        return f", {self.default}" if self.default else ""

    def differs(self, text: str, name: str) -> bool:
        """Whether the text's value is not the default."""
        value = self.value(text, name)
        return self.default is None or value != self.value(self.default)


def _read(table: str) -> tuple[KnownSetting, ...]:
    rows: list[KnownSetting] = []
    derive = append = Status.HARMLESS
    reason = ""
    for line in table.strip().splitlines():
        if line[0] == "[":
            how, _, reason = line[1:].partition("] ")
            derive, append = (Status(each) for each in how.split())
            continue
        about, _, default = line.partition(" = ")
        name, kind, releases, *also = about.split(" ")
        since, _, until = releases.partition("-")
        rows.append(
            KnownSetting(
                name, since, until, _older(also[0].removeprefix(_ALSO) if also else ""),
                kind, None if default == _MACHINE else default, derive, append, reason,
            )
        )  # fmt: skip
    return tuple(rows)


def _older(text: str) -> tuple[Spelling, ...]:
    spellings = []
    for part in filter(None, text.split(",")):
        name, _, releases = part.partition("@")
        since, _, until = releases.partition("-")
        spellings.append(Spelling(name, since, until))
    return tuple(spellings)


SETTINGS = _read(TABLE + HARMLESS)
BY_NAME = {spelling.name: known for known in SETTINGS for spelling in known.in_any}
