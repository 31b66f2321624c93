"""moto's S3 server on a port of its own, and the environment by which clients find it."""

import os
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from moto.server import ThreadedMotoServer

from reput.store_format.storage import s3

BUCKET = "bucket"


@contextmanager
def served() -> Iterator[str]:
    """An empty server with one bucket; yields its endpoint, which the environment names."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    told = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "key-of-the-tests",
        "AWS_SECRET_ACCESS_KEY": "secret-of-the-tests",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    before = {name: os.environ.get(name) for name in told}
    try:
        with environment(told):
            s3.client().create_bucket(Bucket=BUCKET)
            yield endpoint
    finally:
        server.stop()
        assert before == {name: os.environ.get(name) for name in told}


@contextmanager
def environment(told: dict[str, str]) -> Iterator[None]:
    """Variables for a while, and clients that are made from them."""
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    s3._client.cache_clear()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
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
