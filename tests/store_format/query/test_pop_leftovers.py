"""What was in flight when a broker ended: by check points, orders and RocksDB. That real brokers
leave just that is in tests/rocketmq/test_popped.py.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reput.store_format.message.message import TIMER_TOPIC, Message
from reput.store_format.query import pop_leftovers
from reput.store_format.query.pop_leftovers import InFlightRow, parent_of
from tests.store_format.query.popped import POPPED, REVIVE, Made, ack, point
from tests.store_format.query.stores import asked


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    made = Made(tmp_path / "store")
    made.writer.append(Message("T", b"there is a log", 0))
    yield made
    made.writer.close()


def places(rows: list[InFlightRow]) -> list[tuple[str, int]]:
    return [(row.group, row.offset) for row in rows]


def test_what_nobody_acknowledged(made: Made) -> None:
    made.put("ck", point(10, 4, bm=0b1000))
    made.put("ack", ack(10, 11))
    made.put("bAck", {**ack(10, -1), "aol": [12]}, delivered=True)
    made.put("ck", point(20, group="h"), delivered=True)
    made.put("ack", ack(20, 20))  # of another group
    made.put("ck", {**point(30), "d": None, "n": 2})  # as before 5.0.0 (indexOfAck)
    rows, notes = made.rows()
    assert places(rows) == [("g", 10), ("g", 30), ("g", 31), ("h", 20)]
    assert rows[0] == InFlightRow("g", "T", 1, 10, POPPED, POPPED + 60_000, None)
    assert notes == []
    assert made.rows(scan=True)[0] == rows


def test_what_the_broker_has_given_again_is_in_flight_no_more(made: Made) -> None:
    """Its revive group's offset is past the check point; one that was put once more is not."""
    for delivered in (False, True):
        made.put("ck", point(10), delivered=delivered)
    made.put("ck", point(10, rp="1"))
    made.put("ck", point(11), delivered=True)
    made.config(
        "consumerOffset.json", "offsetTable", {f"{REVIVE}@CID_RMQ_SYS_REVIVE_GROUP": {"0": 0}}
    )
    assert places(made.rows()[0]) == [("g", 10), ("g", 11)]
    made.config(
        "consumerOffset.json", "offsetTable", {f"{REVIVE}@CID_RMQ_SYS_REVIVE_GROUP": {"0": 1}}
    )
    assert places(made.rows()[0]) == [("g", 10)]


def test_other_timer_messages_and_bodies_that_are_none(made: Made) -> None:
    made.writer.append(Message(TIMER_TOPIC, b"{}", 0, "ck", properties={"REAL_TOPIC": "Orders"}))
    for body in (
        b"",
        b"[]",
        b"{",
        {"so": 1},
        {**point(1), "q": "x"},
        {**point(1), "n": 1 << 40, "d": [None]},
    ):
        made.put("ck", body)
    made.put("ack", {**ack(1, 1), "ao": None})
    made.put("ck", {**point(5), "n": 1 << 40, "d": []})
    rows, notes = made.rows()
    assert len(rows) == pop_leftovers._MOST_BITS
    assert len(notes) == 7


def test_messages_that_were_popped_in_order(made: Made) -> None:
    info = {
        "popTime": POPPED, "i": 60_000, "o": [7, 1, 3], "cm": 0b001, "l": 0,
        "ot": {"10": POPPED + 5},
    }  # fmt: skip
    made.config("consumerOrderInfo.json", "table", {"T@g": {"2": info}, "T@h": {"0": {"o": []}}})
    rows, notes = made.rows()
    assert rows == [
        InFlightRow("g", "T", 2, 8, POPPED, POPPED + 60_000, None),
        InFlightRow("g", "T", 2, 10, POPPED, POPPED + 5, None),
    ]
    assert len(notes) == 1


def test_a_lite_topic_is_listed_with_its_parent(made: Made, capsys: Any) -> None:
    assert parent_of("%LMQ%$Orders$eu$1") == "Orders"
    assert [parent_of(name) for name in ("T", "%LMQ%T", "%LMQ%$T")] == [None] * 3
    made.put("ck", point(3, topic="%LMQ%$Orders$eu", group="lite"))
    made.put("ck", point(3))
    made.writer.dispatch()
    words = ("groups", str(made.path), "--rocketmq", "5.3.3", "--in-flight")
    code, rows, _ = asked(capsys, *words, "--group", "lite")
    assert (code, [row["parent"] for row in rows]) == (0, ["Orders"])
    assert asked(capsys, *words, "--clients", "c1")[0] == 2
