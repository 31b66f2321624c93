"""`reput serve` beside a running broker on the same store: pulls, pops with their acknowledgements,
latency, queries by key.

`python -m benchmarks.serve [--seconds N]` takes the store of the other benchmarks. Server and
client have a core each, and the client is the same for both: a plain reader of sockets in this
process, which asks for 32 messages at a time, as clients do by default, by one connection or eight,
and reads answers without decoding messages. Times are the middle ones of many. It also tells the
server's peak of memory with 1,000 idle and 64 pulling connections.

It prints one JSON line.
"""

import argparse
import base64
import json
import os
import selectors
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.query import USUAL, configure_topics, keys_of
from benchmarks.stores import RELEASE, SIZES, make_store, theirs, warm
from reput.broker.wire.codes import RequestCode
from reput.broker.wire.remoting import Frames, frame
from reput.jobs.opening.questions import open_store
from tests.jobs.sockets.asking import Peer, pull, request
from tests.jobs.sockets.popping import fields
from tests.rocketmq.live import Broker

_SERVER_CORE, _CLIENT_CORE = 0, 1
_QUEUES = [(f"Bench{topic}", queue) for topic in range(8) for queue in range(8)]
_ASKED = 3000
_POPPED = 400_000  # messages of the store of which all eight groups pop
_ACK = 2  # the opaque of an acknowledgement; that of a pop is 1


class Puller:
    """One connection that reads a queue from its start, and then the next one."""

    def __init__(self, address: str, queues: Iterator[tuple[str, int]]) -> None:
        self.peer, self.queues, self.at = Peer(address), queues, 0
        self.queue = next(queues)
        self.frames = Frames(1 << 24)
        self.messages = self.bytes = 0

    def ask(self) -> None:
        self.peer.socket.sendall(frame(pull(*self.queue, self.at)))

    def answer(self) -> Any:
        """Read what is there; the next whole answer, or None."""
        data = self.peer.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server has closed the connection")
        self.frames.feed(data)
        return self.frames.next()

    def take(self) -> bool:
        """Read what is there; whether an answer was whole."""
        answer = self.answer()
        if answer is None:
            return False
        following = int(answer.fields["nextBeginOffset"])
        if answer.code == 0:
            self.messages += following - self.at
            self.bytes += len(answer.body or b"")
            self.at = following
        else:
            self.queue, self.at = next(self.queues), 0
        return True


class Popper(Puller):
    """One connection that pops all queues of a topic, and acknowledges each answer at once."""

    _groups = count()

    def __init__(self, address: str, queues: Iterator[tuple[str, int]]) -> None:
        super().__init__(address, queues)
        self.group = f"bench{next(self._groups)}"

    def ask(self) -> None:
        wanted = fields(self.group, self.queue[0], invisibleTime=600_000)
        self.peer.socket.sendall(frame(request(RequestCode.POP_MESSAGE, **wanted)))

    def take(self) -> bool:
        answer = self.answer()
        if answer is None:
            return False
        if answer.code or answer.opaque == _ACK:
            if answer.opaque != _ACK:
                self.queue = next(self.queues)
            return True
        acks = [
            acknowledged(self.group, self.queue[0], answer.fields, each)
            for each in answer.fields["msgOffsetInfo"].split(";")
        ]
        self.messages += sum(many for _, many in acks)
        self.bytes += len(answer.body or b"")
        body = {"brokerName": "b", "acks": [ack for ack, _ in acks]}
        raw = json.dumps(body).encode()
        self.peer.socket.sendall(frame(request(RequestCode.BATCH_ACK_MESSAGE, _ACK, raw)))
        return False


