"""The files of a queue: which belong to it, where they stand, how far each is used."""

from pathlib import Path

import pytest

from reput.store_format.derived.queue_files import (
    BadQueue,
    QueueEntry,
    QueueFiles,
    decode_entries,
    entry_of,
    is_batch,
    is_message,
    is_pre_blank,
    is_used,
    pre_blank,
    queue_folder,
    segment_bytes,
)
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.names import UnsafeName
from tests.store_format.derived.made_files import (
    BATCHES,
    BLANK,
    ENTRY,
    QUEUE,
    batches,
    entries,
    queue_of,
)


def used(*files: tuple[int, bytes]) -> list[int]:
    """How many entries of each file are used."""
    queue = QueueFiles(Folder(queue_of(*files), QUEUE))
    found = []
    for file in queue.all:
        with queue.open(file) as opened:
            found.append(opened.used())
    return found


def test_only_a_queues_own_files_count_and_the_last_if_it_is_used() -> None:
    assert used((0, entries(0, 5)), (100, b"")) == [5]
    assert used((0, bytes(100)), (100, bytes(100))) == [0, 0]
    with pytest.raises(BadQueue, match="name 200: the file before ends at 100"):
        used((100, b""), (200, entries(0, 5)))
    files = [(0, entries(0, 5)), (100, bytes(100)), (200, bytes(100))]
    queue = QueueFiles(Folder(queue_of(*files), QUEUE))
    assert [file.start for file in queue.used()] == [0]
    queue = QueueFiles(Folder(queue_of(*files[1:]), QUEUE))
    assert [file.start for file in queue.used()] == [100]
    assert QueueFiles(Folder(queue_of(), QUEUE)).used() == []
    for raw, count in [(entries(0, 5), 5), (entries(0, 4, 100), 4), (entries(0, 1, 100), 1),
        (BLANK * 3, 3), (BLANK + entries(8, 9, 60), 2), (entries(0, 5) + bytes(19), 5),
        (bytes(19), 0), (ENTRY.pack(100, 0, 0), 0), (ENTRY.pack(-1, 100, 0), 0)]:  # fmt: skip
        assert used((0, raw)) == [count]
    for name in ["1", "x" * 20, "lost+found/x"]:
        storage = queue_of((0, entries(0, 1)))
        storage.files[f"{QUEUE}/{name}"] = b""
        assert [file.start for file in QueueFiles(Folder(storage, QUEUE)).all] == [0]
    storage = queue_of((0, entries(0, 1)))
    storage.files[f"{QUEUE}/{20:020d}/x"] = b""
    assert [file.path for file in QueueFiles(Folder(storage, QUEUE)).all] == [f"{QUEUE}/{0:020d}"]
    assert queue_folder("s", "T", -1) == "s/consumequeue/T/-1"
    assert queue_folder("s", "%RETRY%g", 3, batch=True) == "s/batchconsumequeue/%RETRY%g/3"
    for topic in ("", ".", "..", "../x", "a\\b", "a\0"):
        with pytest.raises(UnsafeName):
            queue_folder("s", topic, 0)
    assert is_batch("batchconsumequeue/T/0")
    assert not is_batch("consumequeue/batchconsumequeue/0")


def test_a_link_of_a_queue_files_name_is_read_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(entries(0, 3))
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / f"{0:020d}").symlink_to("../elsewhere")
    queue = QueueFiles(Folder(LocalStorage(), str(tmp_path / "0")))
    with queue.open(queue.all[0]) as opened:
        assert [int(row["tagsCode"]) for row in opened.range(0, 3)] == [0, 1, 2]
    (tmp_path / f"{0:020d}").symlink_to("nowhere")
    with pytest.raises(BadQueue) as raised:
        QueueFiles(Folder(LocalStorage(), str(tmp_path)))
    assert (raised.value.field, raised.value.path) == ("file", f"{tmp_path}/{0:020d}")


def test_which_entries_count_and_what_they_hold() -> None:
    for place, size, used, message, blank in [(0, 0, False, False, False),
        (0, 1, True, True, False), (-1, 91, False, True, False), (5, -1, False, False, False),
        (0, 0x7FFFFFFF, True, True, True), (1, 0x7FFFFFFF, True, True, False),
        (1 << 62, 91, True, True, False)]:  # fmt: skip
        rows = decode_entries(ENTRY.pack(place, size, 0))
        assert (*is_used(rows), *is_message(rows), *is_pre_blank(rows)) == (used, message, blank)
    rows = decode_entries(BLANK[:-1] + b"\1" + BLANK)
    assert is_pre_blank(rows).tolist() == [True, True]
    assert pre_blank(2).hex() == ("00" * 8 + "7fffffff" + "00" * 8) * 2
    assert pre_blank(0) == b""
    raw = bytes.fromhex("00000000000005f8 00000110 ffffffff8027a808")
    (fields,) = decode_entries(raw)
    assert entry_of(fields, 7, batch=False) == QueueEntry(7, 1528, 272, -(0x7FD857F8))
    (fields,) = decode_entries(batches([(1528, -9, 1 << 40, 32767)]), batch=True)
    assert entry_of(fields, 7, batch=True) == QueueEntry(1 << 40, 1528, 100, 7, 32767, -9)
    for configured, batch, size in [(6_000_000, False, 6_000_000), (20, False, 20), (21, False, 40),
        (19, False, 20), (1, False, 20), (13_800_000, True, 13_800_000), (46, True, 46),
        (47, True, 92)]:  # fmt: skip
        assert segment_bytes(configured, batch) == size


def test_entries_are_read_by_number_and_bisected() -> None:
    queue = QueueFiles(Folder(queue_of((200, entries(10, 15))), QUEUE))
    (file,) = queue.all
    assert [queue.position(file, number) for number in (0, 4)] == [10, 14]
    with queue.open(file) as opened:
        assert [int(row["tagsCode"]) for row in opened.range(1, 3)] == [11, 12]
        assert opened.bisect(0, 5, lambda entry: entry["tagsCode"] < 13) == 3
        assert opened.bisect(1, 3, lambda _: True) == 3
        assert opened.bisect(1, 3, lambda _: False) == 1
    raw = batches([(0, 1, 0, 5), (100, 2, 5, 1)], room=46 * 3)
    queue = QueueFiles(Folder(queue_of((0, raw), folder=BATCHES), BATCHES), batch=True)
    with queue.open(queue.all[0]) as opened:
        assert opened.used() == 2
        assert int(opened[1]["baseOffset"]) == 5
