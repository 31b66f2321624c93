"""Requests about topics: their configuration, the ends of their queues (AdminBrokerProcessor)."""

from reput.broker.serving.answer import Answer, Caller, found, refused
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.data_version import data_version
from reput.broker.serving.fields import text
from reput.broker.serving.topics import Topic
from reput.broker.wire.codes import Entries, RequestCode, ResponseCode, fastjson
from reput.broker.wire.remoting import Command

_SYSTEM = (  # TopicValidator.SYSTEM_TOPIC_SET
    "TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT",
    # system topics from 5.4.0 on; no topic has these names before
    "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
)  # fmt: skip


def stats(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Each queue's ends, and when its last message was stored (TopicStatsTable)."""
    name = text(request, "topic")
    topic = broker.store.topics.get(name)
    if topic is None:
        return refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
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
    return found(fastjson({"offsetTable": Entries(pairs), "topicPutTps": 0.0}))


def message_queue(broker: Broker, topic: str, queue_id: int) -> dict[str, object]:
    """A MessageQueue, as fastjson writes it."""
    return {"brokerName": broker.name, "queueId": queue_id, "topic": topic}


def configuration(broker: Broker, request: Command, caller: Caller) -> Answer:
    """One topic's configuration (TopicConfigAndQueueMapping)."""
    name = text(request, "topic")
    topic = broker.store.topics.get(name)
    if topic is None:
        return refused(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {name}")
    return found(fastjson(config_of(topic)))


def configurations(broker: Broker, request: Command, caller: Caller) -> Answer:
    """All topics' configurations (TopicConfigAndMappingSerializeWrapper)."""
    facts = {
        "dataVersion": data_version(broker),
        "topicConfigTable": {name: config_of(each) for name, each in broker.store.topics.items()},
    }
    return found(fastjson(facts))


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


def system_topics(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The topics that a broker uses itself."""
    own = [name for name in broker.store.topics if name.startswith("rmq_sys_")]
    named = [broker.name, broker.cluster, f"{broker.cluster}_REPLY_TOPIC"]
    return found(fastjson({"topicList": list(dict.fromkeys([*_SYSTEM, *named, *own]))}))


HANDLERS: Handlers = {
    RequestCode.GET_TOPIC_STATS_INFO: stats,
    RequestCode.GET_TOPIC_CONFIG: configuration,
    RequestCode.GET_ALL_TOPIC_CONFIG: configurations,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: system_topics,
}
