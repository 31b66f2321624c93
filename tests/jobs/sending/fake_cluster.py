"""A name server and brokers that keep what is sent, and do with a request what a test says."""

from __future__ import annotations

import json
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from reput.broker.wire.remoting import FRAME_MOST, RESPONSE_BIT, Command, Frames, frame
from reput.store_format.message.bodies import inner_messages
from tests.logs.encoder import Message, encode

# What a broker does with a request to store: STORE it; refuse it with a code (a number); store it
# and LOSE the answer; DROP the connection before it is stored.
STORE, LOSE, DROP = "store", "lose", "drop"
ROUTE, SEND, BATCH, END, PULL = 105, 310, 320, 30, 11


class FakeBroker:
    def __init__(self, name: str, cluster: FakeCluster) -> None:
        self.name, self.cluster, self.readable = name, cluster, True
        self.queues: dict[tuple[str, int], list[bytes]] = defaultdict(list)  # records
        self.sent: list[tuple[str, int, dict[str, str]]] = []  # topic, queue, header fields
        self.bodies: list[bytes] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connected, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(connected,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        frames = Frames(FRAME_MOST)
        with peer, suppress(OSError):
            while data := peer.recv(1 << 16):
                frames.feed(data)
                while (asked := frames.next()) is not None:
                    answer = self._answer(asked)
                    if answer is None:
                        return
                    peer.sendall(frame(answer._replace(opaque=asked.opaque, flag=RESPONSE_BIT)))

    def _answer(self, asked: Command) -> Command | None:
        self.cluster.asked.append(asked)
        fields = asked.fields
        if asked.code == ROUTE:
            return self.cluster.route(fields["topic"])
        if asked.code in (SEND, BATCH):
            return self._stored(asked)
        queue = self.queues[fields["topic"], int(fields["queueId"])]
        if asked.code == END:
            return Command(0, fields={"offset": str(len(queue))})
        if not self.readable:
            return Command(16, remark="no permission")
        at = int(fields["queueOffset"])
        if at >= len(queue):
            return Command(19, fields={"nextBeginOffset": str(len(queue))})
        some = queue[at : at + 2]
        return Command(0, fields={"nextBeginOffset": str(at + len(some))}, body=b"".join(some))

    def _stored(self, asked: Command) -> Command | None:
        topic, number = asked.fields["b"], int(asked.fields["e"])
        what = self.cluster.does(self, asked)
        if what == DROP:
            return None
        if not isinstance(what, str):
            return Command(what, remark="refused by the test")
        body, queue = asked.body or b"", self.queues[topic, number]
        inner = [(int(asked.fields["h"]), body, asked.fields["i"].encode())]
        first = len(queue)
        for flag, each, raw in inner_messages(body) if asked.code == BATCH else inner:
            made = Message(topic, number, len(queue), each, raw, flag=flag,
                           sys_flag=int(asked.fields["f"]))  # fmt: skip
            place = sum(map(len, queue))
            queue.append(encode(made, place))
            self.bodies.append(each)
            self.sent.append((topic, number, dict(asked.fields)))
        if what == LOSE:
            return None
        return Command(0, fields={"queueOffset": str(first), "queueId": str(number)})


class FakeCluster:
    """does: what a broker does with a request to store a message."""

    def __init__(self, names: str, queues: int) -> None:
        self.asked: list[Command] = []
        self.topics: set[str] | None = None  # None: all are known
        self.queue_number = queues
        self.brokers = {name: FakeBroker(name, self) for name in names}
        self.does: Callable[[FakeBroker, Command], Any] = lambda broker, asked: STORE

    @property
    def namesrv(self) -> str:
        return next(iter(self.brokers.values())).address

    def route(self, topic: str) -> Command:
        if self.topics is not None and topic not in self.topics:
            return Command(17, remark="no topic route info")
        known = {"brokerDatas": [{"brokerName": each.name, "brokerAddrs": {"0": each.address}}
                                 for each in self.brokers.values()],
                 "queueDatas": [{"brokerName": name, "perm": 6, "writeQueueNums": self.queue_number}
                                for name in self.brokers]}  # fmt: skip
        return Command(0, body=json.dumps(known).encode())

    @property
    def bodies(self) -> list[bytes]:
        return [body for each in self.brokers.values() for body in each.bodies]


@contextmanager
def cluster(names: str = "a", queues: int = 2) -> Iterator[FakeCluster]:
    made = FakeCluster(names, queues)
    try:
        yield made
    finally:
        for each in made.brokers.values():
            each.close()
