"""A file's kind by its path, and queue files, checkpoints, abort and lock item by item."""

import struct
from typing import Any

import pytest

from reput.store_format.describe import files
from tests.store_format.damage.walked import reader

NAME = "00000000000000000000"
V1_HEAD = struct.pack(">iIiiiqq", 100, 0xDAA320A7, 0, 0, 0, 0, 4096) + bytes(12)
PRE_BLANK = struct.pack(">qiq", 0, 0x7FFFFFFF, 0)
END = struct.pack(">qiqqqhii", -1, 0, 0, 0, 0, 0, -1, 0)


def entry(place: int, size: int = 100) -> bytes:
    return struct.pack(">qiq", place, size, 7)


def items(raw: bytes, start: int = 0, batch: bool = False, first: int = 0) -> list[Any]:
    """(kind, position, what it says) of each item."""
    return [(item["kind"], item.get("position"), item.get("entries", item.get("reason", "")))
        for item in files.describe_queue(reader(memoryview(raw)), len(raw), start, batch,
            first)]  # fmt: skip


def test_a_kind_is_known_by_names_or_a_segments_magic() -> None:
    for path, kind in [(f"commitlog/{NAME}", files.FileKind.COMMIT_LOG),
        (f"dledger-n0/data/{NAME}", files.FileKind.COMMIT_LOG), (f"data/{NAME}", None),
        (f"consumequeue/T/0/{NAME}", files.FileKind.CONSUME_QUEUE),
        (f"consumequeue/T/-1/{NAME}", files.FileKind.CONSUME_QUEUE),
        (f"consumequeue/T/-2147483648/{NAME}", files.FileKind.CONSUME_QUEUE),
        (f"consumequeue/T/-2147483649/{NAME}", None), (f"consumequeue/T/x/{NAME}", None),
        (f"consumequeue/T/\u0663/{NAME}", None),  # a digit, but none that a broker writes
        (f"compactionCq/T/-1/{NAME}", files.FileKind.BATCH_CONSUME_QUEUE),
        (f"batchconsumequeue/T/0/{NAME}", files.FileKind.BATCH_CONSUME_QUEUE),
        (f"compactionCq/T/0/{NAME}", files.FileKind.BATCH_CONSUME_QUEUE),
        (f"compactionLog/T/0/{NAME}", files.FileKind.COMMIT_LOG),
        (f"q/0/COMMIT_LOG/cfcd2084{NAME}", files.FileKind.COMMIT_LOG),  # the MD5 of "0" begins so
        (f"q/0/INDEX/cfcd2084{NAME}", files.FileKind.TIERED_INDEX),
        (f"q/0/INDEX/cfcd2085{NAME}", None),
        ("index/20231114221320123", files.FileKind.INDEX),
        ("index/20231314221320123", None),  # a thirteenth month
        ("checkpoint", files.FileKind.CHECKPOINT), ("dledger-n0/checkpoint", None)]:  # fmt: skip
        assert files.kind_of(path.split("/"), b"") == kind
    assert files.kind_of(["elsewhere", NAME], V1_HEAD) == files.FileKind.COMMIT_LOG
    assert files.kind_of(["elsewhere", NAME], V1_HEAD[:47]) is None
    assert files.kind_of(["elsewhere", NAME], bytes(48)) is None
    assert files.kind_of(["elsewhere", "copy"], V1_HEAD) is None
    assert files.first_offset("00000000001073741824", V1_HEAD) == 1_073_741_824
    assert files.first_offset("copy", V1_HEAD) == 4096
    assert files.first_offset("copy", V1_HEAD[:47]) == files.first_offset("copy", bytes(48)) == 0
    negative = V1_HEAD[:28] + struct.pack(">q", -1) + V1_HEAD[36:]
    assert files.first_offset("copy", negative) == 0


