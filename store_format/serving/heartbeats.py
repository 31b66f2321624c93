"""Heartbeats: who consumes what (ClientManageProcessor)."""

import json
from typing import Any

from reput.store_format.remoting.codes import RequestCode, ResponseCode
from reput.store_format.remoting.command import Command
from reput.store_format.serving.answer import Answer, Caller, found, refused
from reput.store_format.serving.broker import Broker, Handlers
from reput.store_format.serving.consumers import TAG, Client, Group, Subscription
from reput.store_format.serving.fields import text


def heartbeat(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Take note of a client's groups and of what they subscribe to (HeartbeatData)."""
    try:
        told = json.loads(request.body or b"")
        client = Client(str(told["clientID"]), request.version, request.language, caller.now)
        groups = [_group(each) for each in told.get("consumerDataSet") or ()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return refused(ResponseCode.SYSTEM_ERROR, "the body is no HeartbeatData")
    for group in groups:
        known = broker.consumers.groups.setdefault(group.name, group)
        known.kind, known.model, known.start = group.kind, group.model, group.start
        for topic, subscription in group.subscriptions.items():
            before = known.subscriptions.get(topic)
            if before is None or subscription.version >= before.version:
                known.subscriptions[topic] = subscription
        for topic in set(known.subscriptions) - set(group.subscriptions):
            del known.subscriptions[topic]
        known.clients[caller.connection] = client
    return found()


def _group(told: Any) -> Group:
    group = Group(
        str(told["groupName"]), str(told.get("consumeType", "")),
        str(told.get("messageModel", "")), str(told.get("consumeFromWhere", "")),
    )  # fmt: skip
    for each in told.get("subscriptionDataSet") or ():
        subscription = Subscription(
            str(each["topic"]), str(each.get("subString", "*")),
            str(each.get("expressionType") or TAG), int(each.get("subVersion") or 0),
            frozenset(int(code) for code in each.get("codeSet") or ()),
        )  # fmt: skip
        group.subscriptions[subscription.topic] = subscription
    return group


def unregister(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A client leaves a group."""
    text(request, "clientID")
    group = broker.consumers.groups.get(request.fields.get("consumerGroup", ""))
    if group is not None:
        group.clients.pop(caller.connection, None)
        if not group.clients:
            del broker.consumers.groups[group.name]
    return found()


HANDLERS: Handlers = {RequestCode.HEART_BEAT: heartbeat, RequestCode.UNREGISTER_CLIENT: unregister}
