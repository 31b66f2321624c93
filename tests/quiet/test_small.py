"""Small healthy stores of which nothing is said, and the smallest fault in them that is."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from reput.jobs.install import install_set
from reput.store_format.derived.checkpoint import Checkpoint, encode
from reput.store_format.faults import DamageFound, StoreError
from reput.store_format.files.local import LocalStorage
from reput.store_format.layouts import INDEX_ENTRY_BYTES, PRE_BLANK, QUEUE_ENTRY_BYTES
from reput.store_format.message.message import Message
from reput.store_format.release.settings import SettingError
from reput.udfs.compare.files import LOOK, LookAtFiles
from tests import golden_stores
from tests.broker.writer.stores import Clock, open_writer, stored_records
from tests.in_process import as_text
from tests.in_process import run as rebuild
from tests.jobs.opening.writing import SEGMENT, SETTINGS
from tests.jobs.recovering import crash
from tests.quiet.said import run_check, run_recover, run_verify, said
from tests.quiet.small_stores import made
from tests.trees import flip, states, write_over

VERSION = "5.3.3"
SLOTS, INDEX_NUM = int(SETTINGS["maxHashSlotNum"]), int(SETTINGS["maxIndexNum"])
ENTRIES_AT = 40 + 4 * SLOTS  # of an index file
GOLDEN = ["small_all_4.1.0", "small_all_4.9.7", "small_all_5.3.3", "small_all_5.4.0",
          "small_all_5.5.0", "small_expired_5.3.3", "expired_5.3.3", "small_lmq_batch_5.5.0",
          "small_crc_5.4.0"]  # fmt: skip


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("quiet") / "store", tags="t")


@pytest.fixture
def store(grown: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(grown, tmp_path / "store"))


def expire(store: Path, segments: int) -> int:
    """Delete the log's first segments, as RocketMQ does; returns where the log starts then."""
    paths = sorted((store / "commitlog").iterdir())
    for path in paths[:segments]:
        path.unlink()
    return int(paths[segments].name)


