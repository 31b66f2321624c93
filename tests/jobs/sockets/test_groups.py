"""Consumer groups: offsets, members, subscriptions, and locks of queues."""

from typing import Any

import pytest

from reput.broker.serving import clients, groups
from reput.broker.wire.codes import RequestCode, ResponseCode
from tests.jobs.sockets.asked import TOPIC, Asked, opened, said
from tests.jobs.sockets.asking import HAS_SUBSCRIPTION, pull

COMMIT = 1  # PullSysFlag.FLAG_COMMIT_OFFSET
GROUP = "g12"  # of the golden store's consumerOffset.json, in Live2


@pytest.fixture
def asked() -> Asked:
    return Asked(opened())


def offset(asked: Asked, group: str, topic: str = TOPIC, queue: int = 0, **more: object) -> str:
    code = RequestCode.QUERY_CONSUMER_OFFSET
    found = asked.ask(code, consumerGroup=group, topic=topic, queueId=queue, **more)
    return found.fields.get("offset", str(found.code))


def commit(asked: Asked, group: str, to: int, topic: str = TOPIC, queue: int = 0) -> int:
    asked.broker.groups.find(group)  # as a heartbeat makes it known
    return asked.ask(
        RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup=group, topic=topic, queueId=queue,
        commitOffset=to).code  # fmt: skip


def test_a_group_that_nobody_has_heard_of_commits_nothing_from_5_3_0_on() -> None:
    fields = {"consumerGroup": "unheard", "topic": TOPIC, "queueId": 0, "commitOffset": 5}
    for release, expected in (("5.2.0", 0), ("5.3.0", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)):
        asked = Asked(opened(release=release))
        assert asked.ask(RequestCode.UPDATE_CONSUMER_OFFSET, **fields).code == expected


def test_a_new_group_begins_where_a_broker_lets_it(asked: Asked) -> None:
    assert offset(asked, "unheard") == "0"  # all of the queue is there, and fits into memory
    assert offset(asked, "unheard", setZeroIfNotFound="false") == str(ResponseCode.QUERY_NOT_FOUND)
    small = asked.broker.limits._replace(memory_bytes=1)
    asked.broker.limits = small
    assert offset(asked, "unheard") == str(ResponseCode.QUERY_NOT_FOUND)
    for release, reported in (("5.0.0", "0"), ("5.1.0", str(ResponseCode.QUERY_NOT_FOUND))):
        assert offset(Asked(opened(release=release)), "unheard", "TBW102") == reported


def test_a_pull_tells_how_far_its_group_has_come(asked: Asked) -> None:
    fields = pull(TOPIC, 0, 40, 2, commitOffset=33).fields
    asked.ask(RequestCode.PULL_MESSAGE, **fields)
    assert asked.broker.offsets.query("g", TOPIC, 0) == -1
    asked.ask(RequestCode.PULL_MESSAGE, **{**fields, "sysFlag": HAS_SUBSCRIPTION | COMMIT})
    assert asked.broker.offsets.query("g", TOPIC, 0) == 33
    assert asked.broker.offsets.query_pulled("g", TOPIC, 0) == 42
    assert asked.broker.given.total == 4


def test_what_clients_make_up_is_bounded(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MOST_QUEUES", 3)
    codes = [commit(asked, f"many{n}", 1) for n in range(5)]
    assert codes == [0, 0, 0, ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_ERROR]
    assert commit(asked, "many0", 2) == 0  # what is there is kept up
    monkeypatch.setattr(clients, "MOST_MEMBERS", 1)
    assert asked.heartbeat(1, GROUP, TOPIC).code == 0
    assert asked.heartbeat(1, GROUP, TOPIC).code == 0
    assert "1 members" in (asked.heartbeat(2, GROUP, TOPIC).remark or "")
    monkeypatch.setattr(clients, "MOST_SUBSCRIBED", 1000)
    assert "1000 bytes" in (asked.heartbeat(1, GROUP, "T" * 2000).remark or "")
    assert list(asked.broker.consumers.groups[GROUP].subscriptions) == [TOPIC]
    monkeypatch.undo()
    # What is kept of a short one is more than its characters.
    topics = [f"t{number}" for number in range(2000)]
    for number in range(2000):
        if asked.heartbeat(1, f"g{number}", *topics).code != ResponseCode.SUCCESS:
            break
    assert 10 < number < 150


def members(asked: Asked, group: str) -> list[str]:
    found = asked.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=group)
    return said(found)["consumerIdList"] if found.code == 0 else []  # type: ignore[no-any-return]


