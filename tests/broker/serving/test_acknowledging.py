"""Acknowledgements and changes of invisible time: what a handle reaches, and what is refused."""

import base64
from typing import Any

import pytest

from reput.broker.serving.groups import GroupOffsets
from reput.broker.serving.popped import InFlight, Orders
from reput.broker.wire.codes import RequestCode, ResponseCode
from tests.broker.serving.served import message, served
from tests.jobs.sockets.asked import Asked
from tests.jobs.sockets.popping import Popped, ack, ack_of, fields, pop

NOW = 10_000_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    return served(tmp_path_factory.mktemp("store"), [message(n) for n in range(20)])


@pytest.fixture
def asked(store: Asked) -> Asked:
    """Nothing is popped yet."""
    broker = store.broker
    broker.in_flight, broker.orders, broker.offsets = InFlight(), Orders(), GroupOffsets({})
    store.now = NOW
    return store


def waiting(asked: Asked) -> list[int]:
    """The positions that nobody has acknowledged."""
    return [position for *_, point in asked.broker.in_flight.all() for position in point.waiting()]


def batch_of(each: Popped, bits: bytes, **more: Any) -> dict[str, Any]:
    start, pop_time, invisible, revive, *_ = each.handle.split(" ")
    return {"c": "g", "t": "T", "r": "0", "so": int(start), "q": 0, "rq": int(revive),
            "pt": int(pop_time), "it": int(invisible), "b": base64.b64encode(bits).decode(),
            **more}  # fmt: skip


def batch(asked: Asked, *batches: Any) -> int:
    return asked.ask(RequestCode.BATCH_ACK_MESSAGE, body={"acks": list(batches)}).code


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({}, ResponseCode.SUCCESS),
        ({"offset": 20}, ResponseCode.SUCCESS),  # the maximum itself passes, as in a broker
        ({"offset": 21}, ResponseCode.NO_MESSAGE),
        ({"offset": -1}, ResponseCode.NO_MESSAGE),
        ({"queueId": 1}, ResponseCode.MESSAGE_ILLEGAL),
        ({"topic": "None"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"extraInfo": "1 2 3"}, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_an_acknowledgement_is_of_a_queue_and_a_position(asked, more, code) -> None:
    each = pop(asked, "g", "T")[0]
    wanted = {**ack_of("g", each, "T"), **more}
    assert asked.ask(RequestCode.ACK_MESSAGE, **wanted).code == code
    assert waiting(asked) == list(range(0 if more else 1, 20))


def test_a_batch_acknowledges_the_bits_of_a_java_bit_set(asked: Asked) -> None:
    """BitSet.toByteArray: bit n of byte m is the number 8 * m + n."""
    each = pop(asked, "g", "T")[0]
    assert batch(asked, batch_of(each, b"\x05\x81")) == ResponseCode.SUCCESS
    assert waiting(asked) == sorted({*range(20)} - {0, 2, 8, 15})
    long = {"consumerGroup": "g", "topic": "T", "retry": "0", "startOffset": 0, "queueId": 0,
            "reviveQueueId": 0, "popTime": int(each.handle.split(" ")[1]), "invisibleTime": 1,
            "bitSet": base64.b64encode(b"\x02").decode()}  # fmt: skip
    assert batch(asked, long, batch_of(each, b"\x00\x00\xf0\xff")) == ResponseCode.SUCCESS
    assert waiting(asked) == sorted({*range(20)} - {0, 1, 2, 8, 15})


@pytest.mark.parametrize(("acks", "code"), [
    ([], ResponseCode.NO_MESSAGE), ([{}], ResponseCode.SYSTEM_ERROR),
    ([7], ResponseCode.SYSTEM_ERROR), ([{"r": "3"}], ResponseCode.SYSTEM_ERROR),
    ([{"b": "no base 64!"}], ResponseCode.SYSTEM_ERROR), ([{"so": "x"}], ResponseCode.SYSTEM_ERROR),
    ([{"q": 1}], ResponseCode.SUCCESS), ([{"t": "None"}], ResponseCode.SUCCESS),
    ([{"so": -5}], ResponseCode.SUCCESS), ([{"b": None}], ResponseCode.SUCCESS)])  # fmt: skip
def test_a_batch_that_is_none_changes_nothing(asked: Asked, acks: list[Any], code: int) -> None:
    each = pop(asked, "g", "T")[0]
    made = [batch_of(each, b"\x01", **a) if a and isinstance(a, dict) else a for a in acks]
    assert batch(asked, *made) == code
    assert waiting(asked) == list(range(20))


def test_another_time_is_counted_from_now_and_gives_another_handle(asked: Asked) -> None:
    first, *_ = pop(asked, "g", "T", maxMsgNums=2)
    asked.now += 100
    wanted = ack_of("g", first, "T", invisibleTime=5000)
    said = asked.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, **wanted)
    assert said.fields["popTime"] == str(NOW + 100)
    assert said.fields["invisibleTime"] == "5000"
    assert said.fields["reviveQid"] == first.handle.split(" ")[3]
    assert ack(asked, "g", first, "T") == ResponseCode.SUCCESS  # by a handle that is over
    assert waiting(asked) == [1, 0]
    handle = f"0 {NOW + 100} 5000 0 0 reput 0 0"
    assert ack(asked, "g", first._replace(handle=handle), "T") == ResponseCode.SUCCESS
    assert waiting(asked) == [1]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"offset": 20}, ResponseCode.NO_MESSAGE),  # unlike an acknowledgement's
        ({"offset": -1}, ResponseCode.NO_MESSAGE),
        ({"queueId": 1}, ResponseCode.MESSAGE_ILLEGAL),
        ({"invisibleTime": "x"}, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_a_time_that_cannot_be_set(asked: Asked, more: dict[str, Any], code: int) -> None:
    each = pop(asked, "g", "T", maxMsgNums=1)[0]
    wanted = ack_of("g", each, "T", **{"invisibleTime": 1, **more})
    assert asked.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, **wanted).code == code
    assert waiting(asked) == [0]