@pytest.fixture(params=[1, 2, 3])
def expired(grown: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    store = tmp_path / "store"
    shutil.copytree(grown, store)
    expire(store, request.param)
    return store


def quiet(store: Path, version: str = VERSION, settings: object = None) -> None:
    before = states(store)
    assert said(store, version, settings or SETTINGS) == []  # type: ignore[arg-type]
    assert states(store) == before


@pytest.mark.parametrize("name", GOLDEN)
def test_what_rocketmq_derived(name: str, tmp_path: Path) -> None:
    store, golden = golden_stores.whole(name, tmp_path)
    if (golden.expect / "checkpoint").exists():
        shutil.copy(golden.expect / "checkpoint", store / "checkpoint")
    lines = said(store, golden.version, golden.settings)
    lines = [line for line in lines if not line.startswith("recover: " + str(store) + " was")]
    if not (store / "checkpoint").exists():  # what recovery then writes
        lines = [line for line in lines if "would recover" not in line]
    assert lines == []


# --- a store whose oldest segments have expired ----------------------------------------------
def test_what_has_expired_is_no_fault(expired: Path) -> None:
    """Nor where RocketMQ has cleaned it."""
    quiet(expired)
    report = run_check(expired, VERSION, SETTINGS)
    assert [path for path in report.expired if "/index/" in path]
    assert report.expired == run_verify(expired, VERSION, SETTINGS).expired
    assert report.expired == run_recover(expired, VERSION, SETTINGS).expired
    assert "cleaning removes next" in " ".join(report.notes)
    # the last file of a queue, and of the index, is never cleaned
    assert not [path for path in report.expired if "/Idle/" in path]
    for path in report.expired:
        Path(path).unlink()
    quiet(expired)
    assert run_check(expired, VERSION, SETTINGS).expired == []


def test_nor_after_a_recovery_or_an_installation(expired: Path, tmp_path: Path) -> None:
    rebuild(str(expired), str(tmp_path / "set"), rocketmq=VERSION, settings=as_text(SETTINGS))
    install_set(str(expired), str(tmp_path / "set"))
    quiet(expired)
    shutil.rmtree(expired / "index")
    crash(expired)
    assert run_recover(expired, VERSION, SETTINGS, dry_run=False).done
    quiet(expired)


def test_a_flipped_bit_is_found_by_all_and_mended(expired: Path) -> None:
    last = [max((expired / folder).iterdir()) for folder in ("index", QUEUE)]
    *_, record = (each for each in stored_records(expired / "commitlog")
                  if (each.topic, each.queue_id) == ("T0", 0))  # fmt: skip
    flip(last[0], ENTRIES_AT + INDEX_ENTRY_BYTES + 3)  # the first entry's keyHash
    flip(last[1], record.queue_offset * QUEUE_ENTRY_BYTES % 2000 + 19)  # the last one's tagsCode
    assert not run_check(expired, VERSION, SETTINGS).sound
    found = run_verify(expired, VERSION, SETTINGS).differences
    assert {each.path for each in found} == set(map(str, last))
    assert run_recover(expired, VERSION, SETTINGS).needed
    assert run_recover(expired, VERSION, SETTINGS, dry_run=False).done
    quiet(expired)


# --- what running and killed brokers leave ---------------------------------------------------
def spare_segment(store: Path) -> None:
    last = max(int(path.name) for path in (store / "commitlog").iterdir())
    (store / "commitlog" / f"{last + SEGMENT:020d}").write_bytes(bytes(SEGMENT))


def behind(store: Path) -> None:
    """Killed before the last messages were dispatched."""
    last = list(stored_records(store / "commitlog"))[-4:]
    for record in last:
        folder = store / "consumequeue" / record.topic / str(record.queue_id)
        at, size = divmod(record.queue_offset * QUEUE_ENTRY_BYTES, 2000)
        path = folder / f"{at * 2000:020d}"
        write_over(path, size, bytes(QUEUE_ENTRY_BYTES))
    crash(store)


def clock_set_back(store: Path) -> None:
    """Killed before a checkpoint was written after it: the newest message is not the last."""
    clock = Clock(1_700_010_000_000)
    with open_writer(store, clock, **SETTINGS) as writer:
        writer.append(Message("T0", b"b" * 60))
        newest = clock.now
        clock.now -= 3_600_000
        writer.append(Message("T0", b"b" * 60))
    (store / "checkpoint").write_bytes(encode(Checkpoint(newest, newest, 0)))
    crash(store)
    spare_segment(store)


def topic_deleted(store: Path) -> None:
    shutil.rmtree(store / "consumequeue" / "T1")
    (store / "config").mkdir()
    names = '{"topicConfigTable": {"T0": {}, "Idle": {}}}'
    (store / "config" / "topics.json").write_text(names)


def topic_deleted_by_backup(store: Path) -> None:
    """A broker reads topics.json.bak where topics.json is missing (ConfigManager.load)."""
    topic_deleted(store)
    (store / "config" / "topics.json").rename(store / "config" / "topics.json.bak")


LEFT = [spare_segment, behind, crash, clock_set_back, topic_deleted,
        topic_deleted_by_backup]  # fmt: skip


@pytest.mark.parametrize("leave", LEFT, ids=[leave.__name__ for leave in LEFT])
def test_what_a_broker_leaves(store: Path, leave: Callable[[Path], None], tmp_path: Path) -> None:
    leave(store)
    quiet(store)
    summary = rebuild(str(store), str(tmp_path / "set"), rocketmq=VERSION,
                      settings=as_text(SETTINGS))  # fmt: skip
    assert summary.warnings == []
    if (store / "abort").exists():
        assert run_recover(store, VERSION, SETTINGS, dry_run=False).done
        quiet(store)


def test_a_deleted_topic_is_not_brought_back(store: Path) -> None:
    topic_deleted(store)
    crash(store)
    run_recover(store, VERSION, SETTINGS, dry_run=False)
    assert not (store / "consumequeue" / "T1").exists()
    # without a list of topics nobody knows that it was deleted
    shutil.rmtree(store / "config")
    missing = run_verify(store, VERSION, SETTINGS).differences
    assert {each.text().rpartition(": ")[2] for each in missing} == {"the file is missing"}
    assert len(missing) == 6  # three queues of two files


def test_what_is_missing_after_a_clean_stop_is_a_fault(store: Path) -> None:
    behind(store)
    (store / "abort").unlink()
    assert len(run_verify(store, VERSION, SETTINGS).differences) == 4


# --- extra files of zeros --------------------------------------------------------------------
QUEUE = "consumequeue/T0/0"


def next_queue_file(store: Path) -> Path:
    folder = store / QUEUE
    return folder / f"{max(int(path.name) for path in folder.iterdir()) + 2000:020d}"


# A queue file of a wrong length: RocketMQ does not load the store ("length not matched message
# store config value"). An index file: a query with a begin time goes no further back than to it.
@pytest.mark.parametrize(("name", "size", "says"), [
    ("next", 0, "file length: is 0, should be 2000"),
    ("next", 1000, "file length: is 1000, should be 2000"),
    ("next", 4000, "file length: is 4000, should be 2000"),
    ("index/20990101000000000", ENTRIES_AT + INDEX_NUM * INDEX_ENTRY_BYTES,
     "the log gives no such file"),
    (f"{QUEUE}/{2000 * 50:020d}", 2000, "the log gives no such file"),  # behind a hole
], ids=["empty", "short", "long", "index", "hole"])  # fmt: skip
def test_a_file_of_zeros_too_many_is_reported_and_goes(store: Path, name, size, says) -> None:
    path = next_queue_file(store) if name == "next" else store / name
    path.write_bytes(bytes(size))
    for report in (run_check(store, VERSION, SETTINGS), run_verify(store, VERSION, SETTINGS)):
        assert says in report.differences[0].text()
    about = run_recover(store, VERSION, SETTINGS, dry_run=False)
    assert about.removed == [str(path.relative_to(store))]
    assert not path.exists()
    quiet(store)


def test_a_queues_next_file_of_zeros_is_noted_and_goes(store: Path) -> None:
    """A kill leaves it; brokers count entries in it (#9728) or do not start (#10108)."""
    path = next_queue_file(store)
    path.write_bytes(bytes(2000))
    report = run_check(store, VERSION, SETTINGS)
    assert report.sound
    assert any(note.startswith(f"1 queue file of zeros only at a queue's end, from {path}")
               for note in report.notes)  # fmt: skip
    about = run_recover(store, VERSION, SETTINGS, dry_run=False)
    assert about.removed == [str(path.relative_to(store))]
    assert not path.exists()
    quiet(store)


# --- a torn tail -----------------------------------------------------------------------------
@pytest.mark.parametrize("durable", [False, True])
def test_what_was_not_durable_is_cut_without_asking(store: Path, durable: bool) -> None:
    """A sector of a record in the middle of what was not synced is lost, later ones are there."""
    records = list(stored_records(store / "commitlog"))
    torn = records[-20]
    segment, at = divmod(torn.physical_offset, SEGMENT)
    with (store / "commitlog" / f"{segment * SEGMENT:020d}").open("r+b") as file:
        file.seek(at)
        file.write(bytes(40))
    known = records[-1].store_timestamp if durable else torn.store_timestamp
    (store / "checkpoint").write_bytes(encode(Checkpoint(known, known, 0)))
    crash(store)
    if durable:
        with pytest.raises(DamageFound, match="live records follow"):
            run_recover(store, VERSION, SETTINGS)
        return
    about = run_recover(store, VERSION, SETTINGS, dry_run=False)
    assert about.log_end == torn.physical_offset
    assert (store / "reput-cut").exists()
    quiet(store)
    with open_writer(store, **SETTINGS) as writer:  # the writer's recovery agrees
        assert writer.log.end == torn.physical_offset


# --- stores of other kinds -------------------------------------------------------------------
@pytest.mark.parametrize(("name", "says"),
                         [("consumequeue_ext/T0/0/00000000000000000000", "ConsumeQueueExt"),
                          ("consumequeue/CURRENT", "RocksDB"),
                          ("consumequeue_rocksdb/CURRENT", "RocksDB")])  # fmt: skip
def test_what_reput_does_not_build_is_refused_by_name(store: Path, name: str, says: str,
                                                      tmp_path: Path) -> None:  # fmt: skip
    rebuild(str(store), str(tmp_path / "set"), rocketmq=VERSION, settings=as_text(SETTINGS))
    (store / name).parent.mkdir(parents=True, exist_ok=True)
    (store / name).write_bytes(b"x")
    before = states(store)
    for look in (run_check, run_verify):  # these compare what is in RocksDB, and say if they cannot
        if says == "RocksDB":
            reported = look(store, VERSION, SETTINGS)
            assert any("RocksDB cannot be read" in each.text() for each in reported.differences)
            continue
        with pytest.raises(StoreError, match=says):
            look(store, VERSION, SETTINGS)
    with pytest.raises(StoreError, match=says):
        run_recover(store, VERSION, SETTINGS)
    with pytest.raises((StoreError, SettingError), match=says):  # queues are there in files too
        rebuild(str(store), str(tmp_path / "new"), rocketmq=VERSION, settings=as_text(SETTINGS))
    if says != "RocksDB":  # which gives way to files, if somebody wants that
        with pytest.raises(StoreError, match=says):
            install_set(str(store), str(tmp_path / "set"))
    with pytest.raises(StoreError, match=says):
        open_writer(store, **SETTINGS)
    assert states(store) == before


def test_a_stray_file_beside_the_topics_is_passed_over(store: Path, tmp_path: Path) -> None:
    (store / "consumequeue" / ".DS_Store").write_bytes(b"x")
    open_writer(store, **SETTINGS).close()
    expire(store, 1)
    before = states(store)
    for line in set(said(store, VERSION, SETTINGS)) - {"the reports contradict themselves"}:
        assert "warning: " in line
        assert "consumequeue/.DS_Store: is not a file of RocketMQ's, which passes it over" in line
    assert states(store) == before
    rebuild(str(store), str(tmp_path / "set"), rocketmq=VERSION, settings=as_text(SETTINGS))
    install_set(str(store), str(tmp_path / "set"))


def test_a_queue_that_a_running_broker_begins_is_no_fault(tmp_path: Path) -> None:
    """What fills its first file is no entry of place 0: all its entries are past our log's end."""
    path = tmp_path / "0"
    entry = np.array((5000, 100, 7), PRE_BLANK.dtype)
    path.write_bytes(PRE_BLANK.tobytes() * 4 + entry.tobytes() + bytes(60))
    asked = [{"path": str(path), "folder": "consumequeue/T/0"}]
    (looked,) = LookAtFiles(LocalStorage())(iter([pa.RecordBatch.from_pylist(asked, LOOK)]))
    (row,) = looked.to_pylist()
    assert (row["least"], row["greatest"], row["zeros"]) == (5000, 5000, False)
