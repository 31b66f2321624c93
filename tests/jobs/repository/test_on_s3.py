"""A repository in an object store that fails at any request, in any way.

Whatever it did or said, each run of the catalogue has its whole log; and the next backup, with an
object store that is sound, has all that is there. What is restored is whole, or nothing is there.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError
from botocore.httpsession import URLLib3Session

from reput import open_store, restore
from reput.jobs.backup import backup
from reput.jobs.console.moment import Wanted, find_moment
from reput.jobs.repository import log_pieces
from reput.store_format.faults import StoreError
from reput.store_format.files.catalogue import Catalogue
from reput.store_format.files.frames import decode_all
from reput.store_format.files.s3 import S3Storage
from reput.store_format.notes import Notes
from tests.backed_up import ends, made
from tests.built import Built
from tests.in_process import Session
from tests.jobs.repository.backing import store, whole_log
from tests.reference.repository import Repository
from tests.store_format.files import s3_server
from tests.store_format.files.s3_server import BUCKET
from tests.trees import contents

__all__ = ["made"]  # a fixture
Send = Callable[[Any], Any]


class Killed(BaseException):
    """The process ends here."""


def refused(send: Send, asked: Any) -> Any:
    """Nothing is done, and that is said."""
    return _answer(asked, 403, b"<Error><Code>AccessDenied</Code></Error>")


def broken(send: Send, asked: Any) -> Any:
    return _answer(asked, 500, b"<Error><Code>InternalError</Code></Error>")


def lost(send: Send, asked: Any) -> Any:
    """It is done, and the answer is lost."""
    send(asked)
    raise ConnectionClosedError(endpoint_url=asked.url)


def cut_off(send: Send, asked: Any) -> Any:
    raise ConnectionClosedError(endpoint_url=asked.url)


def killed_before(send: Send, asked: Any) -> Any:
    raise Killed


def killed_after(send: Send, asked: Any) -> Any:
    send(asked)
    raise Killed


FAULTS = [refused, broken, lost, cut_off, killed_before, killed_after]


def _path(asked: Any) -> str:
    return str(asked.url.split("://", 1)[1].split("/", 1)[1].partition("?")[0])


class _Body(io.BytesIO):
    """An answer's body as urllib3 gives it."""

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self.read()

    def release_conn(self) -> None: ...


def _answer(asked: Any, status: int, content: bytes, headers: Any = ()) -> AWSResponse:
    made = AWSResponse(asked.url, status, dict(headers), _Body(content))
    if not asked.stream_output:
        _ = made.content
    return made


_SEND = URLLib3Session.send


@contextmanager
def failing(at: int, fault: Callable[[Send, Any], Any], for_ever: bool) -> Iterator[list[str]]:
    """Request number `at` fails, with for_ever all behind it too. Yields the requests."""
    seen: list[str] = []

    def send(self: URLLib3Session, asked: Any) -> Any:
        seen.append(f"{asked.method} {_path(asked)}")
        number = len(seen) - 1
        if number == at or (for_ever and number > at >= 0):
            return fault(lambda request: _SEND(self, request), asked)
        return _SEND(self, asked)

    with mock.patch.object(URLLib3Session, "send", send):
        yield seen


@pytest.fixture(scope="module", autouse=True)
def endpoint() -> Iterator[str]:
    with s3_server.served() as endpoint, s3_server.environment({"AWS_MAX_ATTEMPTS": "1"}):
        yield endpoint


def logs(name: str) -> list[bytes]:
    """The whole log of each run, read from the pieces; the state's files are there too."""
    there, found = Catalogue(S3Storage(), f"s3://{BUCKET}/{name}", "store"), []
    for run in there.backups():
        parts = [(there.storage.read_bytes(there.piece_path(piece)), piece, used)
                 for piece, used in there.chain(run)]  # fmt: skip
        found.append(b"".join(
            decode_all(raw, piece.length).tobytes()[:used] for raw, piece, used in parts
        ))  # fmt: skip
        for entry in run.state:
            raw = there.storage.read_bytes(there.state_path(entry))
            assert sha256(decode_all(raw, entry.length).tobytes()).hexdigest() == entry.sha256
    return found


def run(store: str, name: str) -> None:
    backup(store, f"s3://{BUCKET}/{name}", settings=Built().given(), rocketmq="5.3.3")


@pytest.mark.parametrize(
    ("for_ever", "step"),
    [(False, 9), pytest.param(False, 1, marks=pytest.mark.long),
     pytest.param(True, 1, marks=pytest.mark.long)],
)  # fmt: skip
@pytest.mark.parametrize("fault", FAULTS)
def test_each_run_is_whole_whatever_fails(fault, for_ever, step, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(log_pieces, "PIECE_BYTES", 2100)
    built = Built().put(count=35)
    old, store_of = whole_log(built), store(tmp_path, built)
    name = f"{fault.__name__}-{for_ever}-{step}"
    with failing(-1, fault, False) as requests:
        run(store_of, f"{name}-none")
        first = len(requests)
    with failing(-1, fault, False) as requests:
        run(store(tmp_path, built.put(count=25)), f"{name}-none")
    new, failed = whole_log(built), 0
    assert len([each for each in requests if each.startswith("PUT")]) > 3
    for at in range(len(fault.__name__) % step, first + len(requests), step):
        into = f"{name}-{at}"
        stores = [store(tmp_path / str(n), Built().put(count=n)) for n in (35, 60)]
        with failing(at, fault, for_ever):
            for path in stores:
                try:
                    run(path, into)
                except (StoreError, OSError, Killed):
                    failed += 1
        assert set(logs(into)) <= {old, new}, at
        run(stores[1], into)
        assert logs(into)[-1] == new
    assert failed


@pytest.fixture
def url(made: Repository) -> str:
    for path, raw in contents(made.root).items():
        assert S3Storage().put_new(f"s3://{BUCKET}/{made.root.parent.name}/{path}", raw)
    return f"s3://{BUCKET}/{made.root.parent.name}"


def test_a_restore_is_whole_or_nothing(url: str, tmp_path: Path) -> None:
    with failing(-1, cut_off, False) as seen:
        restore(Session(), url, str(tmp_path / "whole"))
    count, wanted = len(seen), contents(tmp_path / "whole")
    for at in range(0, count, max(count // 12, 1)):
        with failing(at, cut_off, True), pytest.raises((OSError, StoreError)):
            restore(Session(), url, str(tmp_path / "out"))
        assert {path.name for path in tmp_path.iterdir()} == {"repo", "whole"}
    restore(Session(), url, str(tmp_path / "out"))
    assert contents(tmp_path / "out").keys() == wanted.keys()


def test_a_message_is_read_by_few_requests(url: str) -> None:
    moment = find_moment(S3Storage(), url, Wanted(), Notes()).moment
    with open_store(str(moment)) as store:
        store.message_at(0)  # lists, and reads the catalogue
        with failing(-1, cut_off, False) as seen:
            assert store.message_at(ends()[40]).queue_offset == 41
    assert 2 <= len(seen) <= 4  # the tables and a frame of a piece, or of two
    assert all(each.startswith("GET ") for each in seen), seen
