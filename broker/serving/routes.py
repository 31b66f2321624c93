"""A name server's routes: where a topic's queues are (ClientRequestProcessor)."""

from reput.broker.serving.answer import Answer, Caller, found, refused
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.fields import flag, text
from reput.broker.serving.topics import PERM_READ, Topic
from reput.broker.serving.write_requests import READ_ONLY
from reput.broker.wire.codes import RequestCode, ResponseCode, fastjson, reads_standard_json
from reput.broker.wire.remoting import Command

MASTER_ID = 0  # MixAll.MASTER_ID


def route(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The route of a topic: one broker, which may only be read (TopicRouteData)."""
    name = text(request, "topic")
    topic = broker.store.topics.get(name)
    if topic is None:
        return refused(
            ResponseCode.TOPIC_NOT_EXIST,
            "No topic route info in name server for the topic: " + name,
        )
    standard = reads_standard_json(request.version) or flag(request, "acceptStandardJsonOnly")
    answer = {
        "brokerDatas": [broker_data(broker, caller)],
        "filterServerTable": {},
        "queueDatas": [queue_data(broker, topic)],
    }
    # no client shows the remark: it is for people who ask why a producer finds no queue
    return found(fastjson(answer, standard))._replace(remark=READ_ONLY)


def broker_data(broker: Broker, caller: Caller) -> dict[str, object]:
    """The one broker there is (BrokerData)."""
    return {
        "brokerAddrs": {MASTER_ID: broker.address_for(caller)},
        "brokerName": broker.name,
        "cluster": broker.cluster,
        "enableActingMaster": False,
    }


def queue_data(broker: Broker, topic: Topic) -> dict[str, object]:
    """A topic's queues (QueueData), as of a broker with the brokerPermission to read only."""
    return {
        "brokerName": broker.name,
        "perm": topic.perm & PERM_READ,
        "readQueueNums": topic.read_queues,
        "topicSysFlag": topic.sys_flag,
        "writeQueueNums": topic.write_queues,
    }


HANDLERS: Handlers = {RequestCode.GET_ROUTEINFO_BY_TOPIC: route}
