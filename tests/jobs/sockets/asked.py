"""A broker asked in this process: no socket, and the clock is the test's."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from reput.broker.serving.broker import Answer, Broker, Caller
from reput.broker.serving.handlers import answer
from reput.broker.serving.store import ServedStore
from reput.broker.wire.codes import RequestCode
from reput.broker.wire.remoting import ONE_WAY_BIT
from reput.jobs.sockets.opened import ServedSource, open_broker
from tests import golden_stores
from tests.jobs.sockets.asking import request

TOPIC = "Live0"  # four queues of 355 messages; 300 of them in the first
LISTENING = "127.0.0.1:9876"


def opened(name: str = "broker_clean_5.3.3", release: str = "5.3.3") -> Broker:
    store: Path = golden_stores.unpack(name).input
    return open_broker(ServedSource(str(store), release), lambda _: None)


class Asked:
    """One broker; each client is a connection's number."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self.now = broker, broker.started

    def ask(self, code: int, client: int = 1, body: Any = b"", **fields: Any) -> Answer:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        caller = Caller(client, f"10.0.0.{client % 250}:5000", LISTENING, self.now)
        return answer(self.broker, request(code, body=raw, **fields), caller)

    def heartbeat(self, client: int, group: str, *topics: str, **more: Any) -> Answer:
        """One consumer's; `model`, `sql`, `version` and fields of HeartbeatData."""
        kind = "SQL92" if "sql" in more else "TAG"
        wanted = [{"topic": topic, "subString": more.get("sql", "*"), "expressionType": kind,
                   "subVersion": more.get("version", 1), "codeSet": [], "tagsSet": []}
                  for topic in topics]  # fmt: skip
        consumer = {
            "groupName": group, "consumeType": "CONSUME_PASSIVELY",
            "messageModel": more.get("model", "CLUSTERING"),
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": wanted,
        }  # fmt: skip
        kept = {name: more[name] for name in ("heartbeatFingerprint", "withoutSub") if name in more}
        body = {"clientID": f"c{client}", "consumerDataSet": [consumer], "producerDataSet": []}
        return self.ask(RequestCode.HEART_BEAT, client, {**body, **kept})

    def reported(self) -> list[tuple[int, str]]:
        """(client, group) of the notes that clients were to be sent since."""
        notes = [(client, note.fields["consumerGroup"]) for client, note in self.broker.outbox]
        assert all(note.flag == ONE_WAY_BIT for _, note in self.broker.outbox)
        self.broker.outbox.clear()
        return notes


def said(found: Answer) -> Any:
    return json.loads(found.body)


@contextmanager
def stores_closed_after() -> Iterator[None]:
    """Close the stores that are opened to be served meanwhile, as `reput serve` does at its end."""
    made: list[ServedStore] = []
    look = ServedStore._look

    def noted(store: ServedStore) -> None:
        made.append(store)
        look(store)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServedStore, "_look", noted)
        yield
    for store in made:
        store.close()
