"""Contexts of a trace message; tests/rocketmq/test_client_traces.py has RocketMQ's own answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.store_format.message.message import TIMER_TOPIC, Message
from reput.store_format.query import pop_leftovers
from reput.store_format.query.client_traces import ClientTrace, decoded
from reput.store_format.query.pop_leftovers import InFlightRow, parent_of
from tests.rocketmq.trace_bodies import body
from tests.store_format.query.popped import POPPED, REVIVE, Made, ack, point
from tests.store_format.query.stores import asked

PUB = "Pub|5|r|makers|Orders|ID|TagA|o-1 o-2|10.0.0.1:10911|20|3|0"
SUB = "SubAfter|rq|ID|7|false|o-1"


def raw(*contexts: str) -> bytes:
    return "".join(f"{each}\x02" for each in contexts).replace("|", "\x01").encode()


@pytest.mark.parametrize(("context", "wanted"), [
    (PUB, {"timestamp": 5, "group": "makers", "cost": 3, "success": None}),
    (PUB + "|TRUE", {"success": True, "offset_message_id": None}),
    (PUB + "|OFF|true", {"success": True, "offset_message_id": "OFF", "client_host": None}),
    (PUB + "|OFF|no|h", {"success": False, "client_host": "h", "message_type": "Normal_Msg"}),
    (PUB + "|OFF|no|h|new|newer", {"client_host": "h", "keys": "o-1 o-2"}),
    ("SubBefore|5|r|g|rq|ID|2|o-1", {"timestamp": 5, "retry_times": 2, "request_id": "rq"}),
    (SUB, {"cost": 7, "success": False, "context_code": None, "returned": None}),
    (SUB + "|4|9", {"context_code": 4, "returned": "FAILED", "timestamp": None}),
    (SUB + "|1|9|g", {"timestamp": 9, "group": "g", "returned": "TIME_OUT"}),
    (SUB + "|9|9|g", {"context_code": 9, "returned": None}),
    (SUB + "|||||", {"keys": "o-1", "context_code": None}),
    ("EndTransaction|5|r|g|T|ID|||h|2|tx|ROLLBACK_MESSAGE|true",
     {"transaction_state": "ROLLBACK_MESSAGE", "from_check": True, "tags": ""}),
    ("Recall|5|r|g|T|ID|true", {"success": True, "topic": "T"}),
])  # fmt: skip
def test_fields_are_known_by_their_number(context: str, wanted: dict[str, Any]) -> None:
    (row,) = decoded(raw(context))
    assert row is not None
    assert (row.kind, row.message_id) == (context.split("|")[0], "ID")
    assert {name: getattr(row, name) for name in wanted} == wanted


@pytest.mark.parametrize("context", [
    "Pub|5", PUB.replace("|5|", "|x|"), PUB[:-1] + "5", PUB[:-1] + "-1", SUB + "|x", "|", "Recall",
    SUB + "|1|9223372036854775808|g", "Pub|" + "0" * 100 + PUB[5:],
    "EndTransaction|5|r|g|T|ID|||h|2|tx|MAYBE|true",
])  # fmt: skip
def test_what_the_decoder_throws_at_is_none_and_the_rest_is_read(context: str) -> None:
    rows = list(decoded(raw(SUB, context, "Later|5|r", "", "|Pub", SUB)))
    assert [row and row.kind for row in rows] == ["SubAfter", None, "SubAfter"]


@given(st.integers(0, 1 << 30) | st.binary(max_size=200))
def test_any_bytes_are_read(drawn: int | bytes) -> None:
    given_bytes = body(drawn) if isinstance(drawn, int) else drawn
    for row in decoded(given_bytes):
        assert row is None or isinstance(row, ClientTrace)


# --- What was in flight when a broker ended: by check points, orders and RocksDB. That real brokers
# leave just that is in tests/rocketmq/test_popped.py.
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
    for raw_body in (b"", b"[]", b"{", {"so": 1}, {**point(1), "q": "x"},
                 {**point(1), "n": 1 << 40, "d": [None]}):  # fmt: skip
        made.put("ck", raw_body)
    made.put("ack", {**ack(1, 1), "ao": None})
    made.put("ck", {**point(5), "n": 1 << 40, "d": []})
    rows, notes = made.rows()
    assert len(rows) == pop_leftovers._MOST_BITS
    assert len(notes) == 7


def test_messages_that_were_popped_in_order(made: Made) -> None:
    info = {"popTime": POPPED, "i": 60_000, "o": [7, 1, 3], "cm": 0b001, "l": 0,
            "ot": {"10": POPPED + 5}}  # fmt: skip
    made.config("consumerOrderInfo.json", "table", {"T@g": {"2": info}, "T@h": {"0": {"o": []}}})
    rows, notes = made.rows()
    assert rows == [InFlightRow("g", "T", 2, 8, POPPED, POPPED + 60_000, None),
                    InFlightRow("g", "T", 2, 10, POPPED, POPPED + 5, None)]  # fmt: skip
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
