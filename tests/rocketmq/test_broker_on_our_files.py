"""A real broker serves CommitLog and config as they were with the files that reput derived."""

import time
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.verify import verify
from tests.rocketmq import live
from tests.rocketmq.driver import Driver
from tests.rocketmq.judge import Reput, copy
from tests.rocketmq.live import SETTINGS, Broker, Client, living, messages

pytestmark = pytest.mark.rocketmq

OUTCOMES = ("COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW", "COMMIT_MESSAGE")
BEFORE, SAVED_AT, AFTER = 360, 17, 30


def _live(version: str, store: Path, client: Driver) -> dict[str, Any]:
    """A broker's life: what it was sent, what a client was reported, and where a group stopped."""
    with Broker(version, store) as broker:
        asking = Client(client, broker.namesrv)
        sent = asking.send(messages(BEFORE))
        pending = []
        if version != "4.1.0":
            half = [{"t": "Live0", "b": 30, "bs": i, "outcome": o} for i, o in enumerate(OUTCOMES)]
            done = asking.ask("transactions", messages=half)["sent"]
            pending = [unique for _, unique, outcome in done if outcome == "UNKNOW"]
        asking.read(group="saver", save=True, limit=SAVED_AT)
        reported = live.answers(asking, sent, "live")
        resumed = asking.read(group="saver", **{"from": "saved"})
        delayed = [{"t": "Late", "p": {"KEYS": f"late{i}"}, "delay": live.DELAY_LEVEL}
                   for i in range(5)]  # fmt: skip

        asking.send(delayed)
        end = broker.stop()["max_offset"]
        return {"sent": sent, "reported": reported, "resumed": resumed, "pending": pending,
                "port": broker.port, "end": end}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("reput", "version"),
                         [("local", "4.1.0"), ("local", "4.9.7"), ("spark", "5.5.1")],
                         indirect=["reput"])  # fmt: skip
def test_a_broker_lives_on_with_our_files(version: str, folder: Path, reput: Reput) -> None:
    store = folder / "store"
    with Driver(version) as client:
        live = _live(version, store, client)
        live.replace_derived(reput, version, store, folder / "ours", SETTINGS)
        _opens_without_a_change(version, store, folder / "opened")
        before = live.contents(store)
        soon = live.CHECK_SOON if version != "4.1.0" else {}
        with living(version, store, live["port"], **soon, driver=client) as (_, asking):
            assert live.answers(asking, live["sent"], "ours") == live["reported"]
            assert asking.read(group="saver", **{"from": "saved"}) == live["resumed"]
            assert live.until(asking, "Late", {f"late{i}" for i in range(5)}, 60)
            if live["pending"]:
                checked = asking.ask("await_checks", topic="Checks", checks=1, seconds=60)
                assert set(checked["checked"]) == set(live["pending"])
            _takes_new_messages(asking)
        after = live.contents(store)
        assert all(after[name].startswith(old) for name, old in before.items())
    settings = {name: str(value) for name, value in SETTINGS.items()}
    report = verify(reput.engine, str(store), rocketmq=version, settings=settings)
    assert report.same, report.text()


def _opens_without_a_change(version: str, store: Path, opened: Path) -> None:
    """RocketMQ's store opens ours, dispatches nothing, and leaves every byte as it was."""
    copy(store, opened)
    before = live.snapshot(opened)
    with Driver(version, log_level="INFO") as driver:
        answer = driver.open_check(opened, SETTINGS)
        log = driver.log
    assert answer["dispatched"] == 0
    assert live.snapshot(opened) == before
    for complaint in ("[BUG]", "delete it", "will be deleted"):
        assert complaint not in log


def _takes_new_messages(client: Client) -> None:
    sent = client.send(messages(AFTER, first=BEFORE))
    wanted = {message[3] for message in sent}
    for _ in range(50):
        if wanted <= {message[3] for message in client.read(group="new")}:
            break
        time.sleep(0.2)
    assert wanted <= {message[3] for message in client.read(group="newer")}
    number = BEFORE + AFTER - 1
    topic = sent[-1][0]
    found = client.ask("find", keys=[[topic, f"key{number}"]])["by_key"][0]
    assert [message[3] for message in found] == [sent[-1][3]]