def test_entries_are_items_a_checkpoint_six_numbers_and_lock_its_word() -> None:
    raw = PRE_BLANK * 2 + entry(0) + entry(100) + bytes(60)
    assert items(raw, start=200) == [("preBlank", 10, 2), ("entry", 12, ""), ("entry", 13, ""),
        ("unused", 14, 3)]  # fmt: skip
    assert [position for _, position, _ in items(raw, 200, first=13)] == [13, 14]
    assert items(raw, 200, first=11)[0] == ("preBlank", 10, 2)
    assert items(b"") == []
    for raw, position, reason in [(entry(0) + PRE_BLANK, 1, "pre-blank after the first entry"),
        (entry(-1), 0, "is negative"), (entry(0, 0) + entry(9), 0, "is not positive"),
        (entry(0) + bytes(20) + entry(100), 2, "after unused ones"),
        (entry(500) + entry(500), 1, "is not above the entry's before, 500"),
        (entry(0) + b"rest", None, "is no multiple of 20")]:  # fmt: skip
        (found,) = [item for item in items(raw) if item[0] == "damage"]
        assert found[1] == position
        assert reason in found[2]
    one = struct.pack(">qiqqqhii", 100, 200, 7, 1_700_000_000_000, 3, 2, -1, 0)
    assert items(one + END + bytes(46) + b"rest", 92, batch=True) == [
        ("entry", 2, ""), ("end", 3, ""), ("unused", 4, 1), ("rest", 5, "")]  # fmt: skip
    raw = struct.pack(">6q", 1, 2, 3, 4, -5, 6).ljust(4096, b"\0")
    fields = list(files.describe_checkpoint(raw))
    assert [(item["at"], item["value"]) for item in fields] == [
        (0, 1), (8, 2), (16, 3), (24, 4), (32, -5), (40, 6)]  # fmt: skip
    kinds = [[item["kind"] for item in files.describe_checkpoint(raw[:n])] for n in (47, 48, 4095)]
    assert kinds == [["damage"], ["field"] * 6 + ["damage"], ["field"] * 6 + ["damage"]]
    unknown = list(files.describe_checkpoint(raw[:-1] + b"\x01"))[-1]
    assert unknown == {"kind": "unknown", "at": 48, "bytes": 4048}
    for kind, text, damage in (("abort", b"4711", b"lock"), ("lock", b"lock", b"4711")):
        for raw, items_wanted in ((b"", 1), (text, 1), (damage, 2), (b"\xff", 2), (b"\xd9\xa3", 2)):
            assert len(list(files.describe_small(files.FileKind(kind), raw))) == items_wanted


# --- An IndexFile item by item: its header, its entries put again, and each slot's chain.
SLOTS, ENTRIES = 3, 6
# hashes of entries 1 to 4: slots 1, 2, 1, 1; so entry 3 follows 1, and 4 follows 3
HASHES, PREVIOUS, NEWEST = (4, 5, 7, 1), (0, 0, 1, 3), (0, 4, 2)


def view(
    previous: tuple[int, ...] = PREVIOUS, newest: tuple[int, ...] = NEWEST,
    slot_count: int = 2, count: int = 5,
) -> files.IndexFileView:  # fmt: skip
    raw = struct.pack(">qqqqii", 1000, 4000, 0, 300, slot_count, count)
    raw += struct.pack(">3i", *newest) + bytes(20)
    for number, (hashed, before) in enumerate(zip(HASHES, previous, strict=True)):
        raw += struct.pack(">iqii", hashed, number * 100, number, before)
    raw += bytes(20)

    return files.IndexFileView(reader(memoryview(raw)), files.index_sizes(len(raw), SLOTS))


def damage(items: Any) -> list[tuple[int, str, int, str]]:
    return [(item["at"], item["field"], item["value"], item["reason"]) for item in items
        if item["kind"] == "damage"]  # fmt: skip


