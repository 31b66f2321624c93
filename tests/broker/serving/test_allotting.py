"""Who gets which queue, against what RocketMQ's own strategies gave (allocation_cases.py)."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.broker.serving import allotting, clients
from reput.broker.serving.clients import QueueLocks
from reput.broker.wire.codes import RequestCode, ResponseCode
from tests.broker.allocation_cases import FILE, case, ours
from tests.broker.serving.served import message, served
from tests.jobs.sockets.asked import TOPIC, Asked, opened, said

THEIRS = json.loads(FILE.read_text("utf-8"))


def test_what_rocketmq_gives() -> None:
    wrong = [(seed, case(seed)["strategy"], ours(case(seed)), theirs) for seed,
             theirs in enumerate(THEIRS) if ours(case(seed)) != theirs]  # fmt: skip
    assert wrong == []
    assert {case(seed)["strategy"] for seed, theirs in enumerate(THEIRS) if theirs} == {
        "AVG", "AVG_BY_CIRCLE", "MACHINE_ROOM", "CONSISTENT_HASH", "CONFIG"}  # fmt: skip
    assert None in THEIRS


@settings(max_examples=40)
@given(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=9, unique=True),
       st.integers(1, 40))  # fmt: skip
def test_every_queue_has_exactly_one_client(clients: list[str], count: int) -> None:
    queues = [allotting.MessageQueue("T", "r@b", number) for number in range(count)]
    for name, strategy in allotting.strategies(rooms=["r"]).items():
        shares = allotting.allocation(strategy, queues, clients)
        assert sorted(q for share in shares.values() for q in share) == queues, name


def test_queues_and_clients_are_sorted_as_java_sorts_them_and_rooms_split_off() -> None:
    emoji, last = (
        "\U0001f600",
        "\uffee",
    )  # the first is the greater code point, not the greater unit
    queues = [
        allotting.MessageQueue("T", "b", 10),
        allotting.MessageQueue("T", "b", 9),
        allotting.MessageQueue("S", "c", 1),
    ]
    ordered, ids = allotting.in_order(queues, [last, emoji, "a"])
    assert ordered == [queues[2], queues[1], queues[0]]
    assert ids == ["a", emoji, last]
    assert "MACHINE_ROOM" not in allotting.strategies()
    queue = allotting.MessageQueue("T", "b", 0)
    found = allotting.allocation(allotting.averagely, [queue], ["x", "y"])
    assert found == {"x": [queue], "y": []}
    with pytest.raises(allotting.CannotAllocate):
        allotting.allocation(allotting.averagely, [], ["x"])
    for broker, room in [("r1@x", "r1"), ("r1@x@", "r1"), ("@x", ""), ("r1@", None), ("r1", None)]:
        queues = [allotting.MessageQueue("T", broker, 0)]
        for each in ("r1", ""):
            assert allotting.machine_room("c", queues, ["c"], [each]) == (
                queues if each == room else []
            )


# --- Which queues a member reads, where the broker says so (QueryAssignmentProcessor).
@pytest.fixture
def asked() -> Asked:
    return Asked(opened())


def queues(asked: Asked, client: str, strategy: str = "AVG", **more: Any) -> Any:
    body = {"topic": TOPIC, "consumerGroup": "g", "clientId": client, "strategyName": strategy,
            "messageModel": "CLUSTERING", **more}  # fmt: skip
    found = said(asked.ask(RequestCode.QUERY_ASSIGNMENT, body=body)).get("messageQueueAssignments")
    if found is None:
        return None
    assert {each["messageQueue"]["topic"] for each in found} <= {TOPIC}
    return [(each["mode"], each["messageQueue"]["queueId"]) for each in found]


def set_mode(asked: Asked, topic: str = TOPIC, group: str = "g", shared: Any = 0) -> int:
    body = {"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": shared}
    return asked.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=body).code


def test_members_share_queues_by_the_strategy_that_they_name(asked: Asked) -> None:
    assert queues(asked, "c1") is None  # no heartbeat yet
    for client in (1, 2, 3):
        asked.heartbeat(client, "g", TOPIC)
    shares = [queues(asked, f"c{n}") for n in (1, 2, 3)]
    assert shares == [[("PULL", 0), ("PULL", 1)], [("PULL", 2)], [("PULL", 3)]]
    assert queues(asked, "c1", "AVG_BY_CIRCLE") == [("PULL", 0), ("PULL", 3)]
    assert queues(asked, "stranger") == []
    assert queues(asked, "c1", "CONSISTENT_HASH") is None  # a broker has not got it
    assert queues(asked, "c1", topic="NoSuchTopic") is None
    everything = [("PULL", n) for n in range(4)]
    assert queues(asked, "anybody", messageModel="BROADCASTING") == everything


def test_a_group_that_pops_reads_all_queues_or_those_of_its_neighbours(asked: Asked) -> None:
    for client in (1, 2, 3):
        asked.heartbeat(client, "g", TOPIC)
    assert set_mode(asked) == ResponseCode.SUCCESS
    assert queues(asked, "c2") == [("POP", -1)]
    assert set_mode(asked, shared=1) == ResponseCode.SUCCESS
    assert queues(asked, "c3") == [("POP", 3), ("POP", 0), ("POP", 1)]
    assert queues(asked, "stranger") == []
    for client in (4, 5):
        asked.heartbeat(client, "g", TOPIC)
    assert queues(asked, "c5") == [("POP", 0)]  # more members than queues
    table = said(asked.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE))["messageRequestModeMap"]
    assert table[TOPIC]["g"]["popShareQueueNum"] == 1


def test_a_mode_that_cannot_be_set_is_refused(asked: Asked, monkeypatch) -> None:
    assert set_mode(asked, "%RETRY%g") == ResponseCode.NO_PERMISSION
    assert set_mode(asked, "NoSuchTopic") == ResponseCode.TOPIC_NOT_EXIST
    assert set_mode(asked, group="no/group") == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert set_mode(asked, shared="many") == ResponseCode.SYSTEM_ERROR
    for code in (RequestCode.SET_MESSAGE_REQUEST_MODE, RequestCode.QUERY_ASSIGNMENT):
        assert asked.ask(code, body=b"[]").code == ResponseCode.SYSTEM_ERROR
    monkeypatch.setattr(clients, "_MOST", 1)
    assert set_mode(asked) == ResponseCode.SUCCESS
    assert set_mode(asked, "Live1") == ResponseCode.SYSTEM_ERROR
    assert set_mode(asked) == ResponseCode.SUCCESS


# --- Requests to lock queues for one client: of which queues, and what is no such request.
@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    topics = {"T": {"readQueueNums": 2}}
    return served(tmp_path_factory.mktemp("store"), [message(0)], topics=topics)


@pytest.fixture
def asked_lock(store: Asked) -> Asked:
    store.broker.locks = QueueLocks()
    return store


def queue(queue_id: Any, topic: str = "T") -> dict[str, Any]:
    return {"brokerName": "reput", "queueId": queue_id, "topic": topic}


def lock(asked_lock: Asked, client: str, *queues: Any, group: str = "g") -> Any:
    body = {"consumerGroup": group, "clientId": client, "mqSet": list(queues)}
    return said(asked_lock.ask(RequestCode.LOCK_BATCH_MQ, 1, body))["lockOKMQSet"]


def test_what_is_no_request_to_lock_is_refused_and_names_are_short(asked_lock: Asked) -> None:
    for body in [
        b"", b"[]", b"null", b"{}", b"[" * 100_000, b'{"consumerGroup":"g","clientId":"c"}',
        {"consumerGroup": "g", "clientId": "c", "mqSet": [7]},
        {"consumerGroup": "g", "clientId": "c", "mqSet": [queue("x")]},
        {"consumerGroup": "g", "clientId": "c", "mqSet": [queue(1e999)]}]:  # fmt: skip
        for code in [RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ]:
            assert asked_lock.ask(code, 1, body).code == ResponseCode.SYSTEM_ERROR
    body = {"consumerGroup": "a b", "clientId": "c", "mqSet": [queue(0)]}
    refused = asked_lock.ask(RequestCode.LOCK_BATCH_MQ, 1, body)
    assert refused.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert lock(asked_lock, "c" * 255 + "one", queue(0)) == [queue(0)]
    assert lock(asked_lock, "c" * 255 + "two", queue(0)) == [queue(0)]  # alike in what is kept
    (made,) = lock(asked_lock, "one", queue(0) | {"brokerName": "b" * 999})
    assert made["brokerName"] == "b" * 255
    wrong = [queue(2), queue(-1), queue(0, "None"), queue(1 << 40)]
    assert lock(asked_lock, "one", *wrong, queue(1)) == [queue(1)]
    assert lock(asked_lock, "one") == []
