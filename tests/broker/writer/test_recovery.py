"""What stands behind a log's end is cut, and kept where that is wanted; nothing before it goes."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.broker.writer import recovery
from reput.store_format.derived.checkpoint import Checkpoint
from reput.store_format.derived.index_header import IndexHeader, encode_header
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import DamageFound, Fault, StoreError
from reput.store_format.files.adapters import FilesRead
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.folder import Folder
from reput.store_format.log.records import RECORD_ROW, RecordRules
from reput.store_format.log.walk import Checks, Walk, most_rows
from reput.store_format.names import COMMIT_LOG
from reput.store_format.release.profiles import profile
from tests.broker.writer.stores import settings
from tests.faults.failing import same_again
from tests.faults.memory_files import MemoryFiles, crash_states
from tests.logs.encoder import MAGIC_BLANK, Message, build_log, encode

SIZE = 64


def log_of(*segments: bytes) -> tuple[MemoryFiles, list[int]]:
    files = MemoryFiles()
    files.make_folder(COMMIT_LOG)
    starts = [number * SIZE for number in range(len(segments))]
    for start, content in zip(starts, segments, strict=True):
        file = files.create(recovery.segment_path(start))
        file.set_length(SIZE)
        file.write_at(0, content)
        file.close()
    return files, starts


def content(files: MemoryFiles, path: str) -> bytes:
    file = files.open_read(path)
    raw = np.empty(file.length(), np.uint8)
    file.read_at(0, raw)
    file.close()
    return raw.tobytes()


def cutter(files: MemoryFiles, starts: list[int], keep: str = "") -> recovery.LogCutter:
    return recovery.LogCutter(
        files, starts, SIZE, np.empty(16, np.uint8), keep
    )  # several windows a segment


@pytest.mark.parametrize("keep", ["", "cut"])
def test_the_rest_is_zero_and_later_segments_go(keep: str) -> None:
    files, starts = log_of(b"a" * SIZE, b"b" * 30, b"\0c\0cc")
    at = cutter(files, starts, keep)
    assert at.to_cut(SIZE + 10) == 25
    assert at.cut(SIZE + 10, False) == 25
    assert starts == [0, SIZE]
    assert content(files, recovery.segment_path(0)) == b"a" * SIZE
    assert content(files, recovery.segment_path(SIZE)) == b"b" * 10 + bytes(SIZE - 10)
    assert not files.exists(recovery.segment_path(2 * SIZE))
    if keep:
        assert content(files, f"{keep}/{SIZE + 10:020d}") == b"b" * 20
        assert content(files, f"{keep}/{2 * SIZE:020d}")[:5] == b"\0c\0cc"
    assert at.to_cut(SIZE + 10) == 0


def test_the_power_may_go_at_any_step_and_no_cut_byte_is_lost() -> None:
    files, starts = log_of(b"a" * SIZE, b"b" * 30, b"c" * 8)
    start = same_again(files)
    files.ops.clear()
    cutter(files, starts, "cut").cut(SIZE + 10, False)
    for crash in crash_states(start, files.ops, 1, 4):
        for byte, count in ((b"a", SIZE), (b"b", 30), (b"c", 8)):
            there = sum(raw.count(byte) for raw in crash.files.tree().values())
            assert there >= count, (crash.after, crash.how, byte)
    moved = next(n for n, op in enumerate(files.ops) if op.kind == "rename")
    synced = [op.path for op in files.ops[moved + 1 :] if op.kind == "sync folder"]
    assert synced[:2] == ["cut", COMMIT_LOG]  # here first, or it could be nowhere


def test_what_is_cut_twice_is_kept_twice() -> None:
    files, starts = log_of(b"a" * 30)
    cutter(files, starts, "cut").cut(20, False)
    file = files.open(recovery.segment_path(0))
    file.write_at(20, b"b")
    file.close()
    cutter(files, starts, "cut").cut(20, False)
    assert content(files, f"cut/{20:020d}") == b"a" * 10
    assert content(files, f"cut/{20:020d}.1") == b"b"
    # A prepared segment of zeros behind the end is no harm; the end is in the one before.
    files, starts = log_of(b"a" * SIZE, b"")
    assert cutter(files, starts).cut(SIZE, True) == 0
    assert starts == [0, SIZE]
    assert content(files, recovery.segment_path(0)) == b"a" * SIZE


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "store" / COMMIT_LOG).mkdir(parents=True)
    (tmp_path / "store" / recovery.segment_path(0)).write_bytes(b"a" * SIZE)
    (tmp_path / "store" / "cut").symlink_to(tmp_path)
    files = DiskFiles(str(tmp_path / "store"))
    with pytest.raises(StoreError, match="is a link"):
        recovery.LogCutter(files, [0], SIZE, np.empty(16, np.uint8), "cut").cut(20, False)
    assert (tmp_path / "store" / recovery.segment_path(0)).read_bytes() == b"a" * SIZE


# --- Where a log ends as an open finds it, after a clean stop and after a crash; what is refused.
SEGMENT = 256
LOG_SIZE = 120  # bytes of a record: two are in a segment, and a BLANK of 16 bytes
START = 1_700_000_000_000
LATE = Checkpoint(START + 10**6, START + 10**6)  # all that is found was durable


def log(count: int, **more: Any) -> dict[int, bytearray]:
    """Records of which each was stored a second after the one before."""
    made = [Message(body=b"%028d" % n, store_timestamp=START + 1000 * n) for n in range(count)]
    return {start: bytearray(raw) for start, raw in build_log(made, SEGMENT, **more).items()}


def recovering(segments: dict[int, bytearray], checkpoint: Checkpoint | None = None,
             lost: bool = False) -> tuple[recovery.LogRecovery, MemoryFiles]:  # fmt: skip
    files = MemoryFiles()
    files.make_folder("commitlog")
    for start, raw in segments.items():
        files.create(f"commitlog/{start:020d}").write_at(0, raw)
    rules = scan_rules(profile("5.3.3"), settings(), ())
    return recovery.LogRecovery(files, SEGMENT, rules, checkpoint, lost), files


def found(segments: dict[int, bytearray], checkpoint: Checkpoint | None = None) -> recovery.LogEnd:
    return recovering(segments, checkpoint)[0].find()


def test_after_a_clean_stop_the_last_segment_with_a_record_is_looked_at() -> None:
    for count, more, end, checked, fault in [
        (1, {}, LOG_SIZE, 0, Fault.ZEROS),
        (3, {}, SEGMENT + LOG_SIZE, SEGMENT, Fault.ZEROS),
        (4, {}, SEGMENT + 2 * LOG_SIZE, SEGMENT, Fault.ZEROS),
        (3, {"extra_segments": 2}, SEGMENT + LOG_SIZE, SEGMENT, Fault.ZEROS),
        (3, {"first_offset": 512}, 512 + SEGMENT + LOG_SIZE, 512 + SEGMENT, Fault.ZEROS),
    ]:
        start = more.get("first_offset", 0)
        assert found(log(count, **more)) == recovery.LogEnd(
            start, end, checked, START + 1000 * (count - 1), fault)  # fmt: skip
    assert found({}) == recovery.LogEnd(0, 0, 0)
    whole = log(5)
    del whole[2 * SEGMENT]
    assert (found(whole).end, found(whole).fault) == (2 * SEGMENT, Fault.BLANK)
    whole[2 * SEGMENT] = bytearray(SEGMENT)
    assert (found(whole).end, found(whole).fault) == (2 * SEGMENT, Fault.ZEROS)
    whole[SEGMENT][LOG_SIZE + LOG_SIZE :] = struct.pack(">iI", 16, MAGIC_BLANK) + b"old text"
    assert found(whole).end == 2 * SEGMENT  # what is behind a BLANK's 8 bytes is arbitrary


def test_after_a_crash_the_last_segment_that_the_checkpoint_vouches_for_is_the_first() -> None:
    """StoreCheckpoint.getMinTimestamp: three seconds less than the lesser of its times."""
    for vouched, checked in [
        (4000, 512), (3999, 256), (2000, 256), (1999, 0), (-1, 0), (9000, 768)]:  # fmt: skip
        for times in ((3000, 9999), (9999, 3000)):
            checkpoint = Checkpoint(*(START + vouched + time for time in times))
            end = found(log(8), checkpoint)
            assert (end.checked_from, end.end) == (checked, 3 * SEGMENT + 2 * LOG_SIZE)


def test_a_short_last_segment_is_completed_after_a_crash_and_a_hole_refused() -> None:
    for length in [1, LOG_SIZE + 1, SEGMENT - 1]:
        segments = log(3)
        segments[SEGMENT] = segments[SEGMENT][:length]
        with pytest.raises(StoreError, match=f"has {length} bytes"):
            recovering(segments)
        log_end, files = recovering(segments, LATE)
        assert len(files.tree()[f"commitlog/{SEGMENT:020d}"]) == SEGMENT
        assert log_end.find().end == SEGMENT + (LOG_SIZE if length > LOG_SIZE else 0)
    for gone, grown, told in [
        (SEGMENT, None, "a hole before it"), (None, SEGMENT, "has 257 bytes")]:  # fmt: skip
        segments = {start: raw for start, raw in log(5).items() if start != gone}
        if grown is not None:
            segments[grown] += b"\0"
        with pytest.raises(StoreError, match=told):
            recovering(segments, LATE)


def damaged(later: int) -> dict[int, bytearray]:
    """Record 2 of 4 has a wrong body; record 3 was stored `later` milliseconds after record 1."""
    segments = log(4)
    segments[SEGMENT][100] ^= 1
    struct.pack_into(">q", segments[SEGMENT], LOG_SIZE + 56, START + 1000 + later)
    return segments


def test_a_record_as_new_as_the_last_live_one_or_durable_is_damage() -> None:
    for later, refused in [(-1, False), (0, True), (2000, True)]:
        at, _ = recovering(damaged(later))
        if refused:
            with pytest.raises(
                DamageFound,
                match=f"live records follow from {SEGMENT + LOG_SIZE} on"):  # fmt: skip
                at.find()
        end = at.find_end()
        assert (end.end, end.last_timestamp, end.fault) == (SEGMENT, START + 1000, Fault.BODY_CRC)
    # The record after the fault was stored at START + 3000.
    for durable, lost, refused in [
        (START + 3000, False, False), (START + 3001, False, True), (0, False, False),
        (0, True, True)]:  # fmt: skip
        at, _ = recovering(damaged(2000), Checkpoint(durable, durable), lost)
        if refused:
            with pytest.raises(DamageFound):
                at.find()
        else:
            assert at.find().end == SEGMENT


@pytest.mark.parametrize(("durable", "torn"), [(START, True), (START + 1, False)])
@pytest.mark.parametrize("reached", ["", "index", "queue", "less"])
def test_a_record_written_in_part_ends_the_log_unless_it_was_dispatched(
    durable: int, torn: bool, reached: str
) -> None:
    """A process killed within a write leaves zeros; topic and properties have no CRC."""
    for count in (1, 3):  # without and with a record before it in its segment
        segments = log(count, extra_segments=1)
        place = SEGMENT * (count // 2) + LOG_SIZE * (count % 2) - LOG_SIZE
        last = segments[SEGMENT * (count // 2)]
        record = bytearray(encode(Message(body=b"b" * 20, properties=b"p\x01value\0"), place))
        record[56:64] = (START + 1000 * (count - 1)).to_bytes(8, "big")
        last[place % SEGMENT : place % SEGMENT + LOG_SIZE] = record
        checkpoint = Checkpoint(*[durable + 1000 * (count - 1)] * 2)
        at, files = recovering(segments, checkpoint)
        files.make_folder("index")
        if reached in ("index", "less"):
            header = IndexHeader(1, 1, 0, place - (reached == "less"), 1, 2)
            files.create("index/20261126000000000").write_at(0, encode_header(header))
        if reached == "queue":
            files.make_folder("consumequeue/T/0")
            entry = place.to_bytes(8, "big") + LOG_SIZE.to_bytes(4, "big") + bytes(8)
            files.create(f"consumequeue/T/0/{0:020d}").write_at(0, entry)
        cut = torn and reached in ("", "less")
        assert at.find().end == place + LOG_SIZE * (not cut)
        assert found(segments).end == place + LOG_SIZE  # after a clean stop nothing is torn


def test_a_record_that_a_blank_follows_was_written_as_a_whole() -> None:
    segments = {0: log(3)[0]}
    segments[0][2 * LOG_SIZE - 3] = 0
    for later in ({}, {SEGMENT: bytearray(SEGMENT)}):
        assert found(segments | later, Checkpoint(START, START)).end == SEGMENT


# --- A record that lost a sector: it is zeros from a sector's start to its end, and all behind it.
TORN_SEGMENT = 1 << 20  # the log's second segment
TOPIC, PROPERTIES = 91 - 2 + 10, 91 + 10 + 20  # where they begin: a body of 10 bytes, 20 of topic


def record(at: int, length: int = 40, **more: object) -> bytes:
    made = Message(b"t" * 20, body=b"b" * 10, properties=b"p" * length, store_timestamp=START)
    return encode(made, TORN_SEGMENT + at)


def torn(raw: bytes, at: int, durable: int = 0, behind: bytes = b"") -> int:
    """What is found in the records of `raw`, which is at offset `at` of its segment."""
    window = np.frombuffer(raw + behind.ljust(1024, b"\0"), np.uint8).copy()

    def read(place: int, buffer: np.ndarray) -> None:
        start = place - TORN_SEGMENT - at
        buffer[:] = window[start : start + len(buffer)]

    end = TORN_SEGMENT + at + len(raw)
    rows = np.zeros(most_rows(len(raw)), RECORD_ROW)
    walk = Walk(read, end, RecordRules(True, True), Checks(), np.empty(len(raw), np.uint8), rows)
    (step,) = walk.steps(TORN_SEGMENT + at, end)
    return recovery.first_torn(
        step.window, step.rows, TORN_SEGMENT, 2 * TORN_SEGMENT, durable, read
    )


def zeroed(raw: bytes, start: int, end: int | None = None) -> bytes:
    end = len(raw) if end is None else end
    return raw[:start] + bytes(end - start) + raw[end:]


def test_a_whole_record_is_not_torn_nor_one_with_nuls_of_its_own() -> None:
    assert torn(record(0), 0) == 1
    assert torn(record(0, 0), 0) == 1
    two = record(0) + record(len(record(0)))
    assert torn(two, 0) == 2
    # As 5.2.0 leaves them after the properties of an LMQ message, or a producer may send them.
    for nuls in range(2, 40):
        at = 512 - (PROPERTIES + 40) + nuls - 1  # all but the first are in the next sector
        assert torn(zeroed(record(at), PROPERTIES + 40 - nuls), at) == 1


@pytest.mark.parametrize("place", [TOPIC, TOPIC + 10, PROPERTIES, PROPERTIES + 7, PROPERTIES + 39])
@pytest.mark.parametrize("sector", [512, 512 * 7])
def test_zeros_from_a_sectors_start_to_its_end_show_it(place: int, sector: int) -> None:
    """The byte at `place` is the first one of a sector; nothing follows the record."""
    length = 0 if place < PROPERTIES else 40  # a lost topic has no properties behind it
    for moved, number in ((0, 0), (1, 1), (-1, 1)):
        at = sector - place + moved
        assert torn(zeroed(record(at, length), place), at) == number, moved
    raw = zeroed(record(sector - place, length), place)
    left = 512 - (len(raw) - place)  # bytes of the sector behind the record
    for gap, number in ((0, 1), (left - 1, 1), (left, 0)):
        assert torn(raw, sector - place, behind=bytes(gap) + b"\x01") == number, gap


def test_a_sector_within_the_properties_is_lost_and_the_first_of_several_is_found() -> None:
    raw = record(0, 1600)
    assert torn(zeroed(raw, 512, 1024), 0, behind=b"next") == 0
    assert torn(zeroed(raw, 512, 1023), 0) == 1
    assert torn(zeroed(raw, 500, 1024), 0) == 1
    size = len(record(0, 1200))
    three = b"".join(record(size * n, 1200) for n in range(3))
    lost = [(size * n + 600) // 512 * 512 for n in (1, 2)]
    bad = zeroed(zeroed(three, lost[0], lost[0] + 512), lost[1], lost[1] + 512)
    assert torn(bad, 0) == 1
    assert torn(bad, 0, START) == 1
    assert torn(bad, 0, START + 1) == 3
    # The first record ends so many bytes before its sector does, and its last sector is zeros.
    for left in range(6):
        at = 512 - PROPERTIES
        first = zeroed(record(at, 512 - left), PROPERTIES)
        two = first + record(at + len(first))
        # the upper three bytes of a totalSize are 0: such a sector may be lost
        assert torn(two, at) == (0 if left < 4 else 2)


@pytest.mark.parametrize(("text", "partial"), [
    (b"a\1b\2", False), (b"a\1b\2" + bytes(20), True), (b"a\1b\0", True),
    (b"INNER_MULTI_DISPATCH\1%LMQ%u\2" + bytes(20), False),
    (b"INNER_MULTI_DISPATCH\1%LMQ%u\2" + bytes(19), True),
    (b"INNER_MULTI_DISPATCH\1%LMQ%u" + bytes(20), True)])  # fmt: skip
def test_room_that_a_release_leaves_is_not_what_a_kill_left(text: bytes, partial: bool) -> None:
    """5.2.0 with enableLmq: crc32ReservedLength bytes that nobody writes (#8350)."""
    raw = np.frombuffer(encode(Message(b"t", properties=text), 0), np.uint8)
    rows = np.zeros(1, RECORD_ROW)
    buffer = np.empty(len(raw), np.uint8)

    def read(place: int, into: np.ndarray) -> None:
        into[:] = raw[place : place + len(into)]

    walk = Walk(read, len(raw), RecordRules(True, True), Checks(), buffer, rows)
    (step,) = walk.steps(0, len(raw))
    found = recovery.written_in_part(
        Folder(FilesRead(MemoryFiles()), ""), Checkpoint(), step.window, step.rows[0])  # fmt: skip
    assert found is partial
