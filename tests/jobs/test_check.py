"""What check reports: every damaged range, what it took, the files; and a picture."""

import json
import re
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.jobs.cli import main
from reput.jobs.judging.shown import details, svg, text
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.verify import verify
from reput.store_format.damage.resync import Prover
from reput.store_format.derived.checkpoint import Checkpoint
from reput.store_format.derived.checkpoint import encode as encode_checkpoint
from reput.store_format.files.protocol import FileState
from reput.store_format.log.records import RecordRules
from tests import golden_stores
from tests.built import write_log
from tests.damaged import SEGMENT, Damaged, damaged, messages, salvage
from tests.golden_stores import as_left
from tests.in_process import OUTPUT, STORE, Session, as_text, rebuild_log, run, storage_of
from tests.jobs.checking import checked, run_check
from tests.logs.encoder import Message, properties
from tests.memory_storage import MemoryReader, MemoryStorage
from tests.store_format.query.bad_files import ENDS, end_chains, entry_at
from tests.trees import flip

CUTS = (1, 2, 7, 64)


def several() -> Damaged:
    log = damaged(messages(200))
    log.flip(10, 5)
    log.flip(60, 90)
    log.put(9000, bytes(700))
    return log


def test_every_range_is_reported_and_shown_however_the_log_is_cut() -> None:
    log = several()
    reports = [checked(log, splits) for splits in CUTS]
    reported = [json.dumps({**each.as_json(), "seconds": 0}) for each in reports]
    assert reported == reported[:1] * len(CUTS)
    ranges = reports[0].damage["ranges"]
    assert [each["kind"] for each in ranges] == ["damaged", "content", "damaged"]
    first = ranges[0]
    wrong = struct.unpack(">i", bytes.fromhex("daa220a7"))[0]
    assert (first["field"], first["value"]) == ("magic", wrong)
    assert first["file"] == f"{STORE}/commitlog/{0:020d}"
    assert (first["offset"], first["length"]) == (log.places[10], 109)
    (gap,) = first["missing"]
    assert (gap["topic"], gap["queue_id"], gap["first"], gap["count"]) == ("T", 1, 3, 1)
    assert reports[0].messages == 192
    lines = [line for each in details(checked(several())) for line in each.splitlines()]
    bars = {line.split()[0]: line.split()[1] for line in lines if "[" in line and "]" in line}
    signs = {name: set(bar.strip("[]")) for name, bar in bars.items()}
    assert signs[f"{0:020d}"] == {"#", "!"}
    assert signs[f"{SEGMENT:020d}"] == {"#", "c"}
    assert signs[f"{5 * SEGMENT:020d}"] == {"#", "."}
    assert "  ... 2 segments without damage" in lines
    assert svg(checked(several())).count("<title>") == 3


def with_derived(log: Damaged) -> MemoryStorage:
    """A store of this log and all that is derived from it."""
    storage = storage_of(log.log)
    for path, content in rebuild_log(log.log).files.items():
        name = path if not path.startswith("index/") else f"index/2023111422132000{path[-1]}"
        storage.files[f"{STORE}/{name}"] = content
    return storage


def test_files_that_are_wrong_are_findings() -> None:
    log = damaged(messages(200))
    storage = storage_of(log.log)
    folder = f"{STORE}/commitlog"
    del storage.files[f"{folder}/{2 * SEGMENT:020d}"]
    short = f"{folder}/{3 * SEGMENT:020d}"
    storage.files[short] = storage.files[short][:1000]
    storage.files[f"{folder}/notes.txt"] = b"x"
    storage.files[f"{folder}/{77:020d}"] = b"x"
    report = checked(log, storage=storage)
    said = " ".join(f"{each.path}: {each.reason}" for each in report.findings)
    for words in ("notes.txt", f"{77:020d}: its name is no multiple", "has 1000 bytes",
                  "a hole before it: 1 segment is missing"):  # fmt: skip
        assert words in said
    # the hole, the record that is cut, and what is not there of its segment
    assert [each["kind"] for each in report.damage["ranges"]] == ["missing", "damaged", "missing"]
    assert report.messages == sum(
        at // SEGMENT not in (2, 3) or (at < 3 * SEGMENT + 1000 - 109 and at >= 3 * SEGMENT)
        for at in log.places
    )


GOLDEN = {"continued_5.3.3": (["damaged", "stale"], 1323), "middle_size_5.3.3": (["damaged"], 1499),
          "middle_crc_5.3.3": (["content"], 1500), "torn_tail_5.3.3": (["damaged"], 1499),
          "garbage_tail_5.3.3": (["damaged"], 1500), "odd_5.3.3": ([], 3000),
          "lmq_batch_5.3.3": ([], None)}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_stores(name: str) -> None:
    store = golden_stores.unpack(name)
    kinds, count = GOLDEN[name]
    reports = [run_check(str(store.input), store.version, store.settings, cut=Cut(size, 2, 2))
               for size in (None, 5000)]  # fmt: skip
    for report in reports:
        assert [each["kind"] for each in report.damage["ranges"]] == kinds
        assert count is None or report.messages == count
    assert reports[0].damage == reports[1].damage


