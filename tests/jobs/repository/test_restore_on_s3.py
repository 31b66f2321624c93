"""A repository in an object store that fails at any request: what is restored is whole, or nothing
is there; and few requests are made.
"""

from pathlib import Path

import pytest

from reput import open_store, restore
from reput.jobs.console.moment import Wanted, find_moment
from reput.store_format.faults import StoreError
from reput.store_format.files.s3 import S3Storage
from reput.store_format.notes import Notes
from tests.backed_up import ends, made
from tests.in_process import Session
from tests.jobs.repository.failing_s3 import endpoint, failing
from tests.reference.repository import Repository
from tests.store_format.files.s3_server import BUCKET
from tests.trees import contents

__all__ = ["endpoint", "made"]  # fixtures
pytestmark = pytest.mark.real


@pytest.fixture
def url(made: Repository) -> str:
    for path, raw in contents(made.root).items():
        output = S3Storage().create(f"s3://{BUCKET}/repo/{path}")
        output.write(raw)
        output.finish(len(raw))
    return f"s3://{BUCKET}/repo"


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
