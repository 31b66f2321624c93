"""Opens a writer on a store as a broker opens it: with settings, topics and the machine's clock."""

import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.discover.config import batch_topics
from reput.store_format.discover.sizes import SIZES
from reput.store_format.discover.store import Discovered, StoreAt, discover
from reput.store_format.faults import StoreError
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.local import LocalStorage
from reput.store_format.notes import Notes
from reput.store_format.release.profiles import profile
from reput.store_format.release.setting_table import BY_NAME
from reput.store_format.release.settings import setting_warnings, writer_settings_from


def local_store(path: str) -> str:
    """The path of a store to append to. Raises StoreError if the store is not local."""
    storage = storage_for(path)
    if not isinstance(storage, LocalStorage):
        raise StoreError(f"{path}: only a local store can be written to")
    return storage.resolve(path)


def local_store_at(
    path: str, rocketmq: str | None = None, settings: Mapping[str, str] | None = None
) -> StoreAt:
    """A store to append to. Raises StoreError if the store is not local."""
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

    rocketmq: None to take the release from the store's files. settings: by RocketMQ's names, as
    text; other settings come from the store's files, or a broker's configuration beside them.
    dispatches: also write ConsumeQueue and Index. prepare_ahead: make each segment while the
    previous one is filled. warnings: gets what a broker would do but the writer does not.
    discovered: gets the clues to the release. A store that was not closed is recovered first.
    Raises SettingError, UnknownRelease, StoreError (StoreInUse if a broker has it), OSError.
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
    """The release and settings of a store to be written to.

    Raises UnknownRelease if the store does not show its release, SettingError if it shows another.
    """
    discovered = discover(at, writes=True)
    discovered.refuse_contradicted()
    return discovered


def _batch_topics(store: str, warnings: list[str]) -> Iterable[str]:
    notes = Notes()
    topics = batch_topics(LocalStorage(), store, notes)
    warnings += notes.lines
    return topics
