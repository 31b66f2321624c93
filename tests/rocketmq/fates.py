"""`python -m tests.rocketmq.fates`: brokers' lives in which every fate of a message occurs."""

import json
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from tests import unpacking
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import Client, living, messages
from tests.store_format.fate import stores

SETTINGS: dict[str, object] = {
    "mappedFileSizeCommitLog": 1 << 17, "mappedFileSizeConsumeQueue": 2000, "maxHashSlotNum": 50,
    "maxIndexNum": 600, "messageDelayLevel": "1s 2s 30s 1h", "transactionTimeOut": 4000,
    "transactionCheckInterval": 1000, "transactionCheckMax": 3, "flushDelayOffsetInterval": 1000,
}  # fmt: skip
# Of 5.x alone: the timer wheel, and how long ops are gathered before they are written.
FIVE: dict[str, object] = {"timerWheelEnable": True, "transactionOpBatchInterval": 100}
# From 5.4.0 on: half messages in a topic of their own, which a broker looks after by RocksDB.
TRANSACTIONS_IN_ROCKSDB: dict[str, object] = {"transRocksDBEnable": True,
                                              "transWriteOriginTransHalfEnable": False}  # fmt: skip
BOTH_IN_ROCKSDB = {**TRANSACTIONS_IN_ROCKSDB, "timerRocksDBEnable": True}
GROUP = "failing"


def live(version: str, store: Path, client: Driver) -> dict[str, object]:
    """Have a broker of a release live it, and stop it; returns what was done, by UNIQ_KEY, with the
    states that must be reported."""
    five = FIVE if version[0] == "5" else {}
    with living(version, store, **SETTINGS, **five, driver=client) as (broker, asked):
        plain, begun = asked.send(messages(20))[0][3], time.monotonic()
        states = dict.fromkeys(transactions(asked, ["UNKNOW"] * 2, 100), "discarded")
        delays = {each[3]: "waiting" for each in asked.send(delayed(4, 4, 150))}
        delays |= {each[3]: "delivered" for each in asked.send(delayed(5, 1, 200))}
        timed = _timed(asked, 250) if five else {}
        failing = messages(1, 300)[0] | {"t": "Failing", "q": 0}
        retried = asked.send([failing])[0][3]
        asked.ask("fail", group=GROUP, topic="Failing", times=2, attempts=3, seconds=60)
        states |= _ended(asked, 3, 400)
        # three checks, a second each, after four seconds in which there are none
        time.sleep(max(0.0, begun + 12 - time.monotonic()))
        broker.driver.ask("broker.checks", most=1000)
        states |= dict.fromkeys(transactions(asked, ["UNKNOW"] * 2, 600), "pending")
    return {"transactions": states, "delays": delays, "timers": timed, "retried": retried,
            "plain": plain}  # fmt: skip


def _timed(client: Client, first: int) -> dict[str, str]:
    return {each[3]: said for seconds, said in ((2, "delivered"), (3600, "waiting"))
            for each in client.send(timers(3, seconds, first + seconds))}  # fmt: skip


def _ended(client: Client, many: int, first: int) -> dict[str, str]:
    outcomes = {"COMMIT_MESSAGE": "committed", "ROLLBACK_MESSAGE": "rolled back"}
    return {key: said for outcome, said in outcomes.items()
            for key in transactions(client, [outcome] * many, first + len(outcome))}  # fmt: skip


def in_rocksdb(version: str, store: Path, client: Driver) -> dict[str, dict[str, str]]:
    """Transactions and timers that RocksDB tells a broker of; returns each one's state by UNIQ_KEY.

    "given up": asked about transactionCheckMax times, after which the broker removes its row in
    RocksDB and writes nothing into the log; "asked": pending, and asked about at least once."""
    reported: dict[str, str] = {}
    given = {**SETTINGS, **FIVE, **BOTH_IN_ROCKSDB, "transactionCheckMax": 2}
    given["mappedFileSizeCommitLog"] = 4096  # so that the first pending one is not in the last
    with living(version, store, **given, driver=client) as (broker, asked):
        late = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "3600"}  # no check before
        reported |= dict.fromkeys(transactions(asked, ["UNKNOW"], 0, **late), "pending")
        asked.send(messages(10))
        by_timer = {**_timed(asked, 50), _recalled(asked): "deleted"}
        reported |= _ended(asked, 2, 100)
        reported |= dict.fromkeys(transactions(asked, ["UNKNOW"] * 2, 200), "given up")
        time.sleep(10)  # four seconds without checks, then three checks
        checked = transactions(asked, ["UNKNOW"], 300)
        answer = asked.ask("await_checks", topic="Live0", checks=1)
        assert answer["checked"] == checked
        reported |= dict.fromkeys(checked, "checked and committed")
        broker.driver.ask("broker.checks", most=1000)
        soon = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "0"}
        reported |= dict.fromkeys(transactions(asked, ["UNKNOW"] * 2, 400, **soon), "asked")
        time.sleep(3)
        reported |= dict.fromkeys(transactions(asked, ["UNKNOW"] * 2, 500, **late), "pending")
    return {"transactions": reported, "timers": by_timer}


