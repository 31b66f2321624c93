"""A store as clients see it: its queues by topic, its ends, its keys, and how it grows."""

from pathlib import Path

import pytest

from reput.broker.serving.store import ServedStore, bounds, topic
from reput.jobs.sockets.opened import ServedSource, open_broker
from reput.store_format.message.message import Message
from tests.broker.serving.served import FIXED, STEP, T0, message, served
from tests.broker.writer.stores import TINY, Clock, open_writer

SIZE = FIXED + 1 + 9
_GIVEN = {name: str(value) for name, value in TINY.items()}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ServedStore:
    made = [message(n, "TU"[n % 2], n % 3) for n in range(9)]
    return served(tmp_path_factory.mktemp("store"), made).broker.store


def at(path: str, time: int) -> ServedStore:
    return open_broker(ServedSource(path, "5.3.3", _GIVEN, at=time), lambda _: None).store


def test_a_queue_is_found_by_topic_and_id_and_made_up_ones_are_not(store: ServedStore) -> None:
    found = store.queue("T", 0)  # the messages 0, 6
    assert found is not None
    assert (found.minimum, found.maximum) == (0, 2)
    assert store.queue("T", 0) is found
    for name, queue_id in (("T", 3), ("T", -1), ("None", 0), ("../T", 0), ("TBW102", 0)):
        assert store.queue(name, queue_id) is None
    assert bounds(store.topics["T"], found) == (0, 2)
    assert bounds(store.topics["T"], None) == (0, 0)


def test_times_and_ends_are_those_of_the_records(store: ServedStore) -> None:
    assert [store.time_at("T", 0, n) for n in (-1, 0, 1, 2)] == [-1, T0, T0 + 6 * STEP, -1]
    assert store.time_at("T", 9, 0) == -1
    assert store.earliest_time() == T0
    assert store.served_end() == 9 * SIZE


def test_as_of_a_time_later_messages_are_not_there(store: ServedStore) -> None:
    path = store.opened.path
    then = at(path, T0 + 6 * STEP)  # the messages 0 to 6
    queue = then.queue("T", 0)
    assert queue is not None
    assert queue.maximum == 2
    assert (then.limit, then.served_end()) == (7 * SIZE, 7 * SIZE)
    before = at(path, T0 - 1)
    assert (before.limit, before.served_end()) == (0, 0)
    assert before.queue("T", 0) is not None


def test_a_topic_that_is_made_stays_unless_the_store_has_it(tmp_path: Path) -> None:
    found = served(tmp_path, [message(0)]).broker.store
    found.make_topic(topic("New", 5))
    found.make_topic(topic("T", 5))
    assert (found.topics["New"].read_queues, found.topics["T"].read_queues) == (5, 1)
    (tmp_path / "consumequeue/New/0").mkdir(parents=True)
    found.refresh()
    assert (found.topics["New"].read_queues, found.topics["T"].read_queues) == (1, 1)


def test_a_store_that_has_grown_is_seen_after_another_look(tmp_path: Path) -> None:
    found = served(tmp_path, [message(0)]).broker.store
    queue = found.queue("T", 0)
    with open_writer(tmp_path, Clock(T0 + STEP)) as writer:
        for number in (1, 2):
            writer.append(message(number))
    assert queue is not None
    assert queue.maximum == 1
    assert found.served_end() == SIZE
    found.refresh()
    again = found.queue("T", 0)
    assert again is not None
    assert (again.maximum, found.served_end()) == (3, 3 * SIZE)


def test_the_newest_places_of_a_key_are_found_in_the_logs_order(tmp_path: Path) -> None:
    keyed = [Message("T", b"x", keys=f"k{n % 2}", unique_key=f"U{n}") for n in range(6)]
    found = served(tmp_path, keyed).broker.store
    size = found.log.record_at(0).size
    end = T0 + 9 * STEP
    assert found.by_key("T", "k0", 2, 0, end)[0] == [2 * size, 4 * size]
    places, last_time, last_place = found.by_key("T", "k1", 9, 0, end)
    assert places == [size, 3 * size, 5 * size]
    assert (last_time, last_place) == (T0 + 5 * STEP, 5 * size)
    assert found.by_key("T", "k2", 9, 0, end) == ([], 0, 0)
    assert found.by_key("T", "k0", 0, 0, end) == ([], 0, 0)
    then = at(str(tmp_path), T0 + 3 * STEP)
    assert then.by_key("T", "k1", 9, 0, end) == ([size, 3 * size], T0 + 3 * STEP, 3 * size)


def test_a_key_of_a_later_message_in_the_same_second_is_not_found(tmp_path: Path) -> None:
    """The index has whole seconds after its first message only."""
    keyed = (Message("T", b"x", keys="k", unique_key=f"U{n}") for n in range(4))
    size = served(tmp_path, keyed, step=500).broker.store.log.record_at(0).size
    found = at(str(tmp_path), T0 + 1200).by_key("T", "k", 9, 0, T0 + 9000)
    assert found == ([0, size, 2 * size], T0 + 1000, 2 * size)
