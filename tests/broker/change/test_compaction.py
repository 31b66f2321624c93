"""`compaction/` brought to the log: what a broker's dispatch would have put there, and no more.

tests/rocketmq/test_queue_logs.py compares it with what RocketMQ makes of the same log.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import reput
from reput.broker.change.compaction import Settled, settle
from reput.jobs import cli
from reput.jobs.comparing.compare import verify_queue_log
from reput.store_format.discover.store import store_at
from reput.store_format.files.adapters import FilesRead
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import Files
from reput.store_format.layouts import BATCH_QUEUE_ENTRY, BATCH_QUEUE_ENTRY_BYTES
from reput.store_format.notes import Notes
from reput.store_format.query.compacted import compacted_topics, compaction_faults, hole_faults
from reput.store_format.query.reader import OpenedStore
from reput.store_format.release.settings import Settings, settings_from
from tests.faults.failing import judge_all, same_again
from tests.faults.memory_files import Crash, MemoryFiles, crash_states

pytestmark = pytest.mark.usefixtures("commands_in_process")
TOPIC = "Comp"
ENTRIES = 6  # of a queue file, the last one of no message
GIVEN = {"mappedFileSizeCommitLog": "16384", "mappedFileSizeConsumeQueue": "200",
         "maxHashSlotNum": "10", "maxIndexNum": "40", "compactionMappedFileSize": "2000",
         "compactionCqMappedFileSize": str(ENTRIES * BATCH_QUEUE_ENTRY_BYTES)}  # fmt: skip
LOG, QUEUE = f"compaction/compactionLog/{TOPIC}/0", f"compaction/compactionCq/{TOPIC}/0"
POSITIONS = "compaction/position-checkpoint"
ATTRIBUTES = {TOPIC: {"cleanup.policy": "COMPACTION"}, "Plain": {}}


def a_store(folder: Path, *parts: int, dispatched: int = 1 << 62) -> Path:
    """One that a writer appends to in parts. Every fifth message has no KEYS; between them are
    those of another topic. dispatched: parts that end later are in the log alone.
    """
    (folder / "config").mkdir(parents=True)
    topics = {name: {"topicName": name, "attributes": about} for name, about in ATTRIBUTES.items()}
    (folder / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": topics}))
    first = 0
    for end in parts:
        with reput.open_writer(str(folder), rocketmq="5.3.3", settings=GIVEN,
                               dispatches=end <= dispatched) as writer:  # fmt: skip
            for n in range(first, end):
                keys, body = f"key{n % 7}" if n % 5 else " ", b"x" * (n % 90)
                writer.append(reput.Message(TOPIC, body, queue_id=0, tags="A", keys=keys))
                writer.append(reput.Message("Plain", b"y", queue_id=0, keys=f"p{n}"))
        first = end
    return folder


def in_memory(store: Path, compacted: Path | None = None) -> MemoryFiles:
    """The files of a store, with the `compaction/` of another one, or none."""
    files = MemoryFiles()
    for folder, own in ((store, False), *([(compacted, True)] if compacted else [])):
        for there in sorted(folder.rglob("*")):
            path = there.relative_to(folder).as_posix()
            if there.is_file() and path.startswith("compaction/") == own:
                files.make_folder(path.rpartition("/")[0])
                files.create(path).write_at(0, there.read_bytes())
    return same_again(files)


def settled(files: Files, given: dict[str, str] = GIVEN) -> Settled:
    return settle(files, Folder(FilesRead(files), ""), "5.3.3", given, Notes())


def compaction(files: MemoryFiles) -> dict[str, bytes]:
    return {path: bytes(files.contents[n]) for path,
            n in files.names_of.items() if path.startswith("compaction/")}  # fmt: skip


def offsets(files: MemoryFiles) -> list[int]:
    """The queueOffsets that `compaction/` has, in the order of its files."""
    found = []
    for path, raw in sorted(compaction(files).items()):
        if path.startswith(QUEUE):
            entries = np.frombuffer(raw, BATCH_QUEUE_ENTRY)
            found += entries["baseOffset"][entries["size"] > 0].tolist()
    return found


def wanted(*numbers: int) -> list[int]:
    return [n for n in range(*numbers) if n % 5]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> "Stores":
    made: dict[int, Path] = {}

    def store(count: int) -> Path:
        if count not in made:
            made[count] = a_store(tmp_path_factory.mktemp("compacted") / "store", count)
        return made[count]

    return store


Stores = Callable[[int], Path]


def test_a_store_without_it_gets_a_log_of_what_has_keys_and_none_of_another_topic(stores) -> None:
    files = in_memory(stores(30))
    assert settled(files) == Settled(24, 0)
    assert offsets(files) == wanted(30)
    assert len({path for path in compaction(files) if path.startswith(LOG)}) == 5
    assert settled(files) == Settled()
    report = verify_queue_log(store_at(f"compacted:{stores(30)}/{LOG}"))
    assert report.same, report.differences
    # A broker does not start on files of two lengths.
    files = in_memory(stores(30), stores(13))
    lengths = {len(raw) for raw in compaction(files).values()}
    assert settled(files, {**GIVEN, "compactionMappedFileSize": "9000"}) == Settled(14, 0)
    assert {len(raw) for raw in compaction(files).values()} == lengths
    assert len(lengths) == 2


def test_a_writer_ends_with_it_and_goes_on_behind_its_last_message(tmp_path: Path) -> None:
    store = a_store(tmp_path / "store", 13, 30)
    made = in_memory(store)
    settled(made)
    assert offsets(made) == wanted(30)
    assert compaction(made) == compaction(in_memory(store, store))


@pytest.mark.parametrize("have", [23, 13, 2])
def test_what_the_log_lost_is_cut_off_and_kept(stores: Stores, have: int) -> None:
    files = in_memory(stores(have), stores(30))
    gone = len(wanted(have, 30))
    assert settled(files) == Settled(0, gone)
    assert offsets(files) == wanted(have)
    kept = [path for path in files.names_of if path.startswith(f"reput-cut/{LOG}/")]
    assert sum(bytes(files.contents[files.names_of[p]]).count(b"KEYS") for p in kept) == gone
    same_names(files)


def same_names(files: MemoryFiles) -> None:
    """A broker does not start where a log's file has no queue file, or the other way round."""
    logs, queues = ({p.rpartition("/")[2] for p in compaction(files) if p.startswith(folder)}
                    for folder in (LOG, QUEUE))  # fmt: skip
    assert logs == queues


