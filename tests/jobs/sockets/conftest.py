"""All stores that are served are closed after a file's tests."""

from tests.broker.serving.conftest import _closed as _closed
