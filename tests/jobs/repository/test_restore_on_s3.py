"""A repository in an object store that fails at any request: what is restored is whole, or nothing
is there; and few requests are made.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from botocore.exceptions import ConnectionClosedError
from botocore.httpsession import URLLib3Session

from reput import open_store, restore
from reput.jobs.console.moment import Wanted, find_moment
from reput.store_format.faults import StoreError
from reput.store_format.files.s3 import S3Storage
from reput.store_format.notes import Notes
from tests.backed_up import ends, made
from tests.in_process import Session
from tests.reference.repository import Repository
from tests.store_format.files import s3_server
from tests.store_format.files.s3_server import BUCKET
from tests.trees import contents

__all__ = ["made"]  # a fixture
pytestmark = pytest.mark.real
_SEND = URLLib3Session.send


@pytest.fixture(scope="module", autouse=True)
def endpoint() -> Iterator[str]:
    with s3_server.served() as endpoint, s3_server.environment({"AWS_MAX_ATTEMPTS": "1"}):
        yield endpoint


@pytest.fixture
def url(made: Repository) -> str:
    for path, raw in contents(made.root).items():
        output = S3Storage().create(f"s3://{BUCKET}/repo/{path}")
        output.write(raw)
        output.finish(len(raw))
    return f"s3://{BUCKET}/repo"


@contextmanager
def failing(at: int) -> Iterator[list[str]]:
    """The connection breaks at request number `at`, and at all after it. Yields the requests."""
    seen: list[str] = []

    def send(self: URLLib3Session, asked: Any) -> Any:
        seen.append(f"{asked.method} {asked.url.rpartition('/')[2]}")
        if len(seen) > at >= 0:
            raise ConnectionClosedError(endpoint_url=asked.url)
        return _SEND(self, asked)

    with mock.patch.object(URLLib3Session, "send", send):
        yield seen


def test_a_restore_from_an_object_store_is_whole_or_nothing(url: str, tmp_path: Path) -> None:
    with failing(-1) as seen:
        restore(Session(), url, str(tmp_path / "whole"))
    count, wanted = len(seen), contents(tmp_path / "whole")
    for at in range(0, count, max(count // 12, 1)):
        with failing(at), pytest.raises((OSError, StoreError)):
            restore(Session(), url, str(tmp_path / "out"))
        assert [
            path.name for path in tmp_path.iterdir() if path.name not in ("repo", "whole")
        ] == []
    restore(Session(), url, str(tmp_path / "out"))
    assert contents(tmp_path / "out").keys() == wanted.keys()


def test_a_message_is_read_by_few_requests(url: str) -> None:
    moment = find_moment(S3Storage(), url, Wanted(), Notes()).moment
    with open_store(str(moment)) as store:
        store.message_at(0)  # lists, and reads the catalogue
        with failing(-1) as seen:
            assert store.message_at(ends()[40]).queue_offset == 41
    assert 2 <= len(seen) <= 4  # the tables and a frame of a piece, or of two
    assert all(each.startswith("GET ") for each in seen), seen