def test_the_log_lost_all_of_a_queue_or_some_that_counted_as_compacted(stores: Stores) -> None:
    """In a log from 0 on it had no message; in another one, they may all have expired."""
    files = in_memory(stores(13), stores(30))
    for path in [path for path in files.names_of if path.startswith(f"consumequeue/{TOPIC}/")]:
        files.remove(path)
    for name in (f"consumequeue/{TOPIC}/0", f"consumequeue/{TOPIC}"):
        files.remove(name)
    assert settled(files) == Settled(0, 24)
    assert offsets(files) == []
    same_names(files)
    files = in_memory(stores(13), stores(30))
    noted = {"empty": False, "queueOffsetMap": {f"{TOPIC}_0": 20, "Other_0": 99}}
    files.create(POSITIONS).write_at(0, json.dumps(noted).encode())
    settled(files)
    raw = compaction(files)[POSITIONS]
    assert json.loads(raw)["queueOffsetMap"] == {f"{TOPIC}_0": 12, "Other_0": 99}


@pytest.mark.parametrize("had", [None, 10, 30])
def test_a_crash_leaves_what_the_next_run_ends(stores: Stores, had: int | None) -> None:
    """As all is written, or what the log lost is cut off. In the end all is durable."""
    before = in_memory(stores(9), stores(had) if had else None)
    if had:
        noted = json.dumps({"queueOffsetMap": {f"{TOPIC}_0": 20}}).encode()
        before.create(POSITIONS).write_at(0, noted)
        last = max(path for path in compaction(before) if path.startswith(LOG))
        size = len(compaction(before)[last])
        for folder, length in ((LOG, size), (QUEUE, ENTRIES * BATCH_QUEUE_ENTRY_BYTES)):
            before.create(f"{folder}/{int(last[-20:]) + size:020d}", length)
        before = same_again(before)
    files = same_again(before)
    settled(files)
    ops, told = list(files.ops), compaction(files)
    assert offsets(files) == wanted(9)
    durable = set(before.contents)  # with their lengths, which the next run does not put right
    for op in ops:
        durable |= {op.inode} if op.kind == "sync" else set()
        assert op.kind != "write" or op.inode in durable or not op.path.startswith((LOG, QUEUE))

    def judge(crash: Crash) -> str:
        assert crash.after < len(ops) or compaction(crash.files) == told
        cut_back = any(o > 8 for o in offsets(before)) and all(o < 9 for o in offsets(crash.files))
        position = compaction(crash.files).get(POSITIONS, b"")
        assert not cut_back or position == told[POSITIONS]
        settled(crash.files)
        assert offsets(crash.files) == wanted(9)
        same_names(crash.files)
        there = compaction(crash.files)
        assert all(there[path] == raw for path, raw in told.items() if path.startswith(LOG))
        return "whole"

    assert judge_all(crash_states(before, ops, 1, 2), ops, judge)["whole"] > 50