def test_a_crc_property_is_checked_where_there_is_one(tmp_path: Path) -> None:
    """RocketMQ looks at it only with forceVerifyPropCRC; a changed key is found by it alone."""
    log = damaged(messages(20, crc_property=True))
    log.flip(10, log.size(10) - 25)
    (found,) = checked(log).damage["ranges"]
    assert (found["kind"], found["field"]) == ("damaged", "__CRC32#")
    log.settings["forceVerifyPropCRC"] = True
    (found,) = checked(log).damage["ranges"]
    assert (found["kind"], found["field"]) == ("damaged", "__CRC32#")


def test_a_crc_property_of_a_long_record_is_checked_on_a_disk(tmp_path: Path) -> None:
    """Whose files are scanned a MiB at a time: less than the record has."""
    log = damaged(messages(3, crc_property=True, body=bytes(3 << 19)), segment=8 << 20)
    log.flip(1, log.size(1) - 25)
    write_log(tmp_path / "store", {at: bytes(content) for at, content in log.segments.items()})
    (found,) = run_check(str(tmp_path / "store"), log.version, log.settings).damage["ranges"]
    assert (found["kind"], found["field"]) == ("damaged", "__CRC32#")


def test_verify_reads_from_the_manifest_that_a_set_was_salvaged() -> None:
    log = several()
    storage = storage_of(log.log)
    rebuild_log(log.log, on_damage="salvage", storage=storage)
    assert salvage(log.log).summary.messages == 192

    def verified() -> Any:
        return verify(Session(), STORE, against=OUTPUT, rocketmq=log.version,
                      settings=as_text(log.settings), storage=storage)  # type: ignore[arg-type] # fmt: skip

    assert verified().same, verified().text()
    path = f"{OUTPUT}/manifest.json"
    manifest = json.loads(storage.files[path])
    assert manifest["on_damage"] == "salvage"
    assert {(g["queue_id"], g["first"], g["count"]) for g in manifest["damage"]["missing"]} == {
        (1, 3, 1), (0, 27, 3), (1, 27, 2), (2, 27, 2)}  # fmt: skip
    manifest["damage"]["missing"][0]["first"] += 1
    storage.files[path] = json.dumps(manifest).encode()
    assert [each.path for each in verified().differences] == [path]


def nested(size: int) -> bytes:
    """A segment full of records that all claim to end where it ends, one in the other."""
    segment = bytearray(size)
    for at in range(0, size - 200, 96):
        struct.pack_into(">iI", segment, at, size - 8 - at, 0xDAA320A7)
        struct.pack_into(">q", segment, at + 28, at)
        struct.pack_into(">i", segment, at + 84, size - 8 - at - 91)
        struct.pack_into(">i", segment, at + 8, 1)  # bodyCRC
    struct.pack_into(">iI", segment, size - 8, 8, 0xCBD43194)
    return bytes(segment)


@pytest.mark.parametrize("size", [1 << 17, 1 << 18, 1 << 19])
def test_nested_records_do_not_cost_the_square_of_the_input(size: int) -> None:
    segment = np.frombuffer(nested(size), np.uint8)
    read_bytes = 0

    def read(at: int, buffer: np.ndarray) -> None:
        nonlocal read_bytes
        read_bytes += len(buffer)
        buffer[:] = segment[at : at + len(buffer)]

    prover = Prover(read, 0, size, RecordRules(True, True))
    assert prover.lengths(960) is not None
    assert prover.next_record(0) == -1
    assert prover.hashed < 24 * size  # the bodies together are over 500 times as long
    assert read_bytes < 30 * size


class Counting(MemoryStorage):
    """Counts the bytes that readers were asked for."""

    read = 0

    def open(self, path: str, state: FileState | None = None) -> MemoryReader:
        reader = super().open(path, state)
        into = reader.read_into

        def read_into(offset: int, buffer: np.ndarray) -> None:
            self.read += len(buffer)
            into(offset, buffer)

        reader.read_into = read_into  # type: ignore[method-assign]
        return reader


@pytest.mark.parametrize("size", [1 << 17, 1 << 18])
def test_nor_where_damage_is_only_refused(size: int) -> None:
    """Is anything alive behind a break? Nested forgeries must not make that question dear."""
    settings = {"mappedFileSizeCommitLog": str(size), "maxIndexNum": "50", "maxHashSlotNum": "7"}
    storage = Counting({f"{STORE}/commitlog/{0:020d}": b"\xff" * 96 + nested(size)[96:]})
    summary = run(STORE, OUTPUT, rocketmq="5.3.3", settings=settings, storage=storage)
    assert summary.messages == 0
    assert storage.read < 40 * size


