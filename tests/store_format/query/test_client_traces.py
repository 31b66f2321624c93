"""Contexts of a trace message; tests/rocketmq/test_client_traces.py has RocketMQ's own answers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.store_format.query.client_traces import ClientTrace, decoded
from tests.rocketmq.trace_bodies import body

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
