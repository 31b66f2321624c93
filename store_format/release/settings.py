"""The broker's settings that decide what derived files look like, under RocketMQ's own names.

A single override (`--set`) wins over the broker's properties file, which wins over the default.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, TypeVar

from reput.store_format.release.setting_table import BY_NAME, Status
from reput.store_format.release.setting_table import (
    SettingError as SettingError,  # other modules import it from here
)

_INT_MAX = 0x7FFFFFFF  # Integer.MAX_VALUE
# A name ends at the first =, : or blank that is not escaped; the rest of the line is its value.
_PROPERTY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_DELAY_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def _wrapped(value: int) -> int:
    """The value in Java's 64 bits."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


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
            levels.append(_wrapped(int(level[:-1]) * unit))
        return tuple(levels)

    def by_name(self) -> dict[str, Any]:
        """All values under RocketMQ's names."""
        return {f.metadata["name"]: getattr(self, f.name) for f in fields(self)}


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
    """As `settings_from`, for Settings or a subclass of it."""
    wanted = {f.metadata["name"]: f for f in fields(kind)}
    values: dict[str, Any] = {}
    for name, text in merge_layers(*layers).items():
        known = BY_NAME[name]
        if known.name not in wanted:
            continue
        value = _parse(wanted[known.name], str(text), name)
        if release is None or not ignored_by(name, release):
            values[wanted[known.name].name] = value
    settings = kind(**values)
    _ = settings.delays  # checked here, so that the error can name the setting
    return settings


def merge_layers(*layers: Mapping[str, str]) -> dict[str, str]:
    """All layers as one mapping; a later layer wins whichever spelling of a name it uses.

    Names keep their spelling. Raises SettingError as `settings_from` does, but not for values.
    """
    merged: dict[str, str] = {}
    for layer in layers:
        for name in layer:
            if name not in BY_NAME:
                raise SettingError(f"{name!r} is not a setting of RocketMQ{_hint(name)}")
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


def _hint(name: str) -> str:
    near = difflib.get_close_matches(name, BY_NAME, 1, 0.5)
    return f"; did you mean {near[0]}?" if near else "; docs/settings.md lists them"


def _parse(of: Field[Any], text: str, name: str) -> Any:
    """The value of a field. Raises SettingError with the name that was given."""
    known, least = BY_NAME[name], of.metadata["least"]
    value = known.value(text, name)
    if known.kind == "int" and not (least or 0) <= int(value) <= _INT_MAX:
        raise SettingError(f"{name}={value}: out of range {least or 0}..{_INT_MAX}")
    return value


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
        values[_unescape(found[1])] = _unescape(found[2])
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
