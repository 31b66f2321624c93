"""moto's S3 server on a port of its own, the environment by which clients find it, and what it was
asked for: requests and bytes by kind, whichever process asks.
"""

import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

from reput.jobs.engines.folders import environment as variables
from reput.store_format.files import s3

BUCKET = "bucket"

# ---
# What a server in a thread was asked for.

_asked: Counter[tuple[str, str]] = Counter()
_guard = threading.Lock()
_OF_SCANS = (".entries", ".runs", ".hashes", ".messages")


def kind_of(path: str) -> str:
    """What an object is: `log`, what a scan leaves (`entries`, ...), `queue` and `index` files
    without their names yet, another file of staging (`staged`), or `other`.
    """
    folders, _, name = path.rpartition("/")
    if folders.endswith("/commitlog"):
        return "log"
    if ".reput-" not in path:
        return "other"
    for ending in _OF_SCANS:
        if name.endswith(ending):
            return ending[1:]
    return name.partition("-")[0] if name.startswith(("queue-", "index-")) else "staged"


def _counted(app: Any, environ: dict[str, Any], answer: Any) -> Iterable[bytes]:
    method, query = environ["REQUEST_METHOD"], environ.get("QUERY_STRING", "")
    path, sent = environ["PATH_INFO"], int(environ.get("CONTENT_LENGTH") or 0)
    if "HTTP_X_AMZ_COPY_SOURCE" in environ:
        method = "COPY"
    elif method == "GET" and "list-type" in query:
        method, path = "LIST", ""
    whole = list(app(environ, answer))
    with _guard:
        _asked[method, kind_of(path)] += 1
        _asked[f"{method} bytes", kind_of(path)] += sent + sum(map(len, whole))
    return whole


@contextmanager
def counted() -> Iterator[Counter[tuple[str, str]]]:
    """A counter of (method or "LIST" or "COPY", kind) that is filled with the requests of the
    block when it ends; and of (method and " bytes", kind), with the bytes that went up and down.
    """
    found: Counter[tuple[str, str]] = Counter()
    with _guard:
        before = _asked.copy()
    yield found
    with _guard:
        found.update(_asked - before)


@contextmanager
def _thread() -> Iterator[str]:
    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, lambda *request: _counted(app, *request), True,
        request_handler=MotoRequestHandler)  # fmt: skip
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


@contextmanager
def _process() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    server = subprocess.Popen(
        [sys.executable, "-c", "from moto.server import main; main()", "-p", port],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", int(port))).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@contextmanager
def served(apart: bool = False) -> Iterator[str]:
    """An empty server with one bucket; yields its endpoint, which the environment names.

    apart: in a process of its own, for clients that hold Python's lock while they wait (delta-rs).
    """
    with _process() if apart else _thread() as endpoint, _reported(endpoint):
        s3.client().create_bucket(Bucket=BUCKET)
        yield endpoint


@contextmanager
def _reported(endpoint: str) -> Iterator[None]:
    reported = {"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "key-of-the-tests",
        "AWS_SECRET_ACCESS_KEY": "secret-of-the-tests",
        "AWS_EC2_METADATA_DISABLED": "true"}  # fmt: skip
    before = {name: os.environ.get(name) for name in reported}
    try:
        with environment(reported):
            yield
    finally:
        assert before == {name: os.environ.get(name) for name in reported}


@contextmanager
def environment(reported: dict[str, str]) -> Iterator[None]:
    """Variables for a while, and clients that are made from them."""
    try:
        with variables(reported):
            s3._client.cache_clear()
            yield
    finally:
        s3._client.cache_clear()


@contextmanager
def credentials_checked(endpoint: str) -> Iterator[None]:
    """The server refuses keys that it does not know."""
    _after(endpoint, "0")
    try:
        yield
    finally:
        _after(endpoint, "inf")


def _after(endpoint: str, requests: str) -> None:
    asked = urllib.request.Request(f"{endpoint}/moto-api/reset-auth", requests.encode(),
        {"Content-Type": "text/plain"}, method="POST")  # fmt: skip
    urllib.request.urlopen(asked).read()


def object_keys(prefix: str = "") -> list[str]:
    """All objects there are."""
    pages = s3.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    return [about["Key"] for page in pages for about in page.get("Contents", ())]


def unfinished_uploads() -> int:
    return len(s3.client().list_multipart_uploads(Bucket=BUCKET).get("Uploads", ()))
