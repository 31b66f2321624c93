"""A file's kind by its path, and queue files, checkpoints, abort and lock item by item."""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from reput.store_format.describe.files import (
    FileKind,
    describe_checkpoint,
    describe_queue,
    describe_small,
    first_offset,
    kind_of,
)

NAME = "00000000000000000000"
V1_HEAD = struct.pack(">iIiiiqq", 100, 0xDAA320A7, 0, 0, 0, 0, 4096) + bytes(12)
PRE_BLANK = struct.pack(">qiq", 0, 0x7FFFFFFF, 0)
END = struct.pack(">qiqqqhii", -1, 0, 0, 0, 0, 0, -1, 0)


def entry(place: int, size: int = 100) -> bytes:
    return struct.pack(">qiq", place, size, 7)


def reader(raw: bytes) -> Callable[[int, Any], None]:
    def read(at: int, buffer: Any) -> None:
        buffer[:] = memoryview(raw)[at : at + len(buffer)]

    return read


def items(raw: bytes, start: int = 0, batch: bool = False, first: int = 0) -> list[Any]:
    """(kind, position, what it says) of each item."""
    return [
        (item["kind"], item.get("position"), item.get("entries", item.get("reason", "")))
        for item in describe_queue(reader(raw), len(raw), start, batch, first)
    ]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"commitlog/{NAME}", FileKind.COMMIT_LOG),
        (f"dledger-n0/data/{NAME}", FileKind.COMMIT_LOG),
        (f"data/{NAME}", None),
        (f"consumequeue/T/0/{NAME}", FileKind.CONSUME_QUEUE),
        (f"consumequeue/T/-1/{NAME}", FileKind.CONSUME_QUEUE),
        (f"consumequeue/T/-2147483648/{NAME}", FileKind.CONSUME_QUEUE),
        (f"consumequeue/T/-2147483649/{NAME}", None),
        (f"consumequeue/T/x/{NAME}", None),
        (f"consumequeue/T/\u0663/{NAME}", None),  # a digit, but none that a broker writes
        (f"compactionCq/T/-1/{NAME}", FileKind.BATCH_CONSUME_QUEUE),
        (f"batchconsumequeue/T/0/{NAME}", FileKind.BATCH_CONSUME_QUEUE),
        (f"compactionCq/T/0/{NAME}", FileKind.BATCH_CONSUME_QUEUE),
        (f"compactionLog/T/0/{NAME}", FileKind.COMMIT_LOG),
        (f"q/0/COMMIT_LOG/cfcd2084{NAME}", FileKind.COMMIT_LOG),  # the MD5 of "0" begins so
        (f"q/0/INDEX/cfcd2084{NAME}", FileKind.TIERED_INDEX),
        (f"q/0/INDEX/cfcd2085{NAME}", None),
        ("index/20231114221320123", FileKind.INDEX),
        ("index/20231314221320123", None),  # a thirteenth month
        ("checkpoint", FileKind.CHECKPOINT),
        ("dledger-n0/checkpoint", None),
    ],
)
def test_a_kind_is_known_by_names(path: str, kind: FileKind | None) -> None:
    assert kind_of(path.split("/"), b"") == kind


def test_a_segment_in_a_folder_of_any_name_is_known_by_its_magic() -> None:
    assert kind_of(["elsewhere", NAME], V1_HEAD) == FileKind.COMMIT_LOG
    assert kind_of(["elsewhere", NAME], V1_HEAD[:47]) is None
    assert kind_of(["elsewhere", NAME], bytes(48)) is None
    assert kind_of(["elsewhere", "copy"], V1_HEAD) is None


def test_a_first_offset_is_the_names_or_else_the_first_records() -> None:
    assert first_offset("00000000001073741824", V1_HEAD) == 1_073_741_824
    assert first_offset("copy", V1_HEAD) == 4096
    assert first_offset("copy", V1_HEAD[:47]) == first_offset("copy", bytes(48)) == 0
    negative = V1_HEAD[:28] + struct.pack(">q", -1) + V1_HEAD[36:]
    assert first_offset("copy", negative) == 0


def test_runs_of_unused_and_pre_blank_entries_are_one_item_each() -> None:
    raw = PRE_BLANK * 2 + entry(0) + entry(100) + bytes(60)
    assert items(raw, start=200) == [
        ("preBlank", 10, 2), ("entry", 12, ""), ("entry", 13, ""), ("unused", 14, 3),
    ]  # fmt: skip
    assert [position for _, position, _ in items(raw, 200, first=13)] == [13, 14]
    assert items(raw, 200, first=11)[0] == ("preBlank", 10, 2)
    assert items(b"") == []


@pytest.mark.parametrize(
    ("raw", "position", "reason"),
    [
        (entry(0) + PRE_BLANK, 1, "pre-blank after the first entry"),
        (entry(-1), 0, "is negative"),
        (entry(0, 0) + entry(9), 0, "is not positive"),
        (entry(0) + bytes(20) + entry(100), 2, "after unused ones"),
        (entry(500) + entry(500), 1, "is not above the entry's before, 500"),
        (entry(0) + b"rest", None, "is no multiple of 20"),
    ],
)  # fmt: skip
def test_damage_of_a_queue(raw: bytes, position: int | None, reason: str) -> None:
    (found,) = [item for item in items(raw) if item[0] == "damage"]
    assert found[1] == position
    assert reason in found[2]


def test_a_batch_queue_has_entries_of_46_bytes_and_may_have_a_rest() -> None:
    one = struct.pack(">qiqqqhii", 100, 200, 7, 1_700_000_000_000, 3, 2, -1, 0)
    assert items(one + END + bytes(46) + b"rest", 92, batch=True) == [
        ("entry", 2, ""), ("end", 3, ""), ("unused", 4, 1), ("rest", 5, ""),
    ]  # fmt: skip


def test_a_checkpoint_is_six_numbers_and_zeros() -> None:
    raw = struct.pack(">6q", 1, 2, 3, 4, -5, 6).ljust(4096, b"\0")
    fields = list(describe_checkpoint(raw))
    assert [(item["at"], item["value"]) for item in fields] == [
        (0, 1), (8, 2), (16, 3), (24, 4), (32, -5), (40, 6),
    ]  # fmt: skip
    kinds = [[item["kind"] for item in describe_checkpoint(raw[:n])] for n in (47, 48, 4095)]
    assert kinds == [["damage"], ["field"] * 6 + ["damage"], ["field"] * 6 + ["damage"]]
    unknown = list(describe_checkpoint(raw[:-1] + b"\x01"))[-1]
    assert unknown == {"kind": "unknown", "at": 48, "bytes": 4048}


def test_abort_has_a_number_and_lock_its_word_or_they_are_empty() -> None:
    for kind, text, damage in (("abort", b"4711", b"lock"), ("lock", b"lock", b"4711")):
        for raw, items_wanted in ((b"", 1), (text, 1), (damage, 2), (b"\xff", 2), (b"\xd9\xa3", 2)):
            assert len(list(describe_small(FileKind(kind), raw))) == items_wanted
