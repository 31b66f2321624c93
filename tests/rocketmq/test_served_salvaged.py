"""`reput serve --salvage` of random damaged stores beside a real broker on the undamaged ones."""

import random
from pathlib import Path

import pytest

from tests.broker.writer.stores import stored_records
from tests.jobs.sockets.cutting import GIVEN, RELEASE, random_store
from tests.jobs.sockets.serving import Serving
from tests.rocketmq.driver import Driver
from tests.rocketmq.judge import copy
from tests.rocketmq.live import Broker, Client
from tests.rocketmq.replicas import until
from tests.seeds import seeds
from tests.trees import flip

pytestmark = [pytest.mark.rocketmq, pytest.mark.long, pytest.mark.explore]

QUEUES = dict.fromkeys("TUV", 3)


def damage(seed: int, store: Path) -> set[int]:
    """Flip a bit of some records; their physical offsets."""
    drawn = random.Random(seed)
    records = list(stored_records(store / "commitlog"))
    hurt = drawn.sample(records, drawn.randrange(1, 8))
    for record in hurt:
        (path,) = (
            p for p in (store / "commitlog").iterdir()
            if int(p.name) <= record.physical_offset < int(p.name) + p.stat().st_size
        )  # fmt: skip
        at = record.physical_offset - int(path.name) + drawn.randrange(record.size)
        flip(path, at, 1 << drawn.randrange(8))
    return {record.physical_offset for record in hurt}


@pytest.mark.parametrize("seed", seeds([0]))
def test_what_is_undamaged_is_served_as_a_broker_served_it(seed: int, tmp_path: Path) -> None:
    store, whole = tmp_path / "store", tmp_path / "whole"
    random_store(seed, store)
    copy(store, whole)
    hurt = damage(seed, store)
    settings = {name: int(size) for name, size in GIVEN.items() if name != "brokerName"}
    with Driver(RELEASE) as client:
        with Broker(RELEASE, whole, brokerPermission=4, **settings) as broker:
            assert until(lambda: broker.status()["behind"] == 0)
            theirs = Client(client, broker.namesrv).ask("pull", queues=QUEUES)["messages"]
        words = [word for name, value in GIVEN.items() for word in ("--set", f"{name}={value}")]
        with Serving(store, "--rocketmq", RELEASE, "--salvage", *words, seconds=300) as serving:
            ours = Client(client, serving.address).ask("pull", queues=QUEUES)["messages"]
    before = {each[4]: each for each in theirs}
    served = {each[4]: each for each in ours}
    assert len(served) == len(ours)
    assert served.keys() <= before.keys()
    assert before.keys() - served.keys() <= hurt
    assert [each for each in ours if each[4] not in hurt] == [
        each for each in theirs if each[4] in served.keys() - hurt
    ]
