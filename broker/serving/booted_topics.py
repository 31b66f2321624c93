"""Topics that a broker makes when it starts, whatever is in its store (TopicConfigManager.init)."""

from reput.broker.serving.topics import PERM_READ, PERM_WRITE, Topic
from reput.store_format.release.profiles import release_key

_BOTH, _INHERIT = PERM_READ | PERM_WRITE, 1  # PermName
_DEFAULT_QUEUES = 16  # TopicConfig.defaultReadQueueNums


def topic(name: str, queues: int = 1, perm: int = _BOTH) -> Topic:
    """A topic that is not in config/topics.json."""
    return Topic(name, queues, queues, perm, 0, False, "SINGLE_TAG", {}, False)


def booted_topics(release: str, broker: str, cluster: str) -> list[Topic]:
    """The topics of a release. RocketMQ's Proxy starts only if the cluster's own topic exists."""
    made = [
        topic("SELF_TEST_TOPIC"),
        topic("TBW102", 8, _BOTH | _INHERIT),
        topic("BenchmarkTest", 1024),
        topic(cluster, _DEFAULT_QUEUES, _BOTH | _INHERIT),
        topic(broker, 1, _BOTH | _INHERIT),
        topic("OFFSET_MOVED_EVENT"),
        topic("SCHEDULE_TOPIC_XXXX", 18),
        topic(f"{cluster}_REPLY_TOPIC"),
    ]
    if release_key(release) >= (5, 0, 0):
        made += [
            topic(f"rmq_sys_REVIVE_LOG_{cluster}", 8),  # BrokerConfig.reviveQueueNum
            topic(f"rmq_sys_SYNC_BROKER_MEMBER_{broker}", 1, _INHERIT),
            topic("RMQ_SYS_TRANS_HALF_TOPIC"),
            topic("RMQ_SYS_TRANS_OP_HALF_TOPIC"),
        ]
    if release_key(release) >= (5, 3, 1):
        made.append(topic("rmq_sys_wheel_timer"))
    return made
