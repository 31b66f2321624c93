"""`reput serve --at`: random stores, as a broker would answer whose log ended at that time."""

import shutil
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.broker.serving.handlers import answer, reply
from reput.broker.serving.store import (
    LogFiles,
    ServedQueue,
    ServedStore,
    Topic,
    booted_topics,
    bounds,
    served_topics,
    topic,
)
from reput.broker.wire.remoting import Command
from reput.jobs.sockets.opened import ServedSource, open_broker
from reput.store_format.derived.queue_reader import Boundary
from reput.store_format.faults import StoreChanged
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import InputStorage
from reput.store_format.log.reader import NotInLog
from reput.store_format.log.segments import Segment
from reput.store_format.message.message import Message
from reput.store_format.release.profiles import profile
from tests.broker.serving.served import FIXED, STEP, T0, message, served
from tests.broker.writer.stores import TINY
from tests.in_process import run
from tests.jobs.sockets.asked import Asked
from tests.jobs.sockets.broker_answers import reported, requests
from tests.jobs.sockets.comparing import CALLER, whole
from tests.jobs.sockets.cutting import GIVEN, RELEASE, cut, differences, random_store, times
from tests.memory_storage import MemoryStorage


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2))])
def test_at_a_time_is_as_a_log_that_ended_then(seed: int, tmp_path: Path) -> None:
    store = tmp_path / "store"
    random_store(seed, store)
    asked = list(requests(store))[::3]
    for number, time in enumerate(times(seed, store)):
        copy = tmp_path / f"cut{number}"
        cut(store, time, copy)
        run(str(copy), str(tmp_path / f"set{number}"), rocketmq=RELEASE, settings=GIVEN)
        for name in ("consumequeue", "index"):
            if (tmp_path / f"set{number}" / name).exists():
                shutil.move(tmp_path / f"set{number}" / name, copy / name)
        then = open_broker(ServedSource(str(copy), RELEASE, GIVEN), lambda _: None)

        def theirs(each: Command, then: Any = then) -> list[Any]:
            return reported(reply(then, each, whole(answer(then, each, CALLER))))

        assert len(asked) > 100
        wrong = list(differences(store, time, asked, theirs))
        assert not wrong, (len(wrong), wrong[:3])


# --- Topics that a broker of a release makes when it starts (TopicConfigManager.init).
READ_WRITE, INHERIT = 6, 1


def made(release: str) -> dict[str, tuple[int, int]]:
    """name -> (queues, perm)."""
    return {each.name: (each.read_queues, each.perm) for each in booted_topics(release, "b", "C")}


def test_each_release_makes_its_topics() -> None:
    assert made("4.9.7") == {
        "SELF_TEST_TOPIC": (1, 6), "TBW102": (8, 7), "BenchmarkTest": (1024, 6), "C": (16, 7),
        "b": (1, 7), "OFFSET_MOVED_EVENT": (1, 6), "SCHEDULE_TOPIC_XXXX": (18, 6),
        "C_REPLY_TOPIC": (1, 6)}  # fmt: skip
    for release, more in [("5.0.0", {"rmq_sys_REVIVE_LOG_C", "rmq_sys_SYNC_BROKER_MEMBER_b",
                                     "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"}),
                          ("5.3.0", set()), ("5.3.1", {"rmq_sys_wheel_timer"})]:  # fmt: skip
        before = {"5.0.0": "4.9.7", "5.3.0": "5.0.0", "5.3.1": "5.3.0"}[release]
        assert made(release).keys() - made(before).keys() == more
        assert made(release).items() >= made(before).items()
    one = topic("T")
    assert (one.read_queues, one.write_queues, one.perm) == (1, 1, READ_WRITE)
    assert (one.configured, one.order, one.attributes) == (False, False, {})
    assert topic("T", 3, INHERIT)[1:4] == (3, 3, INHERIT)


# --- Ranges of a log's files by physical offsets; a file stays open as long as something needs
# it.
START = 100  # of the first segment: earlier ones have expired
CONTENTS = (b"abcdefghij", b"klmnopqrst")


def segments(storage: InputStorage, folder: str = "log") -> list[Segment]:
    found = [(each.name, each.state) for each in storage.list(folder)]
    return [Segment(f"{folder}/{name}", int(name), state) for name,
            state in found if state is not None]  # fmt: skip


def in_memory() -> tuple[MemoryStorage, LogFiles]:
    names = [f"log/{START + 10 * n:020d}" for n in range(2)]
    storage = MemoryStorage(dict(zip(names, CONTENTS, strict=True)))
    return storage, LogFiles(storage, segments(storage))


