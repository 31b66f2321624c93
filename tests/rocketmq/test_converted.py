"""Real brokers on converted stores: each message once, at its queueOffset, and nothing dispatched
anew. Merged and split ones, what waits or is in flight: whole/cases.py."""

import json
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.convert import convert
from tests.converted import BATCHES, batch, light, records
from tests.logs.encoder import build_log
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import SETTINGS, living, messages

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


@pytest.mark.parametrize("kind", ["lmq", "batch"])
def test_rocketmq_reads_each_message_of_a_queue_whose_numbers_are_in_properties(
    kind: str, tmp_path: Path
) -> None:
    """Of two stores' LMQ, and of two stores' batch queue: at each position its record."""
    settings = {**OURS, "enableLmq": "true", "enableMultiDispatch": "true"}
    topic, attributes = ("%LMQ%dev", {}) if kind == "lmq" else ("B", {"queue.type": "BatchCQ"})
    sizes = [1 + n * 7 % 5 for n in range(12)]
    for store in (0, 1):
        if kind == "lmq":
            log = [light("XYZ"[store + n % 2], n, n, 10 * n + store) for n in range(12)]
        else:
            log = [batch(sum(sizes[:n]), size, 10 * n + store) for n, size in enumerate(sizes)]
        for folder, name, raw in (
            ("commitlog", f"{0:020d}", build_log(log, SETTINGS["mappedFileSizeCommitLog"])[0]),
            ("config", "topics.json", json.dumps(BATCHES).encode()),
        ):
            (tmp_path / f"{store}" / folder).mkdir(parents=True)
            (tmp_path / f"{store}" / folder / name).write_bytes(raw)
    made = tmp_path / "made"
    convert(str(tmp_path / "0"), str(made), rocketmq="5.3.3", settings=settings, meet="renumber",
            merge=[str(tmp_path / "1")])  # fmt: skip
    places = [at for at, _ in records({0: (made / "commitlog" / f"{0:020d}").read_bytes()})]
    both = [size for size in sizes for _ in (0, 1)] if kind == "batch" else [1] * 24
    wanted = [place for place, size in zip(places, both, strict=True) for _ in range(size)]
    asked = [["get", topic, 0, at, 1] for at in range(len(wanted))]
    with Driver("5.3.3") as driver:
        answers = driver.ask("query", store=str(made), settings=settings,
                             topic_attributes={"B": attributes},
                             questions=[["max", topic, 0], *asked])["answers"]  # fmt: skip
    assert answers[0] == len(wanted)
    assert [each[3][0][1] for each in answers[1:]] == wanted
