"""A log that a test of a message's fate writes."""

import pytest

from tests.store_format.fate.logs import SmallLog


@pytest.fixture
def log() -> SmallLog:
    return SmallLog()
