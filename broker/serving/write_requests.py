"""Refuses all requests that write, in the words of a broker that may only be read."""

from reput.broker.serving.answer import Answer, Caller, found, refused
from reput.broker.serving.booted_topics import topic
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.client_names import is_group_name
from reput.broker.serving.fields import text
from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.broker.wire.remoting import Command

_OF_PROXIES = "HeartBeatSyncerTopic"  # the end of ProxyConfig.heartbeatSyncerTopicName by default
_MOST_MADE = 100
READ_ONLY = "reput serves this store to be read only"


def sending(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Refuse a message (SendMessageProcessor with the brokerPermission to read only)."""
    return refused(
        ResponseCode.NO_PERMISSION,
        f"the broker[{broker.address_for(caller)}] sending message is forbidden: {READ_ONLY}",
    )


def writing(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Refuse to write or change anything else."""
    return refused(
        ResponseCode.NO_PERMISSION,
        f"{RequestCode(request.code).name} would change the store: {READ_ONLY}",
    )


def create_topic(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Refuse to make a topic, except the topic that RocketMQ's Proxy needs before it starts
    (HeartbeatSyncer), which is kept in memory: it has no messages.
    """
    name = text(request, "topic")
    if not name.endswith(_OF_PROXIES) or not is_group_name(name):
        return writing(broker, request, caller)
    if name not in broker.store.topics and _made_by_proxies(broker) >= _MOST_MADE:
        return writing(broker, request, caller)
    broker.store.make_topic(topic(name))
    return found()


def _made_by_proxies(broker: Broker) -> int:
    return sum(name.endswith(_OF_PROXIES) for name in broker.store.topics)


_SENDING = (
    RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2,
    RequestCode.CONSUMER_SEND_MSG_BACK,
)  # fmt: skip
_WRITING = (
    RequestCode.END_TRANSACTION,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC,
    RequestCode.DELETE_TOPIC_IN_BROKER, RequestCode.DELETE_TOPIC_IN_NAMESRV,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV, RequestCode.UPDATE_BROKER_CONFIG,
    RequestCode.UPDATE_NAMESRV_CONFIG, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, RequestCode.DELETE_SUBSCRIPTIONGROUP,
    RequestCode.PUT_KV_CONFIG, RequestCode.DELETE_KV_CONFIG, RequestCode.REGISTER_BROKER,
    RequestCode.UNREGISTER_BROKER, RequestCode.WIPE_WRITE_PERM_OF_BROKER,
    RequestCode.ADD_WRITE_PERM_OF_BROKER, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    RequestCode.CLEAN_UNUSED_TOPIC, RequestCode.DELETE_EXPIRED_COMMITLOG,
    RequestCode.TRIGGER_DELETE_FILES, RequestCode.RESUME_CHECK_HALF_MESSAGE,
    RequestCode.RECALL_MESSAGE,
    RequestCode.SET_COMMITLOG_READ_MODE,
    RequestCode.CLONE_GROUP_OFFSET, RequestCode.RESET_CONSUMER_OFFSET_IN_BROKER,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
    RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
    RequestCode.RESET_MASTER_FLUSH_OFFSET, RequestCode.AUTH_CREATE_USER,
    RequestCode.AUTH_UPDATE_USER, RequestCode.AUTH_DELETE_USER, RequestCode.AUTH_CREATE_ACL,
    RequestCode.AUTH_UPDATE_ACL, RequestCode.AUTH_DELETE_ACL,
)  # fmt: skip

HANDLERS: Handlers = {
    **dict.fromkeys(_SENDING, sending),
    **dict.fromkeys(_WRITING, writing),
    RequestCode.UPDATE_AND_CREATE_TOPIC: create_topic,
}
