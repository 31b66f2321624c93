"""Requests of subscription groups' configuration (AdminBrokerProcessor)."""

from reput.broker.serving.answer import Answer, Caller, found, refused
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.client_names import MOST_CLIENT_ID
from reput.broker.serving.data_version import data_version
from reput.broker.serving.fields import text
from reput.broker.wire.codes import RequestCode, ResponseCode, fastjson
from reput.broker.wire.remoting import Command


def one(broker: Broker, request: Command, caller: Caller) -> Answer:
    """One group's configuration."""
    config = broker.groups.find(text(request, "group"))
    if config is None:
        return refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
    return found(fastjson(config))


def everything(broker: Broker, request: Command, caller: Caller) -> Answer:
    """All groups' configurations (SubscriptionGroupWrapper)."""
    table = broker.groups.table()
    answer = {"dataVersion": data_version(broker), "subscriptionGroupTable": table}
    return found(fastjson({**answer, "forbiddenTable": {}}))


def group_refused(broker: Broker, name: str) -> Answer | None:
    """The refusal of a group that may get no messages; None: it may (PullMessageProcessor)."""
    config = broker.groups.find(name)
    if config is None:
        return refused(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"subscription group [{name[:MOST_CLIENT_ID]}] does not exist",
        )
    if config.get("consumeEnable") is False:
        return refused(ResponseCode.NO_PERMISSION, f"subscription group no permission, {name}")
    return None


HANDLERS: Handlers = {
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: one,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: everything,
}
