"""A real DLedger group that is killed and fails over: what is derived from its members' logs."""

from pathlib import Path

import pytest

from reput import convert, verify
from tests.in_process import Session, as_text, run
from tests.rocketmq.dledger import SETTINGS, VERSION, derive_anew, group, live, mixed
from tests.rocketmq.judge import difference
from tests.rocketmq.live import TOPICS, living
from tests.store_format.log.dledger_stores import unpack

pytestmark = [pytest.mark.rocketmq, pytest.mark.long, pytest.mark.timeout(900)]
GIVEN = {"rocketmq": VERSION, "settings": as_text(SETTINGS)}
WHOLE = {"rocketmq": VERSION, "settings": as_text(SETTINGS) | {"readUnCommitted": "true"}}


def test_a_group_that_loses_two_leaders(tmp_path: Path) -> None:
    with group(tmp_path) as made:
        lived = live(made)
    for part in ("failed_over", "rejoined"):
        store = tmp_path / lived[part]
        derive_anew(store)  # also from an entry that was written between `agreed` and `stop`
        run(str(store), str(tmp_path / f"out-{part}"), Session(), on_damage="refuse", **WHOLE)
        assert difference(tmp_path / f"out-{part}", store / "expect") is None
    for store in (lived["killed"], *(made.store(member) for member in range(3))):
        assert verify(Session(), str(tmp_path / store), **GIVEN).same


def test_a_plain_brokers_store_that_goes_on_as_a_groups(tmp_path: Path) -> None:
    with group(tmp_path, 1) as made:
        mixed(made)
    assert verify(Session(), str(made.store(0)), **GIVEN).same


@pytest.mark.parametrize("name", ["killed", "mixed"])
def test_a_plain_broker_serves_each_committed_message_of_a_converted_store(name, tmp_path) -> None:
    store, about = unpack(name, tmp_path / "store")
    convert(Session(), str(store), str(tmp_path / "out"), **GIVEN)
    with living(VERSION, tmp_path / "out", **SETTINGS) as (_, client):
        found = client.read(group="plain")
    read = [tuple(message[:4]) for message in found]
    assert len(read) == len(set(read))
    queues = {(t, q, o, key) for t, q, o, key, _ in about["sent"] if t in TOPICS}
    waiting = 0 if name == "mixed" else 2  # delayed ones, which are not in these queues yet
    late = 15 if name == "killed" else 0  # sent when it was dead already
    assert len(queues - set(read)) == waiting + late
