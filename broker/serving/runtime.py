"""The broker's state (AdminBrokerProcessor): runtime figures, settings, replication.

Only real figures are reported: the queues of requests are empty here, and nothing is ever put. The
latencies of puts and the pages locked in memory are left out, since they cannot be measured.
"""

import os

from reput.broker.serving.answer import Answer, Caller, found, refused
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.fields import text
from reput.broker.wire.codes import RequestCode, ResponseCode, fastjson
from reput.broker.wire.remoting import Command
from reput.store_format.release.profiles import release_key

_POOLS = ("send", "pull", "litePull", "query", "ack")  # a broker's queues of requests; ack since 5
_SINCE_5 = ("brokerActive", "timer")  # prefixes of the figures that 4.x does not have


def figures(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The figures that brokerStatus and clusterList show (KVTable)."""
    return found(fastjson({"table": _figures(broker, caller.now)}))


def _figures(broker: Broker, now: int) -> dict[str, str]:
    store, log = broker.store, broker.store.log
    facts: dict[str, object] = {
        "bootTimestamp": broker.started,
        "brokerActive": "true",
        "brokerVersion": broker.version,
        "brokerVersionDesc": "V" + store.opened.profile.release.replace(".", "_"),
        "commitLogMaxOffset": store.served_end(),
        "commitLogMinOffset": log.start,
        "dispatchBehindBytes": 0,
        "earliestMessageTimeStamp": store.earliest_time(),
        "msgGetTotalTodayMorning": 0,
        "msgGetTotalTodayNow": broker.given.total,
        "msgGetTotalYesterdayMorning": 0,
        "msgPutTotalTodayMorning": 0,
        "msgPutTotalTodayNow": 0,
        "msgPutTotalYesterdayMorning": 0,
        "putMessageTimesTotal": 0,
        "putTps": "0.0 0.0 0.0",
        "getTransferredTps": " ".join(str(each) for each in broker.given.rates(now)),
        "remainHowManyDataToFlush": "0 B",
        "runtime": _spoken((now - broker.started) // 1000),
        "startAcceptSendRequestTimeStamp": 0,
        "timerCongestNum": 0,
        "timerDequeueTps": 0.0,
        "timerEnqueueTps": 0.0,
        "timerOffsetBehind": 0,
        "timerReadBehind": 0,
        "pageCacheLockTimeMills": 0,
    }
    pools: tuple[str, ...] = _POOLS
    if release_key(store.opened.profile.release) < (5, 0, 0):
        facts["getTransferedTps"] = facts.pop("getTransferredTps")  # spelt so in these releases
        facts = {name: value for name, value in facts.items() if not name.startswith(_SINCE_5)}
        pools = _POOLS[:-1]
    share = _disk_share(store.opened.path)
    facts |= dict.fromkeys(("commitLogDiskRatio", "consumeQueueDiskRatio"), share)
    for pool in pools:
        facts[f"{pool}ThreadPoolQueueSize"] = 0
        facts[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = 0
    return {name: str(value) for name, value in sorted(facts.items())}


def _disk_share(path: str) -> float:
    """How full the store's disk is, rounded up as by UtilAll; -1 where the store is on no disk."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return -1.0
    used = disk.f_blocks - disk.f_bfree
    return -(-used * 100 // (used + disk.f_bavail)) / 100


def _spoken(seconds: int) -> str:
    """A duration in words, as StoreStatsService writes it."""
    days, hours, minutes = seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]"


def settings(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The settings in force here that may matter to a client (getBrokerConfig)."""
    host, _, port = broker.address_for(caller).rpartition(":")
    opened = broker.store.opened.settings
    facts = {
        "brokerName": broker.name,
        "brokerClusterName": broker.cluster,
        "brokerId": 0,
        "brokerIP1": host,
        "listenPort": port,
        "brokerPermission": 4,
        "enablePropertyFilter": "true",
        "mappedFileSizeCommitLog": opened.mapped_file_size_commit_log,
    }
    return found("".join(f"{name}={value}\n" for name, value in facts.items()).encode())


def replication(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The replicas of this broker: there are none (HARuntimeInfo)."""
    facts = {
        "haConnectionInfo": [], "inSyncSlaveNums": 0, "master": True,
        "masterCommitLogMaxOffset": broker.store.served_end(),
    }  # fmt: skip
    return found(fastjson(facts))


def no_stats(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A broker's counters of the last day: none are kept here; a new broker has none either."""
    name, key = text(request, "statsName"), text(request, "statsKey")
    return refused(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")


HANDLERS: Handlers = {
    RequestCode.GET_BROKER_RUNTIME_INFO: figures,
    RequestCode.GET_BROKER_CONFIG: settings,
    RequestCode.GET_BROKER_HA_STATUS: replication,
    RequestCode.VIEW_BROKER_STATS_DATA: no_stats,
}
