"""Asks a server by its socket, as a client does."""

import socket
from types import TracebackType
from typing import Any

from reput.broker.wire.codes import RequestCode
from reput.broker.wire.remoting import Command, Frames, frame

HAS_SUBSCRIPTION, SUSPEND = 4, 2
VERSION = 479  # V5_3_3


def request(code: int, opaque: int = 1, body: bytes = b"", **fields: Any) -> Command:
    texts = {name: str(value) for name, value in fields.items()}
    return Command(code, opaque, 0, texts, body, None, VERSION)


def pull(topic: str, queue: int, offset: int, most: int = 32, tags: str = "*", opaque: int = 1,
         **more: Any) -> Command:  # fmt: skip
    fields = {"consumerGroup": "g", "topic": topic, "queueId": queue, "queueOffset": offset,
              "maxMsgNums": most, "sysFlag": HAS_SUBSCRIPTION, "commitOffset": 0,
              "suspendTimeoutMillis": 0, "subscription": tags, "subVersion": 1,
              "expressionType": "TAG", **more}  # fmt: skip
    return request(RequestCode.PULL_MESSAGE, opaque, **fields)


class Peer:
    """One connection to a server."""

    def __init__(self, address: str, timeout: float = 60) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout)
        self._frames = Frames(1 << 24)

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:  # fmt: skip
        self.socket.close()

    def send(self, command: Command) -> None:
        self.socket.sendall(frame(command))

    def next(self) -> Command:
        """The next command that comes. Raises ConnectionError where the server has closed."""
        while (command := self._frames.next()) is None:
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionError("closed")
            self._frames.feed(data)
        return command

    def ask(self, command: Command) -> Command:
        self.send(command)
        while True:
            answer = self.next()
            if answer.is_response and answer.opaque == command.opaque:
                return answer
