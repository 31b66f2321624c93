"""A writer on a store, opened as a broker opens it: settings, topics, the machine's clock."""

import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.discover.config_folder import batch_topics
from reput.store_format.discover.file_sizes import SIZES
from reput.store_format.discover.store import Discovered, discover
from reput.store_format.discover.store_at import StoreAt
from reput.store_format.faults import StoreError
from reput.store_format.notes import Notes
from reput.store_format.release.profiles import profile
from reput.store_format.release.setting_table import BY_NAME
from reput.store_format.release.setting_warnings import setting_warnings
from reput.store_format.release.writer_settings import writer_settings_from
from reput.store_format.storage import storage_for
from reput.store_format.storage.local import LocalStorage


def local_store(path: str) -> str:
    """The path of a store that can be appended to. Raises StoreError where it is not local."""
    storage = storage_for(path)
    if not isinstance(storage, LocalStorage):
        raise StoreError(f"{path}: only a local store can be written to")
    return storage.resolve(path)


def local_store_at(
    path: str, rocketmq: str | None = None, settings: Mapping[str, str] | None = None
) -> StoreAt:
    """A store that can be appended to. Raises StoreError where it is not local."""
    return StoreAt(LocalStorage(), local_store(path), rocketmq, settings or {})


def open_writer(
    store: str,
    *,
    rocketmq: str | None = None,
    settings: Mapping[str, str] | None = None,
    dispatches: bool = True,
    prepare_ahead: bool = False,
    warnings: list[str] | None = None,
    discovered: dict[str, dict[str, Any]] | None = None,
) -> CommitLogWriter:
    """Open a local store for appending; `with` closes it as a clean stop does.

    rocketmq: None where the store's files are to show it. settings: by RocketMQ's names, as text;
    what they do not say the store's files show, or a broker's configuration with them.
    dispatches: also write ConsumeQueue and Index; prepare_ahead: make each segment while the one
    before it is filled; warnings: gets what a broker would do and the writer does not; discovered:
    gets what the store shows of its release. Recovers the store first where it was not closed.
    Raises SettingError, UnknownRelease, StoreError (StoreInUse where a broker has it), OSError.
    """
    said = [] if warnings is None else warnings
    at = local_store_at(store, rocketmq, settings)
    path, of_store = at.path, discover_to_write(at)
    if discovered is not None:
        discovered |= of_store.of_release()
    rules = profile(of_store.release)
    given = dict(settings or {})
    if of_store.conf is not None and os.path.isdir(path):
        said += of_store.conf.warnings
        named = of_store.conf.settings.items()  # the files show sizes
        given = {n: text for n, text in named if BY_NAME[n].name not in SIZES} | given
    parsed = writer_settings_from(given, release=rules.release)
    said += setting_warnings(given, rules.release, "append")
    return CommitLogWriter.open(
        path,
        parsed,
        clock=lambda: time.time_ns() // 1_000_000,
        release=rules.release,
        host=parsed.store_host,
        batch_topics=_batch_topics(path, said),
        dispatches=dispatches,
        prepare_ahead=prepare_ahead,
    )


def discover_to_write(at: StoreAt) -> Discovered:
    """What a store shows that is to be written to, its release before all.

    Raises UnknownRelease where it does not show that, SettingError where it shows another.
    """
    discovered = discover(at, writes=True)
    discovered.refuse_contradicted()
    return discovered


def _batch_topics(store: str, warnings: list[str]) -> Iterable[str]:
    notes = Notes()
    topics = batch_topics(LocalStorage(), store, notes)
    warnings += notes.lines
    return topics
