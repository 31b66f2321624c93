"""The broker's settings that decide what derived files look like, what a writer does and what
expires, under RocketMQ's own names; and warnings about the others.

A single override (`--set`) wins over the broker's properties file, which wins over the default.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import InitVar, dataclass, field, fields, replace
from datetime import timedelta, timezone, tzinfo
from difflib import get_close_matches
from ipaddress import ip_address
from typing import Any, Literal, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from reput.store_format.layouts import INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES, INDEX_SLOT_BYTES
from reput.store_format.names import COMMIT_LOG
from reput.store_format.release.profiles import release_key
from reput.store_format.release.setting_table import BY_NAME, KnownSetting, Status, parse_number
from reput.store_format.release.setting_table import SettingError as SettingError

_INT_MAX = 0x7FFFFFFF  # Integer.MAX_VALUE
# A name ends at the first =, : or blank that is not escaped; the rest of the line is its value.
_PROPERTY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_OFFSET = re.compile(r"(?:UTC|GMT)?(?:([+-])([0-9]{1,2})(?::?([0-9]{2}))?)|UTC|GMT|Z")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_DELAY_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def setting(name: str, default: Any = None, least: int | None = None) -> Any:
    """A dataclass field with RocketMQ's name, and the table's default unless one is given.

    least: the smallest allowed number.
    """
    known = BY_NAME[name]
    if default is None:
        default = known.value(known.default or "")
    return field(default=default, metadata={"name": name, "least": least})


@dataclass(frozen=True)
class Settings:
    """Defaults are RocketMQ's; sizes in bytes. `metadata["name"]` is RocketMQ's name."""

    store_path_commit_log: str = setting("storePathCommitLog")
    read_only_commit_log_store_paths: str = setting("readOnlyCommitLogStorePaths")
    enable_dledger_commit_log: bool = setting("enableDLegerCommitLog")
    dledger_self_id: str = setting("dLegerSelfId")
    read_uncommitted: bool = setting("readUnCommitted")
    mapped_file_size_commit_log: int = setting("mappedFileSizeCommitLog", least=128)
    mapped_file_size_consume_queue: int = setting("mappedFileSizeConsumeQueue", least=1)
    mapper_file_size_batch_consume_queue: int = setting("mapperFileSizeBatchConsumeQueue", least=1)
    message_index_enable: bool = setting("messageIndexEnable")
    index_file_write_enable: bool = setting("indexFileWriteEnable")
    max_hash_slot_num: int = setting("maxHashSlotNum", least=1)
    max_index_num: int = setting("maxIndexNum", least=2)
    user_timezone: str = setting("user.timezone")
    message_delay_level: str = setting("messageDelayLevel")
    enable_multi_dispatch: bool = setting("enableMultiDispatch")
    enable_lmq: bool = setting("enableLmq")
    rocksdb_cq_double_write_enable: bool = setting("rocksdbCQDoubleWriteEnable")
    combine_cq_use_rocksdb_for_lmq: bool = setting("combineCQUseRocksdbForLmq")
    check_crc_on_recover: bool = setting("checkCRCOnRecover")
    force_verify_prop_crc: bool = setting("forceVerifyPropCRC")
    max_message_size: int = setting("maxMessageSize", least=1)
    enabled_append_prop_crc: bool = setting("enabledAppendPropCRC")
    flush_disk_type: str = setting("flushDiskType")
    enable_compaction: bool = setting("enableCompaction")
    compaction_mapped_file_size: int = setting("compactionMappedFileSize", least=1)
    compaction_cq_mapped_file_size: int = setting("compactionCqMappedFileSize", least=1)
    # `refuse_unsupported` refuses these: reput does not build such files
    enable_rocksdb_store: bool = setting("enableRocksDBStore")
    store_type: str = setting("storeType")
    store_path_dledger_commit_log: str = setting("storePathDLedgerCommitLog")
    enable_consume_queue_ext: bool = setting("enableConsumeQueueExt")

    @property
    def builds_index(self) -> bool:
        """Whether there are index files (IndexService.buildIndex; from 5.4.0 on also IndexFile).

        With either setting off, RocketMQ from 5.4.0 on makes no folder index/, and the checkpoint's
        indexMsgTimestamp stays 0.
        """
        return self.message_index_enable and self.index_file_write_enable

    @property
    def builds_further_queues(self) -> bool:
        """Whether multi-dispatch makes queue files (MultiDispatchUtils.checkMultiDispatchQueue)."""
        in_rocksdb = self.rocksdb_cq_double_write_enable and self.combine_cq_use_rocksdb_for_lmq
        return self.enable_multi_dispatch and not in_rocksdb

    @property
    def delays(self) -> tuple[int, ...]:
        """Milliseconds of delay levels 1, 2, ... Raises SettingError.

        A level may be negative: ScheduleMessageService.parseDelayLevel reads any long.
        """
        levels = []
        for level in self.message_delay_level.split():
            unit = _DELAY_UNITS.get(level[-1])
            if unit is None or not _WHOLE_NUMBER.fullmatch(level[:-1]):
                raise SettingError(f"messageDelayLevel: {level!r} is not a number and s, m, h or d")
            wide = int(level[:-1]) * unit + (1 << 63)
            levels.append(wide % (1 << 64) - (1 << 63))  # in Java's 64 bits
        return tuple(levels)

    @property
    def time_zone(self) -> tzinfo | None:
        """The broker's time zone; None where none is given. Raises SettingError."""
        return zone_named(self.user_timezone) if self.user_timezone else None

    def by_name(self) -> dict[str, Any]:
        """All values under RocketMQ's names."""
        return {f.metadata["name"]: getattr(self, f.name) for f in fields(self)}


