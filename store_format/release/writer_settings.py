"""The broker's settings for writing and flushing a log, which the writer obeys."""

import os
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, fields, replace
from ipaddress import ip_address

from reput.store_format.names import COMMIT_LOG
from reput.store_format.release.setting_table import BY_NAME
from reput.store_format.release.settings import SettingError, Settings, parse_settings, setting

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
            raise SettingError(f"brokerIP1={self.broker_ip1}: an IP address is wanted") from None
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
    """As `settings_from`, with the writer's settings too. Raises SettingError."""
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
