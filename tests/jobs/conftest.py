"""What tests of several rooms of jobs/ share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.opening.writing import Writing


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Writing]:
    process = Writing(tmp_path / "store")
    try:
        yield process
    finally:
        process.stop()
