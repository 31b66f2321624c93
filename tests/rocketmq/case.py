"""One store to order: everything about it follows from its seed."""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.rocketmq import edits
from tests.rocketmq.build import VERSIONS
from tests.rocketmq.driver import Driver, derive_mode, remove_derived
from tests.rocketmq.edits import Log
from tests.rocketmq.workload import Message, Shape, Workload

# While messages are put no delay may end: 4.x would deliver into the log by the wall clock.
NO_DELIVERY = " ".join(["9h"] * 18)


@dataclass(frozen=True)
class Case:
    seed: int
    version: str
    settings: dict[str, Any]
    put_settings: dict[str, Any]
    messages: list[Message]
    topic_attributes: dict[str, dict[str, str]]
    edits: list[edits.Edit] = field(default_factory=list)
    expired: bool = False
    spare_segment: bool = False
    halt_after_ms: int | None = None
    mode: str = "clean"

    @property
    def pace(self) -> int:
        """Messages a millisecond, so that no index file is filled in less (see Stores.java)."""
        return max(1, int(self.settings.get("maxIndexNum", 20_000_000)) // 20)

    def __str__(self) -> str:
        parts = [f"seed {self.seed}", f"RocketMQ {self.version}", f"{len(self.messages)} messages"]
        parts += [edit.__name__ for edit in self.edits]
        parts += [name for name in ("expired", "spare_segment") if getattr(self, name)]
        if self.halt_after_ms is not None:
            parts.append(f"killed after {self.halt_after_ms} ms")
        settings = " ".join(f"{k}={v}" for k, v in self.settings.items())
        return f"{', '.join(parts)}; {settings}"


def case(seed: int, version: str | None = None) -> Case:
    r = random.Random(f"case {seed}")
    version = version or r.choice(VERSIONS)
    numbers = tuple(map(int, version.split(".")))
    assert len(numbers) == 3
    settings = _sizes(r)
    put_settings = {"messageIndexEnable": False, "messageDelayLevel": NO_DELIVERY}
    put_settings["mappedFileSizeCommitLog"] = settings["mappedFileSizeCommitLog"]
    lmq = numbers >= (4, 9, 3) and r.random() < 0.3
    if lmq:
        settings["enableMultiDispatch"] = True
        if r.random() < 0.8:
            settings["enableLmq"] = True
    if numbers >= (5, 2, 0) and r.random() < 0.2:
        put_settings["enabledAppendPropCRC"] = True
    if r.random() < 0.1:
        settings["messageDelayLevel"] = r.choice(("1s 5s", "7d 3s 1m 2h", "1s"))
    if r.random() < 0.05:
        settings["messageIndexEnable"] = False
    batch_topics = ["BatchTopic"] if numbers >= (5, 0, 0) and r.random() < 0.25 else []
    if batch_topics and r.random() < 0.7:
        settings["mapperFileSizeBatchConsumeQueue"] = 46 * r.randrange(1, 60)
    biggest = min(6000, settings["mappedFileSizeCommitLog"] // 8)
    # 4.9.7 forgets the delay levels after a crash (driver.derive_mode), and only after a crash
    # it reads a damaged log as the other versions do.
    delays = version != "4.9.7" or r.random() < 0.5
    shape = Shape(version=numbers, messages=r.choice((1, 3, 50, 300, 800, 1500, 2500)),
                  topics=_topics(r, numbers), queues=r.choice((1, 2, 4, 8)), biggest=biggest,
                  delays=delays, lmq=lmq, batch_topics=batch_topics)  # fmt: skip
    mode = "crash" if version == "4.9.7" and not delays else derive_mode(version)
    return Case(
        seed=seed, version=version, settings=settings, put_settings=put_settings,
        messages=Workload(seed, shape).messages(),
        topic_attributes={topic: {"queue.type": "BatchCQ"} for topic in batch_topics},
        edits=_edits(r, version, mode), expired=r.random() < 0.15, spare_segment=r.random() < 0.15,
        halt_after_ms=r.randrange(250) if r.random() < 0.08 else None, mode=mode,
    )  # fmt: skip


def _sizes(r: random.Random) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "mappedFileSizeCommitLog": r.choice((40_000, 65_536, 100_001, 262_144, 1 << 20))
    }
    if r.random() < 0.9:
        # With files of a single entry RocketMQ's recovery loops for ever.
        choices = (40, 100, 1010, 2000, 20 * r.randrange(2, 300), 6_000_000)
        settings["mappedFileSizeConsumeQueue"] = r.choice(choices)
    if r.random() < 0.92:
        settings["maxHashSlotNum"] = r.choice((1, 7, 100, r.randrange(1, 3000)))
        settings["maxIndexNum"] = r.choice((40, 100, 400, r.randrange(60, 5000)))
    return settings


def _topics(r: random.Random, version: tuple[int, ...]) -> list[str]:
    names = [f"Topic{n}" for n in range(r.choice((1, 2, 5, 12)))]
    if r.random() < 0.3:
        names.append(r.choice(("订单", "naïve-topic", "Topic_😀")))
    if r.random() < 0.3:
        names.append("L" * 127)
    if version >= (5, 1, 0) and r.random() < 0.3:
        names.append("M" * r.choice((128, 200, 255)))
    return names


def _edits(r: random.Random, version: str, mode: str) -> list[edits.Edit]:
    """Times are always edited, or no two runs of a seed would be alike; half get more."""
    chosen: list[edits.Edit] = [edits.times]
    if r.random() < 0.5:
        return chosen
    chosen += r.sample(edits.HARMLESS, r.randrange(1, 5))
    if r.random() < 0.4:
        # 4.1.0 recovers past a record whose parts do not add up, and files it under topic "".
        quiet = version == "4.1.0" or (version == "4.9.7" and mode == "clean")
        can = edits.QUIET_ENDINGS if quiet else edits.ENDINGS
        chosen.append(r.choice(can))
    return chosen


def make(case: Case, store: Path, driver: Driver) -> None:
    """Write the store: `commitlog/`, and `config/topics.json` where topics have attributes."""
    store.mkdir(parents=True)
    _put(case, store, driver)
    remove_derived(store)
    for path in store.iterdir():
        if path.name != "commitlog" and path.is_file():
            path.unlink()
    r = random.Random(f"edits {case.seed}")
    log = Log(store / "commitlog")
    for edit in case.edits:
        edit(r, log)
    if case.expired and len(log.paths) > 1:
        for path in log.paths[: r.randrange(1, len(log.paths))]:
            log.drop(path)
    log.save()
    if case.spare_segment and log.paths:
        size = case.settings["mappedFileSizeCommitLog"]
        with (store / "commitlog" / f"{int(log.paths[-1].name) + size:020d}").open("wb") as file:
            os.truncate(file.fileno(), size)
    if case.topic_attributes:
        table = {name: {"topicName": name, "attributes": a} for name, a in _items(case)}
        config = store / "config" / "topics.json"
        config.parent.mkdir(exist_ok=True)
        config.write_text(json.dumps({"topicConfigTable": table}))


def _items(case: Case) -> list[tuple[str, dict[str, str]]]:
    return list(case.topic_attributes.items())


def _put(case: Case, store: Path, driver: Driver) -> None:
    job: dict[str, Any] = {"store": str(store), "settings": case.put_settings,
                           "topic_attributes": case.topic_attributes,
                           "messages": case.messages}  # fmt: skip
    if case.halt_after_ms is None:
        answer = driver.ask("put", **job)
        assert answer["statuses"].keys() <= {"PUT_OK"}, answer["statuses"]
        return
    with Driver(case.version) as doomed:
        doomed.tell("put", halt_after_ms=case.halt_after_ms, **job)
        doomed.wait_for_death()