def test_an_expression_cannot_keep_all_others_waiting(asked: Asked) -> None:
    long = " OR ".join(["a = 'x'"] * 2900)
    asked.heartbeat(1, "sql", TOPIC, sql=long)
    most = (1 << 31) - 1
    fields = pull(TOPIC, 0, 0, most, consumerGroup="sql", sysFlag=0, subVersion=0).fields
    found = asked.ask(RequestCode.PULL_MESSAGE, **fields)
    assert found.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert 0 < int(found.fields["nextBeginOffset"]) < 300  # it goes on with the next pull
    asked.heartbeat(2, "longer", TOPIC, sql=long + long)
    refused = asked.ask(RequestCode.PULL_MESSAGE, **{**fields, "consumerGroup": "longer"})
    assert refused.code == ResponseCode.FILTER_DATA_NOT_EXIST


def test_members_come_and_go_and_the_others_are_reported(asked: Asked) -> None:
    assert members(asked, "g") == []
    asked.heartbeat(1, "g", TOPIC)
    assert asked.reported() == [(1, "g")]
    asked.heartbeat(1, "g", TOPIC)
    assert asked.reported() == []
    asked.heartbeat(2, "g", TOPIC)
    assert asked.reported() == [(1, "g"), (2, "g")]
    assert members(asked, "g") == ["c1", "c2"]
    asked.ask(RequestCode.UNREGISTER_CLIENT, 1, clientID="c1", consumerGroup="g")
    assert (members(asked, "g"), asked.reported()) == (["c2"], [(2, "g")])
    asked.heartbeat(3, "g", TOPIC)
    asked.reported()
    for closed in asked.broker.closed:
        closed(2, asked.now)
    assert (members(asked, "g"), asked.reported()) == (["c3"], [(3, "g")])
    for tick in asked.broker.ticked:
        tick(asked.now + clients.EXPIRY)
    assert members(asked, "g") == ["c3"]
    for tick in asked.broker.ticked:
        tick(asked.now + clients.EXPIRY + 1)
    assert members(asked, "g") == []
    for client in (1, 2):
        asked.heartbeat(client, "all", TOPIC, model="BROADCASTING")
    assert asked.reported() == []


def test_subscriptions_are_replaced_by_newer_ones(asked: Asked) -> None:
    asked.heartbeat(1, "g", "A", "B", version=5)
    asked.heartbeat(1, "g", "B", "C", sql="x > 1", version=4)
    there = asked.broker.consumers.groups["g"].subscriptions
    assert {name: each.kind for name, each in there.items()} == {"B": "TAG", "C": "SQL92"}
    asked.heartbeat(1, "g", "B", sql="x > 1", version=6)
    assert asked.broker.consumers.groups["g"].subscriptions["B"].text == "x > 1"


def test_heartbeats_without_subscriptions_keep_them_or_ask_for_them(asked: Asked) -> None:
    two = {"heartbeatFingerprint": 77}
    known = asked.heartbeat(1, "g", TOPIC, **two)
    assert known.fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "false"}
    again = asked.heartbeat(1, "g", **two, withoutSub=True)
    assert again.fields["IS_SUB_CHANGE"] == "false"
    assert list(asked.broker.consumers.groups["g"].subscriptions) == [TOPIC]
    # a server that was started again knows nothing of it
    unknown = asked.heartbeat(1, "other", **two, withoutSub=True)
    assert unknown.fields["IS_SUB_CHANGE"] == "true"
    assert asked.heartbeat(1, "g", TOPIC).fields["IS_SUB_CHANGE"] == "true"  # an older client


