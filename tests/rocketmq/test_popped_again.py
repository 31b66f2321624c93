"""What is popped and not acknowledged comes again: as often as at a real broker, and what the dead
broker had already given again, into its retry topics, from these.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reput.broker.serving.broker import Answer
from reput.broker.wire.codes import RequestCode, ResponseCode
from tests.jobs.sockets.asking import Peer, request
from tests.jobs.sockets.popping import Popped, ack_of, fields, messages
from tests.jobs.sockets.serving import Serving
from tests.rocketmq import served
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import Broker, Client, free_port, warmed
from tests.rocketmq.live import messages as to_send
from tests.rocketmq.replicas import until

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

TOPIC, GROUP, VERSION = "Live0", "g", "5.3.3"
SENT = 90  # a third of it to the topic
# a broker's check points are written soon, and so looked at soon
_SOON = {"popCkStayBufferTime": 1000, "popCkStayBufferTimeOut": 500, "timerWheelEnable": True}
_SECONDS = 90
_WAIT = 30_000  # milliseconds


def pop(peer: Peer, invisible: int, queue: int = -1) -> list[Popped]:
    wanted = fields(GROUP, TOPIC, invisibleTime=invisible, queueId=queue)
    answer = peer.ask(request(RequestCode.POP_MESSAGE, **wanted))
    body = (memoryview(answer.body or b""),)
    return messages(Answer(answer.code, None, answer.fields, b"", body), served.NAME)


def everything(peer: Peer, invisible: int, wanted: int) -> list[Popped]:
    """Pops until so many messages came: a broker begins now at one topic, now at another."""
    found: list[Popped] = []
    until(lambda: bool(found.extend(pop(peer, invisible))) or len(found) >= wanted, _SECONDS)
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
            for each in first[::3]:
                peer.ask(request(RequestCode.ACK_MESSAGE, **ack_of(GROUP, each, TOPIC)))
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
        acked = [
            peer.ask(request(RequestCode.ACK_MESSAGE, **ack_of(GROUP, each, name))).code
            for each in ours
        ]
        assert acked == [ResponseCode.SUCCESS] * left
    assert _of(ours) == _of(theirs)


def _of(some: list[Popped]) -> list[tuple[str, int, int, int]]:
    return sorted((each.retry, each.queue, each.position, each.times) for each in some)


def _times(peer: Peer, rounds: int) -> list[list[int]]:
    """How often each message was given, until all were given in so many rounds; none is
    acknowledged before the last one.
    """
    counts: dict[int, int] = dict.fromkeys(range(rounds), 0)
    end = time.monotonic() + _SECONDS
    while counts[rounds - 1] < SENT // 3 and time.monotonic() < end:
        for each in pop(peer, 1000):
            counts[each.times] = counts.get(each.times, 0) + 1
            if each.times == rounds - 1:
                name = TOPIC if each.retry == "0" else f"%RETRY%{GROUP}_{TOPIC}"
                peer.ask(request(RequestCode.ACK_MESSAGE, **ack_of(GROUP, each, name)))
        time.sleep(0.1)
    time.sleep(3)
    return [*sorted([times, many] for times, many in counts.items()), [-1, len(pop(peer, 1000))]]


def test_it_comes_again_as_often_as_at_a_broker(folder: Path) -> None:
    store, port = folder / "store", free_port()
    with Driver(VERSION) as driver, Broker(VERSION, store, port) as broker:
        warmed(driver, broker.namesrv).send(to_send(SENT))
        broker.stop()
    made = served.Made(VERSION, store, port, [], [], 0)
    with (
        served.by_broker(made, folder, brokerPermission=6, **_SOON),
        Peer(f"127.0.0.1:{port}") as peer,
    ):
        theirs = _times(peer, 4)
    with served.by_reput(made), Peer(f"127.0.0.1:{port}") as peer:
        ours = _times(peer, 4)
    assert ours == theirs == [[0, 30], [1, 30], [2, 30], [3, 30], [-1, 0]]


def test_a_pop_that_waits_gets_what_a_broker_stores_meanwhile(folder: Path) -> None:
    """`serve --follow` on the store of a broker that writes: by socket, and a Java consumer."""
    store, port = folder / "store", free_port()
    with Driver(VERSION) as driver, Broker(VERSION, store, port) as broker:
        client = warmed(driver, broker.namesrv)
        client.send(to_send(3))
        assert until(lambda: broker.status()["behind"] == 0)
        with Serving(store, "--rocketmq", VERSION, "--follow") as serving:
            _by_socket(client, serving.address)
            _by_java(client, serving.address)


def _by_socket(client: Client, address: str) -> None:
    with Peer(address, 60) as peer:
        everything(peer, 3_600_000, 1)
        for number in range(2, 5):
            peer.send(request(RequestCode.POP_MESSAGE, number, **_waiting(GROUP)))
            client.send(to_send(3, first=number * 12))
            begin = time.monotonic()
            answer = peer.next()
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            assert time.monotonic() - begin < _WAIT / 3000  # it looks at the files every 0.2 s


def _waiting(group: str) -> dict[str, object]:
    return fields(group, TOPIC, pollTime=_WAIT, bornTime=int(time.time() * 1000))


def _by_java(client: Client, address: str) -> None:
    """A push consumer that pops, while messages are stored."""
    wanted = 12 + 40
    words = ("-b", address, "-t", TOPIC, "-g", "java", "-m", "POP", "-q", 8)
    steps = [
        served.mqadmin("setConsumeMode", *words),
        {"do": "push", "group": "java", "topic": TOPIC, "least": wanted, "broker_balances": True,
         "quiet_ms": 1000},
    ]  # fmt: skip
    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(served.ask, VERSION, address, steps)
        for number in range(40):
            client.send(to_send(3, first=600 + 3 * number))
            time.sleep(0.2)
        answer = going.result()[1]
    assert "answer" in answer, answer
    found = [tuple(each[:3]) for each in answer["answer"]["messages"]]
    assert len(found) == len(set(found))
    assert len(found) >= 40
