"""A queue without a live message goes on where it ended, whatever its kind becomes."""

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.convert import convert
from reput.jobs.deriving.kept import LastEntry, expired_file, new_checkpoint
from reput.jobs.expire import expire
from reput.jobs.install import install_set
from reput.jobs.pipeline.link import Linked
from reput.jobs.rebuild import rebuild
from reput.jobs.repair import repair
from reput.jobs.replicate import replicate
from reput.jobs.verify import verify
from reput.store_format.derived.queues import FileQueues
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.message.message import Message
from reput.store_format.rocksdb.queues import RocksDBQueues
from tests.broker.writer.stores import open_writer
from tests.built import write
from tests.damaged import damaged
from tests.faults.memory_files import crash_states
from tests.faults.power import recorded
from tests.in_process import Session
from tests.jobs.found import found

SETTINGS = {
    "mappedFileSizeCommitLog": "4096", "mappedFileSizeConsumeQueue": "80",
    "maxHashSlotNum": "50", "maxIndexNum": "400", "flushDiskType": "ASYNC_FLUSH",
}  # fmt: skip
OLD = 6


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Its first segment, with all of topic Old, has expired."""
    root = tmp_path / "store"
    with open_writer(root, **SETTINGS) as writer:
        for _ in range(OLD):
            writer.append(Message("Old", bytes(60), 1))
        for number in range(60):
            writer.append(Message("New", bytes(90), number % 2))
    first = sorted((root / "commitlog").iterdir())[0]
    assert first.name.strip("0") == ""
    first.unlink()
    return root


def install(store: Path, output: Path, queues: str) -> None:
    rebuild(Session(), str(store), str(output), rocketmq="5.3.3", settings=SETTINGS, queues=queues)
    report = verify(Session(), str(store), against=str(output), rocketmq="5.3.3", settings=SETTINGS)
    assert report.same, report.differences
    install_set(str(store), str(output))


def test_it_ends_where_it_ended(store: Path, tmp_path: Path) -> None:
    storage = LocalStorage()
    before = FileQueues(Folder(storage, str(store)), lambda batch: 80).open("Old", 1, False)
    last = before.last()
    assert last is not None
    assert last.position == OLD - 1
    install(store, tmp_path / "rocksdb", "rocksdb")
    queues = RocksDBQueues(str(store), Folder(storage, f"{store}/consumequeue"))
    assert queues.maxima["Old", 1] == (last.physical_offset, OLD - 1)
    assert queues.open("Old", 1, False).maximum() == OLD
    queues.close()
    install(store, tmp_path / "files", "files")
    after = FileQueues(Folder(storage, str(store)), lambda batch: 80).open("Old", 1, False)
    assert after.maximum() == OLD
    end = after.last()
    assert end is not None
    assert end.physical_offset == last.physical_offset


def test_what_expires_is_asked_of_queues_in_rocksdb(store: Path, tmp_path: Path) -> None:
    install(store, tmp_path / "rocksdb", "rocksdb")
    (store / "config").mkdir(exist_ok=True)
    offsets = store / "config" / "consumerOffset.json"

    def going(**options: Any) -> Any:
        return expire(
            str(store), rocketmq="5.3.3", settings={**SETTINGS, "fileReservedTime": "0"},
            any_hour=True, used=lambda path: 0.1, **options,
        )  # fmt: skip

    segments = sorted(path.name for path in (store / "commitlog").iterdir())
    offsets.write_text(json.dumps({"offsetTable": {"New@readers": {"0": 16, "1": 16}}}))
    kept = going(dry_run=True)
    offsets.write_text(json.dumps({"offsetTable": {"New@readers": {"0": 30, "1": 30}}}))
    all_read = going(dry_run=True)
    assert 0 < len(kept.segments) < len(all_read.segments)
    assert any("'readers' has read topic 'New', queue" in each.who for each in kept.kept)
    done = going()
    assert [s.name for s in sorted((store / "commitlog").iterdir())] == segments[
        len(done.segments) :
    ]
    assert verify(Session(), str(store), rocketmq="5.3.3", settings=SETTINGS).same


def test_a_rocksdb_that_cannot_be_read_is_warned_of(store: Path, tmp_path: Path) -> None:
    install(store, tmp_path / "rocksdb", "rocksdb")
    (store / "consumequeue" / "CURRENT").write_text("nothing of the kind")
    made = rebuild(
        Session(), str(store), str(tmp_path / "again"), rocketmq="5.3.3", settings=SETTINGS
    )
    assert made.queues_in == "rocksdb"
    (said,) = (each for each in made.warnings if "cannot be read" in each)
    assert said.endswith("queues without a live message begin at position 0 again")


@pytest.mark.parametrize("command", [repair, convert, replicate])
def test_a_new_store_has_it_too_and_so_has_a_batch_queue(store: Path, tmp_path, command) -> None:
    last_entry = LastEntry(100, 40, 120, 7, 5, 1_700_000_000_000)
    made = expired_file(("Batch", 2), last_entry, lambda _: 46)
    about = {"topicConfigTable": {"Batch": {"attributes": {"queue.type": "BatchCQ"}}}}
    write(store, {f"{made.folder}/{0:020d}": made.content,
                  "config/topics.json": json.dumps(about).encode()})  # fmt: skip
    out = tmp_path / "out"
    engine = () if command is replicate else (Session(),)
    given: Any = {"rocketmq": "5.3.3",
                  "settings": {**SETTINGS, "mapperFileSizeBatchConsumeQueue": "46"}}  # fmt: skip
    command(*engine, str(store), str(out), **given)
    folder = Folder(LocalStorage(), str(out))
    queues = FileQueues(folder, lambda batch: 46 if batch else 80)
    assert queues.open("Old", 1, False).maximum() == OLD
    assert queues.open("New", 1, False).maximum() == 30
    queue = queues.open("Batch", 2, True)
    assert queue.maximum() == 45
    last = queue.last()
    assert last is not None
    assert last[1:] == (100, 120, 7, 5, 1_700_000_000_000)
    with open_writer(out, **SETTINGS) as writer:
        assert writer.append(Message("Old", b"", 1)).queue_offset == OLD
    assert verify(Session(), str(out), **given).same


def test_a_replica_s_lasts_when_power_goes(store: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    given: dict[str, Any] = {"rocketmq": "5.3.3", "settings": SETTINGS}
    done = recorded(disk, lambda: replicate(str(store), str(disk / "out"), **given))
    *_, lost, _ = crash_states(done.start, done.ops, 1, 0, every=len(done.ops))
    assert lost.files.tree().keys() == done.end.tree().keys()


# --- The checkpoint of a set tells of the last record, of the last entry, and of every index file.
FIELDS = struct.Struct(">6q")  # docs/formats/checkpoint.md


def fields(
    rows: list[dict[str, int]], built: Sequence[dict[str, Any]] = (), release: str = "5.5.0"
) -> tuple[int, ...]:
    log = damaged()
    log.version = release
    raw = new_checkpoint(found(log.log).plan, Linked(list(rows)), list(built))
    assert len(raw) == 4096
    assert not any(raw[FIELDS.size :])
    return FIELDS.unpack_from(raw)


def split(records: int, time: int, dispatched: int, last: int) -> dict[str, int]:
    return {"records": records, "last_timestamp": time, "last_dispatched": dispatched,
            "last_record": last}  # fmt: skip


def test_a_checkpoint_has_the_times_of_the_last_record_and_entry_and_all_index_files() -> None:
    assert fields([]) == (0,) * 6
    assert fields([split(0, 99, 99, 99)]) == (0,) * 6
    rows = [split(2, 70, 70, 100), split(1, 50, 50, 300), split(0, -1, -1, -1)]
    assert fields(rows) == (50, 50, 0, 0, 300, 300)
    rows = [split(2, 40, 40, 100), split(1, 50, -1, 300)]
    assert fields(rows)[:2] == (50, 40)
    assert fields(rows[1:])[:2] == (50, 0)
    assert fields([split(1, 0, 0, 0)])[:2] == (0, 0)
    assert fields([split(1, -5, -1, 0)])[:3] == (0, 0, 0)
    index = [{"folder": "index", "end": end} for end in (7, 9, 8)]
    queue = {"folder": "consumequeue/T/0", "end": 100}
    assert fields([], [*index, queue])[2] == 9
    assert fields([], [queue])[2] == 0


@pytest.mark.parametrize(
    ("release", "places"),
    [("4.9.7", (0, 0)), ("5.1.0", (0, 0)), ("5.1.1", (300, 0)), ("5.4.0", (300, 0)),
     ("5.5.0", (300, 300))],
)  # fmt: skip
def test_places_are_written_from_the_release_on_that_knows_them(release: str, places) -> None:
    assert fields([split(1, 50, 50, 300)], release=release)[4:] == places
