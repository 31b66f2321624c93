"""`reput serve --at` beside a real broker whose log ended at that time: random stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.sockets.asking import Peer
from tests.jobs.sockets.broker_answers import reported, requests
from tests.jobs.sockets.cutting import GIVEN, RELEASE, cut, differences, random_store, times
from tests.rocketmq.live import Broker
from tests.rocketmq.replicas import until

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]


@pytest.mark.parametrize("seed", range(10, 13))
def test_at_a_time_is_as_a_real_broker_that_was_stopped_then(seed: int, tmp_path: Path) -> None:
    store = tmp_path / "store"
    random_store(seed, store)
    asked = list(requests(store))
    time = times(seed, store)[0]
    cut(store, time, tmp_path / "cut")
    settings = {name: int(size) for name, size in GIVEN.items() if name != "brokerName"}
    with (
        Broker(RELEASE, tmp_path / "cut", brokerPermission=4, **settings) as broker,
        Peer(f"127.0.0.1:{broker.port}") as peer,
    ):
        assert until(lambda: broker.status()["behind"] == 0)
        wrong = list(differences(store, time, asked, lambda each: reported(peer.ask(each))))
    assert not wrong, (len(wrong), len(asked), wrong[:3])