def test_what_is_behind_ahead_or_has_a_hole_is_told(stores) -> None:
    for have, had, why in [
        (30, 30, ""), (30, None, "lacks the messages from queueOffset 1 on"),
        (30, 13, "lacks the messages from queueOffset 13 on"),
        (13, 30, "up to queueOffset 29, 17 positions past the queue's end")]:  # fmt: skip
        files = FilesRead(in_memory(stores(have), stores(had) if had else None))
        with OpenedStore(Folder(files, ""), "5.3.3", GIVEN, Notes()) as opened:
            found = [each.text for each in compaction_faults(opened, [TOPIC])]
        assert len(found) == bool(why)
        assert why in "".join(found)
    # Of the second file's messages newer ones have the keys, as after a compaction.
    for file, hole in [(None, ""), (1, ""), (2, "18 on, 1 of them")]:
        files = in_memory(stores(30), stores(30))
        for folder in (LOG, QUEUE) if file is not None else ():
            files.remove(sorted(path for path in files.names_of if path.startswith(folder + "/"))[
                file])  # fmt: skip
        with OpenedStore(Folder(FilesRead(files), ""), "5.3.3", GIVEN, Notes()) as opened:
            found = [each.text for each in hole_faults(opened, [TOPIC])]
            assert not list(compaction_faults(opened, [TOPIC]))
        assert len(found) == bool(hole)
        assert hole in "".join(found)


