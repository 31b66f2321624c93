"""`reput groups`: how far each group has come, and which queues its clients would get."""

import argparse
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from reput.jobs.groups import _in_flight
from reput.store_format.message.message import Message
from tests.broker.writer.stores import TINY, Clock, open_writer
from tests.jobs.listing import asked, only, put_store, rows
from tests.store_format.fate.logs import T0, SmallLog
from tests.store_format.query.stores import asked as rows_asked

OFFSETS = b'{"offsetTable":{"T@g":{0:1,1:0,9:4},"U@g":{0:3},"T@other":{0:2},"Gone@g":{0:7}}}'


@pytest.fixture
def store(tmp_path: Path) -> str:
    """T has two messages in each of four queues."""
    log = SmallLog()
    for number in range(8):
        log.put("T", number % 4)
    log.put("U")
    return put_store(tmp_path, log, {"store/config/consumerOffset.json": OFFSETS})


def test_groups_their_lag_and_who_gets_their_queues(store: str, capsys) -> None:
    found = rows(capsys, "groups", store, "--scan", "--group", "g")
    told = dict.fromkeys(only(found, "topic", "queueId", "consumerOffset", "maxOffset", "lag"))
    assert ("T", 0, 1, 2, 1) in told
    assert ("T", 1, 0, 2, 2) in told
    assert {row["group"] for row in found} == {"g"}
    assert {row["group"] for row in rows(capsys, "groups", store, "--scan")} == {"g", "other"}
    code, out, err = asked(capsys, "groups", store, "--scan", "--group", "G")
    assert (code, out) == (0, [])
    assert any("nothing was found" in line for line in err)
    # AllocateMessageQueueAveragely: the first of three gets two of four, in one piece;
    # ...AveragelyByCircle: they take turns. A topic without queues has nothing to share.
    found = rows(
        capsys, "groups", store, "--scan", "--group", "g", "--clients", "a,b,,c")  # fmt: skip
    of_t = [row for row in found if row["topic"] == "T"]
    told = {(row["strategy"], row["client"]): row["queues"] for row in of_t}
    assert len(told) == len(of_t)
    assert [told["AVG", client] for client in "abc"] == [[0, 1], [2], [3]]
    assert [told["AVG_BY_CIRCLE", client] for client in "abc"] == [[0, 3], [1], [2]]
    hashed = [told["CONSISTENT_HASH", client] for client in "abc"]
    assert sorted(queue for share in hashed for queue in share) == [0, 1, 2, 3]
    assert {row["topic"] for row in found} == {"T", "U"}
    code, out, err = asked(capsys, "groups", store, "--in-flight", "--clients", "a")
    assert (code, out) == (2, [])
    assert any("--in-flight and --clients list different things" in line for line in err)


def test_what_is_in_flight_of_one_group_is_listed() -> None:
    store = Mock(in_flight=lambda scan: [Mock(group="g"), Mock(group="other")])
    for group, count in (("g", 1), (None, 2), ("G", 0)):
        words = argparse.Namespace(clients=None, group=group, scan=False)
        assert len(_in_flight(words, store)) == count


@pytest.mark.parametrize(("rooms", "queues"), [("here", [0, 1, 2, 3]), ("there", [])])
def test_a_rooms_clients_get_the_queues_of_its_brokers(store, capsys, rooms, queues) -> None:
    words = ("--group", "other", "--clients", "a", "--broker-name", "here@broker-a")
    found = rows(capsys, "groups", store, "--scan", *words, "--rooms", rooms)
    assert [row["queues"] for row in found if row["strategy"] == "MACHINE_ROOM"] == [queues]


def test_a_lag_is_told_in_seconds_too(tmp_path: Path, capsys) -> None:
    """From the next message to consume on to the newest of the store, of whatever topic."""
    clock = Clock(T0)
    with open_writer(tmp_path / "store", clock) as writer:
        for seconds, topic in ((0, "T"), (1, "T"), (2, "U"), (8, "T"), (9, "U")):
            clock.now = T0 + 1000 * seconds
            writer.append(Message(topic, b"x", properties=b""))
    config = tmp_path / "store" / "config"
    config.mkdir(exist_ok=True)
    table = b'{"offsetTable":{"T@g":{0:1,7:0},"T@all":{0:3},"T@none":{0:-1},"T@past":{0:5}}}'
    (config / "consumerOffset.json").write_bytes(table)
    sizes = [word for name, value in TINY.items() for word in ("--set", f"{name}={value}")]
    words = ("groups", str(tmp_path / "store"), "--rocketmq", "5.3.3", *sizes)
    _, found, _ = rows_asked(capsys, *words)
    told = {(row["group"], row["queueId"]): row["lagSeconds"] for row in found}
    assert told == {("g", 0): 8, ("g", 7): 0, ("all", 0): 0, ("none", 0): 9, ("past", 0): 0}
    shutil.rmtree(tmp_path / "store" / "consumequeue")  # without a queue it is not known
    _, found, _ = rows_asked(capsys, *words, "--group", "g")
    assert only(found, "lag", "lagSeconds") == [(2, None), (0, 0)]
