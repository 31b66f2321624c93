"""A repaired copy: whole segments with fillers, the bytes they replaced, and the configuration."""

import struct
from typing import Any

import pytest

from reput.jobs.deriving.kept import StateCopy
from reput.jobs.outputs.report import carried_names
from reput.jobs.salvaging.damage_search import map_damage
from reput.jobs.salvaging.repair import (
    RepairSummary,
    move_segments,
    repair_segments,
    uses_crc_property,
)
from reput.store_format.discover.purpose import REPLICATE
from reput.udfs.staging import Staging
from tests.damaged import SEGMENT, Damaged, damaged, messages
from tests.in_process import STORE, storage_of
from tests.jobs.found import STAGING, found, job_of
from tests.memory_storage import MemoryStorage

Rows = list[dict[str, Any]]


def summary(log_end: int = 0) -> RepairSummary:
    return RepairSummary(STORE, "out", "5.3.3", 0, log_end, {})


def repaired(log: Damaged, without: int | None = None) -> tuple[Rows, MemoryStorage]:
    storage = storage_of(log.log)
    if without is not None:
        del storage.files[f"{STORE}/commitlog/{without:020d}"]
    job = job_of(found(log.log, storage, purpose=REPLICATE))
    found_map = map_damage(job)
    return repair_segments(job, found_map, summary(found_map.linked.end)), storage


def written(storage: MemoryStorage, row: dict[str, Any], column: str = "name") -> bytes:
    return storage.files[f"{STAGING}/{row[column]}"]


def test_a_sound_log_is_copied_byte_by_byte() -> None:
    log = damaged(messages(100), extra_segments=1)
    rows, storage = repaired(log)
    assert [row["start"] for row in rows] == [0, SEGMENT, 2 * SEGMENT]
    for row in rows:
        assert written(storage, row) == log.segments[row["start"]]
        assert (row["length"], row["fillers"], row["corrected"]) == (SEGMENT, 0, 0)
        assert not row["saved"]


def test_a_damaged_record_becomes_a_filler_and_its_bytes_are_kept() -> None:
    log = damaged(messages(100))
    log.flip(7, 5)
    rows, storage = repaired(log)
    place, size = log.places[7], log.size(7)
    assert [(row["fillers"], row["saved_bytes"]) for row in rows] == [(1, size), (0, 0), (0, 0)]
    made, whole = written(storage, rows[0]), log.segments[0]
    assert made[:place] + made[place + size :] == whole[:place] + whole[place + size :]
    assert written(storage, rows[0], "saved") == whole[place : place + size]
    filler = made[place : place + size]  # a record of queue 1, at position 2
    assert struct.unpack_from(">iIiiiqq", filler)[:2] == (size, 0xDAA320A7)
    assert struct.unpack_from(">iiqq", filler, 12) == (1, 0, 2, place)


def test_a_record_with_a_wrong_body_only_gets_the_checksum_of_its_bytes() -> None:
    log = damaged(messages(100))
    log.flip(7, 90)
    rows, storage = repaired(log)
    assert [(row["fillers"], row["corrected"]) for row in rows] == [(0, 1), (0, 0), (0, 0)]
    at = log.places[7]
    made = written(storage, rows[0])
    changed = [n for n in range(SEGMENT) if made[n] != log.segments[0][n]]
    assert changed
    assert set(changed) <= set(range(at + 8, at + 12))  # bodyCRC


def test_a_missing_segment_is_made_anew() -> None:
    log = damaged(messages(100))
    rows, storage = repaired(log, without=SEGMENT)
    assert [row["start"] for row in rows] == [0, SEGMENT, 2 * SEGMENT]
    assert len(written(storage, rows[1])) == SEGMENT
    assert rows[1]["fillers"] > 0


