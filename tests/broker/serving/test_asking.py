"""What only a group's consumers can answer is asked of them; offsets that operators reset."""

import json

import pytest

from reput.broker.serving import handlers
from reput.broker.serving.asking import queue_offsets
from reput.broker.serving.broker import Answer, Caller
from reput.broker.wire.codes import Entries, Language, RequestCode, ResponseCode, fastjson
from reput.broker.wire.remoting import RESPONSE_BIT, Command
from tests import golden_stores
from tests.jobs.sockets.asked import LISTENING, TOPIC, Asked, opened
from tests.jobs.sockets.asking import HAS_SUBSCRIPTION, Peer, request
from tests.jobs.sockets.serving import Serving

GROUP = "g12"
QUEUES = ({"brokerName": "b", "queueId": 0, "topic": TOPIC}, {
    "brokerName": "b", "queueId": 1, "topic": TOPIC})  # fmt: skip


@pytest.fixture
def asked() -> Asked:
    return Asked(opened())


def test_the_consumer_that_is_named_is_asked_and_its_words_are_the_answer(asked: Asked) -> None:
    for client in (7, 8):
        asked.heartbeat(client, GROUP, TOPIC)
    fields = {"consumerGroup": GROUP, "clientId": "c8", "jstackEnable": "true",
              "AccessKey": "operator"}  # fmt: skip
    answer = asked.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, 1, **fields)
    question = answer.question
    assert question is not None
    assert (question.connection, question.wait) == (8, 10_000)
    assert question.command.code == RequestCode.GET_CONSUMER_RUNNING_INFO
    assert question.command.fields == {
        "consumerGroup": GROUP, "clientId": "c8", "jstackEnable": "true"}  # fmt: skip
    reported = Command(1, 5, RESPONSE_BIT, {"a": "b"}, b"{}", "not well")
    assert question.then(reported) == Answer(1, "not well", {"a": "b"}, b"{}")
    assert question.then(None).code == ResponseCode.CONSUME_MSG_TIMEOUT
    assert question.then(reported._replace(body=None)).code == ResponseCode.SYSTEM_ERROR
    for wrong in ({"clientId": "c9"}, {"consumerGroup": "none"}):
        missing = asked.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, 1, **fields | wrong)
        assert missing.question is None
        assert (missing.remark or "").endswith("not online")


def test_a_message_goes_to_the_consumer_that_is_to_consume_it(asked: Asked) -> None:
    asked.heartbeat(7, GROUP, TOPIC)
    queue = asked.broker.store.queue(TOPIC, 0)
    assert queue is not None
    place = int(queue.some(3, 1).places[0])
    fields = {"consumerGroup": GROUP, "clientId": "c7"}
    answer = asked.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, 1, msgId=f"{'0' * 16}{place:016X}",
                       **fields)  # fmt: skip
    assert answer.question is not None
    (record,) = answer.question.pieces
    assert record == asked.broker.store.files.range(
        place, asked.broker.store.log.record_at(place).size)  # fmt: skip
    assert answer.question.command.fields["brokerName"] == asked.broker.name
    for wrong in (f"{'0' * 16}{place + 1:016X}", "no id"):
        code = RequestCode.CONSUME_MESSAGE_DIRECTLY
        refused = asked.ask(code, 1, msgId=wrong, **fields)
        assert (refused.code, refused.question) == (ResponseCode.SYSTEM_ERROR, None)


def test_each_client_of_a_group_tells_how_far_it_has_come(asked: Asked) -> None:
    code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
    assert asked.ask(code, 1, group=GROUP, topic=TOPIC).code == ResponseCode.SYSTEM_ERROR
    for client in (7, 8, 9):
        asked.heartbeat(client, GROUP, TOPIC)
    body = fastjson({"messageQueueTable": Entries(zip(QUEUES, (3, 4), strict=True))})
    answer = asked.ask(code, 1, group=GROUP, topic=TOPIC)
    for connection, reported in ((7, Command(0, body=body)), (8, None), (9, Command(0, body=body))):
        assert answer.question is not None
        assert answer.question.connection == connection
        answer = answer.question.then(reported)
    assert answer.question is None
    assert answer.body == (
        b'{"consumerTable":{"c7":' + _offsets(3, 4) + b',"c9":' + _offsets(3, 4)
        + b'},"messageQueueTable":{}}'
    )  # fmt: skip
    one = asked.ask(code, 1, group=GROUP, topic=TOPIC, clientAddr="c9")
    assert one.question is not None
    assert (one.question.connection, one.question.then(None).question) == (9, None)


