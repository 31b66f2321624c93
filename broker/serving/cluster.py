"""Requests to a name server other than routes (DefaultRequestProcessor, RouteInfoManager)."""

from reput.broker.serving.answer import Answer, Caller, found, refused
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.fields import text
from reput.broker.serving.routes import broker_data
from reput.broker.wire.codes import RequestCode, ResponseCode, fastjson
from reput.broker.wire.remoting import Command


def cluster_info(broker: Broker, request: Command, caller: Caller) -> Answer:
    """All clusters and brokers: there is one of each (ClusterInfo)."""
    return found(
        fastjson(
            {
                "brokerAddrTable": {broker.name: broker_data(broker, caller)},
                "clusterAddrTable": {broker.cluster: [broker.name]},
            }
        )
    )


def all_topics(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The names of all topics (TopicList)."""
    return found(fastjson({"topicList": list(broker.store.topics)}))


def topics_of_cluster(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The names of a cluster's topics."""
    here = text(request, "cluster") == broker.cluster
    return found(fastjson({"topicList": list(broker.store.topics) if here else []}))


def system_names(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A name server's system topics: those named like the cluster and like the broker."""
    names = list(dict.fromkeys([broker.cluster, broker.name]))
    answer = {"brokerAddr": broker.address_for(caller), "topicList": names}
    return found(fastjson(answer))


def no_item(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A value of the name server's key-value settings, which are empty (KVConfigManager)."""
    namespace, key = text(request, "namespace"), request.fields.get("key")
    which = f"Namespace: {namespace}" + (f" Key: {key}" if key is not None else "")
    return refused(ResponseCode.QUERY_NOT_FOUND, f"No config item, {which}")


def settings(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The name server's settings: only the address at which it listens (getConfig)."""
    host, _, port = caller.local.rpartition(":")
    return found(f"bindAddress={host}\nlistenPort={port}\n".encode())


HANDLERS: Handlers = {
    RequestCode.GET_BROKER_CLUSTER_INFO: cluster_info,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: all_topics,
    RequestCode.GET_TOPICS_BY_CLUSTER: topics_of_cluster,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: system_names,
    RequestCode.GET_KV_CONFIG: no_item,
    RequestCode.GET_KVLIST_BY_NAMESPACE: no_item,
    RequestCode.GET_NAMESRV_CONFIG: settings,
}