def test_a_range_is_of_one_segment() -> None:
    for place, length, content in [
        (100, 10, CONTENTS[0]), (109, 1, b"j"), (110, 1, b"k"), (115, 5, b"pqrst"),
        (104, 0, b"")]:  # fmt: skip
        assert in_memory()[1].range(place, length).read() == content
    for place, length in [(99, 1), (0, 1), (-1, 1), (109, 2), (119, 2), (120, 1), (1 << 40, 1)]:
        with pytest.raises(NotInLog):
            in_memory()[1].range(place, length)
    _, files = in_memory()
    buffer = np.zeros(3, np.uint8)
    files.read(1, 112, buffer)
    assert buffer.tobytes() == b"mno"
    assert files.starts.tolist() == [100, 110]
    assert files.ends.tolist() == [110, 120]


def test_after_another_look_new_segments_are_read_and_gone_ones_are_not() -> None:
    storage, files = in_memory()
    kept = files.range(110, 10)
    old = files.range(100, 10)
    storage.files[f"log/{120:020d}"] = b"uvw"
    storage.remove(f"log/{100:020d}")
    files.relist(segments(storage))
    with pytest.raises(NotInLog):
        files.range(100, 1)
    assert files.range(120, 3).read() == b"uvw"
    assert files.range(112, 1).file is kept.file
    assert old.read() == CONTENTS[0]  # an answer that is still being sent


def test_a_file_of_this_machine_can_be_sent_and_is_closed_when_nothing_needs_it(tmp_path) -> None:
    (tmp_path / f"{0:020d}").write_bytes(CONTENTS[0])
    storage = LocalStorage()
    files = LogFiles(storage, segments(storage, str(tmp_path)))
    sent = files.range(2, 3)
    assert sent.file.descriptor is not None
    assert sent.read() == b"cde"
    (tmp_path / f"{0:020d}").write_bytes(b"ab")
    with pytest.raises(StoreChanged):
        sent.read()
    closed = weakref.ref(sent.file)
    files.relist([])
    assert closed() is not None
    del sent
    assert closed() is None
    assert in_memory()[1].range(100, 1).file.descriptor is None


# --- One queue of a served store: its ends, its entries, the position at a time.
SIZE = FIXED + 1 + 9
MANY = 25  # 20 entries are in the first file of the queue


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """The messages 0, 2, 4 ... of the log are in queue 0, and 1, 3, 5 ... in queue 1."""
    made = (message(n, queue_id=n % 2) for n in range(2 * MANY))
    return served(tmp_path_factory.mktemp("store"), made)


def queue(asked: Asked, limit: int | None = None, release: str = "5.3.3") -> ServedQueue:
    store = asked.broker.store
    entries = store.opened.queue("T", 0, False)
    end = store.log.end if limit is None else limit
    return ServedQueue(entries, store.log, profile(release), end)


def test_a_queue_has_entries_of_one_file_and_ends_before_the_limit(store: Asked) -> None:
    for limit, end in [(0, 0), (SIZE - 1, 0), (SIZE, 1), (2 * SIZE, 1), (3 * SIZE - 1, 1),
                       (3 * SIZE, 2)]:  # fmt: skip
        cut = queue(store, limit)
        assert (cut.minimum, cut.maximum) == (0, end)
        assert cut.some(0, 10).positions.tolist() == list(range(end))
        assert len(cut.some(end, 1)) == 0
    whole = queue(store)
    assert whole.maximum == MANY
    assert whole.some(18, 5).positions.tolist() == [18, 19]
    assert whole.some(20, 50).positions.tolist() == [20, 21, 22, 23, 24]
    assert whole.some(3, 1).places.tolist() == [6 * SIZE]
    assert len(whole.some(MANY, 1)) == 0
    assert len(whole.some(3, 0)) == 0
    cut = queue(store, 5 * SIZE)  # positions 0, 1 and 2
    late = T0 + 40 * STEP
    assert cut.at_time(late, Boundary.LOWER) == 3
    assert cut.at_time(late, Boundary.UPPER) == 2
    for number in (4, 6):  # the last one's own time, and that of the first one beyond the limit
        assert cut.at_time(T0 + number * STEP, Boundary.UPPER) == 2
    assert queue(store, 0).at_time(late, Boundary.LOWER) == 0


def test_the_first_position_is_of_the_first_record_that_the_log_still_has(tmp_path: Path) -> None:
    asked = served(tmp_path, (message(n, size=300 - FIXED - 1) for n in range(15)))
    segment = (4096 - 8) // 300  # 13 records, and a BLANK
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    asked.broker.store.refresh()
    found = asked.broker.store.queue("T", 0)
    assert found is not None
    assert (found.minimum, found.maximum) == (segment, 15)
    assert found.earliest_time() == T0 + segment * STEP


