"""A store as it is found: its segments, settings and splits, before its log is read."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.check import check
from reput.jobs.opening import plan
from reput.jobs.opening.questions import open_store
from reput.jobs.outputs.report import Summary
from reput.jobs.pipeline.pipeline import Cut
from reput.store_format.discover.purpose import CHECK, LOOK, REBUILD, Purpose
from reput.store_format.discover.store import Discovered, StoreAt, discover, store_at
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import DamageFound, EmptyLog, StoreChanged, StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalReader, LocalStorage
from reput.store_format.files.protocol import FileState, Writer
from reput.store_format.files.system import lock_holder
from reput.store_format.log.segments import find_segments, may_grow
from reput.store_format.message.message import Message
from reput.store_format.release.setting_table import SettingError
from tests.broker.writer.stores import open_writer
from tests.built import Built, write_log
from tests.in_process import STORE, Session, as_text, run
from tests.jobs.comparing.pairs import message
from tests.jobs.opening.writing import SEGMENT as LIVE_SEGMENT
from tests.jobs.opening.writing import SETTINGS, Writing
from tests.logs.encoder import build_log
from tests.logs.small import SEGMENT as QUEUE_SEGMENT
from tests.logs.small import SETTINGS as QUEUE_SETTINGS
from tests.logs.small import messages
from tests.memory_storage import MemoryStorage
from tests.rocketmq.judge import difference
from tests.store_format.rocksdb.stores import unpack

SEGMENT = 4096
MB = 1 << 20


def storage(first: int = 0, kind: type[MemoryStorage] = MemoryStorage) -> MemoryStorage:
    log = build_log([message(n) for n in range(60)], SEGMENT, first)
    return kind({f"{STORE}/commitlog/{at:020d}": raw for at, raw in log.items()})


def planned(
    store: MemoryStorage, given: dict[str, str] | None = None, purpose: Purpose = LOOK
) -> plan.Plan:
    settings = {"mappedFileSizeCommitLog": str(SEGMENT), **(given or {})}
    at = store_at(STORE, "5.3.3", settings, store)
    return plan.make_plan(at, discover(at, purpose), purpose)


def test_of_a_log_without_segments_the_queues_tell_what_it_had() -> None:
    """Light queues hold messages of other queues. Without an entry the log is only empty."""
    files = {f"{STORE}/commitlog/lost+found/of-fsck": b""}
    with pytest.raises(EmptyLog, match=r"no segments: the log is empty$"):
        planned(MemoryStorage(files))
    entry = bytes(8) + (100).to_bytes(4, "big") + bytes(8)
    for topic in ("T", "%LMQ%a"):
        files[f"{STORE}/consumequeue/{topic}/0/{0:020d}"] = entry * 3 + bytes(20)
    read = {"offsetTable": {"T@billing": {0: 2}, "T@none": {0: 0}}}
    files[f"{STORE}/config/consumerOffset.json"] = json.dumps(read).encode()
    told, given = r"2 queues name 3 .* 1 group has read .* \(billing\);", {
        "mappedFileSizeConsumeQueue": "80"
    }  # fmt: skip
    with pytest.raises(DamageFound, match=told):
        planned(MemoryStorage(files), given)
    with pytest.raises(DamageFound, match=told):
        open_store(STORE, rocketmq="5.3.3", settings=given, storage=MemoryStorage(files))


@pytest.mark.parametrize("release", [None, "5.3.3"])
def test_a_size_that_no_name_fits_is_refused_and_the_log_not_called_empty(release) -> None:
    built = Built(start=2048 * 5).put(count=9, keys="k").derive()
    given = {**built.given(), "mappedFileSizeCommitLog": str(1 << 30)}
    with pytest.raises(StoreError, match="has 2048 bytes, but mappedFileSizeCommitLog is 10737"):
        check(Session(), "s", rocketmq=release, settings=given, storage=built.storage())
    with pytest.raises(StoreError, match="has 2048 bytes, but mappedFileSizeCommitLog is 10737"):
        open_store("s", rocketmq="5.3.3", settings=given, storage=built.storage())


class Large(MemoryStorage):
    """A store of one segment that is listed with `size` bytes."""

    size = 0

    def _state(self, path: str) -> FileState | None:
        return FileState(self.size, 0, 0) if path in self.files else None


def test_a_core_has_two_splits_of_16_to_256_mb() -> None:
    at = store_at(STORE, "5.3.3", {}, storage())
    large = Large({f"{STORE}/commitlog/{0:020d}": b""})
    for size, cores, wanted in [
        (64, 2, 16), (64, 1, 32), (1024, 4, 128), (1024, 1, 256), (1024, 500, 16), (8, 1, 8),
    ]:  # fmt: skip
        large.size = size * MB
        sizes = {"mappedFileSizeCommitLog": str(size * MB)}
        found = replace(discover(at, LOOK), settings=sizes)
        made = plan.make_plan(at._replace(storage=large), found, LOOK, cores)
        assert (made.log_bytes, made.splits.split_bytes) == (size * MB, wanted * MB)
        given = plan.make_plan(at._replace(storage=large), found, LOOK, cores, split_bytes=1000)
        assert given.splits.split_bytes == 1000


def topics(**attributes: str) -> bytes:
    table = {"B": {"attributes": attributes}, "Plain": {"topicName": "Plain"}}
    return json.dumps({"topicConfigTable": table}).encode()


def test_topics_attributes_decide_what_is_derived() -> None:
    store = storage()
    store.files[f"{STORE}/config/topics.json"] = topics(**{"queue.type": "BatchCQ"})
    assert planned(store).batch_topics == ("B",)
    wrong = {"mapperFileSizeBatchConsumeQueue": "100"}
    with pytest.raises(SettingError, match="is no multiple of 46"):
        planned(store, wrong)
    store.files[f"{STORE}/config/topics.json"] = topics(**{"cleanup.policy": "COMPACTION"})
    made = planned(store, wrong)
    assert made.batch_topics == ()
    assert "topic 'B' is compacted" in made.notes[0]


# --- A store is rebuilt while another process appends to it: up to an end that stays as it is.
class Busy(LocalStorage):
    """The log grows whenever the job opens a segment."""

    def __init__(self, writing: Writing) -> None:
        super().__init__()
        self.writing, self.ends = writing, [0]
        self.planned = -1  # where the log ended as the first task began

    def create(self, path: str, digest: bool = False, published: bool = False) -> Writer:
        if self.planned < 0:
            self.planned = self.ends[-2]  # the task has opened the log once
        return super().create(path, digest, published)

    def open(self, path: str, state: Any = None) -> LocalReader:
        reader = super().open(path, state)
        if "/commitlog/" in path:
            self.ends.append(self.writing.append(7))
        return reader


def rebuild(store: Path, output: Path, **more: Any) -> Summary:
    return run(
        str(store), str(output), rocketmq="5.3.3", settings=SETTINGS, cut=Cut(1 << 14, 2, 2), **more
    )


def test_a_store_in_use_is_rebuilt_up_to_one_end(writing: Writing, tmp_path: Path) -> None:
    writing.append(200)
    end = writing.append(200)
    assert end > LIVE_SEGMENT
    storage = Busy(writing)
    summary = rebuild(writing.store, tmp_path / "output", storage=storage)
    assert f"is in use, process {writing.process} holds its lock" in summary.warnings[0]
    assert end <= summary.log_end <= storage.planned < storage.ends[-1]
    # the same as of a copy whose log ends there
    copy = tmp_path / "copy"
    shutil.copytree(writing.store / "commitlog", copy / "commitlog")
    for path in (copy / "commitlog").iterdir():
        keep = min(max(summary.log_end - int(path.name), 0), LIVE_SEGMENT)
        os.truncate(path, keep)
        os.truncate(path, LIVE_SEGMENT)
    expected = rebuild(copy, tmp_path / "expected")
    assert expected.log_end == summary.log_end
    assert difference(tmp_path / "output", tmp_path / "expected") is None
    assert summary.messages == expected.messages > 400


def test_what_is_full_by_the_time_of_the_end_stays_as_it_was_then(writing: Writing) -> None:
    """It was the last segment when the log was listed, and was written to before the end was."""
    writing.append(100)
    storage = Busy(writing)
    listing = storage.list
    grown: list[int] = []

    def grows(folder: str) -> Any:
        found = listing(folder)
        while folder.endswith("/commitlog") and len(grown) < 4:
            grown.append(writing.append(255))
        return found

    storage.list = grows  # type: ignore[method-assign]
    made = plan.make_plan(
        StoreAt(storage, str(writing.store)), Discovered("5.3.3", SETTINGS), LOOK, 2
    )
    assert made.splits.limit is not None
    assert made.splits.limit >= LIVE_SEGMENT
    for segment in made.segments:
        reader = LocalStorage().open(segment.path, segment.state)
        reader.close()


def test_a_log_that_grows_without_a_lock_fails(writing: Writing, tmp_path: Path) -> None:
    writing.append(100)
    (writing.store / "lock").unlink()  # as with a release that has none
    with pytest.raises(StoreChanged):
        rebuild(writing.store, tmp_path / "output", storage=Busy(writing))


def test_who_holds_a_lock(writing: Writing, tmp_path: Path) -> None:
    writing.append(1)
    lock = str(writing.store / "lock")
    assert lock_holder(lock) == writing.process
    assert lock_holder(str(tmp_path / "none")) is None
    with open_writer(tmp_path / "ours"):
        assert lock_holder(str(tmp_path / "ours" / "lock")) == os.getpid()
        assert lock_holder(str(tmp_path / "ours" / "lock")) == os.getpid()  # asking lets go of none
    assert lock_holder(str(tmp_path / "ours" / "lock")) is None


class Unveiling(LocalStorage):
    """The last record's end is there only from the third look on, as while it is copied in."""

    def __init__(self, segment: Path, at: int) -> None:
        super().__init__()
        self.segment, self.at, self.looks = segment, at, 0
        with segment.open("r+b") as file:
            file.seek(at)
            self.rest = file.read(80)
            file.seek(at)
            file.write(bytes(80))

    def open(self, path: str, state: Any = None) -> LocalReader:
        self.looks += 1
        if self.looks == 5:
            with self.segment.open("r+b") as file:
                file.seek(self.at)
                file.write(self.rest)
        return super().open(path, state)