def acknowledged(
    group: str, topic: str, said: dict[str, str], info: str
) -> tuple[dict[str, Any], int]:
    """(a BatchAck of one queue's messages in an answer, how many they are)."""
    retry, queue, listed = info.split(" ")
    positions = [int(each) for each in listed.split(",")]
    starts = dict(each.rsplit(" ", 1) for each in said["startOffsetInfo"].split(";"))
    start = int(starts[f"{retry} {queue}"])
    bits = sum(1 << each - start for each in positions)
    raw = bits.to_bytes(bits.bit_length() // 8 + 1, "little")
    ack = {
        "c": group, "t": topic, "r": retry, "so": start, "q": int(queue),
        "rq": int(said["reviveQid"]), "pt": int(said["popTime"]),
        "it": int(said["invisibleTime"]), "b": base64.b64encode(raw).decode(),
    }  # fmt: skip
    return ack, len(positions)


def cpu_seconds(process: int) -> float:
    """What all threads of a process have used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pulled(
    address: str, connections: int, seconds: float, process: int, kind: type[Puller] = Puller
) -> dict[str, int]:
    """Messages and MB a second by so many connections, and messages for each CPU second of the
    server: on a machine that others use too, that says more.
    """
    queues = iter(_QUEUES * 1000)
    pullers = [kind(address, queues) for _ in range(connections)]
    with selectors.DefaultSelector() as selector:
        for each in pullers:
            selector.register(each.peer.socket, selectors.EVENT_READ, each)
            each.ask()
        begin, used = time.perf_counter(), cpu_seconds(process)
        while time.perf_counter() - begin < seconds:
            for key, _ in selector.select(5):
                if key.data.take():
                    key.data.ask()
        took, used = time.perf_counter() - begin, cpu_seconds(process) - used
    messages = sum(each.messages for each in pullers)
    for each in pullers:
        each.peer.socket.close()
    return {
        "messages_per_second": round(messages / took),
        "messages_per_cpu_second": round(messages / used),
        "mb_per_second": round(sum(each.bytes for each in pullers) / took / 1e6),
    }


def middle(ask: Callable[[int], Any], many: int) -> dict[str, float]:
    """The middle time of so many questions, and that of the slowest in a hundred; ms."""
    times = []
    for number in range(many):
        begin = time.perf_counter()
        ask(number)
        times.append((time.perf_counter() - begin) * 1e3)
    return {
        "ms": round(statistics.median(times), 3),
        "p99_ms": round(sorted(times)[-many // 100], 3),
    }


def asked(
    address: str, process: int, keys: list[tuple[str, str]], seconds: float
) -> dict[str, Any]:
    """What one server does."""
    pulled(address, 8, seconds, process)  # what is compiled, is compiled by then
    with Peer(address) as peer:

        def one(number: int) -> None:
            topic, queue = _QUEUES[number % len(_QUEUES)]
            assert peer.ask(pull(topic, queue, number * 7, 1)).code == 0

        def key(number: int) -> None:
            topic, word = keys[number % len(keys)]
            answer = peer.ask(
                request(
                    RequestCode.QUERY_MESSAGE, topic=topic, key=word, maxNum=64,
                    beginTimestamp=0, endTimestamp=1 << 42,
                )
            )  # fmt: skip
            assert answer.code == 0

        return {
            "pull_1": pulled(address, 1, seconds, process),
            "pull_8": pulled(address, 8, seconds, process),
            "one_message": middle(one, _ASKED),
            "key": middle(key, _ASKED),
        }


def popped(seconds: float) -> dict[str, Any]:
    """What a broker and we do of pops with acknowledgements, on a store of its own: a broker writes
    them into its log.
    """
    shape = USUAL._replace(messages=_POPPED)
    made, found = make_store(shape), dict[str, Any]()
    for name, server in (("broker", rocketmqs), ("reput", ours)):
        with tempfile.TemporaryDirectory(dir=made.parent) as folder:
            path = Path(shutil.copytree(made, Path(folder) / "store"))
            if not (path / "index").is_dir():
                theirs(path)
            configure_topics(path, sorted({topic for topic, _ in _QUEUES}))
            with server(path) as (address, process):
                found[name] = pulled(address, 8, seconds, process, Popper)
    return found


def memory(process: int, name: str) -> int:
    """MiB of a process: VmRSS, or VmHWM for its peak."""
    status = Path(f"/proc/{process}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith(name))
    return int(line.split()[1]) >> 10


def crowded(address: str, process: int) -> dict[str, int]:
    """The server's memory with 1,000 idle and 64 pulling connections."""
    before = memory(process, "VmRSS")
    idle = [Peer(address) for _ in range(1000)]
    rates = pulled(address, 64, 3, process)
    for each in idle:
        each.socket.close()
    return {
        "before_mib": before, "peak_mib": memory(process, "VmHWM"),
        "messages_per_second": rates["messages_per_second"],
    }  # fmt: skip


@contextmanager
def ours(path: Path) -> Iterator[tuple[str, int]]:
    """Our server on its core: its address and process."""
    command = [sys.executable, "-m", "reput", "serve", str(path), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {_SERVER_CORE}),
    )  # fmt: skip
    try:
        assert process.stdout
        yield process.stdout.readline().split()[1], process.pid
    finally:
        process.terminate()
        process.wait()


@contextmanager
def rocketmqs(path: Path) -> Iterator[tuple[str, int]]:
    """A real broker, all its threads on that core."""
    with Broker(RELEASE, path, **SIZES) as broker:
        process = broker.driver.pid
        assert process is not None
        for thread in os.listdir(f"/proc/{process}/task"):
            os.sched_setaffinity(int(thread), {_SERVER_CORE})
        yield f"127.0.0.1:{broker.port}", process
        broker.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measure")
    arguments = parser.parse_args()
    path = make_store(USUAL)
    if not (path / "index").is_dir():
        theirs(path)
    warm(path)
    with open_store(str(path), rocketmq=RELEASE) as store:
        keys = keys_of(store, 2000)
    os.sched_setaffinity(0, {_CLIENT_CORE})
    before = set(path.iterdir())
    configure_topics(path, sorted({topic for topic, _ in keys}))
    try:
        with rocketmqs(path) as (address, process):
            row: dict[str, Any] = {"broker": asked(address, process, keys, arguments.seconds)}
        with ours(path) as (address, process):
            row["reput"] = asked(address, process, keys, arguments.seconds)
            row["crowded"] = crowded(address, process)
    finally:
        for new in set(path.iterdir()) - before:  # the other benchmarks know no config/
            shutil.rmtree(new) if new.is_dir() else new.unlink()
    for who, rates in popped(arguments.seconds).items():
        row[who]["pop_8"] = rates
    for name in ("pull_1", "pull_8", "pop_8"):
        for rate in ("messages_per_second", "messages_per_cpu_second"):
            ours_, theirs_ = (row[who][name][rate] for who in ("reput", "broker"))
            row[f"{name}_{rate}_ratio"] = round(ours_ / theirs_, 2)
    for name in ("one_message", "key"):
        row[f"{name}_times"] = round(row["reput"][name]["ms"] / row["broker"][name]["ms"], 2)
    print(json.dumps({"log": path.name, **row}))


if __name__ == "__main__":
    main()
