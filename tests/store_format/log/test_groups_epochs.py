"""The epoch file as RocketMQ's CheckpointFile writes it, and where a slave cuts by it."""

import pytest

from reput.store_format.files.folder import Folder
from reput.store_format.log.groups import (
    BadEpochs,
    Epoch,
    consistent_point,
    parse_epochs,
    read_epochs,
)
from tests.memory_storage import MemoryStorage
from tests.store_format.log.epoch_files import file_of


def test_entries_are_epoch_and_start() -> None:
    assert parse_epochs(file_of("1-0", "2-4096", "7-9000")) == (
        Epoch(1, 0), Epoch(2, 4096), Epoch(7, 9000),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b"", "lines"),
        (b"1\n", "lines"),
        (b"x\n1\n1-0\n", "count"),
        (b"1\nx\n1-0\n", "CRC-32"),
        (file_of("1-0").replace(b"1-0", b"1-9"), "CRC-32"),
        (file_of("1-0") + b"2-5\n", "count"),
        (file_of("1:0"), "entry"),
        (file_of("1-"), "entry"),
        (file_of("1-\xb2"), "entry"),
    ],
)
def test_what_is_no_epoch_file_is_refused_by_its_field(raw: bytes, field: str) -> None:
    with pytest.raises(BadEpochs, match=field):
        parse_epochs(raw)


def test_the_backup_is_read_where_the_file_is_not_whole() -> None:
    storage = MemoryStorage(
        {"s/epochFileCheckpoint": b"1\n", "s/epochFileCheckpoint.bak": file_of("3-5")}
    )
    assert read_epochs(Folder(storage, "s")) == (Epoch(3, 5),)  # type: ignore[arg-type]
    del storage.files["s/epochFileCheckpoint.bak"]
    with pytest.raises(BadEpochs, match="s/epochFileCheckpoint: has 1 lines"):
        read_epochs(Folder(storage, "s"))  # type: ignore[arg-type]
    del storage.files["s/epochFileCheckpoint"]
    storage.files["s/other"] = b""
    assert read_epochs(Folder(storage, "s")) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ours", "theirs", "point"),
    [
        (["1-0"], ["1-0"], 800),  # the shorter log's end
        (["1-0", "2-500"], ["1-0"], 500),
        (["1-0", "2-500"], ["1-0", "2-600"], 500),
        (["1-0", "3-700"], ["1-0", "2-600"], 600),
        (["4-0"], ["1-0"], -1),
        ([], ["1-0"], -1),
    ],
)
def test_a_slave_cuts_where_the_last_common_epoch_ends(
    ours: list[str], theirs: list[str], point: int
) -> None:
    both = [parse_epochs(file_of(*entries)) for entries in (ours, theirs)]
    assert consistent_point(both[0], 1000, both[1], 800) == point
