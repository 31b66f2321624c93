"""`serve --in-flight`: what a dead broker's consumers had in flight is given again."""

import json
from pathlib import Path

from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.jobs.cli import main
from reput.jobs.sockets.opened import ServedSource, open_broker, take_in_flight
from reput.store_format.message.message import Message
from tests.jobs.sockets.asked import Asked
from tests.jobs.sockets.popping import ack, batch, pop
from tests.store_format.query.popped import POPPED, Made, point
from tests.store_format.query.popped import ack as acked


def test_it_comes_again_once_its_time_is_up(tmp_path: Path) -> None:
    made = Made(tmp_path / "store")
    for n in range(6):
        made.writer.append(Message("T", b"body %d" % n, 1))
    made.put("ck", point(0, 3))
    made.put("ack", acked(0, 1))
    made.put("ck", point(5))  # its group's offset is not past it
    made.put("ck", point(0, topic="Gone"))
    made.config("consumerOffset.json", "offsetTable", {"T@g": {"1": 4}})
    made.writer.dispatch()
    made.writer.close()
    notes = list[str]()
    broker = open_broker(ServedSource(str(tmp_path / "store"), "5.3.3"), notes.append)
    take_in_flight(broker, notes.append)
    assert notes == ["given again: 2 messages in flight when the broker ended"]
    asked = Asked(broker)
    asked.now = POPPED + 59_999
    assert [each.position for each in pop(asked, "g", "T")] == [4, 5]
    asked.now += 1
    again = pop(asked, "g", "T")
    assert [(each.position, each.times) for each in again] == [(0, 1), (2, 1)]
    for each in again:
        ack(asked, "g", each, "T")
    asked.now += 10**9
    assert [each.position for each in pop(asked, "g", "T")] == [4, 5]


def test_it_is_of_a_store_that_has_ended(tmp_path, capsys) -> None:
    made = Made(tmp_path / "store")
    made.put("ck", point(0))
    made.writer.close()
    for words in (["--follow"], ["--at", "2026-01-01T00:00:00Z"]):
        assert main(["serve", str(tmp_path / "store"), "--in-flight", *words, "--json"]) == 2
        assert "--in-flight" in json.dumps(capsys.readouterr().err)


def test_retry_topics_of_the_dead_broker_are_popped_too(tmp_path: Path) -> None:
    made = Made(tmp_path / "store")
    made.writer.append(Message("T", b"body", 0))
    for topic in ("%RETRY%g_T", "%RETRY%h_T"):
        for n in range(3):
            made.writer.append(Message(topic, b"body %d" % n, 0, reconsume_times=2))
    made.writer.dispatch()
    made.writer.close()
    asked = Asked(open_broker(ServedSource(str(tmp_path / "store"), "5.3.3"), lambda _: None))
    peek = asked.ask(
        RequestCode.PEEK_MESSAGE, consumerGroup="g", topic="T", queueId=0, maxMsgNums=32
    )
    assert peek.fields["restNum"] == "4"
    first = pop(asked, "g", "T")
    assert [(each.retry, each.position, each.times) for each in first] == [
        *(("1", n, 2) for n in range(3)), ("0", 0, 0)]  # fmt: skip
    body = batch("g", first[:2], "T")
    assert asked.ask(RequestCode.BATCH_ACK_MESSAGE, body=body).code == ResponseCode.SUCCESS
    asked.now += 60_000
    again = [(each.retry, each.position) for each in pop(asked, "g", "T")]
    assert sorted(again) == [("0", 0), ("1", 2)]