def zone_named(name: str) -> tzinfo:
    """A time zone as Java has it: a name of the time zone database, or GMT, UTC or neither before
    +8, -05:00. Raises SettingError.
    """
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        ahead = timedelta(hours=int(offset[2] or 0), minutes=int(offset[3] or 0))
        if ahead < timedelta(hours=24):
            return timezone(-ahead if offset[1] == "-" else ahead)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = "that this machine knows: a name like America/New_York, or an offset like -05:00"
        raise SettingError(f"{name!r} is not a time zone {known}") from None


_Kind = TypeVar("_Kind", bound=Settings)
_FIELDS = {f.metadata["name"]: f for f in fields(Settings)}


def settings_from(*layers: Mapping[str, str], release: str | None = None) -> Settings:
    """Settings from layers of name -> text, later ones over earlier ones.

    release: a switch that this release does not have keeps its default, as in its broker. Names
    that RocketMQ knows but that do not change derived files are accepted; `setting_warnings` warns
    about them. Raises SettingError for an unknown name (the message has the nearest known one), for
    a malformed value, and if one layer has two spellings of a setting with different values.
    """
    return parse_settings(Settings, *layers, release=release)


def parse_settings(
    kind: type[_Kind], *layers: Mapping[str, str], release: str | None = None
) -> _Kind:
    """Settings, or a subclass of it, from layers of names and texts; see `settings_from`."""
    wanted = {f.metadata["name"]: f for f in fields(kind)}
    values: dict[str, Any] = {}
    for name, text in merge_layers(*layers).items():
        known = BY_NAME[name]
        if known.name not in wanted:
            continue
        value, least = known.value(str(text), name), wanted[known.name].metadata["least"] or 0
        if known.kind == "int" and not least <= int(value) <= _INT_MAX:
            raise SettingError(f"{name}={value}: out of range {least}..{_INT_MAX}")
        if release is None or not ignored_by(name, release):
            values[wanted[known.name].name] = value
    settings = kind(**values)
    _ = settings.delays, settings.time_zone  # checked here: the errors name the setting
    slots = settings.max_hash_slot_num * INDEX_SLOT_BYTES
    length = INDEX_HEADER_BYTES + slots + settings.max_index_num * INDEX_ENTRY_BYTES
    if length > _INT_MAX:
        raise SettingError(
            f"maxHashSlotNum={settings.max_hash_slot_num} and maxIndexNum="
            f"{settings.max_index_num}: an index file would have {length:,} bytes, more than the "
            f"{_INT_MAX:,} of a Java int: IndexFile's size overflows, and no broker starts"
        )
    return settings


def merge_layers(*layers: Mapping[str, str]) -> dict[str, str]:
    """All layers as one mapping; a later layer wins whichever spelling of a name it uses.

    Names keep their spelling. Raises SettingError as `settings_from` does, but not for values.
    """
    merged: dict[str, str] = {}
    for layer in layers:
        for name in layer:
            if name not in BY_NAME:
                near = get_close_matches(name, BY_NAME, 1, 0.5)
                hint = f"did you mean {near[0]}?" if near else "docs/settings.md lists them"
                raise SettingError(f"{name!r} is not a setting of RocketMQ; {hint}")
            for other in BY_NAME[name].in_any:
                if str(layer.get(other.name, layer[name])).strip() != str(layer[name]).strip():
                    raise SettingError(
                        f"{name}={layer[name]} and {other.name}={layer[other.name]}: these are "
                        f"two spellings of one setting; give one"
                    )
        for name in layer:
            for other in BY_NAME[name].in_any:
                merged.pop(other.name, None)
        merged.update({name: str(text) for name, text in layer.items()})
    return merged


