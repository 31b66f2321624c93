"""Repair: the copy is sound, all messages that are left keep their offsets, nothing is lost."""

import json
import struct
import zlib
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reput.jobs.check import check
from reput.jobs.judging.shown import text
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.repair import repair
from reput.jobs.salvaging.repair import RepairSummary
from reput.jobs.verify import verify
from reput.store_format.derived.queue_files import decode_entries
from tests.damaged import ENTRY, SEGMENT, START, Damaged, damaged, messages
from tests.in_process import OUTPUT, STORE, Session, as_text, rebuild_log, storage_of
from tests.logs.batches import BATCH_QUEUE, batches
from tests.logs.encoder import Message, encode, properties
from tests.memory_storage import MemoryStorage

CUTS = (1, 7, 64)


def repaired(
    log: Damaged, storage: MemoryStorage | None = None, splits: int = 1
) -> tuple[RepairSummary, MemoryStorage]:
    storage = storage or storage_of(log.log)
    before = dict(storage.files)
    cut = Cut(-(-log.settings["mappedFileSizeCommitLog"] // splits), 2, 2)
    summary = repair(Session(), STORE, OUTPUT, rocketmq=log.version,  # type: ignore[arg-type]
                     settings=as_text(log.settings), storage=storage, cut=cut)  # fmt: skip
    report = check(Session(), OUTPUT, rocketmq=log.version,  # type: ignore[arg-type]
                   settings=as_text(log.settings), storage=storage)  # fmt: skip
    assert report.sound, text(report)
    assert {p: c for p, c in storage.files.items() if not p.startswith(OUTPUT + "/")} == before
    return summary, storage


def test_what_queues_name_past_the_logs_end_is_no_part_of_the_copy() -> None:
    log = damaged()
    storage = storage_of(log.log)
    files = rebuild_log(log.log).files
    storage.files |= {f"{STORE}/{p}": c for p, c in files.items() if p.startswith("consumequeue/")}
    last = max(log.segments)
    del storage.files[f"{STORE}/commitlog/{last:020d}"], log.segments[last]
    summary, _ = repaired(log, storage)
    gone = sum(place >= last for place in log.places)
    assert summary.damage["messages_past_end"] == gone
    assert f"queues name {gone} messages past the log's end" in summary.text()


def segment(storage: MemoryStorage, start: int) -> bytes:
    return storage.files[f"{OUTPUT}/commitlog/{start:020d}"]


def queue(storage: MemoryStorage, queue_id: int, topic: str = "T") -> list[int]:
    prefix = f"{OUTPUT}/consumequeue/{topic}/{queue_id}/"
    raw = b"".join(storage.files[p] for p in sorted(storage.files) if p.startswith(prefix))
    found = [ENTRY.unpack_from(raw, at) for at in range(0, len(raw), ENTRY.size)]
    while found and found[-1][1] == 0:
        found.pop()
    return [place for place, _, _ in found]


def check_offsets(log: Damaged, storage: MemoryStorage, lost: set[int]) -> None:
    """Each message that is left has the bytes and the position that it had."""
    for n, message in enumerate(log.messages):
        if n in lost:
            continue
        place = log.places[n]
        start = max(start for start in log.segments if start <= place)
        record = encode(message, place)
        assert segment(storage, start)[place - start :].startswith(record), n
        assert queue(storage, message.queue_id)[message.queue_offset] == place, n


def saved(storage: MemoryStorage) -> dict[int, bytes]:
    """The damaged bytes by physical offset."""
    found = {}
    for path, content in storage.files.items():
        if path.startswith(f"{OUTPUT}/damaged/") and path.endswith(".json"):
            kept = storage.files.get(path.removesuffix(".json"), b"")
            for row in json.loads(content):
                if row["at"] >= 0:
                    found[row["offset"]] = kept[row["at"] : row["at"] + row["length"]]
    return found


@pytest.mark.parametrize("splits", CUTS)
@pytest.mark.parametrize("number", [0, 10, 36, 37, 58])
def test_one_flipped_bit_costs_one_message_and_no_offset(number: int, splits: int) -> None:
    log = damaged()
    log.flip(number, 5)
    before = bytes(log.record(log.segments, number))
    summary, storage = repaired(log, splits=splits)
    check_offsets(log, storage, {number})
    assert saved(storage) == {log.places[number]: before}
    if number < 57:
        place = log.places[number]
        start = place // SEGMENT * SEGMENT
        filler = segment(storage, start)[place - start :][: log.size(number)]
        message = log.messages[number]
        size, _, _, queue_id, _, queue_offset, own_place = struct.unpack_from(">iIiiiqq", filler)
        assert (size, queue_id, queue_offset, own_place) == (
            len(before), message.queue_id, message.queue_offset, place)  # fmt: skip
        assert b"TAGS\x01REPUT_LOST\x02" in filler
        assert queue(storage, message.queue_id)[message.queue_offset] == place
    assert summary.fillers == 1
    assert summary.not_filled == []


def test_a_record_that_only_fails_its_crc_keeps_its_place() -> None:
    log = damaged(messages(60, crc_property=True))
    log.flip(10, 90)
    before = bytes(log.record(log.segments, 10))
    summary, storage = repaired(log)
    check_offsets(log, storage, {10})
    assert (summary.corrected, summary.fillers, summary.messages) == (1, 0, 60)
    place = log.places[10]
    after = segment(storage, 0)[place : place + len(before)]
    body = before[88:96]
    assert after == before[:8] + struct.pack(">i", zlib.crc32(body) & 0x7FFFFFFF) + (
        before[12:-20] + after[-20:]
    )
    assert after[-20:] == encode_crc(after[:-20])
    assert saved(storage) == {place: before}


def encode_crc(record: bytes) -> bytes:
    digits = f"{zlib.crc32(record) & 0x7FFFFFFF:010d}"[::-1]
    return properties(("__CRC32#", digits))


def test_what_a_queue_lacks_at_its_start_takes_no_room_from_others() -> None:
    """Of two lost records one has to keep a position, the other is all the room for two queues:
    one lacks a message between two others, one only what may have been before its first.
    """
    late = Message(
        topic="Late", queue_id=0, queue_offset=2, body=b"late", store_timestamp=START + 21
    )
    made = messages(60, 2)
    made.insert(21, late)
    log = damaged(made, 1 << 14)
    log.flip(4, 5)
    log.flip(20, 5)
    summary, storage = repaired(log)
    mine = [place for m, place in zip(made, log.places, strict=True)
            if (m.topic, m.queue_id) == ("T", 0)]  # fmt: skip
    assert queue(storage, 0) == mine
    assert queue(storage, 0, "Late")[2:] == [log.places[21]]
    (left,) = summary.not_filled
    assert (left["topic"], left["first"], left["count"]) == ("Late", 0, 2)
    assert "the queue begins behind them" in summary.text()


def test_a_queues_start_that_is_filled_in_part_displaces_nothing() -> None:
    """Two records were lost, each just long enough for one position: of three that the queue lacks
    (both ranges together are as long as three of the shortest records) the last two are kept.
    """
    late = Message(
        topic="Late", queue_id=0, queue_offset=3, body=b"late", store_timestamp=START + 21
    )
    kept_out = Message(sys_flag=4, body=bytes(50), store_timestamp=START)
    log = damaged([kept_out, kept_out, late, *messages(30, 1)], 1 << 14)
    log.flip(0, 5)
    log.flip(1, 5)
    summary, storage = repaired(log)
    assert queue(storage, 0, "Late")[3:] == [log.places[2]]
    (left,) = summary.not_filled
    assert (left["topic"], left["first"], left["count"]) == ("Late", 0, 1)


def test_batches_behind_a_lost_one_keep_their_positions_without_fillers_too() -> None:
    log = damaged(batches([32] * 20, START), 1 << 16)
    log.flip(10, 5)
    summary, storage = repaired(log, storage_of(log.log._replace(topic_attributes=BATCH_QUEUE)))
    (path,) = (p for p in storage.files if p.startswith(f"{OUTPUT}/batchconsumequeue/"))
    found = decode_entries(storage.files[path], True)
    entries = {int(e["baseOffset"]): int(e["physicalOffset"]) for e in found if e["size"] > 0}
    sound = {m.queue_offset: at for m, at in zip(log.messages, log.places, strict=True)}
    assert {base: entries[base] for base in sound} == sound
    (left,) = summary.not_filled
    assert (left["first"] + left["count"], left["count"]) == (11 * 32, 32 - summary.fillers)
    assert "each batch keeps its own" in summary.text()


def test_what_is_behind_the_end_is_kept_beside_and_cannot_come_back() -> None:
    log = damaged()
    end = log.places[-1] + len(encode(log.messages[-1], 0))
    stale = encode(Message(store_timestamp=START - 1, queue_offset=99), end + 7)
    log.put(end, b"garbage" + stale)
    _, storage = repaired(log)
    check_offsets(log, storage, set())
    assert not any(segment(storage, SEGMENT)[end - SEGMENT :])
    assert saved(storage) == {end: b"garbage", end + 7: stale}


def test_what_is_known_of_the_store_is_not_said_of_the_copy_again() -> None:
    log = damaged()
    storage = storage_of(log.log)
    storage.files |= {f"{STORE}/kvStore/{name}": b"1" for name in ("CURRENT", "000013.sst")}
    asked = {"rocketmq": log.version, "settings": as_text(log.settings), "storage": storage}
    summary = repair(Session(), STORE, OUTPUT, **asked)
    lines = [each for each in summary.warnings if "kvStore" in each]
    assert all(line.startswith(f"{STORE}/kvStore: ") for line in lines)
    assert len(lines) == len({*lines}) == 2  # what it holds, and that it cannot be opened


def test_config_is_copied_and_the_manifest_lists_all() -> None:
    log = damaged()
    log.flip(10, 5)
    storage = storage_of(log.log)
    storage.files[f"{STORE}/config/consumerOffset.json"] = b"{}"
    _, storage = repaired(log, storage)
    assert storage.files[f"{OUTPUT}/config/consumerOffset.json"] == b"{}"
    manifest = json.loads(storage.files[f"{OUTPUT}/manifest.json"])
    (reported,) = manifest["repaired"]["ranges"]
    assert reported["physical_offset"] == log.places[10]
    assert manifest["filled"] == [
        {"topic": "T", "queue_id": 1, "first": 3, "many": 1, "range": log.places[10]}
    ]
    paths = {each["path"] for name in ("segments", "saved", "derived") for each in manifest[name]}
    there = {path.removeprefix(OUTPUT + "/") for path in storage.files if path.startswith(OUTPUT)}
    assert there == paths | {"manifest.json"} | set(manifest["copied"])


def test_a_position_is_kept_where_its_filler_has_room_only_without_a_crc() -> None:
    log = damaged(messages(68, crc_property=True, properties=b""))
    # of seven records' bytes 97, 519 and 240 are left, by themselves and at a segment's end
    log.put(log.places[29] + 97, bytes(700))
    summary, storage = repaired(log)
    assert not summary.not_filled
    check_offsets(log, storage, set(range(29, 36)))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=12)
@given(st.integers(20, 100), st.booleans(),
       st.lists(st.tuples(st.floats(0, 1), st.sampled_from([1, 4, 100, 700, 5000])),
                min_size=1, max_size=3), st.randoms(use_true_random=False))  # fmt: skip
def test_any_damage(count: int, keys: bool, spots: list[Any], rng: Random) -> None:
    text = {} if keys else {"properties": b""}
    log = damaged(messages(count, crc_property=True, **text))
    log.settings["forceVerifyPropCRC"] = True
    whole = {start: bytes(content) for start, content in log.segments.items()}
    end = log.places[-1] + len(encode(log.messages[-1], 0))
    for spot, length in spots:
        at = min(int(spot * end), end - 1)
        log.put(at, rng.randbytes(min(length, end - at)))
    left = {n for n in range(count) if log.record(whole, n) == log.record(log.segments, n)}
    if not left:
        return
    summary, storage = repaired(log)
    # with forceVerifyPropCRC a filler is at least 112 bytes, and what is lost may be in pieces
    moved = {gap["queue_id"] for gap in summary.not_filled}
    lost = set(range(count)) - left
    check_offsets(log, storage, lost | {n for n in left if log.messages[n].queue_id in moved})


@pytest.mark.parametrize("zeros", [1, 7, 8])
def test_a_segment_whose_damage_ends_in_a_few_zeros(zeros: int) -> None:
    """They are a range of their own, too short for the BLANK at the segment's end."""
    segment_bytes = 4103
    log = damaged(messages(78, crc_property=True, properties=b""), segment_bytes)
    log.settings["forceVerifyPropCRC"] = True
    at = log.places[22]  # 1,463 bytes: 13 fillers, or 12 and the BLANK
    log.put(at + 8, Random(1).randbytes(segment_bytes - at - 8 - zeros) + bytes(zeros))
    log.put(segment_bytes, b"\1" * 100)
    summary, storage = repaired(log)
    assert not summary.not_filled
    check_offsets(log, storage, set(range(22, 35)))


@pytest.mark.parametrize("first", [-1, -(1 << 63), 1 << 40, 1 << 62, (1 << 63) - 1])
def test_a_queue_that_cannot_begin_so_is_derived_as_salvage_decides(first: int) -> None:
    """And a flipped bit elsewhere is repaired as ever."""
    made = messages(30)
    for number, offset in enumerate((first, 5, 6, 7)):
        made[10 + number] = replace(made[10 + number], queue_id=9, queue_offset=offset)
    log = damaged(made)
    log.flip(20, 5)
    storage = storage_of(log.log)
    summary = repair(Session(), STORE, OUTPUT, rocketmq=log.version,  # type: ignore[arg-type]
                     settings=as_text(log.settings), storage=storage)  # fmt: skip
    report = verify(Session(), OUTPUT, rocketmq=log.version,  # type: ignore[arg-type]
                    settings=as_text(log.settings), storage=storage)  # fmt: skip
    assert queue(storage, 9) == [0] * 4 + log.places[10:14]
    assert report.same, report.text()
    assert summary.fillers == 1
    assert any("cannot begin topic 'T', queue 9" in said for said in summary.warnings)
