"""A broker under load that is backed up every few seconds, killed, and restored to random moments:
a broker starts on each, has each message up to it once, timers too, and groups where they were."""

import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from reput import backup, open_store, restore
from reput.store_format.files.by_url import storage_for
from reput.store_format.java import quoted_keys
from tests.jobs.sockets.asking import Peer
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import Broker, Client, warmed
from tests.rocketmq.whole.consumer import Consumer, PopConsumer
from tests.seeds import seed

pytestmark = [pytest.mark.rocketmq, pytest.mark.timeout(1800)]

TOPICS, QUEUES, GROUPS = ("Plain", "Timers", "Half"), 2, ("one", "two", "three", "four")
SIZES = {"mappedFileSizeCommitLog": 1 << 16, "mappedFileSizeConsumeQueue": 2000,
         "maxHashSlotNum": 100, "maxIndexNum": 400, "flushConsumerOffsetInterval": 500}  # fmt: skip
_TIMER = "rmq_sys_wheel_timer"


def settings(version: str) -> dict[str, object]:
    if version.startswith("4."):
        return dict(SIZES)
    pops = {"popCkStayBufferTime": 1000, "popCkStayBufferTimeOut": 500}
    return {**SIZES, **pops, "timerWheelEnable": True, "timerPrecisionMs": 1000}


def _load(client: Client, version: str, number: int) -> None:
    """A round of messages of each kind, each with a key of its own."""
    plain = [{"t": "Plain", "q": n % QUEUES, "b": 300, "p": {"KEYS": f"plain{number}-{n}"}}
             for n in range(20)]  # fmt: skip
    client.ask("send", messages=plain, queues=QUEUES)
    if not version.startswith("4."):
        due = str(int(time.time() * 1000) + 2000)
        timers = [{"t": "Timers", "q": n % QUEUES, "b": 100,
                   "p": {"KEYS": f"timer{number}-{n}", "TIMER_DELIVER_MS": due}}
                  for n in range(4)]  # fmt: skip
        client.ask("send", messages=timers, queues=QUEUES)
    outcomes = ("COMMIT_MESSAGE", "ROLLBACK_MESSAGE")
    half = [{"t": "Half", "q": n % QUEUES, "b": 50, "p": {"KEYS": f"half{number}-{n}"},
             "outcome": outcomes[n % 2]} for n in range(4)]  # fmt: skip
    client.ask("transactions", messages=half, queues=QUEUES)


def lived(version: str, folder: Path, client_driver: Driver, rounds: int) -> tuple[Path, set[str]]:
    """(a repository of a broker that was killed; the store is beside it, what was popped and
    acknowledged)."""
    acknowledged = set[str]()
    store, repository, draws = folder / "store", folder / "repository", random.Random(7)
    with (
        Broker(version, store, **settings(version)) as broker,
        Peer(f"127.0.0.1:{broker.port}", 60) as peer,
    ):
        client = warmed(client_driver, broker.namesrv)
        for number in range(rounds):
            _load(client, version, number)
            for group in GROUPS:
                consumer = Consumer(peer, group, "Plain", QUEUES)
                consumer.read(draws.randrange(6))
                consumer.save()
            popper = PopConsumer(peer, "popper", "Plain")
            for got, each in [] if version.startswith("4.") else popper.pop(1000)[::3]:
                popper.ack(each)  # what is not is to come again
                acknowledged.add(got.key)
            time.sleep(0.7)  # offsets are written each half second
            told = {name: str(value) for name, value in settings(version).items()}
            backup(str(store), str(repository), name="b", rocketmq=version, settings=told)
        broker.driver.kill()
    return repository, acknowledged


def _records(path: str, version: str, end: int) -> list[Any]:
    with open_store(path, rocketmq=version) as store:
        return [each for each in store.messages() if each.physical_offset < end]


