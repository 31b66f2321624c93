"""Opens a store to be served."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from reput.store_format.query.config import config_table, consumer_offsets
from reput.store_format.query.opened import NEWEST, OpenedStore
from reput.store_format.query.told import Told
from reput.store_format.remoting.versions import ordinal
from reput.store_format.serving.broker import Broker
from reput.store_format.serving.group_offsets import GroupOffsets
from reput.store_format.serving.pull_limits import PullLimits
from reput.store_format.serving.store import ServedStore
from reput.store_format.serving.subscription_groups import SubscriptionGroups
from reput.store_format.storage import storage_for

_NAME, _CLUSTER = "reput", "DefaultCluster"
_MEMORY_SHARE = 40  # accessMessageInMemoryMaxRatio


def open_broker(
    path: str, rocketmq: str | None, settings: Mapping[str, str], address: str | None,
    tell: Callable[[str], None],
) -> Broker:  # fmt: skip
    """A broker on the store at a path or URL. Raises StoreError, SettingError, OSError."""
    storage = storage_for(path)
    told = Told(tell)
    opened = OpenedStore(storage, storage.resolve(path), rocketmq or NEWEST, settings, told)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * _MEMORY_SHARE // 100
    store = opened.path
    groups = config_table(
        opened.storage, store, "subscriptionGroup.json", "subscriptionGroupTable", told
    )
    return Broker(
        ServedStore(opened, told),
        settings.get("brokerName", _NAME),
        settings.get("brokerClusterName", _CLUSTER),
        ordinal(opened.profile.release),
        time.time_ns() // 1_000_000,
        GroupOffsets(consumer_offsets(opened.storage, store, told)),
        SubscriptionGroups(groups, opened.profile),
        address,
        replace(PullLimits(), memory_bytes=memory),
    )
