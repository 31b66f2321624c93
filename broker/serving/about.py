"""Requests about what is served rather than messages: routes and a name server, topics, the
broker's state and settings, and what a real SLAVE asks its master.
"""

import os

from reput.broker.serving.broker import (
    READ_ONLY,
    Answer,
    Broker,
    Caller,
    answers,
    data_version,
    flag,
    found,
    number,
    refused,
    text,
    the_topic,
    writing,
)
from reput.broker.serving.store import PERM_READ, Topic
from reput.broker.wire import codes
from reput.broker.wire.remoting import Command
from reput.store_format.names import CONFIG, DELAY_OFFSETS, TIMER_CHECK_FILE, TIMER_METRICS
from reput.store_format.release.profiles import release_key

# ---
# A name server's routes: where a topic's queues are (ClientRequestProcessor).

MASTER_ID = 0  # MixAll.MASTER_ID


@answers(codes.RequestCode.GET_ROUTEINFO_BY_TOPIC)
def route(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The route of a topic: one broker, which may only be read (TopicRouteData)."""
    said = "No topic route info in name server for the topic: {}"
    topic = the_topic(broker, text(request, "topic"), said)
    standard = codes.reads_standard_json(request.version) or flag(request, "acceptStandardJsonOnly")
    answer = {
        "brokerDatas": [broker_data(broker, caller)],
        "filterServerTable": {},
        "queueDatas": [{  # QueueData, as of a broker with the brokerPermission to read only
            "brokerName": broker.name,
            "perm": topic.perm & PERM_READ,
            "readQueueNums": topic.read_queues,
            "topicSysFlag": topic.sys_flag,
            "writeQueueNums": topic.write_queues,
        }],
    }  # fmt: skip
    # no client shows the remark: it is for people who ask why a producer finds no queue
    return found(codes.fastjson(answer, standard))._replace(remark=READ_ONLY)


def broker_data(broker: Broker, caller: Caller) -> dict[str, object]:
    """The one broker there is (BrokerData)."""
    return {
        "brokerAddrs": {MASTER_ID: broker.address_for(caller)},
        "brokerName": broker.name,
        "cluster": broker.cluster,
        "enableActingMaster": False,
    }


# ---
# Requests to a name server other than routes (DefaultRequestProcessor, RouteInfoManager).


@answers(codes.RequestCode.GET_BROKER_CLUSTER_INFO)
def cluster_info(broker: Broker, request: Command, caller: Caller) -> Answer:
    """All clusters and brokers: there is one of each (ClusterInfo)."""
    brokers = {broker.name: broker_data(broker, caller)}
    names = {broker.cluster: [broker.name]}
    return found(codes.fastjson({"brokerAddrTable": brokers, "clusterAddrTable": names}))


@answers(codes.RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
def all_topics(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The names of all topics (TopicList)."""
    return found(codes.fastjson({"topicList": list(broker.store.topics)}))


@answers(codes.RequestCode.GET_TOPICS_BY_CLUSTER)
def topics_of_cluster(broker: Broker, request: Command, caller: Caller) -> Answer:
    here = text(request, "cluster") == broker.cluster
    return found(codes.fastjson({"topicList": list(broker.store.topics) if here else []}))


@answers(codes.RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
def system_names(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A name server's system topics: those named like the cluster and like the broker."""
    names = list(dict.fromkeys([broker.cluster, broker.name]))
    answer = {"brokerAddr": broker.address_for(caller), "topicList": names}
    return found(codes.fastjson(answer))


@answers(codes.RequestCode.GET_KV_CONFIG, codes.RequestCode.GET_KVLIST_BY_NAMESPACE)
def no_item(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A value of the name server's key-value settings, which are empty (KVConfigManager)."""
    namespace, key = text(request, "namespace"), request.fields.get("key")
    which = f"Namespace: {namespace}" + (f" Key: {key}" if key is not None else "")
    return refused(codes.ResponseCode.QUERY_NOT_FOUND, f"No config item, {which}")


@answers(codes.RequestCode.GET_NAMESRV_CONFIG)
def name_server_settings(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The name server's settings: only the address at which it listens (getConfig)."""
    host, _, port = caller.local.rpartition(":")
    return found(f"bindAddress={host}\nlistenPort={port}\n".encode())


# ---
# Requests about topics: their configuration, the ends of their queues (AdminBrokerProcessor).

_SYSTEM = (  # TopicValidator.SYSTEM_TOPIC_SET
    "TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT",
    # system topics from 5.4.0 on; no topic has these names before
    "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
)  # fmt: skip


@answers(codes.RequestCode.GET_TOPIC_STATS_INFO)
def stats(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Each queue's ends, and when its last message was stored (TopicStatsTable)."""
    name = text(request, "topic")
    topic = the_topic(broker, name)
    pairs = []
    for queue_id in range(max(topic.read_queues, topic.write_queues)):
        queue = broker.store.queue(name, queue_id)
        last = 0
        if queue is not None and queue.maximum > 0:
            last = broker.store.time_at(name, queue_id, queue.maximum - 1)
        facts = {
            "lastUpdateTimestamp": last,
            "maxOffset": 0 if queue is None else queue.maximum,
            "minOffset": 0 if queue is None else queue.minimum,
        }
        pairs.append((message_queue(broker, name, queue_id), facts))
    return found(codes.fastjson({"offsetTable": codes.Entries(pairs), "topicPutTps": 0.0}))


def message_queue(broker: Broker, topic: str, queue_id: int) -> dict[str, object]:
    """A MessageQueue, as fastjson writes it."""
    return {"brokerName": broker.name, "queueId": queue_id, "topic": topic}


@answers(codes.RequestCode.GET_TOPIC_CONFIG)
def configuration(broker: Broker, request: Command, caller: Caller) -> Answer:
    """One topic's configuration (TopicConfigAndQueueMapping)."""
    said = "No topic in this broker. topic: {}"
    return found(codes.fastjson(config_of(the_topic(broker, text(request, "topic"), said))))


@answers(codes.RequestCode.GET_ALL_TOPIC_CONFIG)
def configurations(broker: Broker, request: Command, caller: Caller) -> Answer:
    """All topics' configurations (TopicConfigAndMappingSerializeWrapper)."""
    facts = {
        "dataVersion": data_version(broker),
        "topicConfigTable": {name: config_of(each) for name, each in broker.store.topics.items()},
    }
    return found(codes.fastjson(facts))


def config_of(topic: Topic) -> dict[str, object]:
    """A TopicConfig. Its `perm` is that of the store's broker, though nobody can write here."""
    return {
        "attributes": topic.attributes,
        "order": topic.order,
        "perm": topic.perm,
        "readQueueNums": topic.read_queues,
        "topicFilterType": topic.filter_type,
        "topicName": topic.name,
        "topicSysFlag": topic.sys_flag,
        "writeQueueNums": topic.write_queues,
    }


@answers(codes.RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
def system_topics(broker: Broker, request: Command, caller: Caller) -> Answer:
    own = [name for name in broker.store.topics if name.startswith("rmq_sys_")]
    named = [broker.name, broker.cluster, f"{broker.cluster}_REPLY_TOPIC"]
    return found(codes.fastjson({"topicList": list(dict.fromkeys([*_SYSTEM, *named, *own]))}))


# ---
# The broker's state (AdminBrokerProcessor): runtime figures, settings, replication.
#
# Only real figures are reported: the queues of requests are empty here, and nothing is ever put.
# The latencies of puts and the pages locked in memory are left out, since they cannot be measured.

_POOLS = ("send", "pull", "litePull", "query", "ack")  # a broker's queues of requests; ack since 5
_SINCE_5 = ("brokerActive", "timer")  # prefixes of the figures that 4.x does not have


@answers(codes.RequestCode.GET_BROKER_RUNTIME_INFO)
def figures(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The figures that brokerStatus and clusterList show (KVTable)."""
    return found(codes.fastjson({"table": _figures(broker, caller.now)}))


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


@answers(codes.RequestCode.GET_BROKER_CONFIG)
def broker_settings(broker: Broker, request: Command, caller: Caller) -> Answer:
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


@answers(codes.RequestCode.GET_BROKER_HA_STATUS)
def replication(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The replicas of this broker: there are none (HARuntimeInfo)."""
    facts = {
        "haConnectionInfo": [], "inSyncSlaveNums": 0, "master": True,
        "masterCommitLogMaxOffset": broker.store.served_end(),
    }  # fmt: skip
    return found(codes.fastjson(facts))


@answers(codes.RequestCode.VIEW_BROKER_STATS_DATA)
def no_stats(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A broker's counters of the last day: none are kept here; a new broker has none either."""
    name, key = text(request, "statsName"), text(request, "statsKey")
    return refused(codes.ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")


# ---
# Requests about parts of a broker that do not run here: queues written to RocksDB besides files,
# limits on reads of cold data (AdminBrokerProcessor).

_IN_PROGRESS = 2  # CheckRocksdbCqWriteResult.CheckStatus: what a broker answers at once
_NOT_WRITTEN = "rocksdbCQWriteEnable is false, checkRocksdbCqWriteProgressCommand is invalid"
_COLD_OF_GROUP, _COLD_OF_ALL = 3 << 20, 100 << 20  # cgColdReadThreshold, globalColdReadThreshold


@answers(codes.RequestCode.GET_COLD_DATA_FLOW_CTR_INFO)
def cold_reads(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Groups that read cold data: none are counted (ColdDataCgCtrService)."""
    facts = {
        "runtimeTable": {}, "configTable": {}, "cgColdReadThreshold": _COLD_OF_GROUP,
        "globalColdReadThreshold": _COLD_OF_ALL, "globalAcc": 0,
    }  # fmt: skip
    return found(codes.fastjson(facts))


@answers(codes.RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS)
def queues_in_rocksdb(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Whether queues in RocksDB equal those in files; a broker notes the result only in its log."""
    if release_key(broker.store.opened.profile.release) < (5, 3, 1):
        return found(codes.fastjson({"diffResult": _NOT_WRITTEN}))
    return found(codes.fastjson({"checkStatus": _IN_PROGRESS}))


# ---
# Requests of real brokers that are our SLAVEs: for their master, and config/ (SlaveSynchronize).
#
# A slave may register only with `reput serve --ha-listen`. Nothing is kept of the slave, and the
# answer has the addresses at which it gets the log and the configuration.

_TIMER_CHECKPOINT_BYTES = 56  # TimerCheckpoint.encode


@answers(codes.RequestCode.REGISTER_BROKER)
def register(broker: Broker, request: Command, caller: Caller) -> Answer:
    """RegisterBrokerResponseHeader for a slave; a master is refused, as nothing is written here."""
    if broker.slaves_at is None or number(request, "brokerId") == 0:
        return writing(broker, request, caller)
    host, port = broker.slaves_at
    ours = broker.address_for(caller)
    if host in ("0.0.0.0", "::"):  # use the address by which the slave reached us
        host = ours.rpartition(":")[0]
    return found(haServerAddr=f"{host}:{port}", masterAddr=ours)


@answers(codes.RequestCode.UNREGISTER_BROKER)
def unregister(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A slave leaves; nothing was kept of it."""
    return writing(broker, request, caller) if broker.slaves_at is None else found()


def _beside(broker: Broker, name: str, absent: str) -> Answer:
    """The content of a file of config/; a refusal where there is no such file."""
    opened = broker.store.opened
    try:
        return found(opened.storage.read_bytes(f"{opened.path}/{CONFIG}/{name}"))
    except (FileNotFoundError, NotADirectoryError):
        return refused(codes.ResponseCode.SYSTEM_ERROR, absent)


@answers(codes.RequestCode.GET_ALL_DELAY_OFFSET)
def delay_offsets(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The offsets up to which delayed messages are delivered (getAllDelayOffset). A slave without
    them would deliver all delayed messages again, once it is a master.
    """
    return _beside(broker, DELAY_OFFSETS, "No delay offset in this broker")


@answers(codes.RequestCode.GET_TIMER_CHECK_POINT)
def timer_checkpoint(broker: Broker, request: Command, caller: Caller) -> Answer:
    """How far timer messages are delivered (getTimerCheckPoint): the file's first seven longs."""
    said = _beside(broker, TIMER_CHECK_FILE, "The checkpoint is null")
    return said._replace(body=said.body[:_TIMER_CHECKPOINT_BYTES])


@answers(codes.RequestCode.GET_TIMER_METRICS)
def timer_metrics(broker: Broker, request: Command, caller: Caller) -> Answer:
    """How many timer messages wait, by topic (getTimerMetrics)."""
    return _beside(broker, TIMER_METRICS, "The timerMessageStore is null")
