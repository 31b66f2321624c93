"""Whether a release reads records as the release that wrote them does."""

from collections.abc import Iterable
from typing import NamedTuple

from reput.store_format.convert.changes import TRANSACTIONS
from reput.store_format.layouts import (
    IPV4_HOST,
    SYS_BORN_HOST_V6,
    SYS_INNER_BATCH,
    SYS_STORE_HOST_V6,
)
from reput.store_format.message.message import TIMER_TOPIC
from reput.store_format.release.profiles import Profile


class Seen(NamedTuple):
    """What the records of a topic have after the conversion. long: some are V2."""

    topic: str
    sys_flags: int
    long: bool
    batch_queue: bool


def misfits(seen: Iterable[Seen], store_host: bytes, to: Profile) -> list[str]:
    """One line for each topic with something that the release `to` does not know."""
    lines = []
    for each in seen:
        why = _why_not(each, store_host, to)
        if why:
            lines.append(f"topic {each.topic[:127]!r}: {why}")
    return lines


def _why_not(seen: Seen, store_host: bytes, to: Profile) -> str:
    hosts = SYS_BORN_HOST_V6
    if not store_host:
        hosts |= SYS_STORE_HOST_V6
    if seen.long and not to.long_topics:
        return "its name is over 127 bytes (magic DAA320AB), which is read from 5.1.0 on"
    if seen.sys_flags & hosts and not to.ipv6_hosts:
        return "has hosts of IPv6 (sysFlag 0x10, 0x20), which are read from 4.6.0 on"
    if len(store_host) > IPV4_HOST and not to.ipv6_hosts:
        return "would get a storeHost of IPv6, which is read from 4.6.0 on"
    if (seen.batch_queue or seen.sys_flags & SYS_INNER_BATCH) and not to.batch_queues:
        return "has batches in one record, for a batch queue, which there is from 5.0.0 on"
    if seen.topic == TIMER_TOPIC and not to.timer_messages:
        return "messages wait for the timer, which there is from 5.0.0 on"
    if seen.topic in TRANSACTIONS and not to.half_topic:
        return "half messages have a topic of their own from 4.3.0 on"
    return ""
