"""moto's S3 server on a port of its own, and the environment by which clients find it."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from moto.server import ThreadedMotoServer

from reput.jobs.engines.folders import environment as variables
from reput.store_format.files import s3

BUCKET = "bucket"


@contextmanager
def _thread() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield "http://{}:{}".format(*server.get_host_and_port())
    finally:
        server.stop()


@contextmanager
def _process() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    server = subprocess.Popen(
        [sys.executable, "-c", "from moto.server import main; main()", "-p", port],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
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
    reported = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "key-of-the-tests",
        "AWS_SECRET_ACCESS_KEY": "secret-of-the-tests",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
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
    asked = urllib.request.Request(
        f"{endpoint}/moto-api/reset-auth",
        requests.encode(),
        {"Content-Type": "text/plain"},
        method="POST",
    )
    urllib.request.urlopen(asked).read()


def object_keys(prefix: str = "") -> list[str]:
    """All objects there are."""
    pages = s3.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    return [about["Key"] for page in pages for about in page.get("Contents", ())]


def unfinished_uploads() -> int:
    return len(s3.client().list_multipart_uploads(Bucket=BUCKET).get("Uploads", ()))
