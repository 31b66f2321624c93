"""A broker on a store of one message; what is served is closed after a file's tests."""

from collections.abc import Iterator

import pytest

from tests.broker.serving.served import message, served
from tests.jobs.sockets.asked import Asked, stores_closed_after


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    with stores_closed_after():
        yield


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    return served(tmp_path_factory.mktemp("store"), [message(0)])
