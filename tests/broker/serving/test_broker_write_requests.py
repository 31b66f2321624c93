"""All that would write is refused in a broker's words, but for the topic that a Proxy needs."""

import pytest

from reput.broker.serving import broker
from reput.broker.wire.codes import RequestCode, ResponseCode
from tests.broker.serving.served import message, served
from tests.jobs.sockets.asked import Asked


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    return served(tmp_path_factory.mktemp("store"), [message(0)])


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_REPLY_MESSAGE_V2,
    ],
)  # fmt: skip
def test_a_message_is_forbidden_at_this_brokers_address(asked: Asked, code: int) -> None:
    answer = asked.ask(code, 1, b"body")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.remark == (
        "the broker[127.0.0.1:9876] sending message is forbidden: "
        "reput serves this store to be read only"
    )


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.END_TRANSACTION, RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.UPDATE_BROKER_CONFIG, RequestCode.REGISTER_BROKER,
        RequestCode.UNREGISTER_BROKER, RequestCode.DELETE_EXPIRED_COMMITLOG,
        RequestCode.AUTH_CREATE_USER,
    ],
)  # fmt: skip
def test_a_change_is_refused_by_its_name(asked: Asked, code: RequestCode) -> None:
    answer = asked.ask(code, 1, brokerId=0)
    assert answer.code == ResponseCode.NO_PERMISSION
    assert str(answer.remark).startswith(f"{code.name} would change the store")


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("DefaultHeartBeatSyncerTopic", True), ("HeartBeatSyncerTopic", True), ("T2", False),
        ("HeartBeatSyncerTopic2", False), ("a b HeartBeatSyncerTopic", False),
        ("x" * 236 + "HeartBeatSyncerTopic", False),
    ],
)  # fmt: skip
def test_only_a_proxys_own_topic_is_made_in_memory(asked: Asked, name: str, made: bool) -> None:
    answer = asked.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, 1, topic=name)
    assert (answer.code == ResponseCode.SUCCESS) is made
    assert (name in asked.broker.store.topics) is made


def test_not_more_than_some_are_made(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    code = RequestCode.UPDATE_AND_CREATE_TOPIC
    asked.ask(code, 1, topic="oneHeartBeatSyncerTopic")
    there = sum(name.endswith("HeartBeatSyncerTopic") for name in asked.broker.store.topics)
    monkeypatch.setattr(broker, "_MOST_MADE", there)
    assert asked.ask(code, 1, topic="twoHeartBeatSyncerTopic").code == ResponseCode.NO_PERMISSION
    assert asked.ask(code, 1, topic="oneHeartBeatSyncerTopic").code == ResponseCode.SUCCESS