def test_a_groups_retry_topic_is_there_once_it_is_heard_of(asked: Asked) -> None:
    code = RequestCode.GET_ROUTEINFO_BY_TOPIC
    assert asked.ask(code, topic="%RETRY%g").code == ResponseCode.TOPIC_NOT_EXIST
    asked.heartbeat(1, "g", TOPIC)
    assert asked.ask(code, topic="%RETRY%g").code == 0
    asked.broker.store.refresh()
    assert asked.ask(code, topic="%RETRY%g").code == 0


def lock(asked: Asked, client: str, *queues: int, code: int = RequestCode.LOCK_BATCH_MQ) -> object:
    wanted = [{"brokerName": "b", "queueId": queue, "topic": TOPIC} for queue in queues]
    body = {"consumerGroup": "g", "clientId": client, "mqSet": wanted}
    found = asked.ask(code, body=body)
    return [each["queueId"] for each in said(found)["lockOKMQSet"]] if found.body else found.code


def test_a_queue_is_one_clients_until_it_gives_it_back_or_is_silent(asked: Asked) -> None:
    assert lock(asked, "c1", 0, 1) == [0, 1]
    assert lock(asked, "c2", 1, 2) == [2]
    asked.now += clients.LIVE_MILLISECONDS
    assert lock(asked, "c1", 1) == [1]  # it asks again, and keeps it for another minute
    assert lock(asked, "c2", 0, 1) == []
    asked.now += 1
    assert lock(asked, "c2", 0, 1) == [0]
    lock(asked, "c2", 1, code=RequestCode.UNLOCK_BATCH_MQ)  # another's stays
    assert lock(asked, "c2", 1) == []
    lock(asked, "c1", 1, code=RequestCode.UNLOCK_BATCH_MQ)
    assert lock(asked, "c2", 1) == [1]
    assert lock(asked, "c1", 4, -1, 10**6) == []  # there are none such


def test_a_unique_key_is_asked_for_as_many_as_a_broker_asks_for(asked: Asked, monkeypatch) -> None:
    """QueryMessageProcessor: 32 (defaultQueryMaxNum), whatever the client wants."""
    seen: list[int] = []

    def by_key(topic: str, key: str, most: int, begin: int, end: int) -> Any:
        seen.append(most)
        return [], 0, 0

    monkeypatch.setattr(asked.broker.store, "by_key", by_key)
    fields = {"topic": TOPIC, "key": "k", "maxNum": 5, "beginTimestamp": 0, "endTimestamp": 9}
    for more in ({}, {"_UNIQUE_KEY_QUERY": "true"}, {"_UNIQUE_KEY_QUERY": "false"}):
        asked.ask(RequestCode.QUERY_MESSAGE, **fields, **more)
    assert seen == [5, 32, 5]


def test_topics_are_there_that_a_broker_makes_when_it_starts(asked: Asked) -> None:
    """The golden store's broker made them: only our own broker's and cluster's names are new."""
    found = said(asked.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))["topicList"]
    theirs = [name for name in found if asked.broker.store.topics[name].configured]
    new = ["reput", "DefaultCluster", "DefaultCluster_REPLY_TOPIC",
           "rmq_sys_REVIVE_LOG_DefaultCluster", "rmq_sys_SYNC_BROKER_MEMBER_reput"]  # fmt: skip
    assert sorted(set(found) - set(theirs)) == sorted(new)
    own = {name.replace("DefaultCluster", "C").replace("reput", "b0") for name in new}
    assert own <= set(theirs)
    # A tool takes for a user's what is not in this list (TopicValidator.SYSTEM_TOPIC_SET).
    listed = said(asked.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER))["topicList"]
    kinds = ("TRANS_HALF_TOPIC", "TRANS_OP_HALF_TOPIC")
    assert {f"RMQ_SYS_ROCKSDB_{kind}" for kind in kinds} <= set(listed)
