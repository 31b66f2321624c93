"""Opens a store to be served."""

import os
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from reput.broker.serving.broker import Broker
from reput.broker.serving.groups import GroupOffsets, SubscriptionGroups
from reput.broker.serving.records import PullLimits
from reput.broker.serving.store import ServedStore, booted_topics, end_at
from reput.broker.wire.codes import ordinal
from reput.store_format.discover.config import consumer_offsets, subscription_groups
from reput.store_format.files.adapters import BlockCache, GrowingFiles
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import InputStorage, listed
from reput.store_format.log.reader import NoRecord, NotInLog
from reput.store_format.names import ABORT
from reput.store_format.notes import Notes
from reput.store_format.query.reader import NEWEST, OpenedStore

_NAME, _CLUSTER = "reput", "DefaultCluster"
_MEMORY_SHARE = 40  # accessMessageInMemoryMaxRatio, percent
# The settings (MessageStoreConfig) of PullLimits' fields in order; the last field has none.
_LIMITS = (
    "maxTransferBytesOnMessageInMemory", "maxTransferCountOnMessageInMemory",
    "maxTransferBytesOnMessageInDisk", "maxTransferCountOnMessageInDisk", "maxFilterMessageSize",
)  # fmt: skip


class ServedSource(NamedTuple):
    """The store to be served, and how."""

    path: str  # or URL
    rocketmq: str | None = None
    settings: Mapping[str, str] = {}
    derived: str | None = None  # a rebuilt set instead of the store's own queues and index
    at: int | None = None  # milliseconds since 1970: serve the store as it was then
    address: str | None = None  # the broker's address for clients
    follow: bool = False  # whether the store may grow


def open_broker(source: ServedSource, tell: Callable[[str], None]) -> Broker:
    """A broker on a store. Raises StoreError, SettingError, UnknownRelease, OSError."""
    notes = Notes(tell)
    storage = storage_for(source.path)
    read, path, derived = _read_by(storage, source.follow), storage.resolve(source.path), None
    if source.derived is not None:
        there = storage_for(source.derived)
        derived = _read_by(there, False), there.resolve(source.derived)

    def again() -> OpenedStore:
        release = source.rocketmq or NEWEST
        return OpenedStore(read, path, release, source.settings, notes, derived=derived)

    limit = None
    if source.at is not None:
        with again() as opened:
            limit = end_at(opened.log, source.at, notes)
    store = ServedStore(again, notes, source.at, limit, far=not is_local(storage))
    opened = store.opened
    if derived is None and source.at is None and not source.follow:
        _note_more(store, notes)
    name = source.settings.get("brokerName", _NAME)
    cluster = source.settings.get("brokerClusterName", _CLUSTER)
    for each in booted_topics(opened.profile.release, name, cluster):
        store.make_topic(each)
    groups = subscription_groups(read, path, notes)
    return Broker(
        store,
        name,
        cluster,
        ordinal(opened.profile.release),
        time.time_ns() // 1_000_000,
        GroupOffsets(consumer_offsets(read, path, notes)),
        SubscriptionGroups(groups, opened.profile),
        source.address,
        limits=_limits(source.settings),
    )


def _note_more(store: ServedStore, notes: Notes) -> None:
    """Add a note if a killed broker left records in the log that no queue has."""
    opened = store.opened
    if not any(name == ABORT for name, _ in listed(opened.storage, opened.path)):
        return
    try:
        first = next(store.log.records(store.served_end()), None)
    except (NoRecord, NotInLog):
        return
    if first is not None:
        notes.note(
            f"{opened.path}: its broker was not stopped cleanly, and no queue has the messages "
            f"from physical offset {first.physical_offset} on: --rebuild serves them too"
        )


def _read_by(storage: InputStorage, follow: bool) -> InputStorage:
    """The storage for reading: cached if it is remote, and with growing files if followed."""
    if not is_local(storage):
        storage = BlockCache(storage)
    return GrowingFiles(storage) if follow else storage


def is_local(storage: InputStorage) -> bool:
    """Whether reads are fast, and files can be sent by sendfile."""
    return isinstance(storage, LocalStorage)


def _limits(settings: Mapping[str, str]) -> PullLimits:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * _MEMORY_SHARE // 100
    limits = PullLimits(memory_bytes=memory)
    given = {
        field: int(settings[name])
        for field, name in zip(PullLimits._fields, _LIMITS, strict=False)
        if name in settings
    }
    return limits._replace(**given)
