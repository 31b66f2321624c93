"""Records that RocketMQ wrote, appended anew: the same log, queues and index, byte for byte."""

from pathlib import Path

import numpy as np
import pytest

from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.release.settings import writer_settings_from
from tests import golden_stores
from tests.broker.writer.stores import Clock, as_message, stored_records

# Whole logs from offset 0 on, with nothing after their end.
NAMES = (
    pytest.param("broker_clean_5.3.3", marks=pytest.mark.long),  # an index of 420 MB
    "many_queues_5.3.3",
    "mixed_4.1.0",
    "mixed_4.9.7",
    "mixed_5.3.3",
    "mixed_5.4.0",
    "mixed_5.5.0",
    "tiny_5.3.3",
)
# Up to 4.1.0 what follows a BLANK's eight bytes is what the buffer held.
DIRTY_BLANKS = ("mixed_4.1.0",)


@pytest.fixture(params=NAMES)
def golden(request: pytest.FixtureRequest) -> golden_stores.GoldenStore:
    return golden_stores.unpack(request.param)


def append_anew(golden: golden_stores.GoldenStore, root: Path) -> None:
    settings = writer_settings_from({n: str(v) for n, v in golden.settings.items()})
    clock = Clock()
    writer = CommitLogWriter.open(
        str(root), settings, clock=clock, release=golden.version, background=False
    )
    for record in stored_records(golden.input / "commitlog"):
        clock.now = record.store_timestamp
        # RocketMQ follows a clock that goes back; the writer does not, but for this test.
        writer.appender.last_timestamp = 0
        result = writer.put(writer.encoder.draft(as_message(record)))
        assert result.queue_offset == record.queue_offset
    writer.close()


def test_the_log_and_all_that_is_derived_are_rocketmqs(golden, tmp_path) -> None:
    append_anew(golden, tmp_path)
    if not golden.root.name.startswith(DIRTY_BLANKS):
        assert_same(golden.input / "commitlog", tmp_path / "commitlog")
    assert_same(golden.expect / "consumequeue", tmp_path / "consumequeue")
    expected = sorted((golden.expect / "index").iterdir())
    found = sorted((tmp_path / "index").iterdir())
    assert len(found) == len(expected)
    for one, other in zip(expected, found, strict=True):
        assert one.stat().st_size == other.stat().st_size
        assert np.array_equal(np.memmap(one, np.uint8, "r"), np.memmap(other, np.uint8, "r")), one


def assert_same(expected: Path, found: Path) -> None:
    names = sorted(str(p.relative_to(expected)) for p in expected.rglob("*") if p.is_file())
    there = sorted(str(p.relative_to(found)) for p in found.rglob("*") if p.is_file())
    # RocketMQ prepares the next segment ahead; a wholly zero one says nothing
    assert [n for n in names if any((expected / n).read_bytes())] == there
    for name in there:
        assert (expected / name).read_bytes() == (found / name).read_bytes(), name
