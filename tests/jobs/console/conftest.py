"""Each test of this room is a command of its own."""

from collections.abc import Iterator

import pytest

from reput.jobs.console import voice


@pytest.fixture(autouse=True)
def said_before() -> Iterator[None]:
    """A note is said once in a command."""
    voice.begin()
    yield
    voice.begin()
