"""`reput expire --archive` to an object store that fails at any request, in any way.

A file that is gone from the store has a whole copy, whatever the object store did or said; and the
next run, whose object store is sound, ends with all that was there.
"""

import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import moto.s3.models
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError
from botocore.httpsession import URLLib3Session

from reput.jobs.expire import expire
from reput.store_format.faults import StoreError
from reput.store_format.files import s3
from reput.store_format.message.message import Message
from tests.broker.writer.stores import TINY, Clock, open_writer
from tests.store_format.files import s3_server
from tests.store_format.files.s3_server import BUCKET
from tests.trees import unlocked

NOW = 1_800_000_000_000
PART = 2000  # bytes of an upload's part: a segment has several, a queue's file is one object
SIZES = TINY | {"maxIndexNum": 400}
SETTINGS = {name: str(value) for name, value in SIZES.items()} | {"fileReservedTime": "1"}

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


def forgotten(send: Send, asked: Any) -> Any:
    """What it was given it forgets, but says that it has it."""
    answer = send(asked)
    if asked.method in ("PUT", "POST"):
        place = dict(zip(("Bucket", "Key"), _path(asked).split("/", 1), strict=True))
        with mock.patch.object(URLLib3Session, "send", _SEND):
            s3.client().delete_object(**place)
    return answer


def changed(send: Send, asked: Any) -> Any:
    """What it gives back has another byte at its end."""
    answer = send(asked)
    content = bytearray(answer.content)
    if asked.method == "GET" and content:
        content[-1] ^= 1
        return _answer(asked, answer.status_code, bytes(content), answer.headers)
    return answer


FAULTS = [
    refused, broken, lost, cut_off, killed_before, killed_after, forgotten, changed,
]  # fmt: skip


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
    with (
        mock.patch.object(moto.s3.models, "S3_UPLOAD_PART_MIN_SIZE", 1),
        mock.patch.object(s3, "_PART_BYTES", PART),
        s3_server.served() as endpoint,
        s3_server.environment({"AWS_MAX_ATTEMPTS": "1"}),
    ):
        yield endpoint


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of few files, of which most have expired."""
    store = tmp_path_factory.mktemp("whole") / "store"
    with open_writer(store, Clock(), maxIndexNum=400) as writer:
        for number in range(36):
            writer.append(Message("T", bytes([number]) * 100, 0, keys=f"k{number}"))
    for path in (store / "commitlog").iterdir():
        os.utime(path, ns=((NOW - 200 * 3_600_000) * 1_000_000,) * 2)
    return store


def archived(name: str) -> dict[str, bytes]:
    keys = s3_server.object_keys(f"{name}/")
    get = s3.client().get_object
    return {key.partition("/")[2]: get(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}


def run(store: Path, name: str) -> None:
    expire(
        str(store), rocketmq="5.3.3", settings=SETTINGS, any_hour=True, now=NOW,
        used=lambda path: 0.1, archive=f"s3://{BUCKET}/{name}",
    )  # fmt: skip


def fresh(whole: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(whole, to)  # with its times
    return to


@pytest.mark.parametrize(
    ("for_ever", "last"),
    [(False, 3), pytest.param(False, 1000, marks=pytest.mark.long),
     pytest.param(True, 1000, marks=pytest.mark.long)],
)  # fmt: skip
@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_goes_that_has_no_whole_copy(
    fault: Callable[[Send, Any], Any], for_ever: bool, last: int, whole: Path, tmp_path: Path
) -> None:
    """At each of the last so many requests: a look, an upload, and the copy read back."""
    before = unlocked(whole)
    name = f"{fault.__name__}-{for_ever}-{last}"
    with failing(-1, fault, False) as requests:
        run(fresh(whole, tmp_path / "store"), f"{name}-none")
    gone = before.keys() - unlocked(tmp_path / "store").keys()
    assert len([path for path in gone if path.startswith("commitlog/")]) > 1
    assert any(asked.startswith("POST") for asked in requests), "no upload in parts"
    stopped = 0
    for at in range(len(requests))[-last:]:
        store, kept = fresh(whole, tmp_path / "store"), f"{name}-{at}"
        with failing(at, fault, for_ever):
            try:
                run(store, kept)
            except (StoreError, OSError, Killed):
                stopped += 1
        there, copies = unlocked(store), archived(kept)
        for path in before.keys() - there.keys():
            assert copies.get(path) == before[path], f"{at}: {requests[at]}: {path} is lost"
        assert all(there[path] == before[path] for path in there)
        wrong = {path for path, content in copies.items() if content != before[path]}
        assert not wrong, f"{at}: {requests[at]}"
        run(store, kept)
        assert unlocked(store) == {path: before[path] for path in before.keys() - gone}
        assert {path: archived(kept)[path] for path in gone} == {p: before[p] for p in gone}
    assert stopped