def test_a_stray_file_in_a_queue_folder_is_no_witness() -> None:
    """What is not named as a queue's file is asked nothing, and does not end the check."""
    log = several()
    storage = storage_of(log.log)
    for message in log.messages:
        storage.files[f"{STORE}/consumequeue/{message.topic}/{message.queue_id}/x.bak"] = b"junk"
    found, wanted = checked(log, storage=storage), checked(log)
    assert found.damage == wanted.damage
    assert found.damage["range_count"]


@pytest.mark.parametrize("how", ENDS)
def test_an_index_entry_that_ends_its_chain_is_named(how: str, tmp_path: Path) -> None:
    """RocketMQ takes it for a chain's end, without a word."""
    store, golden = golden_stores.whole("small_all_5.3.3", tmp_path)
    file = min((store / "index").iterdir())
    end_chains(file, ENDS[how])
    (found,) = run_check(str(store), golden.version, golden.settings).differences
    assert (found.path, found.offset, found.field) == (str(file), entry_at(1) + 16,
                                                       "entry 1 previous")  # fmt: skip
    assert (found.there, found.wanted) == (ENDS[how](1), 0)


def test_a_store_that_lost_its_queues_and_its_index_is_not_sound(tmp_path, capsys) -> None:
    """Its checkpoint knows of queues. A log alone may be that of a copy, and is sound."""
    store = as_left("small_all_5.3.3", tmp_path)
    for name in ("consumequeue", "batchconsumequeue", "index"):
        shutil.rmtree(store / name, ignore_errors=True)
    (store / "checkpoint").write_bytes(encode_checkpoint(Checkpoint(1, 1, 1)))
    assert main(["check", str(store)]) == 1
    said = capsys.readouterr().out
    assert "NOT sound" in said
    assert "the file is missing" in said
    then = f"  next      reput rebuild {store} --output DIR --rocketmq VERSION, then reput install"
    assert then in said
    (store / "checkpoint").unlink()
    assert main(["check", str(store)]) == 0
    said = capsys.readouterr().out
    assert "  derived   none: the store has no queues and no index\n" in said
    assert then in said


def test_a_message_with_a_wrong_checksum_is_named_in_plain_words(tmp_path, capsys) -> None:
    store = as_left("small_all_5.3.3", tmp_path)
    log = store / "commitlog" / f"{0:020d}"
    flip(log, 90)  # in the first body
    assert main(["check", str(store), "--rocketmq", "5.3.3"]) == 1
    said = capsys.readouterr().out
    assert "  damage    1 range, nothing is known to be lost\n" in said
    assert "  range     wrong checksum at offset 0, 196 bytes: bodyCRC: does not match" in said
    command = re.search(r"^  message   reput (query .* --offset 0)   \(", said, re.M)
    assert command
    assert main(command[1].split()) == 0
    assert " 196\n" in capsys.readouterr().out


def unnumbered(lmq: bool, offsets: tuple[int, ...]) -> Damaged:
    """A topic's or an LMQ's messages with these queueOffsets."""
    made = []
    for n, offset in enumerate(offsets):
        pairs = [("KEYS", f"k{n}")]
        if lmq:
            pairs += [("INNER_MULTI_DISPATCH", "%LMQ%a"), ("INNER_MULTI_QUEUE_OFFSET", str(offset))]
        made.append(Message("T", 0, n if lmq else offset, b"x", properties=properties(*pairs)))
    return damaged(made)


@pytest.mark.parametrize("lmq", [False, True])
def test_a_message_in_no_queue_and_a_gap_are_named_in_a_store_as_rocketmq_has_it(lmq: bool) -> None:
    log = unnumbered(lmq, (0, 1, 2, 2, 3, 7, 8))
    log.settings |= {"enableLmq": lmq, "enableMultiDispatch": lmq}
    storage = with_derived(log)
    report = checked(log, storage=storage)
    assert report.sound, text(report)
    folder = f"consumequeue/{'%LMQ%a' if lmq else 'T'}/0"
    _, _, second, third, _, gap, _ = log.places
    assert [*report.warnings, report.notes[-1]] == [
        f"{folder}: the record at physical offset {third} is in no queue (so does RocketMQ): its "
        f"queueOffset 2 is below the next position; the record at {second} is at that position",
        f"{folder}: the record at physical offset {gap}, of queueOffset 7, is at position 4: 3 are "
        "missing before it",
    ]
    assert all(line in text(report) for line in report.warnings)


def test_a_message_that_the_queue_has_in_another_s_place_is_not_called_lost() -> None:
    """As files that a broker went on with after a life in RocksDB (rocksdb_and_back)."""
    log = unnumbered(False, (0, 1, 2, 2, 3))
    storage = with_derived(log)
    path = f"{STORE}/consumequeue/T/0/{0:020d}"
    raw = bytearray(storage.files[path])
    raw[40:48] = log.places[3].to_bytes(8, "big")
    storage.files[path] = bytes(raw)
    report = checked(log, storage=storage)
    assert [each.path for each in report.differences] == [path]
    assert report.warnings == []