def again(version: str, store: Path, client: Driver) -> set[str]:
    """Start a broker on what `in_rocksdb` has left, and stop it; returns the UNIQ_KEYs of the
    transactions that it asks about."""
    given = {**SETTINGS, **FIVE, **BOTH_IN_ROCKSDB, "mappedFileSizeCommitLog": 4096}
    given["transactionCheckMax"] = 1000  # on a busy machine it was asked often by now
    with living(version, store, **given, driver=client) as (_, asked):
        answer = asked.ask("await_checks", topic="Live0", checks=2)
        time.sleep(4)
    return set(answer["checked"])


def _recalled(client: Client) -> str:
    """A timer that is due in an hour, and the message that recalls it; the timer's UNIQ_KEY."""
    due = str(int(time.time() + 3600) * 1000)
    timer, recall = messages(2, 90)
    timer["p"]["TIMER_DELIVER_MS"] = recall["p"]["TIMER_DELIVER_MS"] = due
    recall["t"] = timer["t"]
    ((topic, _, _, key, _),) = client.send([timer])
    recall["p"]["TIMER_DEL_UNIQKEY"] = f"{topic}+{key}"
    client.send([recall])
    return str(key)


def skipped(version: str, store: Path, client: Driver) -> dict[str, str]:
    """Delayed messages of which some are due while the broker refuses puts; then it is stopped.

    Returns each one's UNIQ_KEY with the time at which it was due: "before", "meanwhile", "after".
    """
    reported: dict[str, str] = {}
    with living(version, store, **SETTINGS, driver=client) as (broker, asked):
        for when in ("before", "meanwhile", "after"):
            for message in asked.send(delayed(3, 2, len(reported))):
                reported[message[3]] = when
            if when == "meanwhile":
                broker.driver.ask("broker.writable", on=False)
            time.sleep(4)
            broker.driver.ask("broker.writable", on=True)
    return reported


def delayed(count: int, level: int, first: int) -> list[dict[str, object]]:
    return [{**message, "delay": level} for message in messages(count, first)]


def timers(count: int, seconds: int, first: int) -> list[dict[str, object]]:
    made = messages(count, first)
    for message in made:
        message["p"]["TIMER_DELAY_SEC"] = str(seconds)
    return made


def transactions(client: Client, outcomes: list[str], first: int, **properties: str) -> list[str]:
    made = messages(len(outcomes), first)
    for message in made:
        message["p"] |= properties
    sent = zip(made, outcomes, strict=True)
    said = client.ask("transactions", messages=[{**m, "outcome": each} for m, each in sent])
    return [message[1] for message in said["sent"]]


MAKES: dict[str, Callable[[str, Path, Driver], dict[str, object]]] = {
    "live": live,
    "skipped": lambda *given: {"delays": skipped(*given)},
    "rocksdb": lambda *given: {**in_rocksdb(*given)},
}


KEPT = ("done.json", *(f"store/{name}" for name in stores.KEPT),
        *(f"store/config/{name}" for name in stores.KEPT_OF_CONFIG))  # fmt: skip


def pack(folder: Path, archive: Path, kept: Iterable[str] = KEPT) -> None:
    """An archive of what tests need: small, and with nothing of the machine that made it."""
    paths = [(path, name) for name in kept if (path := folder / name).exists()]
    unpacking.pack(archive, paths, lambda name: name in stores.LEFT_OUT
                   or name.startswith("OPTIONS-"))  # fmt: skip


def main() -> None:
    """Have brokers write tests/store_format/fate/stores anew; times in them differ each time."""
    for name in (*stores.LIVED, stores.SKIPPED, stores.IN_ROCKSDB):
        kind, _, version = name.partition("_")
        with tempfile.TemporaryDirectory(prefix="reput-fates-") as folder:
            with Driver(version) as client:
                done = MAKES[kind](version, Path(folder) / "store", client)
            (Path(folder) / "done.json").write_text(json.dumps(done, indent=1))
            archive = stores.ARCHIVES / f"{name}{stores.SUFFIX}"
            pack(Path(folder), archive)
        print(f"{archive.name}: {archive.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    main()
