"""A plain broker goes on with what a DLedger group has agreed on."""

import pytest

from reput import convert
from tests.in_process import Session, as_text
from tests.rocketmq.dledger import SETTINGS, VERSION
from tests.rocketmq.live import TOPICS, living
from tests.store_format.log.dledger_stores import unpack

pytestmark = [pytest.mark.rocketmq, pytest.mark.long, pytest.mark.timeout(900)]
GIVEN = {"rocketmq": VERSION, "settings": as_text(SETTINGS)}


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