def ignored_by(name: str, release: str) -> bool:
    """Whether the setting is a switch that this release's broker does not have, and so ignores.

    Only switches are ignored: a size or a folder describes what is there, whoever wrote it.
    """
    known = BY_NAME[name]
    if known.kind != "boolean" or Status.OBEYED not in (known.derive, known.append):
        return False
    return not any(spelling.known_to(release) for spelling in known.in_any)


def refuse_unsupported(settings: Settings, but: Collection[str] = ()) -> None:
    """Raise SettingError if the settings ask for a kind of store that reput does not derive.

    but: names of settings that are not checked.
    """
    for name, of in _FIELDS.items():
        known, value = BY_NAME[name], getattr(settings, of.name)
        if known.derive is Status.REFUSED and value != of.default and name not in but:
            shown = str(value).lower() if isinstance(value, bool) else value
            raise SettingError(f"{name}={shown}: reput does not build {known.reason}")


def parse_properties(text: str) -> dict[str, str]:
    """A broker's properties file, as java.util.Properties reads it: blanks after a value stay."""
    values: dict[str, str] = {}
    for line in _logical_lines(text):
        found = _PROPERTY.fullmatch(line)
        assert found is not None
        name, value = (_ESCAPE.sub(_unescaped, part) for part in found.groups())
        values[name] = value
    return values


def _logical_lines(text: str) -> Iterator[str]:
    """The lines without comments; an odd number of backslashes joins a line with the next."""
    joined: list[str] = []
    for raw in re.split(r"\r\n|\n|\r", text):
        line = raw.lstrip(" \t\f")
        if not any(joined) and (not line or line[0] in "#!"):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            joined.append(line[:-1])
        else:
            yield "".join([*joined, line])
            joined = []
    if any(joined):
        yield "".join(joined)


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)


