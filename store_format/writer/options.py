"""The broker's settings that decide how a log is written and flushed, by RocketMQ's own names."""

from collections.abc import Mapping
from dataclasses import dataclass

from store_format.settings import SettingError, Settings, parse_settings, setting

SYNC_FLUSH = "SYNC_FLUSH"
ASYNC_FLUSH = "ASYNC_FLUSH"
OS_PAGE_BYTES = 4096  # MappedFile.OS_PAGE_SIZE, whatever the machine's pages are


@dataclass(frozen=True)
class WriterSettings(Settings):
    """Defaults are RocketMQ's; times in milliseconds, sizes in bytes."""

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
    return settings