def _offsets(*each: int) -> bytes:
    return fastjson(Entries(zip(QUEUES, each, strict=True)))


def reset(asked: Asked, group: str, **more: object) -> Answer:
    fields = {"topic": TOPIC, "group": group, "timestamp": 0, "isForce": "true", **more}
    return asked.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, 1, **fields)


def committed(asked: Asked, group: str) -> list[int]:
    return [asked.broker.offsets.query(group, TOPIC, queue) for queue in range(4)]


def test_the_next_pull_of_a_queue_that_was_reset_is_told_where_to_go_on(asked: Asked) -> None:
    """resetOffsetInner, from 5.2.0 on; the limits of a reset are in test_group_requests.py."""
    answer = reset(asked, GROUP, timestamp=0)
    assert [offset for _, offset in queue_offsets(answer.body).pairs] == [0, 0, 0, 0]
    reported = pulled(asked, 9)
    assert (reported.code, reported.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
    assert reported.fields["nextBeginOffset"] == "0"
    assert committed(asked, GROUP) == [0, 0, 0, 0]  # what the pull said of itself does not count
    assert pulled(asked, 9).code == ResponseCode.SUCCESS  # it was reported once


def pulled(asked: Asked, position: int) -> Answer:
    return asked.ask(RequestCode.PULL_MESSAGE, 7, consumerGroup=GROUP, topic=TOPIC, queueId=0,
                     queueOffset=position, maxMsgNums=1, sysFlag=HAS_SUBSCRIPTION | 1,
                     commitOffset=99, subscription="*", suspendTimeoutMillis=0)  # fmt: skip


def test_a_client_in_cpp_is_told_of_a_reset_by_a_list() -> None:
    """Before 5.2.0, when the group's clients reset themselves."""
    asked = Asked(opened(release="4.9.7"))
    for queue in range(4):
        asked.broker.offsets.commit("g", TOPIC, queue, 9)
    asked.heartbeat(7, "g", TOPIC)
    fields = {"topic": TOPIC, "group": "g", "timestamp": "0", "isForce": "true"}
    cpp = request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, 1, **fields)
    caller = Caller(1, "10.0.0.1:5000", LISTENING, asked.now)
    handlers.answer(asked.broker, cpp._replace(language=Language.CPP), caller)
    reported = json.loads(asked.broker.outbox[-1][1].body or b"")["offsetTable"]
    assert [(each["queueId"], each["offset"]) for each in reported] == [(n, 0) for n in range(4)]


def test_questions_reach_the_consumer_by_its_connection() -> None:
    """Over sockets: an answer, none because the consumer went, and one that nobody waits for."""
    store = golden_stores.unpack("broker_clean_5.3.3").input
    running = request(
        RequestCode.GET_CONSUMER_RUNNING_INFO, 5, consumerGroup="g", clientId="c")  # fmt: skip
    beat = {"clientID": "c", "producerDataSet": [], "consumerDataSet": [
        {"groupName": "g", "subscriptionDataSet": []}]}  # fmt: skip
    with (Serving(store, "--rocketmq", "5.3.3") as serving, Peer(serving.address) as consumer,
          Peer(serving.address) as operator):  # fmt: skip
        body = json.dumps(beat).encode()
        assert consumer.ask(request(RequestCode.HEART_BEAT, 3, body)).code == 0
        operator.send(running)
        while (question := consumer.next()).code != RequestCode.GET_CONSUMER_RUNNING_INFO:
            pass  # it names itself
        said = Command(0, question.opaque, RESPONSE_BIT, {}, b'{"a":1}')
        consumer.send(said)
        consumer.send(said)  # nobody waits for it now
        answer = operator.next()
        assert (answer.opaque, answer.code, answer.body) == (5, 0, b'{"a":1}')
        operator.socket.settimeout(9)  # its time is up after ten seconds, and it is not waited for
        operator.send(running)
        consumer.next()
        consumer.socket.close()
        assert operator.next().code == ResponseCode.CONSUME_MSG_TIMEOUT
        assert operator.ask(running).code == ResponseCode.SYSTEM_ERROR  # not online now
        assert serving.end()[0] == 0
