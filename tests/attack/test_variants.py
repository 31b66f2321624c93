"""Drawn stores, changed as disks and people change them: what a command leaves out, it says."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import pytest

from reput.jobs.check import check
from reput.jobs.rebuild import rebuild
from reput.jobs.repair import repair
from reput.store_format.faults import StoreError
from reput.store_format.names import segment_name
from tests.built import Built
from tests.in_process import Session
from tests.logs.encoder import encode
from tests.memory_storage import MemoryStorage
from tests.seeds import seeds

SEGMENT = 2048


def _log(start: int) -> str:
    return f"s/commitlog/{segment_name(start)}"


def _flip(storage: MemoryStorage, at: int, bit: int) -> None:
    path, raw = _log(at // SEGMENT * SEGMENT), bytearray()
    raw += storage.files.get(path, b"")
    if at % SEGMENT < len(raw):
        raw[at % SEGMENT] ^= 1 << bit
        storage.files[path] = bytes(raw)


def _change(storage: MemoryStorage, places: list[int], rng: Random) -> str:
    """Change a store in one of nine ways; the name of the way."""
    starts = sorted(int(path[-20:]) for path in storage.files if path.startswith("s/commitlog/"))
    start, other = rng.choice(starts), rng.choice(starts)
    kind = rng.choice(
        ["flip", "sysFlag", "zeros", "cut", "short", "gone", "renamed", "moved", "swapped"]
    )
    raw, at = storage.files[_log(start)], rng.choice(places)
    if kind == "flip":
        _flip(storage, at + rng.randrange(90), rng.randrange(8))
    elif kind == "sysFlag":
        _flip(storage, at + 39, 2)  # MessageSysFlag.TRANSACTION_PREPARED_TYPE
    elif kind == "zeros":
        storage.files[_log(start)] = raw[: rng.randrange(len(raw))].ljust(len(raw), b"\0")
    elif kind in ("cut", "short"):
        less = rng.randrange(1, len(raw)) if kind == "cut" else rng.randrange(1, 8)
        storage.files[_log(start)] = raw[:-less]
    elif kind == "gone" and len(starts) > 1:
        del storage.files[_log(start)]
    elif kind in ("renamed", "moved"):
        to = start + (rng.randrange(1, SEGMENT) if kind == "renamed" else 9 * SEGMENT)
        storage.files[_log(to)] = storage.files.pop(_log(start))
    elif kind == "swapped":
        storage.files[_log(start)], storage.files[_log(other)] = storage.files[_log(other)], raw
    return kind


def _in_queues(storage: MemoryStorage, folder: str, built: Built) -> set[int]:
    """The places of the messages that a set's queues have at their queueOffsets."""
    found = set()
    for place, message in zip(built.places(), built.messages, strict=True):
        at = message.queue_offset * 20
        path = f"{folder}/consumequeue/{message.topic}/{message.queue_id}/{at // 200 * 200:020}"
        entry = storage.files.get(path, b"")[at % 200 :][:12]
        if entry == struct.pack(">qi", place, len(encode(message, place))):
            found.add(place)
    return found


@pytest.mark.long
@pytest.mark.explore
@pytest.mark.parametrize("seed", seeds(range(120)))
def test_what_a_changed_store_loses_is_said(seed: int) -> None:
    rng = Random(seed)
    built = Built(version=rng.choice(["4.9.7", "5.3.3", "5.5.1"]))
    for _ in range(rng.choice([9, 30, 90])):
        built.put(rng.choice("AB"), rng.randrange(2), keys="k", body=rng.randbytes(rng.choice(
            [0, 5, 60, 200]
        )))  # fmt: skip
    storage, places = built.derive().storage(), built.places()
    kinds = [_change(storage, places, rng) for _ in range(rng.choice([1, 1, 2]))]
    log = {path: raw for path, raw in storage.files.items() if path.startswith("s/commitlog/")}
    whole, readable = set(), set()  # those in their place, and those in some file
    for place, message in zip(places, built.messages, strict=True):
        raw, there = encode(message, place), log.get(_log(place // SEGMENT * SEGMENT), b"")
        whole |= {place} if there[place % SEGMENT :].startswith(raw) else set()
        readable |= {place} if any(raw in each for each in log.values()) else set()
    given: dict[str, Any] = {
        "rocketmq": built.version, "settings": built.given(), "storage": storage,
    }  # fmt: skip
    report = check(Session(seed), "s", **given)
    if report.sound and report.log_start == 0:  # else its first segments may have expired
        assert set(places) == whole or not set(kinds) - {"flip", "short"}, kinds
    copied = repair(Session(seed), "s", "copy", **given)
    said = copied.not_filled or copied.left_out or copied.damage["past_end"]
    if not (said or copied.damage["left_out"]):
        assert readable <= _in_queues(storage, "copy", built), kinds
    try:
        told = rebuild(Session(seed), "s", "set", **given)
    except StoreError:
        return
    if not (told.left_out or told.in_no_queue or report.damage["range_count"]):
        assert readable <= _in_queues(storage, "set", built), kinds