# --- A store as clients see it: its queues by topic, its ends, its keys, and how it grows.
_GIVEN = {name: str(value) for name, value in TINY.items()}


@pytest.fixture(scope="module")
def store_served(tmp_path_factory: pytest.TempPathFactory) -> ServedStore:
    made = [message(n, "TU"[n % 2], n % 3) for n in range(9)]
    return served(tmp_path_factory.mktemp("store"), made).broker.store


def at(path: str, time: int) -> ServedStore:
    return open_broker(ServedSource(path, "5.3.3", _GIVEN, at=time), lambda _: None).store


def test_a_queue_is_found_by_topic_and_id(store_served: ServedStore) -> None:
    found = store_served.queue("T", 0)  # the messages 0, 6
    assert found is not None
    assert (found.minimum, found.maximum) == (0, 2)
    assert store_served.queue("T", 0) is found
    for name, queue_id in (("T", 3), ("T", -1), ("None", 0), ("../T", 0), ("TBW102", 0)):
        assert store_served.queue(name, queue_id) is None
    assert bounds(store_served.topics["T"], found) == (0, 2)
    assert bounds(store_served.topics["T"], None) == (0, 0)


def test_a_topic_that_is_made_stays_unless_the_store_has_it(tmp_path: Path) -> None:
    found = served(tmp_path, [message(0)]).broker.store
    found.make_topic(topic("New", 5))
    found.make_topic(topic("T", 5))
    assert (found.topics["New"].read_queues, found.topics["T"].read_queues) == (5, 1)
    (tmp_path / "consumequeue/New/0").mkdir(parents=True)
    found.refresh()
    assert (found.topics["New"].read_queues, found.topics["T"].read_queues) == (1, 1)


def test_a_key_of_a_later_message_in_the_same_second_is_not_found(tmp_path: Path) -> None:
    """The index has whole seconds after its first message only."""
    keyed = (Message("T", b"x", keys="k", unique_key=f"U{n}") for n in range(4))
    size = served(tmp_path, keyed, step=500).broker.store.log.record_at(0).size
    found = at(str(tmp_path), T0 + 1200).by_key("T", "k", 9, 0, T0 + 9000)
    assert found == ([0, size, 2 * size], T0 + 1000, 2 * size)


# --- Topics: as config/topics.json has them, however wrong, and those that only have queues.
INT_MAX = (1 << 31) - 1


def read(config: Any) -> Topic:
    return served_topics({"T": config}, {})["T"]


def test_a_topic_is_as_the_file_says_however_wrong() -> None:
    config = {"readQueueNums": 3, "writeQueueNums": 2, "perm": 4, "topicSysFlag": 1, "order": True,
              "topicFilterType": "MULTI_TAG", "attributes": {"queue.type": "BatchCQ"}}  # fmt: skip
    made = read(config)
    assert made == Topic("T", 3, 2, 4, 1, True, "MULTI_TAG", {"queue.type": "BatchCQ"}, True)
    # TopicConfig: 16 queues to read and to write, PERM_READ | PERM_WRITE.
    assert read({}) == Topic("T", 16, 16, 6, 0, False, "SINGLE_TAG", {}, True)
    for wrong in ["4", 4.0, True, None, [], INT_MAX + 1, -(1 << 31) - 1]:
        made = read({"readQueueNums": wrong, "perm": wrong, "topicSysFlag": wrong})
        assert (made.read_queues, made.perm, made.sys_flag) == (16, 6, 0)
        assert read({"order": "true", "attributes": wrong})[5:8] == (False, "SINGLE_TAG", {})
    for queues, most in [(0, 0), (1, 1), (1 << 16, 1 << 16), (INT_MAX, 1 << 16), (-5, -5)]:
        made = read({"readQueueNums": queues, "writeQueueNums": queues})
        assert (made.read_queues, made.write_queues) == (most, most)
    both = served_topics({"T": {"perm": 2}, "bad": "text"}, {"T": 9, "U": 3, "bad": 1})
    assert (both["T"].read_queues, both["T"].perm, both["T"].configured) == (16, 2, True)
    assert both["U"] == Topic("U", 3, 3, 6, 0, False, "SINGLE_TAG", {}, False)
    assert not both["bad"].configured
    assert served_topics(None, {}) == {}
    for attributes, minimum in [
        ({}, 0), ({"queue.type": "SimpleCQ"}, 0), ({"queue.type": "BatchCQ"}, -1)]:  # fmt: skip
        assert read({"attributes": attributes}).empty_minimum == minimum
