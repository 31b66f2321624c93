"""A broker's store whose offsets `reput offsets` has moved: consumers go on exactly there."""

import json
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.offsets import OffsetsReport, offsets
from tests.rocketmq import real_clients
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import SETTINGS, Broker, Client, messages
from tests.rocketmq.rocksdb_stores import KINDS

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

EACH = 5  # messages in each queue of Live0
LIGHT = {"enableLmq": True, "enableMultiDispatch": True}
Places = dict[int, list[int]]  # queue id -> the queueOffsets that came


def given(settings: dict[str, object]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in {**SETTINGS, **settings}.items()}  # fmt: skip


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
def test_consumers_go_on_where_they_are_set(
    version: str, settings: dict[str, object], tmp_path: Path
) -> None:
    store = tmp_path / "store"

    def asked(action: str, **more: Any) -> OffsetsReport:
        return offsets(str(store), action=action, settings=given(settings), **more)

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
