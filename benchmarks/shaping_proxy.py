"""A proxy before an S3 server that makes it as far away as a real one, and as moody.

Each request waits `latency` seconds for its first byte, each connection carries so many bytes a
second, and some requests are answered 503 SlowDown, as S3 does where too many come. It counts
requests, refusals and the bytes that went up and down, by what an object is: of the log, of what a
scan leaves for those who build (`scan`), of chains and files before they have their name, or other.
Segments are answered from its own memory: moto reads a whole object for each range of it. It is a
process of its own: `shaped` starts and ends it.
"""

import http.client
import json
import multiprocessing
import random
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

_PIECE = 1 << 18
_COUNTS = "/counts-of-the-proxy"
_SLOW_DOWN = (
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)


def _kind(path: str) -> str:
    folders, _, name = path.rpartition("/")
    if folders.endswith("/commitlog"):
        return "log"
    return name.partition("-")[0] if ".reput-" in folders else "other"


def handler(
    endpoint: str, latency: float, rate: float, refused: float
) -> type[BaseHTTPRequestHandler]:
    """rate: bytes a second of a connection; refused: the share of requests that get a 503."""
    there = urlsplit(endpoint)
    counts: Counter[str] = Counter()
    segments: dict[str, tuple[list[tuple[str, str]], bytes]] = {}  # headers and content
    guard, chance, kept = threading.Lock(), random.Random(20), threading.local()

    def count(**more: int) -> None:
        with guard:
            counts.update(more)

    class Shaping(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _shape(self, began: float, carried: int) -> None:
            time.sleep(max(0.0, began + latency + carried / rate - time.monotonic()))

        def _answer(self) -> None:
            if self.path == _COUNTS:
                return self._send(200, [], json.dumps(counts).encode())
            began = time.monotonic()
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with guard:
                slow = chance.random() < refused
            count(requests=1, refused=slow)
            if slow:
                self._shape(began, 0)
                return self._send(503, [("Content-Type", "application/xml")], _SLOW_DOWN)
            kind = _kind(unquote(urlsplit(self.path).path))
            if kind == "log" and self.command == "GET" and "Range" in self.headers:
                status, headers, content = self._range()
            else:
                answer = self._ask(body)
                status, headers, content = answer.status, answer.getheaders(), answer.read()
            count(**{f"{kind}_up": len(body), f"{kind}_down": len(content)})
            self._shape(began, len(body))
            return self._send(status, headers, content, began)

        def _range(self) -> tuple[int, list[tuple[str, str]], bytes]:
            if self.path not in segments:
                wanted = self.headers["Range"]
                del self.headers["Range"]
                answer = self._ask(b"")
                self.headers["Range"] = wanted
                segments[self.path] = answer.getheaders(), answer.read()
            headers, content = segments[self.path]
            first, last = self.headers["Range"].removeprefix("bytes=").split("-")
            part = content[int(first) : int(last) + 1]
            place = f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}"
            return 206, [*headers, ("Content-Range", place)], part

        def _ask(self, body: bytes) -> http.client.HTTPResponse:
            if not hasattr(kept, "connection"):
                kept.connection = http.client.HTTPConnection(there.hostname or "", there.port)
            kept.connection.request(self.command, self.path, body, dict(self.headers))
            found: http.client.HTTPResponse = kept.connection.getresponse()
            return found

        def _send(
            self, status: int, headers: list[tuple[str, str]], content: bytes,
            began: float | None = None,
        ) -> None:  # fmt: skip
            self.send_response_only(status)
            is_head = self.command == "HEAD"
            for name, value in headers:
                if name.lower() not in ("transfer-encoding", "connection") and (
                    is_head or name.lower() != "content-length"
                ):
                    self.send_header(name, value)
            if not is_head:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            for at in range(0, 0 if is_head else len(content), _PIECE):
                self.wfile.write(content[at : at + _PIECE])
                if began is not None:
                    self._shape(began, at + _PIECE)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    return Shaping


def _serve(pipe: Any, *words: Any) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(*words))
    server.daemon_threads = True
    pipe.send(server.server_address[1])
    server.serve_forever()


@contextmanager
def shaped(
    endpoint: str, latency: float = 0.03, rate: float = 100e6, refused: float = 0.0
) -> Iterator[tuple[str, Callable[[], dict[str, int]]]]:
    """Yields the proxy's endpoint, and what tells its counts."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, endpoint, latency, rate, refused))
    process.start()
    url = f"http://127.0.0.1:{ours.recv()}"

    def counted() -> dict[str, int]:
        with urllib.request.urlopen(url + _COUNTS) as answer:
            return dict(json.loads(answer.read()))

    try:
        yield url, counted
    finally:
        process.kill()
        process.join()
