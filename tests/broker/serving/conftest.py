"""A broker on a store of one message."""

import pytest

from tests.broker.serving.served import message, served
from tests.jobs.sockets.asked import Asked


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    return served(tmp_path_factory.mktemp("store"), [message(0)])