def _wanted(records: list[Any]) -> dict[str, Counter[str]]:
    """By topic the keys of what its consumers get: what is in it, and timers that wait."""
    wanted: dict[str, Counter[str]] = {topic: Counter() for topic in TOPICS}
    for each in records:
        if each.topic == _TIMER and each.keys:  # without: of a check point
            wanted["Timers"][each.keys[0]] += 1
        elif each.topic in wanted and each.topic != "Timers":
            wanted[each.topic][each.keys[0]] += 1
    return wanted


def _offsets(repository: Path, version: str, state: int) -> dict[str, dict[str, int]]:
    """The groups' offsets as the state's run has them, from the virtual store."""
    end = json.loads((repository / f"b/runs/{state:08d}.json").read_text())["end"]
    path = f"backup:{repository}/b@{state}:{end}"
    try:
        raw = storage_for(path).read_bytes(f"{path}/config/consumerOffset.json")
    except FileNotFoundError:
        return {}
    table: dict[str, dict[str, int]] = json.loads(quoted_keys(raw))["offsetTable"]
    return table


def _log(store: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((store / "commitlog").iterdir()))


@pytest.mark.parametrize(
    ("version", "moments"),
    [
        pytest.param("5.3.3", 2, marks=pytest.mark.real),
        *(pytest.param(version, 4, marks=pytest.mark.long) for version in ("4.9.7", "5.5.1")),
    ],
)  # fmt: skip
def test_a_broker_starts_on_any_moment(version: str, moments: int, folder: Path) -> None:
    draws = random.Random(seed(1))
    with Driver(version) as driver:
        repository, acknowledged = lived(version, folder, driver, rounds=4)
    original = _log(folder / "store")
    runs = sorted((repository / "b/runs").iterdir())
    last = json.loads(runs[-1].read_text())["end"]
    for number in range(moments):
        made = folder / f"restored{number}"
        (about,) = restore(str(repository), str(made),
                           to_offset=draws.randrange(last // 8, last + 1)).stores  # fmt: skip
        end = about.log_end
        log = _log(made)
        assert log[:end] == original[:end]
        assert not any(log[end:])
        wanted = _wanted(_records(str(folder / "store"), version, end))
        # of a moment before the first backup a group's progress is of a later time
        known = json.loads(runs[about.state_run - 1].read_text())["end"] <= end
        waits = set(wanted["Plain"]) - acknowledged if known and version[0] != "4" else set()
        _served(version, made, wanted, waits, _offsets(repository, version, about.state_run))


def _served(
    version: str, store: Path, wanted: dict[str, Counter[str]], waits: set[str],
    offsets: dict[str, dict[str, int]],
) -> None:  # fmt: skip
    """waits: what a group that pops has not acknowledged."""
    with Broker(version, store, **settings(version)) as broker:
        with Peer(f"127.0.0.1:{broker.port}", 60) as peer:
            got = {topic: Counter[str]() for topic in TOPICS}
            readers = {topic: Consumer(peer, "new", topic, QUEUES) for topic in TOPICS}
            until, quiet = time.monotonic() + 60, time.monotonic() + 4
            while time.monotonic() < until:
                for topic, reader in readers.items():
                    for each in reader.read():
                        got[topic][each.key] += 1
                        quiet = time.monotonic() + 4
                if got == wanted and time.monotonic() > quiet:
                    break
                time.sleep(0.1)
            assert got == wanted
            popper, popped = PopConsumer(peer, "popper", "Plain"), set[str]()
            until = time.monotonic() + 60
            while not waits <= popped and time.monotonic() < until:
                popped |= {each.key for each in popper.read()}
                time.sleep(0.1)
            assert waits <= popped <= set(wanted["Plain"])
            for group in GROUPS:
                known = offsets.get(f"Plain@{group}", {})
                ends = readers["Plain"].at
                assert Consumer(peer, group, "Plain", QUEUES).at == {
                    queue: min(int(known.get(str(queue), 0)), ends[queue]) for queue in ends
                }
        broker.driver.kill()
