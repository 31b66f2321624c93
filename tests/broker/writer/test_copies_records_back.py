"""A record read back with its body, or why there is none."""

from pathlib import Path

import pytest

from reput.broker.writer.copies import stored_at
from reput.store_format.log.reader import NoRecord, NotInLog
from reput.store_format.message.message import Message
from tests.broker.services.stores import disk, opened
from tests.broker.writer.stores import open_writer


def test_a_log_that_is_open_for_reading_says_why_there_is_none(tmp_path: Path) -> None:
    files = disk(tmp_path / "store")
    with open_writer(tmp_path / "store") as writer:
        writer.append(Message("T", b"one", properties=b""))
    with opened(files) as store:
        assert stored_at(store.log, 0).body == b"one"
        with pytest.raises(NoRecord):
            stored_at(store.log, 1)
        with pytest.raises(NotInLog):
            stored_at(store.log, 1 << 40)
