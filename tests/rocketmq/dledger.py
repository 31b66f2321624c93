"""`python -m tests.rocketmq.dledger`: groups of real DLedger brokers, and the stores they leave."""

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests import unpacking
from tests.processes import until
from tests.rocketmq.driver import Driver, JobFailedError
from tests.rocketmq.fates import delayed, transactions
from tests.rocketmq.live import Broker, Client, free_port, messages
from tests.store_format.log.dledger_stores import ARCHIVES, AS_DERIVED, INDEX_KEPT, SUFFIX

VERSION = "5.3.3"
SETTINGS: dict[str, object] = {
    "mappedFileSizeCommitLog": 1 << 14, "mappedFileSizeConsumeQueue": 1000, "maxHashSlotNum": 50,
    "maxIndexNum": 120, "messageDelayLevel": "1s 2s 30s 1h", "transactionTimeOut": 60_000,
    "transactionOpBatchInterval": 100,
}  # fmt: skip
# What a broker's own file says of a group; the role is only that before the first election.
GROUP: dict[str, object] = {"enableDLegerCommitLog": True, "dLegerGroup": "group",
                            "brokerRole": "SLAVE", "brokerId": -1}  # fmt: skip
# How an entry that no majority has is tried: the client does not wait long for it.
UNHEARD = {"until_killed": True, "send_timeout_ms": 1500}


class Group:
    """Members of one DLedger group, each a JVM with a store below `folder`, and a client."""

    def __init__(self, folder: Path, client: Driver, namesrv: str, members: int = 3) -> None:
        self.folder, self.namesrv = folder, namesrv
        self.client = Client(client, namesrv)
        self.ports = [free_port() for _ in range(members)]
        peers = ";".join(f"n{n}-127.0.0.1:{free_port()}" for n in range(members))
        self._settings = {**SETTINGS, **GROUP, "dLegerPeers": peers}
        self.brokers: dict[int, Broker] = {}

    def store(self, member: int) -> Path:
        return self.folder / f"n{member}"

    def start(self, *members: int) -> None:
        for member in members:
            settings = {**self._settings, "dLegerSelfId": f"n{member}"}
            self.brokers[member] = Broker(VERSION, self.store(member), self.ports[member],
                                          self.namesrv, **settings)  # fmt: skip

    def kill(self, member: int) -> None:
        self.brokers.pop(member).driver.kill()

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.driver.close()

    def stop(self) -> None:
        """Stop all members cleanly, the leader last."""
        leader = self.leader()
        for member in sorted(self.brokers, key=lambda n: n == leader):
            self.brokers.pop(member).stop()

    def leader(self) -> int:
        """The member that takes messages; a client must be able to find it."""
        found: list[int] = []

        def takes() -> bool:
            found[:] = [member for member, broker in self.brokers.items()
                        if "MASTER" in broker.status()["role"] and self._takes()]  # fmt: skip
            return bool(found)

        assert until(takes), "the group has no leader"
        return found[0]

    def _takes(self) -> bool:
        with suppress(JobFailedError):
            self.client.send([{"t": "Asked", "q": 0, "b": 8, "bs": 0}])
            return True
        return False

    def agreed(self) -> None:
        """Wait until all members have all, and have dispatched it."""

        def agree() -> bool:
            found = [broker.status() for broker in self.brokers.values()]
            ends = {each["max_offset"] for each in found}
            return len(ends) == 1 and all(each["behind"] <= 0 for each in found)

        assert until(agree), "the group does not agree"


@contextmanager
def group(folder: Path, members: int = 3) -> Iterator[Group]:
    """A group that is not started yet, its name server and a client."""
    with Driver(VERSION, log_level="WARN") as control, Driver(VERSION) as client:
        there = control.ask("controller.start", timeout=120, folder=str(folder / "controller"))
        made = Group(folder, client, there["namesrv"], members)
        try:
            yield made
        finally:
            made.close()


def live(made: Group) -> dict[str, Any]:
    """The life of a group of three: a leader is killed, another one writes what nobody else has, is
    killed as well, and comes back as a follower. Returns what was acknowledged, and each store's
    name by what it has."""
    client = made.client
    made.start(0, 1, 2)
    first = made.leader()
    sent = client.send(messages(40))
    sent += client.send(delayed(2, 4, 900))
    transactions(client, ["COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"], 700)
    time.sleep(2)  # op messages are written in their own time
    made.agreed()
    made.kill(first)
    second = made.leader()
    sent += client.send(messages(20, first=100))
    made.agreed()
    (third,) = made.brokers.keys() - {second}
    made.kill(third)
    for number in range(3):
        unheard = client.send(messages(1, first=200 + number), **UNHEARD)
        assert not unheard, "a leader without a majority has acknowledged a message"
    assert until(lambda: made.brokers[second].status()["max_offset"] > 0)
    time.sleep(4)  # DLedgerConfig.checkPointInterval
    made.kill(second)
    killed = _copied(made, second, "killed")
    made.start(first, third)
    made.leader()
    sent += client.send(messages(15, first=300))
    made.agreed()
    made.start(second)
    made.agreed()
    leader = made.leader()
    made.agreed()
    made.stop()
    return {"sent": sent, "failed_over": f"n{leader}", "killed": killed, "rejoined": f"n{second}"}