def test_a_record_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    with open_writer(tmp_path, **SETTINGS) as writer:
        for number in range(5):
            writer.append(Message("T", b"b" * 500, keys=f"k{number}"))
        end = writer.log.end
    made = plan.make_plan(
        StoreAt(LocalStorage(), str(tmp_path)), Discovered("5.3.3", SETTINGS), LOOK, 2
    )
    rules = scan_rules(made.profile, made.settings, ())
    storage = Unveiling(tmp_path / "commitlog" / f"{0:020d}", end - 400)
    segments = find_segments(storage, [str(tmp_path / "commitlog")], LIVE_SEGMENT)
    assert plan.log_end_now(storage, segments, rules) == plan.LiveEnd(end, True)
    assert storage.looks >= 5
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(end)
        file.write(b"\x00\x00\x00\x70 no record")
    segments = find_segments(storage, [str(tmp_path / "commitlog")], LIVE_SEGMENT)
    assert plan.log_end_now(storage, segments, rules) == plan.LiveEnd(end, False)


# --- Whether a segment changed while it was read: by its size, its time, and the file itself.
def touched(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def put_anew(path: Path) -> None:
    shutil.copy2(path, path.with_name("copy")).replace(path)


@pytest.mark.parametrize("change", [
    touched, put_anew, Path.unlink, lambda path: path.write_bytes(path.read_bytes() + b"\0"),
])  # fmt: skip
def test_any_change_of_a_segment_is_seen(change: Callable[[Path], Any], tmp_path: Path) -> None:
    store = write_log(tmp_path / "store", build_log([message(n) for n in range(60)], SEGMENT))
    at = store_at(str(store), "5.3.3", {"mappedFileSizeCommitLog": str(SEGMENT)})
    made = plan.make_plan(at, discover(at, LOOK), LOOK)
    growing = replace(made, segments=may_grow(made.segments, -1))
    (store / "commitlog" / f"{2 * SEGMENT:020d}").write_bytes(bytes(SEGMENT))  # a new one is none
    plan.check_unchanged(made)
    change(path := Path(made.segments[-1].path))
    with pytest.raises(StoreChanged, match=f"^{path}: changed"):
        plan.check_unchanged(made)
    if change is touched:  # a segment that a broker writes to may have another time only
        plan.check_unchanged(growing)
    elif change is put_anew:
        with pytest.raises(StoreChanged):
            plan.check_unchanged(growing)


# --- What a set's queues and index are made as: as asked for, else as the store has them.
FILES = f"consumequeue/T/0/{0:020d}"
ROCKSDB, OTHER_ROCKSDB = "consumequeue/CURRENT", "consumequeue_rocksdb/CURRENT"


def queue_plan(*there: str, purpose: Purpose = REBUILD, **given: str) -> plan.Plan:
    log = build_log(messages(3), QUEUE_SEGMENT)
    files = {f"{STORE}/commitlog/{at:020d}": raw for at, raw in log.items()}
    storage = MemoryStorage(files | {f"{STORE}/{path}": b"x" for path in there})
    at = StoreAt(storage, STORE, "5.5.1", as_text({**QUEUE_SETTINGS, **given}))
    return plan.make_plan(at, discover(at, purpose), purpose)


TABLE, APART = "consumequeue/000009.sst", "useSeparateStorePathForRocksdbCQ"
SELECTIVE, PREFERS = "rocksdbCQSelectiveDoubleWriteEnable", "combineCQPreferCQType"


@pytest.mark.parametrize(
    ("there", "given", "todo"),
    [
        ((ROCKSDB, TABLE), {"storeType": "defaultRocksDB", APART: "true"}, f"set {APART}=false"),
        ((OTHER_ROCKSDB,), {"storeType": "defaultRocksDB", APART: "false"}, f"set {APART}=true"),
        ((OTHER_ROCKSDB,), {"storeType": "defaultRocksDB", APART: "true"}, ""),
        ((ROCKSDB, TABLE), {"storeType": "defaultRocksDB", APART: "false"}, ""),
        ((ROCKSDB, TABLE), {"storeType": "defaultRocksDB"}, ""),
        ((ROCKSDB, TABLE), {"storeType": "default"}, "set storeType=defaultRocksDB"),
        ((ROCKSDB, TABLE), {"storeType": "default", "rocksdbCQDoubleWriteEnable": "true"}, ""),
        ((ROCKSDB, TABLE, FILES), {"storeType": "default"}, ""),
        ((ROCKSDB,), {"storeType": "default"}, ""),  # a broker that only opened one
        ((ROCKSDB, TABLE), {}, ""),
        ((FILES,), {SELECTIVE: "true", PREFERS: "defaultRocksDB"}, f"set {PREFERS}=default"),
        ((FILES,), {SELECTIVE: "true"}, ""),
    ],
)
def test_rows_that_a_broker_refuses_or_does_not_read_are_named(there, given, todo: str) -> None:
    found = queue_plan(*there, purpose=CHECK, **given).findings
    assert [each.todo for each in found] == ([todo] if todo else [])


def test_queues_and_index_are_made_as_the_store_has_them_or_as_is_asked() -> None:
    for there, store_type, kind in [
        ((), "default", "files"), ((), "defaultRocksDB", "rocksdb"),
        ((FILES,), "default", "files"), ((ROCKSDB,), "default", "rocksdb"),
        ((OTHER_ROCKSDB,), "default", "rocksdb"), ((FILES, ROCKSDB), "defaultRocksDB", "rocksdb"),
    ]:  # fmt: skip
        found = queue_plan(*there, storeType=store_type)
        kinds = [plan.kind_of_queues(found, asked, "out") for asked in (None, "files", "rocksdb")]
        assert kinds == [kind, "files", "rocksdb"]
    both = queue_plan(FILES, ROCKSDB)  # the caller or the user says which
    with pytest.raises(SettingError, match="--queues files, or --queues rocksdb"):
        plan.kind_of_queues(both, None, "out")
    assert plan.kind_of_queues(both, None, "out", of_both="files") == "files"
    assert plan.kind_of_queues(both, "rocksdb", "out", of_both="files") == "rocksdb"
    for rocksdb in ("true", "false"):
        for files in ("true", "false"):  # in RocksDB where that is its only place
            found = queue_plan(indexRocksDBEnable=rocksdb, indexFileWriteEnable=files)
            kinds = [
                plan.kind_of_index(found, asked, "out") for asked in (None, "files", "rocksdb")
            ]
            only = (rocksdb, files) == ("true", "false")
            assert kinds == ["rocksdb" if only else "files", "files", "rocksdb"]
    with pytest.raises(SettingError, match="queues=leveldb: there are files and rocksdb"):
        plan.kind_of_queues(queue_plan(), "leveldb", "out")
    with pytest.raises(SettingError, match="index=Files: there are files and rocksdb"):
        plan.kind_of_index(queue_plan(), "Files", "out")
    with pytest.raises(SettingError, match="there are default and defaultRocksDB"):
        plan.kind_of_queues(queue_plan(storeType="tiered"), None, "out")


def test_a_command_that_changes_no_rocksdb_says_how_far_its_queues_go(tmp_path: Path) -> None:
    store, _ = unpack("alone_5.5.0", tmp_path)
    with pytest.raises(StoreError, match=r"its queues hold the log up to [\d,]+; a broker"):
        plan.refuse_rocksdb(Folder(LocalStorage(), str(store)))
    (store / "consumequeue" / "CURRENT").write_bytes(b"no such file\n")
    plan.refuse_rocksdb(Folder(LocalStorage(), str(store)))
    plan.refuse_rocksdb(Folder(LocalStorage(), str(tmp_path)))
