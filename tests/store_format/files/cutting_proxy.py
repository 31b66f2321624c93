"""A proxy before a server, whose connections break in the middle of an answer."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


@contextmanager
def between(endpoint: str, after: int, cuts: int) -> Iterator[tuple[str, Callable[[], int]]]:
    """Yield the proxy's endpoint, and what tells how many connections it has cut.

    The first `cuts` connections whose answers are longer than `after` bytes end there.
    """
    there = urlsplit(endpoint)
    server = socket.create_server(("127.0.0.1", 0))
    cut: list[int] = []

    def forward(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)

    def answer(upstream: socket.socket, client: socket.socket) -> None:
        sent = 0
        with suppress(OSError), upstream, client:
            while data := upstream.recv(65536):
                if sent + len(data) > after and len(cut) < cuts:
                    cut.append(sent)
                    client.sendall(data[: after - sent])
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(data)
                sent += len(data)

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                upstream = socket.create_connection((there.hostname, there.port))
                for work in ((forward, client, upstream), (answer, upstream, client)):
                    threading.Thread(target=work[0], args=work[1:], daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield "http://{}:{}".format(*server.getsockname()), lambda: len(cut)
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
