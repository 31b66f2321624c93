"""Client traces as RocketMQ's own classes read them: TraceDataEncoder, mqadmin."""

import base64
import time
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from reput.jobs.opening.questions import open_store
from reput.store_format.query.client_traces import ClientTrace, decoded
from tests.rocketmq import real_clients
from tests.rocketmq.live import Broker
from tests.rocketmq.served import mqadmin
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


Line = tuple[str, str, str, str, str, str]  # Pub or Sub, group, host, time, ms, success


def _as_mqadmin(store: Path, message_id: str) -> list[Line]:
    """Our trace in the words of queryMsgTraceById."""
    with open_store(str(store)) as opened:
        events = opened.trace(message_id)
        assert not opened.lacking
    return sorted(
        (
            {"sent": "Pub", "consumed": "Sub"}[each.event], each.group, each.host,
            datetime.fromtimestamp(each.client_timestamp // 1000, UTC).strftime("%F %T"),
            f"{each.cost_ms}ms", "success" if each.success else "failed",
        )
        for each in events if each.event in ("sent", "consumed")
    )  # fmt: skip


def _theirs(said: str) -> list[Line]:
    lines = [line.split() for line in said.splitlines() if line[:4] in ("Pub ", "Sub ")]
    return sorted((a, b, c, f"{d} {e}", f, g) for a, b, c, d, e, f, g in lines)


@pytest.mark.parametrize(
    "release",
    ["5.3.3", *(pytest.param(each, marks=pytest.mark.long) for each in ("4.9.7", "5.5.0"))],
)
def test_a_trace_is_what_mqadmin_says(release: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    delays = " ".join(["1s"] * 18)
    with Broker(release, store, traceTopicEnable=True, messageDelayLevel=delays) as broker:
        to = broker.namesrv
        (made,) = real_clients.run(release, to, [{"do": "trace.live", "topic": "Traced"}])
        assert "answer" in made, made
        consumed = made["answer"]
        ids = sorted({message_id for _, message_id in consumed})
        assert len(consumed) == 3 * (20 + 3)
        # by 5.3.3 all messages of a batch have the id of the batch
        assert len(ids) == 20 + (2 if release == "5.3.3" else 3)
        told = real_clients.run(
            release, to, [mqadmin("queryMsgTraceById", "-n", to, "-i", each) for each in ids]
        )
        broker.stop()
    whole = []
    for message_id, each in zip(ids, told, strict=True):
        theirs = _theirs(each["answer"])
        assert _as_mqadmin(store, message_id) == theirs, message_id
        whole += theirs
    # by the batch's id nobody finds its Pub: that names the ids that the producer gave
    assert [kind for kind, *_ in whole].count("Pub") == 20 + 1
    assert [end for *_, end in whole].count("failed") == 2
    # of a batch's messages, which lack TRACE_ON, consumers of 5.5.0 trace nothing
    assert len(whole) == 21 + 2 * (21 if release == "5.5.0" else 23) + 2
    with open_store(str(store)) as opened:
        assert [(each.event, each.group) for each in opened.trace(ids[0])][-1] == ("has passed it",
            "quiet")  # fmt: skip
