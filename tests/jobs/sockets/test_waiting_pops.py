"""POP requests that wait: for their time, for a message's time, for an acknowledgement."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from reput.broker.wire.codes import RequestCode, ResponseCode
from tests import golden_stores
from tests.jobs.sockets.asked import TOPIC
from tests.jobs.sockets.asking import Peer, request
from tests.jobs.sockets.popping import fields
from tests.jobs.sockets.serving import Serving
from tests.processes import until

_WAIT = 120_000  # milliseconds: longer than a client waits for its answer
# Waiting requests are also looked at every five seconds; not here, where something else wakes them.
_UNLOOKED = """
from reput.jobs.sockets import server
server._LOOK_SECONDS = 1e6
from reput.jobs.cli import main
raise SystemExit(main())
"""


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    store = golden_stores.unpack("broker_clean_5.3.3").input
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.jobs.sockets.serving.REPUT", [sys.executable, "-c", _UNLOOKED])
        with Serving(store, "--rocketmq", "5.3.3") as process:
            yield process


@pytest.fixture
def peers(serving: Serving) -> Iterator[list[Peer]]:
    with Peer(serving.address) as one, Peer(serving.address) as other:
        yield [one, other]


def popping(group: str, opaque: int = 1, **more: Any) -> Any:
    wanted = fields(group, **{"queueId": 0, "maxMsgNums": 1, **more})
    return request(RequestCode.POP_MESSAGE, opaque, **wanted)


def waits(peers: list[Peer], group: str, queue: int = 0) -> None:
    """Until one waits for the group's messages."""
    asked = request(RequestCode.POLLING_INFO, consumerGroup=group, topic=TOPIC, queueId=queue)
    assert until(lambda: peers[0].ask(asked).fields["pollingNum"] != "0")


def to_the_end(peer: Peer, group: str) -> None:
    """One message in flight, and nothing new behind it."""
    end = int(
        peer.ask(request(RequestCode.GET_MAX_OFFSET, topic=TOPIC, queueId=0)).fields["offset"]
    )
    of_queue = {"consumerGroup": group, "topic": TOPIC, "queueId": 0}
    peer.ask(request(RequestCode.POLLING_INFO, **of_queue))  # the group is known by that
    commit = request(RequestCode.UPDATE_CONSUMER_OFFSET, **of_queue, commitOffset=end - 1)
    assert peer.ask(commit).code == ResponseCode.SUCCESS


def test_one_that_waits_is_answered_when_a_time_is_up(peers: list[Peer]) -> None:
    to_the_end(peers[0], "again")
    assert peers[0].ask(popping("again", invisibleTime=300)).code == ResponseCode.SUCCESS
    assert peers[1].ask(popping("again", pollTime=_WAIT)).code == ResponseCode.SUCCESS
    to_the_end(peers[0], "vain")
    peers[0].ask(popping("vain"))
    for more in ({}, {"exp": "nothing"}):
        answer = peers[1].ask(popping("vain", pollTime=200, **more))
        assert answer.code == ResponseCode.POLLING_TIMEOUT
    wanted = fields("vain", pollTime=200, queueId=0)
    heard = peers[1].ask(request(RequestCode.NOTIFICATION, **wanted))
    assert heard.fields == {"hasMsg": "false", "pollingFull": "false"}


def test_an_acknowledgement_in_order_wakes_who_waits(peers: list[Peer]) -> None:
    first = peers[0].ask(popping("ordered", order="true"))
    peers[1].send(popping("ordered", 7, order="true", pollTime=_WAIT))
    waits(peers, "ordered")
    handle = f"0 {first.fields['popTime']} 60000 999 0 reput 0 0"
    acked = request(
        RequestCode.ACK_MESSAGE, consumerGroup="ordered", topic=TOPIC, queueId=0, offset=0,
        extraInfo=handle)  # fmt: skip
    assert peers[0].ask(acked).code == ResponseCode.SUCCESS
    second = peers[1].next()
    assert (second.opaque, second.code) == (7, ResponseCode.SUCCESS)
    assert second.fields["msgOffsetInfo"] == "0 0 1"


def test_what_a_shorter_time_shows_wakes_who_waits(peers: list[Peer]) -> None:
    to_the_end(peers[0], "shorter")
    first = peers[0].ask(popping("shorter"))
    start, position = (first.fields[n].split(" ")[2] for n in ("startOffsetInfo", "msgOffsetInfo"))
    peers[1].send(popping("shorter", 7, pollTime=_WAIT))
    waits(peers, "shorter")
    changed = request(
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME, consumerGroup="shorter", topic=TOPIC, queueId=0,
        offset=position, invisibleTime=0,
        extraInfo=f"{start} {first.fields['popTime']} 60000 {first.fields['reviveQid']}",
    )  # fmt: skip
    assert peers[0].ask(changed).code == ResponseCode.SUCCESS
    assert peers[1].next().code == ResponseCode.SUCCESS
