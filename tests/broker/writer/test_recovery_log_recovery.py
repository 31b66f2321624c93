"""Where a log ends as an open finds it, after a clean stop and after a crash; what is refused."""

import struct
from typing import Any

import pytest

from reput.broker.writer.recovery import LogEnd, LogRecovery
from reput.store_format.derived.checkpoint import Checkpoint
from reput.store_format.derived.index_header import IndexHeader, encode_header
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import DamageFound, Fault, StoreError
from reput.store_format.release.profiles import profile
from tests.broker.writer.stores import settings
from tests.faults.memory_files import MemoryFiles
from tests.logs.encoder import MAGIC_BLANK, Message, build_log, encode

SEGMENT = 256
SIZE = 120  # bytes of a record: two are in a segment, and a BLANK of 16 bytes
START = 1_700_000_000_000
LATE = Checkpoint(START + 10**6, START + 10**6)  # all that is found was durable


def log(count: int, **more: Any) -> dict[int, bytearray]:
    """Records of which each was stored a second after the one before."""
    made = [Message(body=b"%028d" % n, store_timestamp=START + 1000 * n) for n in range(count)]
    return {start: bytearray(raw) for start, raw in build_log(made, SEGMENT, **more).items()}


def recovery(
    segments: dict[int, bytearray], checkpoint: Checkpoint | None = None, lost: bool = False
) -> tuple[LogRecovery, MemoryFiles]:
    files = MemoryFiles()
    files.make_folder("commitlog")
    for start, raw in segments.items():
        files.create(f"commitlog/{start:020d}").write_at(0, raw)
    rules = scan_rules(profile("5.3.3"), settings(), ())
    return LogRecovery(files, SEGMENT, rules, checkpoint, lost), files


def found(segments: dict[int, bytearray], checkpoint: Checkpoint | None = None) -> LogEnd:
    return recovery(segments, checkpoint)[0].find()


@pytest.mark.parametrize(
    ("count", "more", "end", "checked", "fault"),
    [
        (1, {}, SIZE, 0, Fault.ZEROS),
        (3, {}, SEGMENT + SIZE, SEGMENT, Fault.ZEROS),
        (4, {}, SEGMENT + 2 * SIZE, SEGMENT, Fault.ZEROS),
        (3, {"extra_segments": 2}, SEGMENT + SIZE, SEGMENT, Fault.ZEROS),
        (3, {"first_offset": 512}, 512 + SEGMENT + SIZE, 512 + SEGMENT, Fault.ZEROS),
    ],
)
def test_after_a_clean_stop_the_last_segment_with_a_record_is_looked_at(
    count: int, more: dict[str, int], end: int, checked: int, fault: Fault
) -> None:
    start = more.get("first_offset", 0)
    assert found(log(count, **more)) == LogEnd(
        start, end, checked, START + 1000 * (count - 1), fault
    )


def test_an_empty_log_begins_at_0_and_one_that_ends_with_a_blank_at_the_next_segment() -> None:
    assert found({}) == LogEnd(0, 0, 0)
    whole = log(5)
    del whole[2 * SEGMENT]
    assert (found(whole).end, found(whole).fault) == (2 * SEGMENT, Fault.BLANK)
    whole[2 * SEGMENT] = bytearray(SEGMENT)
    assert (found(whole).end, found(whole).fault) == (2 * SEGMENT, Fault.ZEROS)
    whole[SEGMENT][SIZE + SIZE :] = struct.pack(">iI", 16, MAGIC_BLANK) + b"old text"
    assert found(whole).end == 2 * SEGMENT  # what is behind a BLANK's 8 bytes is arbitrary


@pytest.mark.parametrize(
    ("vouched", "checked"), [(4000, 512), (3999, 256), (2000, 256), (1999, 0), (-1, 0), (9000, 768)]
)
def test_after_a_crash_the_last_segment_that_the_checkpoint_vouches_for_is_the_first(
    vouched: int, checked: int
) -> None:
    """StoreCheckpoint.getMinTimestamp: three seconds less than the lesser of its times."""
    for times in ((3000, 9999), (9999, 3000)):
        checkpoint = Checkpoint(*(START + vouched + time for time in times))
        end = found(log(8), checkpoint)
        assert (end.checked_from, end.end) == (checked, 3 * SEGMENT + 2 * SIZE)


@pytest.mark.parametrize("length", [1, SIZE + 1, SEGMENT - 1])
def test_a_last_segment_that_is_too_short_is_completed_after_a_crash_only(length: int) -> None:
    segments = log(3)
    segments[SEGMENT] = segments[SEGMENT][:length]
    with pytest.raises(StoreError, match=f"has {length} bytes"):
        recovery(segments)
    log_end, files = recovery(segments, LATE)
    assert len(files.tree()[f"commitlog/{SEGMENT:020d}"]) == SEGMENT
    assert log_end.find().end == SEGMENT + (SIZE if length > SIZE else 0)


