"""Requests that ask about clients (ConsumerManageProcessor, AdminBrokerProcessor)."""

from typing import Any

from reput.broker.serving.answer import Answer, Caller, found, refused
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.consumers import Client, Subscription
from reput.broker.serving.fields import text
from reput.broker.wire.codes import Language, RequestCode, ResponseCode, fastjson
from reput.broker.wire.remoting import Command


def members(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The ids of a group's clients, from which each client computes its share of the queues."""
    name = text(request, "consumerGroup")
    group = broker.consumers.groups.get(name)
    if group is None:
        return refused(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name}")
    return found(fastjson({"consumerIdList": [each.id for each in group.clients.values()]}))


def consumers(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A group's clients and what it subscribes to (ConsumerConnection)."""
    name = text(request, "consumerGroup")
    group = broker.consumers.groups.get(name)
    if group is None:
        return refused(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
    answer = {
        "connectionSet": [connection(each) for each in group.clients.values()],
        "consumeFromWhere": group.start,
        "consumeType": group.kind,
        "messageModel": group.model,
        "subscriptionTable": {
            topic: subscription(each) for topic, each in group.subscriptions.items()
        },
    }
    return found(fastjson(answer))


def producers(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A producer group's clients (ProducerConnection)."""
    name = text(request, "producerGroup")
    there = broker.consumers.producers.get(name)
    if there is None:
        return refused(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
    return found(fastjson({"connectionSet": [connection(each) for each in there.values()]}))


def all_producers(broker: Broker, request: Command, caller: Caller) -> Answer:
    """All producers by group (ProducerTableInfo)."""
    answer = {
        group: [producer(each) for each in clients.values()]
        for group, clients in broker.consumers.producers.items()
    }
    return found(fastjson({"data": answer}))


def groups_of_topic(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The groups that have an offset of a topic, or subscribe to it (GroupList)."""
    topic = text(request, "topic")
    there = [
        name for name, group in broker.consumers.groups.items() if topic in group.subscriptions
    ]
    groups = dict.fromkeys([*there, *broker.offsets.groups_of(topic)])
    return found(fastjson({"groupList": list(groups)}))


def topics_of_group(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The topics that a group has an offset of (TopicList)."""
    topics = broker.offsets.topics_of(text(request, "group"))
    return found(fastjson({"brokerAddr": broker.address_for(caller), "topicList": topics}))


def group_subscribes(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A group's subscription to a topic (QuerySubscriptionResponseBody)."""
    group, topic = text(request, "group"), text(request, "topic")
    there = broker.consumers.groups.get(group)
    known = None if there is None else there.subscriptions.get(topic)
    answer: dict[str, Any] = {"group": group, "topic": topic}
    if known is not None:
        answer["subscriptionData"] = subscription(known)
    return found(fastjson(answer))


def connection(client: Client) -> dict[str, Any]:
    """A Connection."""
    return {
        "clientAddr": client.address, "clientId": client.id,
        "language": Language(client.language).name, "version": client.version,
    }  # fmt: skip


def producer(client: Client) -> dict[str, Any]:
    """A ProducerInfo."""
    return {
        "clientId": client.id, "lastUpdateTimestamp": client.heard,
        "language": Language(client.language).name, "remoteIP": f"/{client.address}",
        "version": client.version,
    }  # fmt: skip


def subscription(wanted: Subscription) -> dict[str, Any]:
    """A SubscriptionData."""
    return {
        "classFilterMode": False, "codeSet": sorted(wanted.codes), "expressionType": wanted.kind,
        "subString": wanted.text, "subVersion": wanted.version, "tagsSet": list(wanted.tags),
        "topic": wanted.topic,
    }  # fmt: skip


HANDLERS: Handlers = {
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: members,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: consumers,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: producers,
    RequestCode.GET_ALL_PRODUCER_INFO: all_producers,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: groups_of_topic,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: topics_of_group,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: group_subscribes,
}
