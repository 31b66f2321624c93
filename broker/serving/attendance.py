"""Requests by which clients come and go, and those that ask who is there."""

import json
from functools import lru_cache
from typing import Any

from reput.broker.serving.broker import (
    Answer,
    Broker,
    Caller,
    answers,
    body_of,
    found,
    refused,
    text,
)
from reput.broker.serving.clients import (
    MOST_CLIENT_ID,
    TAG,
    Client,
    Group,
    Subscription,
    is_group_name,
)
from reput.broker.serving.store import topic
from reput.broker.wire.codes import Language, RequestCode, ResponseCode, fastjson
from reput.broker.wire.remoting import Command, is_int
from reput.store_format.filter.sql import SqlFilter, WrongExpression, sql_filter
from reput.store_format.names import RETRY_PREFIX
from reput.store_format.release.profiles import Profile

# ---
# Heartbeats: who consumes what, who produces (ClientManageProcessor).

_BODY_MOST = 256 << 10  # bytes of one heartbeat; a broker has no limit
_LONG = 1 << 63
# A broker has no limits; here one client's expression would keep all others waiting.
_SQL_MOST = 1 << 15  # characters of an expression


@answers(RequestCode.HEART_BEAT)
def heartbeat(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Take note of a client's groups and of what they subscribe to (HeartbeatData).

    A client that has sent its subscriptions may leave them out next time (heartBeatV2). It sends
    them again if the answer says that they are not known.
    """
    body = request.body
    if body is None or len(body) > _BODY_MOST:
        return refused(ResponseCode.SYSTEM_ERROR, f"a heartbeat of more than {_BODY_MOST} bytes")
    with body_of("HeartbeatData"):
        beat = json.loads(body)
        client = Client(
            str(beat["clientID"])[:MOST_CLIENT_ID], request.version, request.language, caller.now,
            caller.peer,
        )  # fmt: skip
        fingerprint = beat.get("heartbeatFingerprint", 0)
        if not is_int(fingerprint):
            raise ValueError("a fingerprint is not an int")
        groups = [_group(each, fingerprint) for each in beat.get("consumerDataSet") or ()]
        producers = [str(each["groupName"]) for each in beat.get("producerDataSet") or ()]
    without = fingerprint != 0 and beat.get("withoutSub") is True
    unknown = fingerprint == 0
    for group in groups:
        if broker.groups.find(group.name) is None:
            continue
        there = broker.consumers.groups.get(group.name)
        unknown |= without if there is None else there.fingerprint not in (0, fingerprint)
        broker.consumers.join(group, caller.connection, client, without)
        broker.store.make_topic(topic(RETRY_PREFIX + group.name))
    for name in filter(is_group_name, producers):
        broker.consumers.produce(name, caller.connection, client)
    return found(IS_SUPPORT_HEART_BEAT_V2="true", IS_SUB_CHANGE=str(unknown).lower())


def _group(beat: Any, fingerprint: int) -> Group:
    group = Group(
        str(beat["groupName"]), str(beat.get("consumeType", "")),
        str(beat.get("messageModel", "")), str(beat.get("consumeFromWhere", "")),
        fingerprint=fingerprint,
    )  # fmt: skip
    for each in beat.get("subscriptionDataSet") or ():
        subscription = _subscription(each)
        group.subscriptions[subscription.topic] = subscription
    return group


def _subscription(beat: Any) -> Subscription:
    codes = frozenset(int(code) for code in beat.get("codeSet") or ())
    if not all(map(is_int, codes)):
        raise ValueError("a tag's code is not an int")
    version = int(beat.get("subVersion") or 0)
    if not -_LONG <= version < _LONG:  # other clients are sent the version, and could not read it
        raise ValueError("a subscription's version is not a long")
    return Subscription(
        str(beat["topic"]), str(beat.get("subString", "*")),
        str(beat.get("expressionType") or TAG), version, codes,
        tuple(str(tag) for tag in beat.get("tagsSet") or ()),
    )  # fmt: skip


@answers(RequestCode.UNREGISTER_CLIENT)
def unregister(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A client leaves a group."""
    text(request, "clientID")
    if (producer := request.fields.get("producerGroup")) is not None:
        broker.consumers.stop_producing(producer, caller.connection)
    if (consumer := request.fields.get("consumerGroup")) is not None:
        broker.consumers.leave(consumer, caller.connection)
    return found()


@answers(RequestCode.CHECK_CLIENT_CONFIG)
def check_config(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Whether a subscription is valid: clients ask before they start (checkClientConfig)."""
    with body_of("CheckClientRequestBody"):
        beat = json.loads(request.body or b"{}")
        wanted = beat.get("subscriptionData")
        subscription = None if wanted is None else _subscription(wanted)
    if subscription is not None and not is_tags(subscription.kind):
        try:
            compiled(subscription.text, broker.store.opened.profile)
        except WrongExpression as error:
            return refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error))
    return found()


@lru_cache(maxsize=64)
def compiled(text: str, profile: Profile) -> SqlFilter:
    """The filter of an SQL92 expression. Raises WrongExpression."""
    if len(text) > _SQL_MOST:
        raise WrongExpression(f"has {len(text)} characters, more than {_SQL_MOST}", 1, 1)
    return sql_filter(text, profile)


def is_tags(kind: str | None) -> bool:
    """Whether an expressionType is that of tags (ExpressionType.isTagType)."""
    return kind in (None, "", TAG)


# ---
# Requests that ask about clients (ConsumerManageProcessor, AdminBrokerProcessor).


@answers(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
def members(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The ids of a group's clients, from which each client computes its share of the queues."""
    name = text(request, "consumerGroup")
    group = broker.consumers.groups.get(name)
    if group is None:
        return refused(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name}")
    return found(fastjson({"consumerIdList": [each.id for each in group.clients.values()]}))


@answers(RequestCode.GET_CONSUMER_CONNECTION_LIST)
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


@answers(RequestCode.GET_PRODUCER_CONNECTION_LIST)
def producers(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A producer group's clients (ProducerConnection)."""
    name = text(request, "producerGroup")
    there = broker.consumers.producers.get(name)
    if there is None:
        return refused(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
    return found(fastjson({"connectionSet": [connection(each) for each in there.values()]}))


@answers(RequestCode.GET_ALL_PRODUCER_INFO)
def all_producers(broker: Broker, request: Command, caller: Caller) -> Answer:
    """All producers by group (ProducerTableInfo)."""
    answer = {
        group: [producer(each) for each in clients.values()]
        for group, clients in broker.consumers.producers.items()
    }
    return found(fastjson({"data": answer}))


@answers(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO)
def groups_of_topic(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The groups that have an offset of a topic, or subscribe to it (GroupList)."""
    topic = text(request, "topic")
    there = [
        name for name, group in broker.consumers.groups.items() if topic in group.subscriptions
    ]
    groups = dict.fromkeys([*there, *broker.offsets.groups_of(topic)])
    return found(fastjson({"groupList": list(groups)}))


@answers(RequestCode.QUERY_TOPICS_BY_CONSUMER)
def topics_of_group(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The topics that a group has an offset of (TopicList)."""
    topics = broker.offsets.topics_of(text(request, "group"))
    return found(fastjson({"brokerAddr": broker.address_for(caller), "topicList": topics}))


@answers(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER)
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