@pytest.mark.parametrize("checkpoint", [None, LATE])
def test_a_last_file_without_a_byte_is_no_segment(checkpoint: Checkpoint | None) -> None:
    segments = log(2)
    at, files = recovery(segments | {SEGMENT: bytearray()}, checkpoint)
    end = at.find()
    assert end.end == 2 * SIZE
    at.cut(end)
    assert list(files.tree()) == [f"commitlog/{0:020d}"]
    with pytest.raises(StoreError, match="has 0 bytes"):
        recovery({0: bytearray()} | {SEGMENT: segments[0]}, checkpoint)


@pytest.mark.parametrize(
    ("gone", "grown", "told"),
    [(SEGMENT, None, "a hole before it"), (None, SEGMENT, "has 257 bytes")],
)
def test_a_hole_and_another_length_are_refused(
    gone: int | None, grown: int | None, told: str
) -> None:
    segments = {start: raw for start, raw in log(5).items() if start != gone}
    if grown is not None:
        segments[grown] += b"\0"
    with pytest.raises(StoreError, match=told):
        recovery(segments, LATE)


def damaged(later: int) -> dict[int, bytearray]:
    """Record 2 of 4 has a wrong body; record 3 was stored `later` milliseconds after record 1."""
    segments = log(4)
    segments[SEGMENT][100] ^= 1
    struct.pack_into(">q", segments[SEGMENT], SIZE + 56, START + 1000 + later)
    return segments


@pytest.mark.parametrize(("later", "refused"), [(-1, False), (0, True), (2000, True)])
def test_after_a_clean_stop_a_record_as_new_as_the_last_live_one_is_damage(
    later: int, refused: bool
) -> None:
    at, _ = recovery(damaged(later))
    if refused:
        with pytest.raises(DamageFound, match=f"live records follow from {SEGMENT + SIZE} on"):
            at.find()
    end = at.find_end()
    assert (end.end, end.last_timestamp, end.fault) == (SEGMENT, START + 1000, Fault.BODY_CRC)


@pytest.mark.parametrize(
    ("durable", "lost", "refused"),
    [(START + 3000, False, False), (START + 3001, False, True), (0, False, False), (0, True, True)],
)
def test_after_a_crash_a_record_that_was_durable_is_damage(
    durable: int, lost: bool, refused: bool
) -> None:
    """The record after the fault was stored at START + 3000."""
    at, _ = recovery(damaged(2000), Checkpoint(durable, durable), lost)
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
        place = SEGMENT * (count // 2) + SIZE * (count % 2) - SIZE
        last = segments[SEGMENT * (count // 2)]
        record = bytearray(encode(Message(body=b"b" * 20, properties=b"p\x01value\0"), place))
        record[56:64] = (START + 1000 * (count - 1)).to_bytes(8, "big")
        last[place % SEGMENT : place % SEGMENT + SIZE] = record
        checkpoint = Checkpoint(*[durable + 1000 * (count - 1)] * 2)
        at, files = recovery(segments, checkpoint)
        files.make_folder("index")
        if reached in ("index", "less"):
            header = IndexHeader(1, 1, 0, place - (reached == "less"), 1, 2)
            files.create("index/20261126000000000").write_at(0, encode_header(header))
        if reached == "queue":
            files.make_folder("consumequeue/T/0")
            entry = place.to_bytes(8, "big") + SIZE.to_bytes(4, "big") + bytes(8)
            files.create(f"consumequeue/T/0/{0:020d}").write_at(0, entry)
        cut = torn and reached in ("", "less")
        assert at.find().end == place + SIZE * (not cut)
        assert found(segments).end == place + SIZE  # after a clean stop nothing is torn


def test_a_record_that_a_blank_follows_was_written_as_a_whole() -> None:
    segments = {0: log(3)[0]}
    segments[0][2 * SIZE - 3] = 0
    for later in ({}, {SEGMENT: bytearray(SEGMENT)}):
        assert found(segments | later, Checkpoint(START, START)).end == SEGMENT


def test_what_is_behind_the_end_is_counted_cut_off_and_kept() -> None:
    segments = damaged(-1)
    at, files = recovery(segments)
    end = at.find()
    behind = len(segments[SEGMENT].rstrip(b"\0"))
    assert at.to_cut(end) == behind
    at.cut(end, "kept")
    assert end.cut_bytes == behind
    tree = files.tree()
    assert tree[f"commitlog/{0:020d}"] == segments[0]
    assert not any(tree.get(f"commitlog/{SEGMENT:020d}", b""))
    assert tree[f"kept/{SEGMENT:020d}"].rstrip(b"\0") == segments[SEGMENT].rstrip(b"\0")
    assert at.to_cut(end) == 0
