"""A store as a user names it, before anything of it is read."""

from collections.abc import Mapping
from typing import NamedTuple

from reput.store_format.files.by_url import storage_for
from reput.store_format.files.protocol import Storage


class StoreAt(NamedTuple):
    """Where a store is, and what the user gives for it."""

    storage: Storage
    path: str  # as `storage` resolves it
    rocketmq: str | None = None  # the release; None where the store's files are to show it
    settings: Mapping[str, str] = {}  # by any of RocketMQ's spellings


def store_at(
    path: str, rocketmq: str | None = None, settings: Mapping[str, str] | None = None,
    storage: Storage | None = None,
) -> StoreAt:  # fmt: skip
    """The store at a path or URL. storage: None for the file system that the URL names."""
    storage = storage or storage_for(path)
    return StoreAt(storage, storage.resolve(path), rocketmq, settings or {})
