"""Any request has an answer: by its code, after the guards, and never with a path of ours."""

import pytest

from reput.broker.serving import handlers
from reput.broker.serving.broker import Answer, Broker, Caller, found, refused
from reput.broker.serving.handlers import HANDLERS, answer, reply
from reput.broker.wire.codes import Language, RequestCode, ResponseCode
from reput.broker.wire.remoting import RESPONSE_BIT, Command, Serialization
from reput.store_format.faults import StoreError
from tests.jobs.sockets.asked import Asked
from tests.jobs.sockets.asking import request

CALLER = Caller(1, "10.0.0.1:5000", "127.0.0.1:9876", 5)


@pytest.fixture
def broker(store: Asked) -> Broker:
    return store.broker


def test_each_request_is_answered_or_not_supported(broker: Broker) -> None:
    for code in [0, -1, 99_999, (1 << 31) - 1]:
        said = answer(broker, request(code), CALLER)
        assert said == refused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                               f" request type {code} not supported")  # fmt: skip
    for code in HANDLERS:
        assert isinstance(answer(broker, request(code), CALLER), Answer), RequestCode(code)
    missing = answer(broker, request(RequestCode.PULL_MESSAGE), CALLER)
    assert missing == refused(ResponseCode.SYSTEM_ERROR, "the custom field <topic> is null")
    asked = request(11, 77)._replace(serialization=Serialization.ROCKETMQ)
    said = reply(broker, asked, Answer(3, "why", {"a": "b"}, b"body"))
    assert said == Command(3, 77, RESPONSE_BIT, {"a": "b"}, b"body", "why", broker.version,
                           Language.PYTHON, Serialization.ROCKETMQ)  # fmt: skip


def test_a_store_that_cannot_be_read_is_told_without_its_paths(broker: Broker, monkeypatch) -> None:
    def unreadable(*_: object) -> Answer:
        raise StoreError("/srv/secret/commitlog: is damaged")

    monkeypatch.setitem(handlers.HANDLERS, 11, unreadable)
    said = answer(broker, request(11), CALLER)
    assert said.code == ResponseCode.SYSTEM_ERROR
    assert "secret" not in str(said)


def test_the_first_guard_that_says_something_is_heard_alone(broker: Broker, monkeypatch) -> None:
    no = refused(ResponseCode.NO_PERMISSION, "no")
    monkeypatch.setattr(broker, "guards", [lambda *_: None, lambda *_: no, lambda *_: found()])
    assert answer(broker, request(RequestCode.GET_BROKER_CLUSTER_INFO), CALLER) is no
    assert answer(broker, request(99_999), CALLER) is no
