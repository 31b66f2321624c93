"""`reput append --ha-listen`: slaves copy, a SYNC_MASTER waits for them (CommitLog.handleHA)."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from reput.broker.wire.peers import PUT_OK
from reput.broker.writer.writer import CommitLogWriter
from reput.jobs.replicating.ha_log import WriterLog
from reput.jobs.replicating.ha_master import HaMaster
from reput.store_format.faults import StoreError
from reput.store_format.release.profiles import release_key
from reput.store_format.release.setting_table import BY_NAME
from reput.store_format.release.settings import Settings, parse_settings, setting

SYNC_MASTER = "SYNC_MASTER"
_LOOK_SECONDS = 0.2
_OWN_TIMEOUT = (4, 9, 3)  # has slaveTimeout; older releases use syncFlushTimeout for slaves too


class NotReplicated(StoreError):
    """A message is in the log, but not enough slaves have reported it in time."""


@dataclass(frozen=True)
class MasterSettings(Settings):
    """How a master waits for slaves. Times in milliseconds; the defaults are RocketMQ's."""

    broker_role: str = setting("brokerRole")
    slave_timeout: int = setting("slaveTimeout", least=0)
    sync_flush_timeout: int = setting("syncFlushTimeout", least=1)
    in_sync_replicas: int = setting("inSyncReplicas", least=0)
    ha_max_gap_not_in_sync: int = setting("haMaxGapNotInSync", least=0)


@contextmanager
def slaves_of(
    writer: CommitLogWriter, store: str, listen: tuple[str, int], given: Mapping[str, str],
    said: Callable[[str], None], check: Callable[[], None],
) -> Iterator[Callable[[], None]]:  # fmt: skip
    """Serve slaves; yields a function that waits until enough slaves have all appended messages.

    A SYNC_MASTER first waits, however long, until enough slaves have the present log; else its
    first message would get no PUT_OK. said: gets a line for each slave that connects or leaves.
    check: called during that wait, may raise. The yielded function raises NotReplicated.
    Raises SettingError, OSError.
    """
    release = writer.profile.release
    settings = parse_settings(MasterSettings, given, release=release)
    with HaMaster(WriterLog(writer, store), listen, said=said) as master:
        said(f"slaves get the log at {master.address[0]}:{master.address[1]}")
        if settings.broker_role != SYNC_MASTER:
            yield lambda: None
            return
        own = release_key(release) >= _OWN_TIMEOUT
        timeout = settings.slave_timeout if own else settings.sync_flush_timeout
        replicated = master.as_sync_master(
            release, timeout=timeout / 1000, replicas=settings.in_sync_replicas,
            gap=settings.ha_max_gap_not_in_sync,
        )  # fmt: skip
        if release_key(release) >= (5, 0, 0) and settings.in_sync_replicas <= 1:
            said("inSyncReplicas=1 counts the master itself: RocketMQ 5 waits for no slave then")

        def wait() -> None:
            end = writer.log.end
            status = replicated(end)
            if status != PUT_OK:
                raise NotReplicated(
                    f"{store}: {status}: the log's end {end} is in this store, and not on enough "
                    f"slaves (inSyncReplicas={settings.in_sync_replicas}, {timeout} ms)"
                )

        while replicated(writer.log.end) != PUT_OK:
            check()
            time.sleep(_LOOK_SECONDS)
        yield wait


def for_the_writer(given: Mapping[str, str]) -> dict[str, str]:
    """The settings without those that `slaves_of` uses and of which the writer would warn."""
    return {
        name: text
        for name, text in given.items()
        if BY_NAME[name].name != "inSyncReplicas"
        and (BY_NAME[name].name, text.strip()) != ("brokerRole", SYNC_MASTER)
    }
