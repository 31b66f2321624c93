"""Stores of brokers that were upgraded: releases of RocketMQ go on with one store, one by one.

python -m tests.rocketmq.chains        (writes those of tests/chains/stores anew)"""

import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.quiet.lives import Life, indexed_again
from tests.rocketmq.driver import Driver
from tests.unpacking import pack

KEPT = Path(__file__).parents[1] / "chains" / "stores"
CHAINS = (("5.3.3", "5.5.0"), ("4.9.7", "5.3.3", "5.5.0"), ("4.7.0", "4.9.7"))
SMALL: dict[str, int] = {"mappedFileSizeCommitLog": 16_384, "mappedFileSizeConsumeQueue": 400,
                         "maxHashSlotNum": 20, "maxIndexNum": 100}  # fmt: skip
MANY_A_FILE = {"mappedFileSizeConsumeQueue": 2000, "maxIndexNum": 150}
Message = dict[str, Any]


def messages(seed: int, first: int, count: int) -> list[Message]:
    """With tags, keys, several keys, of transactions and with delays that do not end meanwhile."""
    r = random.Random(f"{seed} {first}")
    return [_message(r, number) for number in range(first, first + count)]


def _message(r: random.Random, number: int) -> Message:
    properties: dict[str, str] = {}
    if r.random() < 0.9:
        properties["UNIQ_KEY"] = f"AC11000100002A9F0000{number:012X}"
    if r.random() < 0.8:
        properties["KEYS"] = " ".join(f"k{r.randrange(300)}" for _ in range(r.choice((1, 1, 2, 3))))
    if r.random() < 0.7:
        properties["TAGS"] = r.choice(("A", "B", "paid", "a||b"))
    message = {"t": f"Topic{r.randrange(3)}", "q": r.randrange(4),
               "born": 1_700_000_000_000 + number, "b": r.randrange(1, 300),
               "bs": r.randrange(1 << 30), "p": properties}  # fmt: skip
    kind = r.random()
    if kind < 0.08:
        message |= {"t": "SCHEDULE_TOPIC_XXXX", "q": 17}
        properties |= {"DELAY": "18", "REAL_TOPIC": "Topic0", "REAL_QID": "0"}
    elif kind < 0.16:
        message |= {"t": "RMQ_SYS_TRANS_HALF_TOPIC", "q": 0}
        properties |= {"REAL_TOPIC": "Topic0", "REAL_QID": "1", "TRAN_MSG": "true"}
    elif kind < 0.24:
        message["sys"] = 8  # committed
    return message


def chain(
    store: Path, releases: Sequence[str], settings: Mapping[str, int], count: int, seed: int = 1,
    kills: Mapping[int, int] | None = None,
) -> Iterator[str]:  # fmt: skip
    """Have each release put so many messages more; yields it once it has stopped.

    kills: after how many milliseconds a release, by its number, is killed."""
    for number, release in enumerate(releases):
        job = {"store": str(store), "settings": dict(settings),
               "messages": messages(seed, number * count, count)}  # fmt: skip
        with Driver(release) as driver:
            if number in (kills or {}):
                driver.tell("put", halt_after_ms=(kills or {})[number], **job)
                driver.wait_for_death()
            else:
                assert driver.ask("put", **job)["statuses"].keys() == {"PUT_OK"}
        yield release


def _keep_indexed_again(release: str) -> None:
    """The end of `lives.indexed_again`, without what reput does not read."""
    with tempfile.TemporaryDirectory() as folder, Driver(release) as client:
        (*_, last) = indexed_again(Life(release, Path(folder), client, SMALL | MANY_A_FILE))
        for name in ("rocksdbstore", "config", "compaction"):
            shutil.rmtree(last / name)
        (last / "timerwheel").unlink()
        _pack(last.rename(last.with_name(f"again_{release}")))


def _keep(releases: Sequence[str]) -> None:
    name = "_".join(releases)
    with tempfile.TemporaryDirectory() as folder:
        for _ in chain(Path(folder) / name, releases, SMALL, 80):
            pass
        _pack(Path(folder) / name)


def _pack(store: Path) -> None:
    pack(KEPT / f"{store.name}.tar.xz", [(store, store.name)])


if __name__ == "__main__":
    for each in CHAINS:
        _keep(each)
    _keep_indexed_again("5.5.0")
