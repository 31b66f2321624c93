"""A server whose clients pop what they never acknowledge, and acknowledge what they never popped:
its memory is limited, and other groups are served as before.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from reput.broker.serving import popped
from reput.broker.serving.broker import Answer
from reput.broker.serving.groups import MOST_QUEUES
from reput.broker.serving.handles import ORDER_QUEUE
from reput.broker.wire.codes import RequestCode, ResponseCode
from tests import golden_stores
from tests.jobs.sockets.asked import TOPIC, Asked, opened
from tests.jobs.sockets.asking import Peer, request
from tests.jobs.sockets.popping import Popped, ack_of, fields, messages, pop
from tests.jobs.sockets.serving import Serving

pytestmark = pytest.mark.long

_HANDLES = 300_000
_BATCH = 2000
_INVISIBLE = 3_600_000
_MIB = 1 << 20


@pytest.fixture
def serving() -> Iterator[Serving]:
    store = golden_stores.unpack("broker_clean_5.3.3").input
    with Serving(store, "--rocketmq", "5.3.3") as serving:
        yield serving
        assert serving.process.poll() is None, "the server is gone"


def _popped(peer: Peer, group: str, **more: Any) -> list[Popped]:
    answer = peer.ask(request(RequestCode.POP_MESSAGE, **fields(group, **more)))
    body = (memoryview(answer.body or b""),)
    return messages(Answer(answer.code, None, answer.fields, b"", body))


def _acknowledge(peer: Peer, acks: list[dict[str, Any]]) -> int:
    """The code for a batch, and whether the server still answers anything else."""
    body = json.dumps({"brokerName": "reput", "acks": acks}).encode()
    return peer.ask(request(RequestCode.BATCH_ACK_MESSAGE, body=body)).code


def _never_given(first: int, group: str, revive: int = 0) -> list[dict[str, Any]]:
    """Handles of pops that never were."""
    return [{"c": group.format(n), "t": TOPIC, "r": "0", "so": n % 348, "q": 0, "rq": revive,
             "pt": n, "it": _INVISIBLE, "b": "AQ=="}
            for n in range(first, first + _BATCH)]  # fmt: skip


@pytest.mark.parametrize(
    ("group", "revive", "most"),
    [
        pytest.param("g", 0, 16 * _MIB, id="one-group"),
        pytest.param("g{}", 0, 16 * _MIB, id="many-groups"),
        # as at a broker, an acknowledgement in order is its group's offset: so many are kept
        pytest.param("g{}", ORDER_QUEUE, 256 * _MIB, id="in-order"),
    ],
)
def test_handles_that_were_never_given(serving, group, revive, most) -> None:
    with Peer(serving.address, 60) as peer:
        given = _popped(peer, "g", queueId=0, invisibleTime=_INVISIBLE)
        _acknowledge(peer, _never_given(1, group))
        before = serving.memory()
        codes = {_acknowledge(peer, _never_given(first, group, revive))
                 for first in range(1, _HANDLES, _BATCH)}  # fmt: skip
        assert serving.memory() - before < most
        assert codes == {
            ResponseCode.SUCCESS, *([ResponseCode.SYSTEM_ERROR] if revive else [])}  # fmt: skip
        # nothing of what was given is acknowledged by that: the group's next pop goes on behind it
        assert [each.position for each in given] == list(range(32))
        following = _popped(peer, "g", queueId=0, invisibleTime=_INVISIBLE)
        assert [each.position for each in following] == list(range(32, 64))
        for each in given:
            code = peer.ask(request(RequestCode.ACK_MESSAGE, **ack_of("g", each))).code
            assert code == ResponseCode.SUCCESS


def test_offsets_of_so_many_groups_at_most_are_kept_of_acknowledgements() -> None:
    """What is refused is a group that is new; one that has an offset goes on."""
    asked = Asked(opened())
    for first in range(1, MOST_QUEUES + 2 * _BATCH, _BATCH):
        body = {"acks": _never_given(first, "g{}", ORDER_QUEUE)}
        code = asked.ask(RequestCode.BATCH_ACK_MESSAGE, body=body).code
    assert code == ResponseCode.SYSTEM_ERROR
    assert sum(map(len, asked.broker.offsets.all().values())) <= MOST_QUEUES + 100
    assert pop(asked, "g1", queueId=0)


def test_groups_that_never_acknowledge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is given so much and no more, all together too; then one that does acknowledge is the
    one that goes on.
    """
    asked, most, of_group = Asked(opened()), 10_000, 2_000  # a tenth of what there may be
    monkeypatch.setattr(popped, "MOST_POINTS", most)
    monkeypatch.setattr(popped, "MOST_OF_GROUP", of_group)

    def pop_one(group: str) -> list[Popped]:
        asked.broker.offsets.commit(group, TOPIC, 0, 0)  # the store has not so many messages
        return pop(asked, group, queueId=0, maxMsgNums=1, invisibleTime=_INVISIBLE)

    full = most // of_group
    for number in range(full):
        given = [pop_one(f"never{number}") for _ in range(of_group)]
        assert all(given)
        assert pop_one(f"never{number}") == []
    assert len(asked.broker.in_flight) == most
    assert pop_one("other") == []
    (last,) = given[-1]
    group = f"never{full - 1}"
    asked.ask(RequestCode.ACK_MESSAGE, **ack_of(group, last))
    assert len(pop_one("other")) == 1
    assert pop_one("other") == []
    # what comes again takes the place of what it was before
    asked.now += _INVISIBLE
    again = pop(asked, group, queueId=0, exp="nothing")
    assert {each.times for each in again} == {1}
    assert len(asked.broker.in_flight) <= most


def test_a_group_that_never_acknowledges_is_given_the_same_again_and_again(serving) -> None:
    """Thirty thousand messages, each invisible for a millisecond."""
    with Peer(serving.address, 60) as peer:
        found = dict[tuple[int, int], int]()
        total, before = 0, 0
        while total < 30_000:
            some = _popped(peer, "never", invisibleTime=1)
            total += len(some)
            for each in some:
                place = each.queue, each.position
                assert each.times <= found.get(place, -1) + 1
                found[place] = each.times
            if len(found) == 1420 and not before:
                before = serving.memory()
        assert serving.memory() - before < 16 * _MIB
        assert len(found) == 1420
        assert len(_popped(peer, "other")) == 32
