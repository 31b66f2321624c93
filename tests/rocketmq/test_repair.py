"""A real broker serves a repaired store past its damage; RocketMQ alone loses what follows."""

from pathlib import Path
from typing import Any

import pytest

from reput.jobs.repair import repair
from tests.rocketmq.driver import Driver
from tests.rocketmq.judge import copy
from tests.rocketmq.live import SETTINGS, Broker, Client, living, messages
from tests.trees import flip

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

COUNT, DAMAGED, SAVED_AT = 50, 10, 3
# the byte of the record whose lowest bit is flipped, by the name of its field
BYTES = {"totalSize": 2, "magic": 5, "body": 100}
LOST = "REPUT_LOST"


def _written(version: str, store: Path, client: Driver) -> tuple[list[list[Any]], list[list[Any]]]:
    """All messages, in the log's order; and what a group that had saved its offsets has left."""
    with living(version, store, driver=client) as (_, asking):
        asking.send(messages(COUNT))
        asking.read(group="saver", save=True, limit=SAVED_AT)
        sent = asking.read(group="before")
        left = asking.read(group="saver", **{"from": "saved"})
    assert len(sent) == COUNT
    return sorted(sent, key=lambda message: message[4]), left


def _read(version: str, store: Path, client: Driver) -> tuple[list[list[Any]], list[list[Any]]]:
    with Broker(version, store) as broker:
        asking = Client(client, broker.namesrv)
        return asking.read(group="after"), asking.read(group="saver", **{"from": "saved"})


@pytest.mark.parametrize("reput", ["local"], indirect=True)
@pytest.mark.parametrize(
    ("version", "field"), [("4.1.0", "totalSize"), ("4.9.7", "magic"), ("5.5.1", "body")]
)
def test_one_flipped_bit_costs_one_message(version, field, folder, reput) -> None:
    store, repaired = folder / "store", folder / "repaired"
    settings = {name: str(value) for name, value in SETTINGS.items()}
    with Driver(version) as client:
        sent, left = _written(version, store, client)
        damaged = sent[DAMAGED]
        flip(store / "commitlog" / f"{0:020d}", damaged[4] + BYTES[field])
        repair(reput.engine, str(store), str(repaired), rocketmq=version, settings=settings)
        copy(store, folder / "alone")
        alone, _ = _read(version, folder / "alone", client)
        after, resumed = _read(version, repaired, client)
    print(f"{version}, {field}: {len(alone)} of {COUNT} left by RocketMQ alone")
    assert len(alone) == DAMAGED
    if field == "body":  # it keeps its place; what its body says is another thing
        assert len(after) == COUNT
        wanted = [m for m in sent if m != damaged]
        assert [m for m in _in_order(after) if m[4] != damaged[4]] == wanted
        return
    fillers = [m for m in after if m[6] == LOST]
    assert [m[:3] + m[4:5] for m in fillers] == [damaged[:3] + damaged[4:5]]
    others = [m for m in _in_order(after) if m[6] != LOST]
    assert others == [m for m in sent if m != damaged]
    assert [m for m in resumed if m[6] != LOST] == [m for m in left if m != damaged]


def _in_order(read: list[list[Any]]) -> list[list[Any]]:
    return sorted(read, key=lambda message: message[4])