def test_a_sound_file_has_no_damage_and_a_wrong_count_previous_or_slot_is_some() -> None:
    assert files.index_sizes(420_000_040, 5_000_000) == files.IndexSizes(5_000_000, 20_000_000)
    assert files.index_sizes(40 + 4 + 40, 1) == files.IndexSizes(1, 2)
    for length in (40 + 4 + 20, 40 + 4 + 41, 0):
        with pytest.raises(ValueError, match="no index file of 1 slots"):
            files.index_sizes(length, 1)
    found = view()
    assert (
        damage([*found.describe_header(), *found.describe_entries(), *found.describe_slots()]) == []
    )
    entries = list(found.describe_entries(first=3))
    assert [(item["number"], item["at"], item["slot"]) for item in entries] == [
        (3, 40 + 12 + 60, 1), (4, 40 + 12 + 80, 1)]  # fmt: skip
    slots = list(found.describe_slots())
    assert [(item["slot"], item["at"], item["chain"]) for item in slots] == [
        (1, 44, [4, 3, 1]), (2, 48, [2])]  # fmt: skip
    assert [item["slot"] for item in found.describe_slots(first=2)] == [2]
    assert damage(view(slot_count=4).describe_entries()) == []
    ((at, field, value, reason),) = damage(view(slot_count=3).describe_entries())
    assert (at, field, value) == (32, "hashSlotCount", 3)
    assert reason == "2 slots are in use, by 4 entries"
    for count, numbers, bad in [(5, [1, 2, 3, 4], 0), (0, [], 0), (7, [1, 2, 3, 4, 5], 1),
        (-1, [], 1)]:  # fmt: skip
        found = view(count=count)
        assert len(damage(found.describe_header())) == bad
        shown = [item["number"] for item in found.describe_entries() if item["kind"] == "entry"]
        assert shown == numbers
    assert damage(view((0, 0, 2, 3)).describe_entries(first=5)) == [
        (40 + 12 + 60, "previous", 2, "the entry before in its slot is 1")
    ]
    found = damage(view(newest=(2, 4, 0)).describe_entries())
    assert [(at, field, value) for at, field, value, _ in found] == [
        (40, "slot", 2), (48, "slot", 0)]  # fmt: skip
    for previous, newest, chain, reason in [((0, 0, 4, 3), (0, 4, 2), [4, 3, 4], "a cycle"),
        ((1, 0, 1, 3), (0, 1, 0), [1], "a cycle"),
        ((0, 0, 2, 3), (0, 4, 2), [4, 3], "entry 2 of another slot"),
        ((0, 0, 5, 3), (0, 4, 2), [4, 3], "entry 5, which is not in use"),
        ((0, 0, -1, 3), (0, 4, 2), [4, 3], "entry -1, which is not in use"),
        ((0, 0, 1, 3), (0, -9, 2), [], "entry -9, which is not in use")]:  # fmt: skip
        items = list(view(previous, newest).describe_slots())
        assert items[0]["chain"][: len(chain)] == chain
        ((at, field, value, said),) = damage(items)
        assert (at, field, value) == (44, "chain", newest[1])
        assert reason in said


# --- An index file of a tiered store item by item, and what is no such file.
WRITTEN, COMPACTED = 0xBCC50289, 0xBCC50285  # docs/formats/tiered.md
ITEMS = [(14, 1, 0, 200, 90, -66), (15, 1, 2, 100, 80, 0), (8, 2, 0, 300, 70, 5)]


def a_file(magic: int = COMPACTED, count: int = 3, slots: int = 7) -> bytes:
    raw = struct.pack(">Iqqii", magic, 1000, 2000, 3, count) + bytes(8 * slots)
    return raw + b"".join(struct.pack(">iiiqii", *item) for item in ITEMS)


def described(raw: bytes, first: int = 0) -> list[dict[str, Any]]:
    return list(files.describe_tiered_index(reader(memoryview(raw)), len(raw), first))


def test_a_tiered_index_is_its_header_and_items_or_damage() -> None:
    header, *entries = described(a_file())
    assert (header["beginTimestamp"], header["endTimestamp"]) == (1000, 2000)
    assert (header["hashSlotCount"], header["indexItemCount"]) == (3, 3)
    behind_slots = 28 + 7 * 8
    assert [(item["number"], item["at"], item["slot"]) for item in entries] == [
        (0, behind_slots, 0), (1, behind_slots + 28, 1), (2, behind_slots + 56, 1)]  # fmt: skip
    names = ("keyHash", "topicId", "queueId", "offset", "size", "timeDiff")
    assert [tuple(item[name] for name in names) for item in entries] == ITEMS
    for first, numbers in [(0, [0, 1, 2]), (2, [2]), (3, []), (9, [])]:
        items = described(a_file(), first)[1:]
        assert [item["number"] for item in items] == numbers
        assert [item["offset"] for item in items] == [ITEMS[number][3] for number in numbers]
    assert [item["kind"] for item in described(a_file(WRITTEN, count=-1))] == ["header"]
    for raw, field, value in [(b"", "length", 0), (a_file()[:27], "length", 27),
        (a_file()[:28], "indexItemCount", 3), (a_file(0xBCC50286), "magic", 0xBCC50286 - (1 << 32)),
        (a_file(count=-1), "indexItemCount", -1),
        (a_file(count=2), "indexItemCount", 2),  # 28 bytes more are no slots of 8
        (a_file(count=5, slots=7), "indexItemCount", 5),  # no byte is left for slots
        (a_file(count=0x7FFFFFFF), "indexItemCount", 0x7FFFFFFF),
        (a_file() + b"x", "indexItemCount", 3)]:  # fmt: skip
        *_, found = described(raw)
        assert (found["kind"], found["field"], found["value"]) == ("damage", field, value)
        assert all(item["kind"] != "entry" for item in described(raw))
    raw = struct.pack(">Iqqii", COMPACTED, 0, 0, 0, 0) + bytes(8)
    assert [item["kind"] for item in described(raw)] == ["header"]
