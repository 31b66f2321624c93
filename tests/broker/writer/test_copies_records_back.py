"""A record read back with its body, or none where no sound record is."""

from pathlib import Path

import pytest

from reput.broker.writer.copies import read_stored, stored_at
from reput.store_format.log.reader import NoRecord, NotInLog
from reput.store_format.message.message import Message
from tests.broker.services.stores import disk, opened
from tests.broker.writer.stores import RULES, open_writer

SIZE = 91 + 1 + 3  # a topic of a byte, a body of three
SEGMENT = 4096


@pytest.mark.parametrize(
    ("at", "end", "body"),
    [
        (0, SEGMENT, b"one"), (SIZE, SEGMENT, b"two"), (SIZE + 1, SEGMENT, None),
        (2 * SIZE, SEGMENT, None),  # zeros
        (0, SIZE, b"one"), (0, SIZE - 1, None), (SEGMENT - 47, SEGMENT, None),
    ],
)  # fmt: skip
def test_the_log_that_is_written_is_read_up_to_a_segments_end(
    tmp_path: Path, at: int, end: int, body: bytes | None
) -> None:
    with open_writer(tmp_path) as writer:
        for each in (b"one", b"two"):
            writer.append(Message("T", each, properties=b""))
        found = read_stored(writer.log.read, at, end, RULES)
    assert (None if found is None else found.body) == body


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