def test_in_order_an_acknowledgement_moves_the_groups_offset(asked: Asked) -> None:
    some = pop(asked, "g", "T", order="true", maxMsgNums=3)
    assert ack(asked, "g", some[1], "T") == ResponseCode.SUCCESS
    assert asked.broker.offsets.query("g", "T", 0) == 0
    assert ack(asked, "g", some[0], "T") == ResponseCode.SUCCESS
    assert asked.broker.offsets.query("g", "T", 0) == 2
    assert ack(asked, "g", some[0], "T") == ResponseCode.SUCCESS  # done before
    assert ack(asked, "g", some[2], "T", offset=9) == ResponseCode.MESSAGE_ILLEGAL
    asked.broker.offsets.reset("g", "T", 0, 1)
    assert ack(asked, "g", some[2], "T") == ResponseCode.SUCCESS
    assert asked.broker.offsets.take_reset("g", "T", 0) == 1  # it is the next pop's
    assert asked.broker.offsets.query("g", "T", 0) == 1  # and nothing was committed under it


def test_in_order_another_time_is_when_the_queue_is_free_again(asked: Asked) -> None:
    first, second = pop(asked, "g", "T", order="true", maxMsgNums=2, invisibleTime=1000)
    for each, time in ((first, 400), (second, 300)):
        said = asked.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, **ack_of(
            "g", each, "T", invisibleTime=time))  # fmt: skip
        assert said.fields["popTime"] == str(NOW)
        assert (said.fields["invisibleTime"], said.fields["reviveQid"]) == (str(time), "999")
    asked.now += 399
    assert pop(asked, "g", "T", order="true") == []
    asked.now += 1
    assert [each.position for each in pop(asked, "g", "T", order="true", maxMsgNums=2)] == [0, 1]


def test_in_order_a_message_is_counted_each_time_it_comes_again(asked: Asked) -> None:
    counts = []
    for attempt in "abcd":
        said = asked.ask(RequestCode.POP_MESSAGE, **fields("g", "T", order="true", maxMsgNums=2,
                                                           attemptId=attempt,
                                                           invisibleTime=1000))  # fmt: skip
        counts.append(said.fields["orderCountInfo"].split(";"))
        asked.now += 1000
    assert counts == [["0 0 0"]] + [[f"0 qo0%0 {n}", f"0 qo0%1 {n}", f"0 0 {n}"] for n in (1, 2, 3)]


def test_a_refusal_in_a_batch_is_told_though_later_ones_are_done(asked: Asked) -> None:
    some = pop(asked, "g", "T", order="true", maxMsgNums=3)
    assert batch(asked, batch_of(some[0], b"\x21")) == ResponseCode.MESSAGE_ILLEGAL
    wrong, right = batch_of(some[0], b"\x20"), batch_of(some[0], b"\x06")
    assert batch(asked, wrong, right) == ResponseCode.MESSAGE_ILLEGAL
    assert asked.broker.offsets.query("g", "T", 0) == 3
