"""What a broker does between requests: tells clients of changes, wakes pops, forgets the silent."""

from dataclasses import replace

import pytest

from reput.broker.serving.broker import Broker, Caller
from reput.broker.serving.clients import EXPIRY
from reput.broker.serving.popped import CheckPoint, InFlight
from reput.broker.wire.codes import RequestCode
from tests.jobs.sockets.asked import Asked

CALLER = Caller(1, "10.0.0.1:5000", "10.0.0.9:9876", 0)


@pytest.fixture
def asked(store: Asked) -> Asked:
    """A broker that has heard of nobody yet."""
    fresh = replace(
        store.broker, in_flight=InFlight(), closed=[], ticked=[], outbox=[], woken=set()
    )
    return Asked(fresh)


def tick(broker: Broker, now: int) -> None:
    for each in broker.ticked:
        each(now)


def test_members_of_a_group_are_told_of_a_change_with_a_request_of_ours(asked: Asked) -> None:
    asked.heartbeat(1, "g", "T")
    asked.broker.outbox.clear()
    asked.heartbeat(2, "g", "T")
    assert [connection for connection, _ in asked.broker.outbox] == [1, 2]
    _, note = asked.broker.outbox[0]
    assert note.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    assert note.fields == {"consumerGroup": "g"}
    assert note.version == asked.broker.version
    assert not note.is_response


def test_a_closed_connection_leaves_its_groups(asked: Asked) -> None:
    asked.heartbeat(1, "g", "T")
    for close in asked.broker.closed:
        close(1, asked.now)
    assert asked.broker.consumers.groups == {}


def test_a_tick_forgets_who_is_silent_and_wakes_pops_for_what_is_due(asked: Asked) -> None:
    asked.heartbeat(1, "g", "T")
    asked.broker.in_flight.add("g", "T", CheckPoint(0, [0], 1, asked.now + 5))
    tick(asked.broker, asked.now + 4)
    assert asked.broker.woken == set()
    tick(asked.broker, asked.now + 5)
    assert asked.broker.woken == {("g", "T")}
    assert list(asked.broker.consumers.groups) == ["g"]
    tick(asked.broker, asked.now + EXPIRY + 1)
    assert asked.broker.consumers.groups == {}


@pytest.mark.parametrize(
    ("given", "told"), [(None, "10.0.0.9:9876"), ("broker:10911", "broker:10911")]
)
def test_its_address_is_the_one_given_or_the_one_by_which_it_was_reached(
    asked: Asked, given: str | None, told: str
) -> None:
    asked.broker.address = given
    assert asked.broker.address_for(CALLER) == told
