"""A writer on a store, opened as a broker opens it: settings, topics, the machine's clock."""

import time
from collections.abc import Iterable, Mapping

from reput.jobs.engine.plan import topic_attributes
from reput.store_format.faults import StoreError
from reput.store_format.release.profiles import profile
from reput.store_format.release.setting_warnings import setting_warnings
from reput.store_format.release.writer_settings import writer_settings_from
from reput.store_format.storage import storage_for
from reput.store_format.storage.local import LocalStorage
from reput.store_format.writer.writer import CommitLogWriter


def local_store(path: str) -> str:
    """The path of a store that can be appended to. Raises StoreError where it is not local."""
    storage = storage_for(path)
    if not isinstance(storage, LocalStorage):
        raise StoreError(f"{path}: append writes to a local store")
    return storage.resolve(path)


def open_writer(
    store: str,
    *,
    rocketmq: str,
    settings: Mapping[str, str] | None = None,
    dispatches: bool = True,
    warnings: list[str] | None = None,
) -> CommitLogWriter:
    """Open a local store for appending; `with` closes it as a clean stop does.

    settings: by RocketMQ's names, as text; what they do not say is told by the store's files.
    dispatches: also write ConsumeQueue and Index; warnings: gets what a broker would do and the
    writer does not. Recovers the store first where it was not closed. Raises SettingError,
    UnknownRelease, StoreError (StoreInUse where a broker has it), OSError.
    """
    told = [] if warnings is None else warnings
    rules, given = profile(rocketmq), dict(settings or {})
    parsed = writer_settings_from(given, release=rules.release)
    told += setting_warnings(given, rules.release, "append")
    path = local_store(store)
    return CommitLogWriter.open(
        path,
        parsed,
        clock=lambda: time.time_ns() // 1_000_000,
        release=rules.release,
        host=parsed.store_host,
        batch_topics=_batch_topics(path, told),
        dispatches=dispatches,
    )


def _batch_topics(store: str, warnings: list[str]) -> Iterable[str]:
    topics = topic_attributes(LocalStorage(), store, warnings)
    return [name for name, about in topics.items() if about.get("queue.type") == "BatchCQ"]
