"""Real brokers on converted stores: each message once, at its queueOffset, and nothing dispatched
anew. Merged and split ones, LMQ, batches, what waits or is in flight: whole/cases.py."""

from pathlib import Path
from typing import Any

import pytest

from reput.jobs.convert import convert
from tests.in_process import as_text
from tests.rocketmq import dledger
from tests.rocketmq.live import SETTINGS, TOPICS, living, messages
from tests.store_format.log.dledger_stores import unpack

pytestmark = [pytest.mark.rocketmq, pytest.mark.long, pytest.mark.timeout(900)]

COUNT, SAVED_AT = 3000, 40
PLACE, HOST = 4, "10.1.2.3:10911"
SIZES = {"mappedFileSizeCommitLog": 300_000, "mappedFileSizeConsumeQueue": 600, "maxIndexNum": 900}
OURS = {name: str(size) for name, size in SETTINGS.items()}
Rows = list[list[Any]]


def without_places(rows: Rows) -> Rows:
    return sorted([*row[:PLACE], *row[PLACE + 1 :]] for row in rows)


def written(version: str, store: Path) -> tuple[Rows, Rows]:
    """What a client reads from a broker, and what a group that stopped has left; some transactions
    are committed and rolled back, and a pending one is left."""
    with living(version, store) as (_, asking):
        asking.send(messages(COUNT))
        outcomes = ("COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "COMMIT_MESSAGE")
        half = [{"t": "Live0", "b": 30, "bs": i, "outcome": o} for i, o in enumerate(outcomes)]
        asking.ask("transactions", messages=half)
        asking.read(group="saver", save=True, limit=SAVED_AT)
        return asking.read(group="before"), asking.read(group="saver", **{"from": "saved"})


def read(version: str, store: Path, **settings: object) -> tuple[Rows, Rows]:
    """The same of a broker on a store that it dispatches nothing of."""
    with living(version, store, **settings) as (broker, asking):
        assert broker.status()["dispatched"] == 0
        return asking.read(group="after"), asking.read(group="saver", **{"from": "saved"})


@pytest.mark.parametrize(("old", "new"), [("4.9.7", "5.5.0"), ("5.3.3", "4.9.7")])
def test_a_broker_of_the_new_release_serves_each_message_at_its_position(
    old: str, new: str, tmp_path: Path
) -> None:
    store, made = tmp_path / "store", tmp_path / "made"
    rows, left = written(old, store)
    summary = convert(str(store), str(made), rocketmq=old, settings=OURS, to_rocketmq=new,
                      store_host=HOST,
                      to_settings={name: str(size) for name, size in SIZES.items()})  # fmt: skip
    assert summary.messages > COUNT
    after, resumed = read(new, made, **SIZES)
    assert len(after) == COUNT + 2
    assert without_places(after) == without_places(rows)
    assert without_places(resumed) == without_places(left)
    assert [row[PLACE] for row in after] != [row[PLACE] for row in rows]


@pytest.mark.parametrize("name", ["killed", "mixed"])
def test_a_plain_broker_serves_each_committed_message_of_a_converted_store(name, tmp_path) -> None:
    store, about = unpack(name, tmp_path / "store")
    convert(str(store), str(tmp_path / "out"), rocketmq=dledger.VERSION,
            settings=as_text(dledger.SETTINGS))  # fmt: skip
    with living(dledger.VERSION, tmp_path / "out", **dledger.SETTINGS) as (_, client):
        found = client.read(group="plain")
    read = [tuple(message[:4]) for message in found]
    assert len(read) == len(set(read))
    queues = {(t, q, o, key) for t, q, o, key, _ in about["sent"] if t in TOPICS}
    waiting = 0 if name == "mixed" else 2  # delayed ones, which are not in these queues yet
    late = 15 if name == "killed" else 0  # sent when it was dead already
    assert len(queues - set(read)) == waiting + late