def test_an_entry_without_its_record_and_a_file_of_half_its_length_are_told(stores: Stores) -> None:
    for kind, at, bad in [(LOG, None, 1), (LOG, 20, 1), (QUEUE, 30, 1), (LOG, 90, 0)]:
        files = in_memory(stores(30), stores(30))
        path = min(path for path in files.names_of if path.startswith(kind + "/"))
        if at is None:  # gone, as one of NULs
            files.contents[files.names_of[path]][:] = bytes(
                len(files.contents[files.names_of[path]]))  # fmt: skip
        else:
            files.contents[files.names_of[path]][at] ^= 0x5A
        with OpenedStore(Folder(FilesRead(files), ""), "5.3.3", GIVEN, Notes()) as opened:
            found = [each.text for each in hole_faults(opened, [TOPIC])]
        assert ["has no record of queueOffset" in each for each in found] == [True] * bad
    for kind in [LOG, QUEUE]:
        files = in_memory(stores(30), stores(30))
        raw = files.contents[
            files.names_of[min(p for p in files.names_of if p.startswith(f"{kind}/"))]]  # fmt: skip
        del raw[len(raw) // 2 :]
        with OpenedStore(Folder(FilesRead(files), ""), "5.3.3", GIVEN, Notes()) as opened:
            found = [each.text for each in hole_faults(opened, [TOPIC])]
        assert (f"of {kind.split('/')[1]} has {len(raw):,} bytes, others {2 * len(raw):,}" in found[
            0])  # fmt: skip


def test_a_broker_compacts_from_5_1_0_on_unless_it_is_told_not_to(stores: Stores) -> None:
    for release, given, topics in [("5.3.3", {}, [TOPIC]), ("5.0.0", {}, []), (
        "5.3.3", {"enableCompaction": "false"}, [])]:  # fmt: skip
        files = FilesRead(in_memory(stores(30)))
        assert compacted_topics(Folder(files, ""), settings_from(given), release) == topics
    files = MemoryFiles()
    files.make_folder("config")
    table = {"topicConfigTable": {"../x": {"attributes": ATTRIBUTES[TOPIC]}}}
    files.create("config/topics.json").write_at(0, json.dumps(table).encode())
    assert compacted_topics(Folder(FilesRead(files), ""), Settings(), "5.3.3") == []


SIZES = [word for name, text in GIVEN.items() for word in ("--set", f"{name}={text}")]


def copied(store: Path, to: Path, folders: tuple[str, ...] = ("commitlog", "config")) -> Path:
    """A store that is copied in part; those of a move are what docs/convert.md tells."""
    for folder in folders:
        shutil.copytree(store / folder, to / folder)
    return to


def test_install_recover_and_repair_bring_it_to_the_log(stores: Stores, tmp_path: Path) -> None:
    store, to = copied(stores(30), tmp_path / "store"), str(tmp_path / "set")
    words = ["rebuild", str(store), "--output", to, "--rocketmq", "5.3.3", *SIZES]
    assert cli.main(words) == 0
    assert cli.main(["install", to, str(store), "--yes"]) == 0
    assert compaction(in_memory(store, store)) == compaction(in_memory(stores(30), stores(30)))
    (tmp_path := tmp_path / "1").mkdir()
    folders = ("commitlog", "config", "consumequeue", "index")
    store, to = copied(stores(30), tmp_path / "store", folders), tmp_path / "repaired"
    words = ["--rocketmq", "5.3.3", *SIZES]
    assert cli.main(["repair", str(store), "--output", str(to), *words]) == 0
    assert cli.main(["recover", str(store), "--yes", *words]) == 0
    told = compaction(in_memory(stores(30), stores(30)))
    assert compaction(in_memory(store, store)) == told
    assert compaction(in_memory(to, to)) == told
    (tmp_path := tmp_path / "2").mkdir()
    store = a_store(tmp_path / "store", 13, 30, dispatched=13)
    assert offsets(in_memory(store, store)) == wanted(13)
    assert cli.main(["catch-up", str(store), "--yes", "--rocketmq", "5.3.3", *SIZES]) == 0
    assert offsets(in_memory(store, store)) == wanted(30)


def test_a_converted_store_keeps_it_and_a_renamed_topic_gets_its_own(stores, tmp_path) -> None:
    words = ["convert", str(stores(30)), "--rocketmq", "5.3.3", *SIZES, "--output"]
    size, told = "mappedFileSizeCommitLog=32768", compaction(in_memory(stores(30), stores(30)))
    assert cli.main([*words, str(tmp_path / "larger"), "--to-set", size]) == 0
    assert compaction(in_memory(tmp_path / "larger", tmp_path / "larger")) == told
    new = tmp_path / "renamed"
    assert cli.main([*words, str(new), "--rename", f"{TOPIC}=Other"]) == 0
    assert not (new / LOG).exists()
    assert len([*(new / LOG.replace(TOPIC, "Other")).iterdir()]) == 5
