"""`serve --in-flight`: what a dead broker's consumers had in flight is given again."""

import json
from pathlib import Path

import pytest

from reput.jobs.cli import main
from reput.jobs.serve.left_in_flight import take_in_flight
from reput.jobs.serve.open_served import Source, open_broker
from reput.store_format.message.message import Message
from tests.jobs.serve.asked import Asked
from tests.jobs.serve.popping import ack, pop
from tests.store_format.query.test_in_flight import POPPED, Made, point
from tests.store_format.query.test_in_flight import ack as acked


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
    broker = open_broker(Source(str(tmp_path / "store"), "5.3.3"), notes.append)
    take_in_flight(broker, notes.append)
    assert notes == ["2 messages were in flight when the broker ended, and are given again"]
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


def test_it_is_of_a_store_that_has_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Made(tmp_path / "store")
    made.put("ck", point(0))
    made.writer.close()
    for words in (["--follow"], ["--at", "2026-01-01T00:00:00Z"]):
        assert main(["serve", str(tmp_path / "store"), "--in-flight", *words, "--json"]) == 2
        assert "--in-flight" in json.dumps(capsys.readouterr().err)