def calm(made: Group) -> list[list[Any]]:
    """A group of three that is stopped as an operator does."""
    client = made.client
    made.start(0, 1, 2)
    made.leader()
    sent = client.send(messages(30)) + client.send(delayed(2, 4, 900))
    transactions(client, ["COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"], 700)
    time.sleep(2)
    made.agreed()
    made.stop()
    return sent


def mixed(made: Group) -> list[list[Any]]:
    """A plain broker's store goes on as that of a group of one."""
    plain = {**SETTINGS, "mappedFileSizeCommitLog": 1 << 14}
    with Broker(VERSION, made.store(0), **plain) as broker:
        sent = Client(made.client.driver, broker.namesrv).send(messages(50))
        broker.stop()
    made.start(0)
    made.leader()
    sent += made.client.send(messages(50, first=500))
    made.agreed()
    made.stop()
    return sent


def _copied(made: Group, member: int, name: str) -> str:
    shutil.copytree(made.store(member), made.folder / name)
    return name


KEPT = ("commitlog", "consumequeue", "index", "config", "checkpoint", "abort", "expect")


def derive_anew(store: Path) -> None:
    """Have a broker derive all from the log alone, into `expect` in the store.

    It takes it for a store that was killed: after a clean stop it dispatches nothing that is there
    (5.3.3 begins at the committed index). It finds no other member."""
    with tempfile.TemporaryDirectory(prefix="reput-dledger-") as folder:
        copy = Path(shutil.copytree(store, Path(folder) / "copy"))
        for name in ("consumequeue", "index", "checkpoint", "abort", "lock"):
            path = copy / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        (copy / "abort").touch()
        (member,) = copy.glob("dledger-*")
        own = member.name.removeprefix("dledger-")
        peers = ";".join(f"{own if n == 0 else f'x{n}'}-127.0.0.1:{free_port()}" for n in range(3))
        settings = {**SETTINGS, **GROUP, "dLegerPeers": peers, "dLegerSelfId": own}
        with Broker(VERSION, copy, **settings) as broker:
            broker.stop()
        for name in ("consumequeue", "index"):
            shutil.copytree(copy / name, store / "expect" / name)


def pack(store: Path, archive: Path, about: dict[str, Any]) -> None:
    """The store as an archive, without what no reader asks for: the members' index files are kept
    up to what they hold, of 160 MiB each."""
    for index in store.glob("dledger-*/index/*"):
        with index.open("r+b") as file:
            file.truncate(INDEX_KEPT)
    (store / "about.json").write_text(json.dumps(about, indent=1) + "\n")
    kept = [store / "about.json", *(store / name for name in KEPT)]
    kept += [member / name for member in store.glob("dledger-*")
             for name in ("data", "index", "checkpoint")]  # fmt: skip
    archive.parent.mkdir(exist_ok=True)
    there = sorted(each for each in kept if each.exists())
    unpacking.pack(archive, [(path, path.relative_to(store).as_posix()) for path in there])


def _keep(name: str, store: Path, sent: list[list[Any]]) -> None:
    archive = ARCHIVES / f"{name}_{VERSION}{SUFFIX}"
    if name not in AS_DERIVED:
        derive_anew(store)
    pack(store, archive, {"rocketmq": VERSION, "sizes": SETTINGS, "sent": sent})
    print(f"{archive.name}: {archive.stat().st_size:,} bytes", flush=True)


def main() -> None:
    """Write the archives anew; times and offsets in them differ each time."""
    with tempfile.TemporaryDirectory(prefix="reput-dledger-") as folder:
        root = Path(folder)
        with group(root / "calm") as three:
            sent = calm(three)
        _keep("clean", root / "calm" / "n1", sent)
        with group(root / "three") as three:
            lived = live(three)
        for name in ("failed_over", "killed", "rejoined"):
            _keep(name, root / "three" / lived[name], lived["sent"])
        with group(root / "one", 1) as one:
            sent = mixed(one)
        _keep("mixed", root / "one" / "n0", sent)


if __name__ == "__main__":
    main()
