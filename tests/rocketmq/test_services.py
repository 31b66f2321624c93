"""What a real broker does with messages that wait, the jobs do to a copy of its store."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

import reput
from reput import offsets
from reput.jobs.offsets import OffsetsReport
from reput.store_format.layouts import SYS_TRANSACTION_COMMIT
from reput.store_format.log.record import Record
from reput.store_format.message.message import parse_properties
from tests.broker.writer.stores import stored_records
from tests.in_process import as_text
from tests.processes import until
from tests.rocketmq import real_clients
from tests.rocketmq.driver import Driver
from tests.rocketmq.fates import FIVE, delayed, timers, transactions
from tests.rocketmq.fates import SETTINGS as FATES
from tests.rocketmq.live import SETTINGS, TOPICS, Broker, Client, living, messages
from tests.rocketmq.rocksdb_stores import KINDS

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

WAIT = 20  # seconds of level 2 and of timers: longer than a broker takes to stop
LEVELS = f"1s {WAIT}s 30s 1h"
OURS = {"messageDelayLevel": LEVELS}
GIVEN: dict[str, object] = {**FATES, **FIVE, **OURS}
# Half messages are asked about at once, and never given up.
_CHECKS = {"transactionTimeOut": 500, "transactionCheckInterval": 500, "transactionCheckMax": 1000}
_NO_CHECKS = {"transactionTimeOut": 3_600_000, "transactionCheckInterval": 3_600_000}
_TIMES = ("TIMER_DEQUEUE_MS", "TRANSACTION_CHECK_TIMES")


def delivered(store: Path, after: int) -> dict[str, Record]:
    """What stands in the clients' topics behind a physical offset, by UNIQ_KEY, but for places and
    times."""
    found = {}
    for record in stored_records(store / "commitlog"):
        if record.physical_offset < after or record.topic not in TOPICS:
            continue
        properties = parse_properties(record.properties)
        text = record.properties
        for name in _TIMES:
            if name in properties:
                pair = f"{name}\x01{properties[name]}\x02".encode()
                # what a check added changes the order of a HashMap not at all: it is left out
                text = (text + b"\x02").replace(pair, b"").rstrip(b"\x02")
        found[properties["UNIQ_KEY"]] = record._replace(properties=text.rstrip(b"\x02"),
            queue_offset=0, physical_offset=0, store_timestamp=0, prepared_offset=0, size=0,
            body_at=0)  # fmt: skip
    return found


def log_end(store: Path) -> int:
    last = list(stored_records(store / "commitlog"))[-1]
    return last.physical_offset + last.size


def test_what_a_broker_delivers_is_delivered(tmp_path: Path) -> None:
    version, theirs, ours = "5.5.0", tmp_path / "theirs", tmp_path / "ours"
    given = {**GIVEN, **_NO_CHECKS}
    with Driver(version) as driver:
        with living(version, theirs, **given, driver=driver) as (_, client):
            client.send(messages(6))
            at_once = delayed(6, 2, 100) + timers(5, WAIT, 120)
            due = {each[3] for each in client.send(at_once)}
            client.send(delayed(3, 4, 110) + timers(2, 3600, 130))
        shutil.copytree(theirs, ours)
        end = log_end(ours)
        assert not set(delivered(ours, 0)) & due
        time.sleep(WAIT + 3)
        with living(version, theirs, **given, driver=driver) as (_, client):
            assert until(lambda: due <= {each[3] for each in client.read(TOPICS)}, 90)
    report = reput.deliver_delayed(str(ours), rocketmq=version, settings=OURS)
    assert (report.delivered, report.refused) == (len(due), [])
    made = delivered(ours, end)
    assert set(made) == due
    assert made == delivered(theirs, end)


def test_what_a_broker_commits_is_committed(tmp_path: Path) -> None:
    version, theirs, ours = "5.3.3", tmp_path / "theirs", tmp_path / "ours"
    with Driver(version) as driver:
        with living(version, theirs, **{**GIVEN, **_NO_CHECKS}, driver=driver) as (_, client):
            client.send(messages(6))
            keys = transactions(client, ["UNKNOW"] * 5, 100)
        shutil.copytree(theirs, ours)
        end = log_end(ours)
        with living(version, theirs, **{**GIVEN, **_CHECKS}, driver=driver) as (_, client):
            client.ask("await_checks", topic="Live0", checks=len(keys), seconds=60)
            time.sleep(4)  # ops are gathered
        report = reput.resolve_transactions(str(ours), decide="commit", rocketmq=version,
                                            settings=OURS)  # fmt: skip
        assert (report.committed, report.refused) == (len(keys), [])
        made = delivered(ours, end)
        assert set(made) == set(keys)
        assert made == {key: each for key, each in delivered(theirs, end).items() if key in keys}
        assert {each.transaction for each in made.values()} == {SYS_TRANSACTION_COMMIT}
        # a broker agrees: it asks about none of them, but about one that comes
        with living(version, ours, **{**GIVEN, **_CHECKS}, driver=driver) as (_, client):
            reported = client.ask("await_checks", topic="Live0", checks=1, seconds=8)
            assert reported["checked"] == []
            pending = transactions(client, ["UNKNOW"], 200)
            reported = client.ask("await_checks", topic="Live0", checks=1, seconds=60)
            assert set(reported["checked"]) == set(pending)


# --- A broker's store whose offsets `reput offsets` has moved: consumers go on exactly there.
EACH = 5  # messages in each queue of Live0
LIGHT = {"enableLmq": True, "enableMultiDispatch": True}
Places = dict[int, list[int]]  # queue id -> the queueOffsets that came


def pushed(version: str, namesrv: str, least: dict[str, int]) -> dict[str, Places]:
    """What comes to a push consumer of each group, at least so many messages."""
    steps = [{"do": "push", "group": group, "topic": "Live0", "least": many}
             for group, many in least.items()]  # fmt: skip
    found = {}
    for group, said in zip(least, real_clients.run(version, namesrv, steps), strict=True):
        places: Places = {}
        for message in said["answer"]["messages"]:
            places.setdefault(message[1], []).append(message[2])
        found[group] = {queue: sorted(at) for queue, at in sorted(places.items())}
    return found


@pytest.mark.parametrize(
    ("version", "settings"),
    [
        ("4.9.7", {}), ("5.3.3", LIGHT), ("5.3.3", KINDS["alone"]), ("5.5.0", KINDS["v2"]),
        ("5.5.1", KINDS["single"]),
    ],
    ids=["files-4.9.7", "lmq-5.3.3", "rocksdb-5.3.3", "v2-5.5.0", "single-5.5.1"],
)  # fmt: skip
def test_consumers_go_on_where_they_are_set(version, settings, tmp_path) -> None:
    store = tmp_path / "store"

    def asked(action: str, **more: Any) -> OffsetsReport:
        return offsets(str(store), action=action, settings=as_text({**SETTINGS, **settings}),
                       **more)  # fmt: skip

    with Driver(version) as driver:
        with Broker(version, store, **settings) as broker:
            Client(driver, broker.namesrv).send(messages(12 * EACH), send_timeout_ms=60_000)
            whole = {queue: list(range(EACH)) for queue in range(4)}
            least = {"billing": 4 * EACH, "kept": 4 * EACH}
            assert pushed(version, broker.namesrv, least) == {"billing": whole, "kept": whole}
            broker.catch_up()
            broker.stop()
        # with some kinds of RocksDB a broker that is stopped keeps not all that it was told
        left = {row.queue: row.offset for row in asked("dump", groups=["kept"]).rows}
        assert asked("set", groups=["billing"], topics=["Live0"], to_offset=4).done
        assert asked("set", groups=["billing"], topics=["Live0"], queues=[2], to_offset=0).done
        report = asked("set", groups=["billing"], topics=["Live0"], queues=[3], to_offset=99)
        assert [(move.offset, move.asked) for move in report.moves] == [(EACH, 99)]
        assert asked("clone", groups=["billing"], to_group="copy").done
        assert asked("set", groups=["fresh"], topics=["Live0"], to_end=True).done
        rows = tmp_path / "rows"  # as of an export without the first two messages of queue 1
        rows.write_text("".join(json.dumps({"topic": "Live0", "queue": 1, "old": old, "new": new})
                                + "\n" for old, new in ((2, 0), (EACH, EACH - 2))))  # fmt: skip
        assert asked("map", groups=["kept"], map=str(rows)).done
        moved = {0: [4], 1: [4], 2: [0, 1, 2, 3, 4]}
        goes_on = {queue: left.get(queue, 0) for queue in range(4)}
        goes_on[1] = max(goes_on[1] - 2, 0)
        kept = {queue: list(range(at, EACH)) for queue, at in sorted(goes_on.items()) if at < EACH}
        with Broker(version, store, **settings) as broker:
            # to queue 0 of Live0; a broker of v2 that is started again has no route before
            Client(driver, broker.namesrv).send(messages(1), send_timeout_ms=60_000)
            for places in (moved, kept):
                places[0] = [*places.get(0, []), EACH]
            wanted = {"billing": moved, "copy": moved, "kept": dict(sorted(kept.items())),
                      "fresh": {0: [EACH]}}  # fmt: skip
            least = {group: sum(map(len, found.values())) for group, found in wanted.items()}
            assert pushed(version, broker.namesrv, least) == wanted
            broker.stop()
        assert asked("set", undo=True).done  # of the map: before the second life
        assert asked("dump", groups=["kept"], queues=[1]).rows[0].offset == left.get(1, 0)
