"""An object store that fails at any request, in any way."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError
from botocore.httpsession import URLLib3Session

from tests.store_format.files import s3_server

Send = Callable[[Any], Any]
Fault = Callable[[Send, Any], Any]


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
def failing(at: int, fault: Fault = cut_off, for_ever: bool = True) -> Iterator[list[str]]:
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
