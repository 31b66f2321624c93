"""POP beside a real broker on the same store: the same requests, and what is answered to each."""

import json
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from reput.broker.serving.broker import Answer
from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.broker.wire.remoting import Command
from reput.jobs.opening.questions import open_store
from reput.jobs.sockets.opened import ServedSource, open_broker, take_in_flight
from tests.jobs.sockets import popping
from tests.jobs.sockets.asked import Asked
from tests.jobs.sockets.asking import Peer, request
from tests.jobs.sockets.popping import Popped, ack_of, batch, fields, messages
from tests.processes import until
from tests.rocketmq import served
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import Broker, Client, free_port, warmed
from tests.rocketmq.live import messages as to_send

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

TOPIC = "Live0"
VERSION = "5.3.3"
_HOUR = 3_600_000
_DAYS = 3 * 24 * _HOUR  # timerMaxDelaySec
_ROUGHLY = 10_000  # milliseconds


def _given(answer: Command) -> list[Popped]:
    body = (memoryview(answer.body or b""),)
    return messages(Answer(answer.code, None, answer.fields, b"", body), served.NAME)


class Script:
    """Requests to one server, and what it said, as far as two servers can say the same."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.said: list[Any] = []

    def pop(self, group: str, **more: Any) -> list[Popped]:
        """Messages of a queue; of all queues only how many, as a broker begins at any queue."""
        wanted = {**fields(group), "queueId": 0, "invisibleTime": _HOUR, **more}
        answer = self._peer.ask(request(RequestCode.POP_MESSAGE, **wanted))
        found = _given(answer)
        names = ("invisibleTime", "restNum", "startOffsetInfo", "msgOffsetInfo", "orderCountInfo")
        of_one = wanted["queueId"] >= 0
        same = {name: answer.fields.get(name) for name in names if of_one and found}
        places = [(each.queue, each.position, each.times) for each in found if of_one]
        in_order = answer.fields.get("reviveQid") == "999"
        self.said.append(("pop", group, answer.code, same, in_order, places or len(found)))
        return found

    def ask(self, code: RequestCode, **more: Any) -> Command:
        """Any other request; what is said of its moment is left out."""
        body = more.pop("body", b"")
        answer = self._peer.ask(request(code, body=body, **more))
        # a broker's refusal has the fields of a header that nobody has filled
        fields = {} if answer.code else answer.fields
        known = {n: value for n, value in fields.items() if n not in ("popTime", "reviveQid")}
        if "invisibleTime" in known:  # in order it is counted from the pop's moment
            known["invisibleTime"] = str(int(known["invisibleTime"]) // _ROUGHLY * _ROUGHLY)
        self.said.append((code.name, answer.code, known))
        return answer

    def ack(self, group: str, each: Popped, **more: Any) -> None:
        self.ask(RequestCode.ACK_MESSAGE, **{**ack_of(group, each), **more})

    def change(self, group: str, each: Popped, invisible: int, **more: Any) -> None:
        wanted = {**ack_of(group, each), "invisibleTime": invisible, **more}
        self.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, **wanted)

    def offset(self, group: str, queue: int = 0) -> None:
        self.ask(RequestCode.QUERY_CONSUMER_OFFSET, consumerGroup=group, topic=TOPIC, queueId=queue,
                 setZeroIfNotFound="false")  # fmt: skip


def _in_order(script: Script) -> None:
    """Blocked, asked again, acknowledged, visible at another time, counted."""

    def pop(attempt: str, **more: Any) -> list[Popped]:
        wanted = {"order": "true", "maxMsgNums": 4, "attemptId": attempt, **more}
        return script.pop("ordered", **wanted)

    first = pop("a1")
    pop("a2")
    again = pop("a1")
    script.ack("ordered", first[0])  # by the handle that the second answer made old
    script.offset("ordered")
    for each in again[:2]:
        script.ack("ordered", each)
        script.offset("ordered")
    script.ack("ordered", again[0])
    script.offset("ordered")
    script.ack("ordered", again[0]._replace(position=17))
    pop("a3")
    script.change("ordered", again[2], 1500)
    script.change("ordered", again[3], 1000)
    pop("a3")
    time.sleep(2)
    third = pop("a4")
    script.ack("ordered", again[2])
    script.offset("ordered")
    for each in third[:3]:
        script.ack("ordered", each)
    script.offset("ordered")
    pop("a5")
    script.ack("ordered", third[3])
    script.offset("ordered")
    pop("a6", maxMsgNums=2, invisibleTime=1000)
    time.sleep(1.5)
    pop("a7", maxMsgNums=3, invisibleTime=1000)
    time.sleep(1.5)
    pop("a8", maxMsgNums=1, queueId=0)
    for queue in (1, 2, 3):
        pop("b1", queueId=queue)
    pop("b2", queueId=-1)


def _handles(script: Script) -> None:
    """Handles that were never given, of other queues, twice, with huge times."""
    group = "handles"
    some = script.pop(group, maxMsgNums=10)
    each = some[0]
    for more in (
        {"queueId": 3}, {"queueId": 4}, {"queueId": -1}, {"offset": 7}, {"offset": 50},
        {"offset": 51}, {"offset": 1 << 40}, {"offset": -1}, {"consumerGroup": "never-seen"},
        {"topic": "NoSuchTopic"},
        {"extraInfo": f"0 1 60000 0 0 {served.NAME} 0 0"},  # never given
        {"extraInfo": f"9 {1 << 50} {1 << 62} 7 0 {served.NAME} 0 9"},
        {"extraInfo": f"0 1 60000 999 0 {served.NAME} 0 0"},  # of a pop in order
    ):  # fmt: skip
        script.ack(group, each, **more)
    for known in (each, each, some[1], some[1]):
        script.ack(group, known)
    for invisible in (1 << 62, _DAYS + 60_000, _DAYS - 60_000):
        script.change(group, some[2], invisible)
    script.change(group, some[2], 1000)
    script.change(group, some[3], 1000, offset=1 << 40)
    script.change(group, some[3], 1000, queueId=9)
    script.change(group, some[3], 1000, topic="NoSuchTopic")
    body = batch(group, some[4:8])
    for asked in (body, body, {"brokerName": served.NAME, "acks": []}):
        script.ask(RequestCode.BATCH_ACK_MESSAGE, body=json.dumps(asked).encode())
    script.offset(group)


def _looks(script: Script) -> None:
    """Peeking, asking whether there is anything, and what is refused."""
    group = "looks"
    peeked = {"consumerGroup": group, "topic": TOPIC, "maxMsgNums": 8}
    for queue in (0, -1, 4):
        answer = script.ask(RequestCode.PEEK_MESSAGE, queueId=queue, **peeked)
        script.said.append(len(answer.body or b"") if queue >= 0 else bool(answer.body))
    for more in (
        {}, {"queueId": -1}, {"queueId": 4}, {"topic": "NoSuchTopic"}, {"consumerGroup": "a/b"}
    ):  # fmt: skip
        for code in (RequestCode.NOTIFICATION, RequestCode.POLLING_INFO):
            script.ask(code, **{**fields(group), "queueId": 0, **more})
    for more in (
        {"maxMsgNums": 33}, {"topic": "NoSuchTopic"}, {"queueId": 4}, {"consumerGroup": "no/group"},
        {"bornTime": 1}, {"exp": "n >", "expType": "SQL92"},
        {"exp": "nothing"}, {"maxMsgNums": 5, "exp": "A"}, {"maxMsgNums": 5, "exp": "A || B"},
        {"maxMsgNums": 5, "exp": "n > 300", "expType": "SQL92"},
    ):  # fmt: skip
        group = str(more.get("consumerGroup", "refused"))
        script.pop(group, **more)
        if group == "refused":
            time.sleep(0.3)  # a broker notes behind its answer how far it has looked
            script.offset(group)
    for _ in range(8):
        script.pop("everything", queueId=-1)


def test_each_request_is_answered_as_a_broker_does(folder: Path) -> None:
    made = served.make(VERSION, folder)
    with served.by_broker(made, folder) as _:
        theirs = _said(made.port)
    with served.by_reput(made) as _:
        ours = _said(made.port)
    assert len(theirs) == len(ours)
    wrong = [pair for pair in zip(theirs, ours, strict=True) if pair[0] != pair[1]]
    assert not wrong, "\n".join(f"{real}\n{own}\n" for real, own in wrong)


def _said(port: int) -> list[Any]:
    with Peer(f"127.0.0.1:{port}", 60) as peer:
        going = Script(peer)
        for script in (_in_order, _handles, _looks):
            script(going)
    return going.said


# --- What the dead broker had already given again comes from its retry topics.
GROUP = "g"
SENT = 90  # a third of it to the topic
# a broker's check points are written soon, and so looked at soon
_SOON = {"popCkStayBufferTime": 1000, "popCkStayBufferTimeOut": 500, "timerWheelEnable": True}
_SECONDS = 90


def popped(peer: Peer, group: str, **more: Any) -> list[Popped]:
    wanted = fields(group, TOPIC, **{"invisibleTime": _INVISIBLE, **more})
    answer = peer.ask(request(RequestCode.POP_MESSAGE, **wanted))
    return _given(answer)


def everything(peer: Peer, invisible: int, wanted: int) -> list[Popped]:
    """Pops until so many messages came: a broker begins now at one topic, now at another."""
    found: list[Popped] = []

    def come() -> bool:
        found.extend(popped(peer, GROUP, invisibleTime=invisible))
        return len(found) >= wanted

    until(come, _SECONDS)
    return found


def _in_retry_topic(peer: Peer, topic: str) -> int:
    answer = peer.ask(request(RequestCode.GET_MAX_OFFSET, topic=topic, queueId=0))
    return int(answer.fields["offset"]) if answer.code == ResponseCode.SUCCESS else 0


@pytest.mark.parametrize("separator", ["_", "+"])
def test_what_a_broker_gave_again_is_popped_from_its_retry_topic(separator, folder) -> None:
    """Version 1 of the retry topic's name is group_topic, version 2 is group+topic."""
    settings = {**_SOON, "enableRetryTopicV2": separator == "+"}
    store, port = folder / "store", free_port()
    with Driver(VERSION) as driver, Broker(VERSION, store, port, **settings) as broker:
        warmed(driver, broker.namesrv).send(to_send(SENT))
        with Peer(f"127.0.0.1:{port}") as peer:
            first = everything(peer, 3000, SENT // 3)
            _ack(peer, GROUP, first[::3])
            left = len(first) - len(first[::3])
            name = f"%RETRY%{GROUP}{separator}{TOPIC}"
            assert until(lambda: _in_retry_topic(peer, name) == left, _SECONDS), name
        broker.stop()
    made = served.Made(VERSION, store, port, [], [], 0)
    with (
        served.by_broker(made, folder, brokerPermission=6, **settings),
        Peer(f"127.0.0.1:{port}") as peer,
    ):
        theirs = everything(peer, 3_600_000, left)
    with served.by_reput(made), Peer(f"127.0.0.1:{port}") as peer:
        ours = everything(peer, 3_600_000, left)
        assert len(ours) == left
        assert {each.retry for each in ours} == {"2" if separator == "+" else "1"}
        acked = [peer.ask(request(RequestCode.ACK_MESSAGE, **ack_of(GROUP, each, name))).code
                 for each in ours]  # fmt: skip
        assert acked == [ResponseCode.SUCCESS] * left
    assert _of(ours) == _of(theirs)


def _of(some: list[Popped]) -> list[tuple[str, int, int, int]]:
    return sorted((each.retry, each.queue, each.position, each.times) for each in some)


# --- What a real broker had in flight when it was killed, as `reput groups --in-flight` lists it.

_INVISIBLE = 600_000
_WRITTEN_SECONDS = 60


def _ack(peer: Peer, group: str, some: Iterable[Popped]) -> None:
    for each in some:
        assert peer.ask(request(RequestCode.ACK_MESSAGE, **ack_of(group, each, TOPIC))).code == 0


def _listed(store: Path, version: str) -> set[tuple[str, int, int]]:
    with open_store(str(store), rocketmq=version) as opened:
        rows = opened.in_flight()
    assert {row.topic for row in rows} <= {TOPIC}
    assert all(row.until - row.since == _INVISIBLE for row in rows)
    return {(row.group, row.queue_id, row.offset) for row in rows}


@pytest.mark.parametrize(("version", "in_rocksdb"), [("5.3.3", False), ("5.5.0", True)])
def test_a_killed_brokers_messages_in_flight(version: str, in_rocksdb: bool, folder: Path) -> None:
    store, port = folder / "store", free_port()
    settings = {**_SOON, "popConsumerKVServiceEnable": in_rocksdb,
                "popConsumerKVServiceInit": in_rocksdb}  # fmt: skip
    with Driver(version) as driver, Broker(version, store, port, **settings) as broker:
        Client(driver, broker.namesrv).send(to_send(300))
        with Peer(f"127.0.0.1:{port}") as peer:
            first = popped(peer, "some", maxMsgNums=20)
            _ack(peer, "some", first[::3])
            second = popped(peer, "some", maxMsgNums=7)
            third = popped(peer, "none")
            ordered = popped(peer, "ordered", order="true", maxMsgNums=5, queueId=1)
            _ack(peer, "ordered", ordered[:2])
            left = {("some", each.queue, each.position) for each in first + second}
            left -= {("some", each.queue, each.position) for each in first[::3]}
            left |= {("none", each.queue, each.position) for each in third}
            left |= {("ordered", each.queue, each.position) for each in ordered[2:]}
            assert len(first) == 20
            assert third
            end = time.monotonic() + _WRITTEN_SECONDS
            while (found := _listed(store, version)) != left:
                assert time.monotonic() < end, (sorted(found), sorted(left))
                time.sleep(1)
        assert broker.driver.pid is not None
        os.kill(broker.driver.pid, signal.SIGKILL)
    assert _listed(store, version) == left
    asked = Asked(open_broker(ServedSource(str(store), version), lambda _: None))
    take_in_flight(asked.broker, lambda _: None)
    asked.now += _INVISIBLE
    given = list[tuple[str, int, int]]()
    for group in ("some", "none"):
        while some := popping.pop(asked, group, TOPIC):
            given += [(group, each.queue, each.position) for each in some]
            # what the offset is not past, as it was saved last, is given for the first time
            assert {given[n - len(some)] for n, each in enumerate(some) if each.times} <= left
    assert len(given) == len(set(given))
    assert {row for row in left if row[0] != "ordered"} <= set(given)
