"""Heartbeats: who consumes what, who produces (ClientManageProcessor)."""

import json
from typing import Any

from reput.broker.serving.answer import Answer, Caller, found, refused
from reput.broker.serving.booted_topics import topic
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.client_names import MOST_CLIENT_ID, is_group_name
from reput.broker.serving.consumers import TAG, Client, Group, Subscription, TooManyClients
from reput.broker.serving.fields import text
from reput.broker.serving.subscriptions import compiled, is_tags
from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.broker.wire.remoting import Command, is_int
from reput.store_format.filter.sql import WrongExpression
from reput.store_format.names import RETRY_PREFIX

_BODY_MOST = 256 << 10  # bytes of one heartbeat; a broker has no limit
_NOT_JSON = (ValueError, OverflowError, KeyError, TypeError, AttributeError, RecursionError)
_LONG = 1 << 63


def heartbeat(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Take note of a client's groups and of what they subscribe to (HeartbeatData).

    A client that has sent its subscriptions may leave them out next time (heartBeatV2). It sends
    them again if the answer says that they are not known.
    """
    body = request.body
    if body is None or len(body) > _BODY_MOST:
        return refused(ResponseCode.SYSTEM_ERROR, f"a heartbeat of more than {_BODY_MOST} bytes")
    try:
        beat = json.loads(body)
        client = Client(
            str(beat["clientID"])[:MOST_CLIENT_ID], request.version, request.language, caller.now,
            caller.peer,
        )  # fmt: skip
        fingerprint = beat.get("heartbeatFingerprint", 0)
        if not is_int(fingerprint):
            raise ValueError("a fingerprint is no int")
        groups = [_group(each, fingerprint) for each in beat.get("consumerDataSet") or ()]
        producers = [str(each["groupName"]) for each in beat.get("producerDataSet") or ()]
    except _NOT_JSON:
        return refused(ResponseCode.SYSTEM_ERROR, "the body is no HeartbeatData")
    without = fingerprint != 0 and beat.get("withoutSub") is True
    unknown = fingerprint == 0
    try:
        for group in groups:
            if broker.groups.find(group.name) is None:
                continue
            there = broker.consumers.groups.get(group.name)
            unknown |= without if there is None else there.fingerprint not in (0, fingerprint)
            broker.consumers.join(group, caller.connection, client, without)
            broker.store.make_topic(topic(RETRY_PREFIX + group.name))
        for name in filter(is_group_name, producers):
            broker.consumers.produce(name, caller.connection, client)
    except TooManyClients as error:
        return refused(ResponseCode.SYSTEM_ERROR, str(error))
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
        raise ValueError("a tag's code is no int")
    version = int(beat.get("subVersion") or 0)
    if not -_LONG <= version < _LONG:  # other clients are sent the version, and could not read it
        raise ValueError("a subscription's version is no long")
    return Subscription(
        str(beat["topic"]), str(beat.get("subString", "*")),
        str(beat.get("expressionType") or TAG), version, codes,
        tuple(str(tag) for tag in beat.get("tagsSet") or ()),
    )  # fmt: skip


def unregister(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A client leaves a group."""
    text(request, "clientID")
    if (producer := request.fields.get("producerGroup")) is not None:
        broker.consumers.stop_producing(producer, caller.connection)
    if (consumer := request.fields.get("consumerGroup")) is not None:
        broker.consumers.leave(consumer, caller.connection)
    return found()


def check_config(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Whether a subscription is valid: clients ask before they start (checkClientConfig)."""
    try:
        beat = json.loads(request.body or b"{}")
        wanted = beat.get("subscriptionData")
        subscription = None if wanted is None else _subscription(wanted)
    except _NOT_JSON:
        return refused(ResponseCode.SYSTEM_ERROR, "the body is no CheckClientRequestBody")
    if subscription is not None and not is_tags(subscription.kind):
        try:
            compiled(subscription.text, broker.store.opened.profile)
        except WrongExpression as error:
            return refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error))
    return found()


HANDLERS: Handlers = {
    RequestCode.HEART_BEAT: heartbeat,
    RequestCode.UNREGISTER_CLIENT: unregister,
    RequestCode.CHECK_CLIENT_CONFIG: check_config,
}
