"""The broker's settings that decide what derived files look like, by RocketMQ's own names.

A value comes from RocketMQ's default, then the broker's properties file, then single overrides.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, TypeVar

from store_format.setting_names import KNOWN

_INT_MAX = 0x7FFFFFFF
# a name up to the first =, : or blank that is not escaped, and a value
_PROPERTY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_DELAY_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class SettingError(ValueError):
    """A setting is unknown, malformed, or asks for what reput does not derive."""


def _wrapped(value: int) -> int:
    """The value in Java's 64 bits."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def setting(name: str, default: Any, least: int | None = None) -> Any:
    """A dataclass field under RocketMQ's name; `least`: the smallest number allowed."""
    return field(default=default, metadata={"name": name, "least": least})


@dataclass(frozen=True)
class Settings:
    """Defaults are RocketMQ's; sizes in bytes. `metadata["name"]` is RocketMQ's name."""

    store_path_commit_log: str = setting("storePathCommitLog", "")
    read_only_commit_log_store_paths: str = setting("readOnlyCommitLogStorePaths", "")
    mapped_file_size_commit_log: int = setting("mappedFileSizeCommitLog", 1 << 30, 128)
    mapped_file_size_consume_queue: int = setting("mappedFileSizeConsumeQueue", 6_000_000, 1)
    mapper_file_size_batch_consume_queue: int = setting(
        "mapperFileSizeBatchConsumeQueue", 13_800_000, 1
    )
    message_index_enable: bool = setting("messageIndexEnable", True)
    max_hash_slot_num: int = setting("maxHashSlotNum", 5_000_000, 1)
    max_index_num: int = setting("maxIndexNum", 20_000_000, 2)
    message_delay_level: str = setting(
        "messageDelayLevel", "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    )
    enable_multi_dispatch: bool = setting("enableMultiDispatch", False)
    enable_lmq: bool = setting("enableLmq", False)
    check_crc_on_recover: bool = setting("checkCRCOnRecover", True)
    force_verify_prop_crc: bool = setting("forceVerifyPropCRC", False)
    max_message_size: int = setting("maxMessageSize", 4 << 20, 1)
    enabled_append_prop_crc: bool = setting("enabledAppendPropCRC", False)
    flush_disk_type: str = setting("flushDiskType", "ASYNC_FLUSH")
    enable_compaction: bool = setting("enableCompaction", True)
    # what is not built, and refused by `refuse_unsupported`
    enable_rocksdb_store: bool = setting("enableRocksDBStore", False)
    store_type: str = setting("storeType", "default")
    index_rocksdb_enable: bool = setting("indexRocksDBEnable", False)
    enable_dledger_commit_log: bool = setting("enableDLegerCommitLog", False)
    enable_consume_queue_ext: bool = setting("enableConsumeQueueExt", False)

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
            levels.append(_wrapped(int(level[:-1]) * unit))
        return tuple(levels)

    def by_name(self) -> dict[str, Any]:
        """All values under RocketMQ's names."""
        return {f.metadata["name"]: getattr(self, f.name) for f in fields(self)}


_Kind = TypeVar("_Kind", bound=Settings)
_FIELDS = {f.metadata["name"]: f for f in fields(Settings)}
_UNSUPPORTED = {
    "enableRocksDBStore": "queues in RocksDB",
    "indexRocksDBEnable": "an index in RocksDB",
    "enableDLegerCommitLog": "DLedger logs, whose records have another frame",
    "enableConsumeQueueExt": "ConsumeQueueExt, which needs live consumer filters",
}


def settings_from(*layers: Mapping[str, str]) -> Settings:
    """Settings from layers of name -> text, later ones over earlier ones.

    Raises SettingError for an unknown name (with the nearest known) or a malformed value.
    Names that RocketMQ knows but that do not change derived files are accepted.
    """
    return parse_settings(Settings, *layers)


def parse_settings(kind: type[_Kind], *layers: Mapping[str, str]) -> _Kind:
    """As `settings_from`, for Settings or what extends it.

    Raises SettingError for an unknown name (with the nearest known) or a malformed value.
    Names that RocketMQ knows but that do not change derived files are accepted.
    """
    known = {f.metadata["name"]: f for f in fields(kind)}
    values: dict[str, Any] = {}
    for layer in layers:
        for name, text in layer.items():
            if name in known:
                values[known[name].name] = _parse(known[name], str(text))
            elif name not in KNOWN:
                near = difflib.get_close_matches(name, KNOWN | set(known), 1, 0.5)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise SettingError(f"{name!r} is not a setting of RocketMQ{hint}")
    settings = kind(**values)
    _ = settings.delays  # checked here, where the name is still at hand
    return settings


def _parse(of: Field[Any], text: str) -> Any:
    name, kind, least = of.metadata["name"], of.default, of.metadata["least"]
    text = text.strip()
    if isinstance(kind, bool):
        if text.lower() not in ("true", "false"):
            raise SettingError(f"{name}={text!r}: true or false is wanted")
        return text.lower() == "true"
    if isinstance(kind, int):
        try:
            value = int(text)
        except ValueError:
            raise SettingError(f"{name}={text!r}: a whole number is wanted") from None
        if not (least or 0) <= value <= _INT_MAX:
            raise SettingError(f"{name}={value}: out of range {least or 0}..{_INT_MAX}")
        return value
    return text


def refuse_unsupported(settings: Settings) -> None:
    """Raise SettingError where the store is of a kind that reput does not derive."""
    for name, what in _UNSUPPORTED.items():
        if getattr(settings, _FIELDS[name].name):
            raise SettingError(f"{name}=true: reput does not build {what}")
    if settings.store_type != "default":
        raise SettingError(
            f"storeType={settings.store_type}: reput builds file queues only (storeType=default)"
        )


def parse_properties(text: str) -> dict[str, str]:
    """A broker's properties file (java.util.Properties), with blanks after a value dropped."""
    values: dict[str, str] = {}
    for line in _logical_lines(text):
        found = _PROPERTY.fullmatch(line)
        assert found is not None
        values[_unescape(found[1])] = _unescape(found[2].rstrip(" \t\f"))
    return values


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments, joined where one ends in an odd number of backslashes."""
    joined = ""
    for raw in re.split(r"\r\n|\n|\r", text):
        line = raw.lstrip(" \t\f")
        if not joined and (not line or line[0] in "#!"):
            continue
        line = joined + line
        joined = ""
        if (len(line) - len(line.rstrip("\\"))) % 2:
            joined = line[:-1]
        else:
            yield line
    if joined:
        yield joined


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)


def parse_assignments(pairs: Iterable[str]) -> dict[str, str]:
    """`NAME=VALUE` words, as --set takes them. Raises SettingError."""
    values = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise SettingError(f"{pair!r} is not NAME=VALUE")
        values[name.strip()] = value.strip()
    return values
