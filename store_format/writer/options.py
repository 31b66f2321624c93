"""The broker's settings that decide how a log is written and flushed, by RocketMQ's own names."""

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, fields, replace
from typing import Any

from store_format.file_layer import Files
from store_format.settings import SettingError, Settings, parse_settings, setting
from store_format.told_sizes import SIZES, sizes_of_store

SYNC_FLUSH = "SYNC_FLUSH"
ASYNC_FLUSH = "ASYNC_FLUSH"
OS_PAGE_BYTES = 4096  # MappedFile.OS_PAGE_SIZE, whatever the machine's pages are


@dataclass(frozen=True)
class WriterSettings(Settings):
    """Defaults are RocketMQ's; times in milliseconds, sizes in bytes.

    given_names: RocketMQ's names of what the user has set; where that is not known, of all that
    differs from the defaults. The others may be told from a store's files.
    """

    given: InitVar[frozenset[str] | None] = None

    max_topic_length: int = setting("maxTopicLength", 127, 1)
    auto_message_version_on_topic_len: bool = setting("autoMessageVersionOnTopicLen", True)
    sync_flush_timeout: int = setting("syncFlushTimeout", 5_000, 1)
    flush_interval_commit_log: int = setting("flushIntervalCommitLog", 500, 1)
    flush_commit_log_least_pages: int = setting("flushCommitLogLeastPages", 4, 0)
    flush_commit_log_thorough_interval: int = setting("flushCommitLogThoroughInterval", 10_000, 0)
    transient_store_pool_enable: bool = setting("transientStorePoolEnable", False)
    commit_interval_commit_log: int = setting("commitIntervalCommitLog", 200, 1)
    commit_commit_log_least_pages: int = setting("commitCommitLogLeastPages", 4, 0)
    commit_commit_log_thorough_interval: int = setting("commitCommitLogThoroughInterval", 200, 0)
    flush_consume_queue_thorough_interval: int = setting(
        "flushConsumeQueueThoroughInterval", 60_000, 0
    )
    warm_mapped_file_enable: bool = setting("warmMapedFileEnable", False)

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
        """Raises SettingError for a flushDiskType that is neither."""
        if self.flush_disk_type not in (SYNC_FLUSH, ASYNC_FLUSH):
            raise SettingError(f"flushDiskType={self.flush_disk_type}: SYNC_FLUSH or ASYNC_FLUSH")
        return self.flush_disk_type == SYNC_FLUSH


def writer_settings_from(*layers: Mapping[str, str]) -> WriterSettings:
    """As `settings_from`, with the writer's settings too. Raises SettingError."""
    settings = parse_settings(WriterSettings, *layers)
    _ = settings.sync_flush  # checked here, where the name is still at hand
    return replace(settings, given=frozenset(name for layer in layers for name in layer))


def as_the_store_tells(
    settings: WriterSettings, files: Files
) -> tuple[WriterSettings, dict[str, int]]:
    """The settings with the sizes that the store's files have; and by name those that are neither
    given nor RocketMQ's defaults.

    A default never wins over a file. Raises SizeDisagrees where a given one does not agree.
    """
    default = WriterSettings().by_name()
    mine = settings.by_name()
    given = {name: mine[name] for name in SIZES if name in settings.given_names}
    told = sizes_of_store(files, given, {name: default[name] for name in SIZES})
    told = {name: told[name] for name in told if name not in given and told[name] != default[name]}
    field_of = {f.metadata["name"]: f.name for f in fields(settings)}
    changed: dict[str, Any] = {field_of[name]: size for name, size in told.items()}
    return replace(settings, given=settings.given_names, **changed), told