@pytest.mark.parametrize(
    ("release", "setting", "in_log", "uses"),
    [
        ("5.3.3", {}, False, False),
        ("5.3.3", {}, True, True),
        ("5.3.3", {"enabledAppendPropCRC": "true"}, False, True),
        ("5.3.3", {"forceVerifyPropCRC": "true"}, True, True),
        ("5.1.4", {}, True, False),  # such properties are known from 5.2.0 on
    ],
)
def test_fillers_have_a_checksum_where_settings_or_the_last_record_say_so(
    release: str, setting: dict[str, str], in_log: bool, uses: bool
) -> None:
    log = damaged(messages(20, crc_property=in_log))
    log.version = release
    log.settings |= setting
    job = job_of(found(log.log, purpose=REPLICATE))
    assert uses_crc_property(job.plan, map_damage(job)) == uses


def test_segments_behind_the_logs_end_stay_away_and_counts_are_summed() -> None:
    names = ("a", "b", "c", "a.saved", "a.list")
    storage = MemoryStorage({f"{STAGING}/{name}": name.encode() for name in names})
    none = {"saved": "", "saved_bytes": 0, "listing": "", "fillers": 0, "corrected": 0}
    rows: Rows = [
        {**none, "start": 0, "name": "a", "length": 9, "used": 9, "sha256": "x", "saved": "a.saved",
         "saved_bytes": 3, "listing": "a.list", "fillers": 2, "corrected": 1},
        {**none, "start": 100, "name": "b", "length": 9, "used": 9, "sha256": "y", "fillers": 5},
        {**none, "start": 200, "name": "c", "length": 9, "used": 9, "sha256": "z"},
    ]  # fmt: skip
    told = summary(log_end=200)
    move_segments(Staging(storage, STAGING), "out", rows, told)
    assert {path: raw for path, raw in storage.files.items() if path.startswith("out/")} == {
        f"out/commitlog/{0:020d}": b"a", f"out/commitlog/{100:020d}": b"b",
        f"out/damaged/{0:020d}": b"a.saved", f"out/damaged/{0:020d}.json": b"a.list",
    }  # fmt: skip
    assert (told.fillers, told.corrected) == (7, 1)
    assert [(each.path[-2:], each.length) for each in told.segments] == [("00", 9), ("00", 9)]
    assert [each.length for each in told.saved] == [3, 0]
    told = summary(log_end=0)  # an empty log has its first segment all the same
    storage.files[f"{STAGING}/a"] = b"a"
    move_segments(Staging(storage, STAGING), "other", [{**rows[0], **none}], told)
    assert [each.path for each in told.segments] == [f"commitlog/{0:020d}"]


def test_what_the_log_does_not_decide_is_copied_and_nothing_else() -> None:
    """Configuration and its databases, pop's rows, what compaction kept, epochs; but no file that
    a broker makes at its start, and none of its own host.
    """
    log = damaged()
    storage = storage_of(log.log)
    kept = {
        "config/big.json": b"x" * (1 << 20) + b"y", "config/empty": b"",
        "config/topics/CURRENT": b"c", "config/topics/000001.sst": b"s",
        "kvStore/000001.sst": b"k", "compaction/position-checkpoint": b"p",
        f"compaction/compactionLog/T/0/{0:020d}": b"l",
        f"compaction/compactionCq/T/0/{0:020d}": b"q",
        "epochFileCheckpoint": b"e", "epochFileCheckpoint.bak": b"o",
    }  # fmt: skip
    left = {"config/other/file", "lock", "timerwheel", "brokerIdentity", "notes.txt", "logs/x.log"}
    storage.files |= {f"{STORE}/{name}": raw for name, raw in kept.items()}
    storage.files |= {f"{STORE}/{name}": b"f" for name in left}
    plan = found(log.log, storage).plan
    told = summary()
    StateCopy(plan.storage, plan.store, storage, "out", told).copy(carried_names())
    copied = {path.removeprefix("out/"): raw for path, raw in storage.files.items()
              if path.startswith("out/")}  # fmt: skip
    assert copied == {**kept, "config/topics.json": storage.files[f"{STORE}/config/topics.json"]}
    assert set(copied) == set(told.copied)
    assert told.warnings == [f"{STORE}/config/other: is not a regular file: not copied"]
