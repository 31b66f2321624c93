"""What a real broker had in flight when it was killed, as `reput groups --in-flight` lists it."""

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from reput.broker.serving.broker import Answer
from reput.broker.wire.codes import RequestCode
from reput.jobs.opening.questions import open_store
from reput.jobs.sockets.opened import ServedSource, open_broker, take_in_flight
from tests.jobs.sockets.asked import Asked
from tests.jobs.sockets.asking import Peer, request
from tests.jobs.sockets.popping import Popped, fields, messages, pop
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import Broker, Client, free_port
from tests.rocketmq.live import messages as to_send

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

TOPIC, NAME = "Live0", "judge"
_INVISIBLE = 600_000
# A check point is written to the log a second after it was popped, not after ten.
_SOON = {"popCkStayBufferTime": 1000, "popCkStayBufferTimeOut": 500}
_WRITTEN_SECONDS = 60


def _popped(peer: Peer, group: str, **more: Any) -> list[Popped]:
    wanted = fields(group, TOPIC, invisibleTime=_INVISIBLE, **more)
    answer = peer.ask(request(RequestCode.POP_MESSAGE, **wanted))
    body = (memoryview(answer.body or b""),)
    return messages(Answer(answer.code, None, answer.fields, b"", body), NAME)


def _ack(peer: Peer, group: str, some: Iterable[Popped]) -> None:
    for each in some:
        code = peer.ask(
            request(
                RequestCode.ACK_MESSAGE, consumerGroup=group, topic=TOPIC, queueId=each.queue,
                offset=each.position, extraInfo=each.handle,
            )
        ).code  # fmt: skip
        assert code == 0


def _listed(store: Path, version: str) -> set[tuple[str, int, int]]:
    with open_store(str(store), rocketmq=version) as opened:
        rows = opened.in_flight()
    assert {row.topic for row in rows} <= {TOPIC}
    assert all(row.until - row.since == _INVISIBLE for row in rows)
    return {(row.group, row.queue_id, row.offset) for row in rows}


@pytest.mark.parametrize(("version", "in_rocksdb"), [("5.3.3", False), ("5.5.0", True)])
def test_a_killed_brokers_messages_in_flight(version: str, in_rocksdb: bool, folder: Path) -> None:
    store, port = folder / "store", free_port()
    settings = {**_SOON, "timerWheelEnable": True, "popConsumerKVServiceEnable": in_rocksdb,
                "popConsumerKVServiceInit": in_rocksdb}  # fmt: skip
    with Driver(version) as driver, Broker(version, store, port, **settings) as broker:
        Client(driver, broker.namesrv).send(to_send(300))
        with Peer(f"127.0.0.1:{port}") as peer:
            first = _popped(peer, "some", maxMsgNums=20)
            _ack(peer, "some", first[::3])
            second = _popped(peer, "some", maxMsgNums=7)
            third = _popped(peer, "none")
            ordered = _popped(peer, "ordered", order="true", maxMsgNums=5, queueId=1)
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
        while some := pop(asked, group, TOPIC):
            given += [(group, each.queue, each.position) for each in some]
            # what the offset is not past, as it was saved last, is given for the first time
            assert {given[n - len(some)] for n, each in enumerate(some) if each.times} <= left
    assert len(given) == len(set(given))
    assert {row for row in left if row[0] != "ordered"} <= set(given)