def known_settings(raw: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """(what RocketMQ has of a broker's file, a text on all that it does not have, or '').

    A broker passes over what it does not know (MixAll.properties2Object).
    """
    unknown = [name for name in raw if name not in BY_NAME]
    known = {name: text for name, text in raw.items() if name in BY_NAME}
    near = [get_close_matches(name, BY_NAME, 1, 0.8) for name in unknown]
    said = [f"{n!r}{f' ({m[0]}?)' if m else ''}" for n, m in zip(unknown, near, strict=True)]
    what = "no setting" if len(unknown) == 1 else "no settings"
    return known, f"{', '.join(said)}: {what} of RocketMQ's, which it passes over" if said else ""


def parse_assignments(pairs: Iterable[str]) -> dict[str, str]:
    """`NAME=VALUE` words, as --set takes them. Raises SettingError."""
    values = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise SettingError(f"{pair!r} is not NAME=VALUE")
        values[name.strip()] = value.strip()
    return values


# ---
# The broker's settings for writing and flushing a log, which the writer obeys.

SYNC_FLUSH = "SYNC_FLUSH"
ASYNC_FLUSH = "ASYNC_FLUSH"
_PORT_MAX = 65_535
OS_PAGE_BYTES = 4096  # MappedFile.OS_PAGE_SIZE, whatever the machine's pages are


@dataclass(frozen=True)
class WriterSettings(Settings):
    """Defaults are RocketMQ's; times in milliseconds, sizes in bytes.

    given_names: RocketMQ's names of the settings that the user gave; if that is unknown, of all
    that differ from their defaults. The writer may take the others from the store's files.
    """

    given: InitVar[frozenset[str] | None] = None

    max_topic_length: int = setting("maxTopicLength", least=1)
    auto_message_version_on_topic_len: bool = setting("autoMessageVersionOnTopicLen")
    sync_flush_timeout: int = setting("syncFlushTimeout", least=1)
    flush_interval_commit_log: int = setting("flushIntervalCommitLog", least=1)
    flush_commit_log_least_pages: int = setting("flushCommitLogLeastPages", least=0)
    flush_commit_log_thorough_interval: int = setting("flushCommitLogThoroughInterval", least=0)
    transient_store_pool_enable: bool = setting("transientStorePoolEnable")
    commit_interval_commit_log: int = setting("commitIntervalCommitLog", least=1)
    commit_commit_log_least_pages: int = setting("commitCommitLogLeastPages", least=0)
    commit_commit_log_thorough_interval: int = setting("commitCommitLogThoroughInterval", least=0)
    flush_consume_queue_thorough_interval: int = setting(
        "flushConsumeQueueThoroughInterval", least=0
    )
    flush_interval_consume_queue: int = setting("flushIntervalConsumeQueue", least=1)
    flush_consume_queue_least_pages: int = setting("flushConsumeQueueLeastPages", least=0)
    transient_store_pool_size: int = setting("transientStorePoolSize", least=1)
    fast_fail_if_no_buffer_in_store_pool: bool = setting("fastFailIfNoBufferInStorePool")
    os_page_cache_busy_timeout_mills: int = setting("osPageCacheBusyTimeOutMills", least=1)
    disk_space_warning_level_ratio: int = setting("diskSpaceWarningLevelRatio", least=1)
    clean_resource_interval: int = setting("cleanResourceInterval", least=1)
    warm_mapped_file_enable: bool = setting("warmMapedFileEnable")
    timer_wheel_enable: bool = setting("timerWheelEnable")
    timer_precision_ms: int = setting("timerPrecisionMs", least=1)
    timer_max_delay_sec: int = setting("timerMaxDelaySec", least=0)
    mapped_file_size_timer_log: int = setting("mappedFileSizeTimerLog", least=128)
    transaction_check_max: int = setting("transactionCheckMax", least=1)
    transaction_op_msg_max_size: int = setting("transactionOpMsgMaxSize", least=1)
    broker_ip1: str = setting("brokerIP1", "127.0.0.1")
    listen_port: int = setting("listenPort", 10911, 1)

    @property
    def store_host(self) -> str:
        """The broker's own address, the storeHost of its records (BrokerController.getStoreHost).

        Raises SettingError if brokerIP1 is a host name: reput does not look names up.
        """
        try:
            address = ip_address(self.broker_ip1)
        except ValueError:
            raise SettingError(f"brokerIP1={self.broker_ip1}: expected an IP address") from None
        if self.listen_port > _PORT_MAX:
            raise SettingError(f"listenPort={self.listen_port}: out of range 1..{_PORT_MAX}")
        name = f"[{address}]" if address.version == 6 else str(address)
        return f"{name}:{self.listen_port}"

    def __post_init__(self, given: frozenset[str] | None) -> None:
        if given is None:
            mine = (f for f in fields(self) if getattr(self, f.name) != f.default)
            given = frozenset(f.metadata["name"] for f in mine)
        object.__setattr__(self, "_given", given)

    @property
    def given_names(self) -> frozenset[str]:
        names: frozenset[str] = self.__dict__["_given"]
        return names

    @property
    def sync_flush(self) -> bool:
        return self.flush_disk_type == SYNC_FLUSH


def writer_settings_from(*layers: Mapping[str, str], release: str | None = None) -> WriterSettings:
    """The settings of a writer, from layers of names and texts. Raises SettingError."""
    settings = parse_settings(WriterSettings, *layers, release=release)
    given = frozenset(BY_NAME[name].name for layer in layers for name in layer)
    return replace(settings, given=given)


def refuse_other_folders(settings: Settings, store: str) -> None:
    """Raise SettingError if by the settings the log is not in STORE/commitlog.

    The writer would begin a second log in STORE/commitlog, which the broker would never read.
    """
    own = os.path.realpath(os.path.join(store, COMMIT_LOG))
    for name, folder in (
        ("storePathCommitLog", settings.store_path_commit_log),
        ("readOnlyCommitLogStorePaths", settings.read_only_commit_log_store_paths),
    ):
        if folder and os.path.realpath(folder) != own:
            raise SettingError(
                f"{name}={folder}: append writes to {os.path.join(store, COMMIT_LOG)} alone; "
                f"give the store whose log this is"
            )


# ---
# The broker's settings that decide what it deletes; `expire` obeys them.

_HOURS = 24
# Bounds within which a broker keeps each ratio, whatever its file says.
_USED_MOST = 10, 95  # MessageStoreConfig.getDiskMaxUsedSpaceRatio, in all releases
_FORCIBLY = 30, 85  # CleanCommitLogService.getDiskSpaceCleanForciblyRatio, as the next from 5.0.0
_WARNING = 35, 90  # getDiskSpaceWarningLevelRatio; before 5.0.0 no file could set these two


@dataclass(frozen=True)
class ExpirySettings(Settings):
    """Defaults are RocketMQ's; file_reserved_time in hours, ratios in percent of the disk."""

    file_reserved_time: int = setting("fileReservedTime", least=0)
    delete_when: str = setting("deleteWhen")
    delete_file_batch_max: int = setting("deleteFileBatchMax", least=1)
    clean_file_forcibly_enable: bool = setting("cleanFileForciblyEnable")
    disk_max_used_space_ratio: int = setting("diskMaxUsedSpaceRatio")
    disk_space_clean_forcibly_ratio: int = setting("diskSpaceCleanForciblyRatio")
    disk_space_warning_level_ratio: int = setting("diskSpaceWarningLevelRatio")

    @property
    def hours(self) -> tuple[int, ...]:
        """The hours of the day for deleting files (UtilAll.isItTimeToDo). Raises SettingError."""
        parts = self.delete_when.rstrip(";").split(";")  # as String.split drops empty ones
        try:
            found = tuple(parse_number(part) for part in parts if parts != [""])
        except ValueError:
            found = (_HOURS,)
        if any(not 0 <= hour < _HOURS for hour in found):
            raise SettingError(f"deleteWhen={self.delete_when}: hours as 04 or 04;05 are wanted")
        return found

    @property
    def used_most(self) -> int:
        """Used percent of the disk above which expired files are deleted at any hour."""
        return _within(self.disk_max_used_space_ratio, _USED_MOST)

    @property
    def forced(self) -> tuple[int, str]:
        """Used percent above which files of any age are deleted; the name of its setting.

        A broker does so too above the ratio from which it takes no message (isSpaceToDelete).
        """
        forcibly = _within(self.disk_space_clean_forcibly_ratio, _FORCIBLY)
        warning = _within(self.disk_space_warning_level_ratio, _WARNING)
        return min(
            (forcibly, "diskSpaceCleanForciblyRatio"), (warning, "diskSpaceWarningLevelRatio")
        )


def _within(ratio: int, bounds: tuple[int, int]) -> int:
    least, most = bounds
    return min(max(ratio, least), most)


# ---
# Warnings about settings that a command does not obey as RocketMQ would, by `setting_table`.

Doing = Literal["derive", "append"]


def setting_warnings(given: Mapping[str, str], release: str, doing: Doing) -> list[str]:
    """A line for each given setting that RocketMQ would obey and this command does not.

    given: name -> text, for known names.
    doing: "derive" for every command that derives files from a log, "append" for the writer. A
    setting with its default value changes nothing and gets no line. Raises SettingError for a
    malformed value, and for a setting that the command refuses.
    """
    return [line for name, text in given.items() if (line := _said(name, text, release, doing))]


def _said(name: str, text: str, release: str, doing: Doing) -> str:
    known = BY_NAME[name]
    status = known.derive if doing == "derive" else known.append
    if status is Status.OBEYED:
        return _obeyed(known, name, text, release)
    there = any(spelling.known_to(release) for spelling in known.in_any)
    if status is Status.WARNED and there and known.differs(text, name):
        return f"{name}={text}: not done: {known.reason}"
    # `refuse_unsupported` refuses others; a command refuses folders as it compares them
    return _role(known, name, text) if status is Status.REFUSED else ""


def _obeyed(known: KnownSetting, name: str, text: str, release: str) -> str:
    if ignored_by(name, release):
        if not known.differs(text, name):
            return ""
        return (
            f"{name}={text}: RocketMQ {release} has no such setting (since {known.since}) and "
            f"takes no notice of it: nor is it done here"
        )
    spelling = next(each for each in known.in_any if each.name == name)
    newer = name != known.name and not spelling.known_to(release)
    if newer and release_key(release) >= release_key(known.since):
        return (
            f"{name}={text}: RocketMQ {release} calls it {known.name} and takes no notice of "
            f"{name}; here it counts as {known.name}"
        )
    return ""


def _role(known: KnownSetting, name: str, text: str) -> str:
    """HookUtils.checkBeforePutMessage: a slave answers SERVICE_NOT_AVAILABLE to every put."""
    role = known.value(text, name) if known.name == "brokerRole" else ""
    if role == "SLAVE":
        raise SettingError(
            f"{name}=SLAVE: a slave's log is a copy of its master's, and takes no messages: append "
            f"to the master's store"
        )
    done = "nothing is replicated: PUT_OK speaks of this disk alone"
    return f"{name}=SYNC_MASTER: not done: {done}" if role == "SYNC_MASTER" else ""
