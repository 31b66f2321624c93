"""Random stores, and the same at an earlier time."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from reput.broker.serving.handlers import answer, reply
from reput.broker.wire.remoting import Command
from reput.broker.writer.writer import CommitLogWriter
from reput.jobs.sockets.opened import ServedSource, open_broker
from reput.store_format.message.message import Message
from reput.store_format.release.settings import writer_settings_from
from tests.jobs.sockets.broker_answers import NAME, reported
from tests.jobs.sockets.comparing import CALLER, plain, whole
from tests.jobs.sockets.serving import SIZES
from tests.jobs.sources.reading import table

BEGIN = 1_795_000_000_000
GIVEN = SIZES | {"brokerName": NAME, "maxIndexNum": "400"}
RELEASE = "5.3.3"


def random_store(seed: int, store: Path) -> None:
    """Some topics and queues, tags and keys that come again, messages of all lengths and times."""
    draw, now = random.Random(seed), BEGIN
    settings = writer_settings_from(SIZES | {"maxIndexNum": "400"}, release=RELEASE)
    with CommitLogWriter.open(
        str(store), settings, clock=lambda: now, release=RELEASE, background=False
    ) as writer:
        for number in range(draw.randrange(40, 160)):
            topic, keys = draw.choice("TUV"), f"k{draw.randrange(9)} n{number}"
            body = b"%d" % number * draw.randrange(1, 120)
            tags = draw.choice(("A", "B", None))
            writer.append(Message(topic, body, draw.randrange(3), tags, keys))
            now += draw.choice((0, 1, 1000, 60_000))
        writer.dispatch()
    about = {"readQueueNums": 3, "writeQueueNums": 3, "perm": 6, "topicSysFlag": 0,
             "topicFilterType": "SINGLE_TAG", "order": False}  # fmt: skip
    topics = {topic: {"topicName": topic, **about} for topic in "TUV"}
    (store / "config").mkdir(exist_ok=True)
    (store / "config/topics.json").write_text(json.dumps({"topicConfigTable": topics}))


def cut(store: Path, time: int, to: Path) -> None:
    """The store of a broker that was stopped cleanly at a time; it has no derived files."""
    rows = table(store, rocketmq=RELEASE, columns="physicalOffset,size,storeTimestampMillis")
    before = [row for row in rows.to_pylist() if row["storeTimestampMillis"] <= time]
    end = max((row["physicalOffset"] + row["size"] for row in before), default=0)
    shutil.copytree(store / "config", to / "config")
    (to / "commitlog").mkdir()
    for path in (store / "commitlog").iterdir():
        start, raw = int(path.name), path.read_bytes()
        if start < end or not start:
            kept = raw[: max(end - start, 0)]
            (to / "commitlog" / path.name).write_bytes(kept.ljust(len(raw), b"\0"))


def times(seed: int, store: Path) -> list[int]:
    rows = table(store, rocketmq=RELEASE, columns="storeTimestampMillis").to_pylist()
    stamps = sorted({row["storeTimestampMillis"] for row in rows})
    return [random.Random(seed).choice(stamps), stamps[-1] + 1]


def differences(
    store: Path, time: int, asked: list[Command], theirs: Callable[[Command], list[Any]]
) -> Iterator[Any]:
    """What `reput serve --at` answers otherwise than somebody else."""
    ours = open_broker(ServedSource(str(store), RELEASE, GIVEN, at=time), lambda _: None)
    for each in asked:
        said = reported(reply(ours, each, whole(answer(ours, each, CALLER))))
        said, other = plain(said, ""), plain(theirs(each), "")
        if said != other:
            yield each.code, each.fields, said, other
