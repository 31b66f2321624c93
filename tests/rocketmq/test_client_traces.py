"""Client traces as RocketMQ's own classes read them: TraceDataEncoder, mqadmin."""

from __future__ import annotations

import base64
import time
from random import Random
from typing import Any

import pytest

from reput.store_format.query.client_traces import ClientTrace, decoded
from tests.rocketmq import real_clients
from tests.rocketmq.trace_bodies import KINDS, body

pytestmark = pytest.mark.rocketmq

# What a context that does not say it has in Java; the time is that of its reading.
_UNSAID: dict[str, Any] = {
    **dict.fromkeys(
        ("region", "group", "topic", "tags", "keys", "store_host", "client_host",
         "offset_message_id", "request_id"), "",
    ),
    **dict.fromkeys(("body_length", "cost", "retry_times", "context_code"), 0),
    "success": True, "from_check": False,
}  # fmt: skip


def _java(row: ClientTrace | None, theirs: Any, begun: int) -> Any:
    """One of ours as Java says it."""
    if row is None:
        return None
    said = {name: value for name, value in row._asdict().items() if value is not None}
    whole = ClientTrace(**{**_UNSAID, **said})
    if row.timestamp is None and theirs is not None and theirs[2] >= begun:
        whole = whole._replace(timestamp=theirs[2])
    return list(whole)


@pytest.mark.parametrize("release", real_clients.VERSIONS)
def test_contexts_are_what_the_decoder_finds(release: str) -> None:
    first, begun = Random().randrange(1 << 30), int(time.time() * 1000)
    known, types = (KINDS, 5) if release > "5" else (KINDS[:-1], 4)  # no Recall, no Order_Msg
    bodies = [b"", b"\x01", b"\x02\x02", b"\x01Pub\x02"]
    bodies += [body(first + n, known, types) for n in range(4000)]
    step = {"do": "trace.decode", "bodies": [base64.b64encode(raw).decode() for raw in bodies]}
    (told,) = real_clients.run(release, "127.0.0.1:9", [step])
    seen: dict[Any, int] = dict.fromkeys((None, *known), 0)
    for raw, theirs in zip(bodies, told["answer"], strict=True):
        rows = list(decoded(raw))
        padded = [*theirs, *[None] * len(rows)]
        ours = [_java(row, each, begun) for row, each in zip(rows, padded, strict=False)]
        assert ours == theirs, f"seed of all: {first}, {raw!r}"
        for row in rows:
            seen[row and row.kind] += 1
    assert min(seen.values()) > 500
