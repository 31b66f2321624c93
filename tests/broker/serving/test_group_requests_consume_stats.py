"""How far groups have come in their topics, and how late they are (AdminBrokerProcessor)."""

from typing import Any

import pytest

from reput.broker.serving.groups import GroupOffsets
from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.store_format.release.profiles import profile
from tests.broker.serving.served import STEP, T0, by_queue, message, served
from tests.jobs.sockets.asked import Asked, said

TOPICS: dict[str, Any] = {
    "T": {"readQueueNums": 2, "writeQueueNums": 1},
    "U": {"readQueueNums": 1, "writeQueueNums": 1, "order": True},
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """T's queue 0 has the messages 0 to 4, U's the messages 5 and 6."""
    made = [message(n, "T" if n < 5 else "U") for n in range(7)]
    return served(tmp_path_factory.mktemp("store"), made, topics=TOPICS)


@pytest.fixture
def asked(store: Asked) -> Asked:
    broker = store.broker
    broker.offsets = GroupOffsets({("g", "T"): {0: 3}, ("g", "U"): {0: 9}, ("g", "Gone"): {0: 1}})
    broker.groups.find("g")
    store.now = T0 + 100 * STEP
    return store


def of_group(asked: Asked, group: str = "g", **more: Any) -> dict[tuple[str, int], Any]:
    return by_queue(asked.ask(RequestCode.GET_CONSUME_STATS, 1, consumerGroup=group, **more).body)


def progress(end: int, consumed: int, pulled: int, last: int) -> dict[str, int]:
    return {
        "brokerOffset": end, "consumerOffset": consumed, "lastTimestamp": last, "pullOffset": pulled
    }  # fmt: skip


def test_a_groups_progress_is_of_all_queues_that_are_read(asked: Asked) -> None:
    asked.broker.offsets.pulled("g", "T", 0, 5)
    asked.broker.offsets.pulled("g", "U", 0, 2)
    assert of_group(asked) == {
        ("T", 0): progress(5, 3, 5, T0 + 2 * STEP),  # of the last message consumed
        ("T", 1): progress(0, 0, 0, 0),
        ("U", 0): progress(2, 9, 9, 0),  # past the end; given less than it has committed
    }


@pytest.mark.parametrize(
    ("more", "topics"),
    [
        ({}, {"T", "U"}), ({"topic": " "}, {"T", "U"}), ({"topic": "U"}, {"U"}),
        ({"topic": "None"}, set()), ({"topicList": "U;None;;T"}, {"T", "U"}),
        ({"topicList": ";", "topic": "T"}, {"T"}), ({"topicList": "U", "topic": "T"}, {"U"}),
    ],
)  # fmt: skip
def test_topics_are_those_named_or_those_the_group_has_offsets_of(
    asked: Asked, more: dict[str, str], topics: set[str]
) -> None:
    assert {topic for topic, _ in of_group(asked, **more)} == topics


def test_a_topic_that_the_group_no_longer_subscribes_to_is_left_out_unless_listed(
    asked: Asked,
) -> None:
    asked.heartbeat(1, "g", "U")
    try:
        assert {topic for topic, _ in of_group(asked)} == {"U"}
        assert of_group(asked, topic="T") == {}
        assert {topic for topic, _ in of_group(asked, topicList="T")} == {"T"}
    finally:
        asked.broker.consumers.leave("g", 1)


@pytest.mark.parametrize(
    ("ordered", "behind", "topics"), [("false", 5 - 3 + 2 - 9, 2), ("true", 2 - 9, 1)]
)
def test_all_groups_are_behind_by_the_sum_of_their_queues(
    asked: Asked, ordered: str, behind: int, topics: int
) -> None:
    """ConsumeStats.computeTotalDiff: brokerOffset - consumerOffset."""
    answer = asked.ask(RequestCode.GET_BROKER_CONSUME_STATS, 1, isOrder=ordered)
    text = answer.body.decode()
    assert f'"totalDiff":{behind},' in text
    assert text.count('"consumeTps"') == topics
    assert text.startswith('{"brokerAddr":"127.0.0.1:9876",')
    assert ("T", 1) not in by_queue(answer.body)  # of queues that are written to


def test_of_all_groups_no_broker_tells_how_far_they_were_given_messages(asked: Asked) -> None:
    """fetchAllConsumeStatsInBroker sets no pullOffset: 0 - 3 of T, 0 - 9 of U."""
    asked.broker.offsets.pulled("g", "T", 0, 5)
    answer = asked.ask(RequestCode.GET_BROKER_CONSUME_STATS, 1, isOrder="false")
    assert answer.body.endswith(b'"totalInflightDiff":-12}')
    assert by_queue(answer.body) == {
        ("T", 0): progress(5, 3, 0, T0 + 2 * STEP), ("U", 0): progress(2, 9, 0, 0)
    }  # fmt: skip


def test_before_5_1_0_there_is_no_pull_offset(asked: Asked, monkeypatch) -> None:
    monkeypatch.setattr(asked.broker.store.opened, "profile", profile("5.0.0"))
    wanted = progress(5, 3, 0, T0 + 2 * STEP)
    del wanted["pullOffset"]
    assert of_group(asked)["T", 0] == wanted
    answer = asked.ask(RequestCode.GET_BROKER_CONSUME_STATS, 1, isOrder="false")
    assert by_queue(answer.body)["T", 0] == wanted
    assert b"Inflight" not in answer.body


def spans(asked: Asked, group: str) -> Any:
    found = asked.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, 1, topic="T", group=group)
    return [
        [each[name] for name in ("minTimeStamp", "maxTimeStamp", "consumeTimeStamp", "delayTime")]
        for each in said(found)["consumeTimeSpanSet"]
    ]


def test_a_span_is_from_the_first_message_to_the_last_and_what_is_late_is_the_next(
    asked: Asked,
) -> None:
    end = T0 + 4 * STEP
    assert spans(asked, "g") == [[T0, end, T0 + 2 * STEP, (100 - 3) * STEP]]
    asked.broker.offsets.commit("g", "T", 0, 5)
    assert spans(asked, "g") == [[T0, end, end, 0]]
    asked.broker.offsets.commit("g", "T", 0, 0)
    assert spans(asked, "g") == [[T0, end, T0, 100 * STEP]]
    # getMessageStoreTimeStamp of the offset -1 is -1
    assert spans(asked, "new") == [[T0, end, T0, asked.now + 1]]
    none = asked.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, 1, topic="None", group="g")
    assert none.code == ResponseCode.TOPIC_NOT_EXIST
