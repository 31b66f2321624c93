"""Which damaged range keeps which lost positions: the room is counted by hand from the layout."""

from dataclasses import replace
from typing import Any

import pytest

from reput.jobs.deriving.kept import StateCopy
from reput.jobs.outputs.report import OutputFile, carried_names
from reput.jobs.pipeline.link import Linked
from reput.jobs.repair import repair
from reput.jobs.salvaging.damage_map import DamageMap
from reput.jobs.salvaging.damage_search import map_damage
from reput.jobs.salvaging.repair import (
    RepairSummary,
    move_segments,
    place_lost,
    repair_segments,
    uses_crc_property,
)
from reput.store_format.damage.queue_ends import Losses, SegmentLoss
from reput.store_format.damage.queue_findings import Gap
from reput.store_format.damage.repair import LostPositions
from reput.store_format.discover.purpose import REPLICATE
from reput.udfs.staging import Staging
from tests.damaged import SEGMENT as LOG_SEGMENT
from tests.damaged import Damaged, damaged, messages
from tests.in_process import OUTPUT, STORE, Session, as_text, storage_of
from tests.jobs.found import STAGING, found, job_of
from tests.memory_storage import MemoryStorage
from tests.seeds import some
from tests.store_format.damage import generator

SEGMENT = 10_000
RECORD = 92  # the 91 fixed bytes with IPv4, and a topic of one letter
CRC = 20  # `__CRC32#`, 01, ten digits, 02
BLANK = 8
Placed = dict[int, list[tuple[int, int]]]  # range -> (first, many) of each


def gap(first: int, count: int, after: int, before: int, topic: str = "T") -> Gap:
    return Gap(topic, 0, False, first, count, after, before)


def placed(
    gaps: list[Gap], ranges: list[tuple[int, int]], crc: bool = False, spare: bool = False
) -> tuple[Placed, RepairSummary]:
    """ranges: (offset, bytes) of what is lost."""
    lost = Losses((SegmentLoss(0, 1 << 40, "", tuple(ranges), 0),), True)
    found = DamageMap(Linked([], 1 << 40, lost=lost), {}, [], SEGMENT, [], 0, gaps=gaps)
    summary = RepairSummary("s", "o", "5.3.3", 0, 0, {})
    staging = Staging(MemoryStorage(), "staging")
    kept: dict[int, list[LostPositions]] = place_lost(staging, found, summary, crc, spare)
    return {at: [each[2:] for each in some] for at, some in kept.items()}, summary


def test_a_range_keeps_as_many_as_records_fit() -> None:
    for length, many in ((3 * RECORD, 3), (3 * RECORD - 1, 2), (RECORD - 1, 0)):
        kept, summary = placed([gap(7, 3, 50, 900)], [(100, length)])
        assert kept == ({100: [(7, many)]} if many else {})
        assert sum(each["many"] for each in summary.filled) == many
        not_filled = [(each["first"], each["count"]) for each in summary.not_filled]
        assert not_filled == ([(7 + many, 3 - many)] if many < 3 else [])
        assert len(summary.warnings) == (many < 3)
    start = SEGMENT - RECORD - BLANK  # over a segment's end it is cut, with room for its blank
    kept, _ = placed([gap(7, 9, 50, 90_000)], [(start, 2 * RECORD + BLANK)])
    assert kept == {start: [(7, 1)], SEGMENT: [(8, 1)]}
    kept, _ = placed([gap(7, 9, 50, 90_000)], [(start + 1, 2 * RECORD + BLANK)])
    assert kept == {SEGMENT: [(7, 1)]}
    for spare, many in ((False, 1), (True, 2)):  # checksums are given up for positions
        kept, _ = placed([gap(7, 2, 50, 900)], [(100, RECORD + CRC + RECORD - 1)], True, spare)
        assert kept == {100: [(7, many)]}


def test_of_several_gaps_the_one_that_ends_first_takes_the_first_range_and_a_begin_the_rest():
    ranges = [(100, RECORD), (300, RECORD), (500, RECORD), (700, RECORD)]
    kept, _ = placed([gap(7, 9, 200, 700)], ranges)  # those between its neighbours only
    assert kept == {300: [(7, 1)], 500: [(8, 1)]}
    gaps = [gap(20, 1, 50, 900, "B"), gap(10, 1, 50, 250, "A")]
    kept, summary = placed(gaps, [(100, RECORD), (300, RECORD)])
    assert kept == {100: [(10, 1)], 300: [(20, 1)]}
    assert not summary.not_filled
    # where a queue begins the positions before its first message matter most
    kept, summary = placed([gap(0, 5, -1, 900)], [(100, 2 * RECORD)])
    assert kept == {100: [(3, 2)]}
    assert [(each["first"], each["count"]) for each in summary.not_filled] == [(0, 3)]
    assert "the queue begins behind them" in summary.warnings[0]
    gaps = [gap(0, 2, -1, 250, "A"), gap(20, 2, 50, 900, "B")]
    kept, summary = placed(gaps, [(100, 2 * RECORD)])
    assert kept == {100: [(20, 2)]}
    assert [each["topic"] for each in summary.not_filled] == ["A"]


# --- A repaired copy: whole segments with fillers, the bytes they replaced, and the configuration.
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


def test_a_missing_segment_is_made_anew() -> None:
    log = damaged(messages(100))
    rows, storage = repaired(log, without=LOG_SEGMENT)
    assert [row["start"] for row in rows] == [0, LOG_SEGMENT, 2 * LOG_SEGMENT]
    assert len(written(storage, rows[1])) == LOG_SEGMENT
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


# --- What a person and a manifest are told of a repair.
DAMAGE = {"ranges": [], "range_count": 1, "bytes_lost": 9, "messages_missing": 2}


def summary_summary(**more: Any) -> RepairSummary:
    return RepairSummary("s", "out", "5.3.3", 0, 900, DAMAGE, **more)


def test_the_manifest_tells_of_the_store_that_was_read_and_not_of_the_run() -> None:
    one, other = summary_summary(), summary_summary(seconds=7.5, releases="5.3.3 or 5.3.2")
    other.output = "elsewhere"
    told = one.manifest()
    assert told == other.manifest()
    assert (told["format"], told["repaired"]) == ("reput-repair-1", DAMAGE)
    assert "damage" not in told
    file = OutputFile("commitlog/0", 9, "00")
    told = summary_summary(segments=[file, file], saved=[file]).as_json()
    assert (told["segments"], told["saved"], told["derived"]) == (2, 1, 0)


@pytest.mark.parametrize(("more", "line"), [
    ({"fillers": 1, "filled": [{"many": 1}]},
     "  fillers   1 record, of which 1 keeps a lost message's position"),
    ({"fillers": 9, "filled": [{"many": 2}, {"many": 3}]},
     "  fillers   9 records, of which 5 keep a lost message's position"),
    ({"fillers": 2}, "  fillers   2 records, of which 0 keep a lost message's position"),
    ({"corrected": 1},
     "  kept      1 record whose checksum is wrong: the copy's is made anew"),
    ({"saved": [OutputFile("damaged/0", 1000, ""), OutputFile("damaged/1", 1, "")]},
     "  saved     1,001 damaged bytes in damaged/"),
    ({"restored": [{"field": "magic", "record": 7, "bits": ["bit 3"], "by": "its place"}]},
     "  put back  magic of the record at 7: bit 3; by its place"),
    ({"warnings": ["look"]}, "  warning   look"),
])  # fmt: skip
def test_only_what_was_done_has_a_line(more: dict[str, Any], line: str) -> None:
    plain = summary_summary().text().splitlines()
    lines = summary_summary(**more).text().splitlines()
    assert [each for each in lines if each not in plain] == [line]
    assert lines[-1] == "  next      start a broker on out"


# --- `repair --put-back`: what witnesses tell is put back, bit by bit; what they do not is left.
def restored(log: Damaged, restore: bool = True) -> tuple[RepairSummary, MemoryStorage]:
    storage = storage_of(log.log)
    summary = repair(Session(), STORE, OUTPUT, rocketmq=log.version, storage=storage,  # type: ignore[arg-type]
                     settings=as_text(log.settings), put_back=restore)  # fmt: skip
    return summary, storage


def log_of(crc: bool = False) -> Damaged:
    made = [replace(m, born_timestamp=m.store_timestamp - 3) for m in messages(80, 2)]
    return damaged([replace(m, crc_property=crc) for m in made], 1 << 16)


TOPIC_AT = 88 + len(b"body 030") + 1
CASES: dict[str, tuple[bool, int, int, str]] = {
    "magic": (False, 5, 3, "magic"), "its place": (False, 34, 3, "physicalOffset"),
    "queueOffset": (False, 24, 6, "queueOffset"), "queueId": (False, 13, 2, "queueId"),
    "topic": (False, TOPIC_AT, 7, "topic"), "transaction type": (False, 39, 2, "sysFlag"),
    "any field, by its checksum": (True, 74, 5, "reconsumeTimes"),
    "a property, by its checksum": (True, TOPIC_AT + 5, 0, "topic/properties"),
    "the checksum itself, one bit away": (True, TOPIC_AT + 30, 2, "topic/properties"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_field_that_witnesses_tell_is_put_back(case: str) -> None:
    crc, byte, bit, name = CASES[case]
    log = log_of(crc)
    whole = {start: bytes(raw) for start, raw in log.segments.items()}
    log.flip(30, byte, bit)
    summary, storage = restored(log)
    (reported,) = summary.restored
    assert reported["record"] == log.places[30]
    assert reported["field"] == name
    assert reported["bits"] == [f"byte {byte}, bit {bit}"]
    assert reported["by"]
    assert f"byte {byte}, bit {bit}; by " in summary.text()
    assert storage.files[f"{OUTPUT}/commitlog/{0:020d}"] == whole[0]
    assert summary.fillers == 0


def test_what_witnesses_do_not_tell_is_left_and_named_and_all_without_the_option() -> None:
    log = log_of(crc=True)
    for byte, bit in ((74, 5), (75, 1)):  # two bits: no checksum finds them
        log.flip(30, byte, bit)
    summary, _ = restored(log)
    assert summary.restored == []
    (found,) = summary.damage["ranges"]
    assert found["physical_offset"] == log.places[30]
    for case in ("magic", "queueId"):
        crc, byte, bit, _ = CASES[case]
        log = log_of(crc)
        log.flip(30, byte, bit)
        summary, _ = restored(log, restore=False)
        assert (summary.restored, summary.fillers) == ([], 1)


def kept(hurt: generator.Hurt, restore: bool) -> tuple[int, int]:
    """(untouched messages that repair displaces, positions for which it found no room)."""
    summary, storage = restored(hurt.log, restore)
    start = f"{OUTPUT}/"
    files = {p.removeprefix(start): r for p, r in storage.files.items() if p.startswith(start)}
    return generator.judge(hurt, generator.queues_of(files), []).displaced, len(summary.not_filled)


@pytest.mark.parametrize("restore", [False, True], ids=["filled", "restored"])
@pytest.mark.parametrize("seed", [0, 1])
def test_flips_everywhere_displace_nothing_in_the_copy(seed: int, restore: bool) -> None:
    """Two hundred in a log of 1,200 messages: most of its gaps overlap, and there is just room. In
    the second log they make up a queue, of a record whose body is damaged too.
    """
    assert kept(generator.generate("200 flips", seed, crc=True), restore) == (0, 0)


def test_a_short_file_or_another_name_of_a_segment_displaces_nothing() -> None:
    """A record that a short file cuts lacks only text, and is kept: fillers begin behind it. (They
    began within it, and the copy was refused as damaged.) The names of two segments differ in one
    bit, as the first 1 GiB and the second do: that is no flipped bit of a record's place.
    """
    assert kept(generator.generate("a halved segment", 1, crc=False), restore=False) == (0, 0)
    hurt = generator.generate("swapped segments", 2, crc=False)
    summary, _ = restored(hurt.log, restore=True)
    assert [each for each in summary.restored if each["field"] == "physicalOffset"] == []
    assert kept(hurt, restore=True) == (0, 0)


# Of 400 messages and 67 flipped bits without a checksum, each log needs another rule: a flipped
# queueId that makes up a queueOffset in another queue (8: one that is outvoted there, 32: one that
# is there twice), wrong queueOffsets near other damage (57, 114, 144) and at a queue's end (146), a
# queue that lacks a message where nothing is lost (78, 87, 101). The number: for so many gaps the
# copy has no room.
DENSE = {8: 0, 32: 0, 57: 0, 78: 0, 87: 1, 101: 2, 114: 0, 144: 0, 146: 0}


@pytest.mark.parametrize("seed", DENSE)
def test_dense_flips_displace_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No room for a lost position is shown by name; those behind it stay where they are."""
    monkeypatch.setitem(generator.KINDS, "few", lambda hurt: generator.flips(hurt, 67))
    hurt = generator.generate("few", seed, crc=False, count=400)
    found = generator.salvaged(hurt, derived=False)
    judged = generator.judge(hurt, generator.queues_of(found.files), [])
    assert (judged.displaced, judged.fabricated) == (0, 0)
    assert kept(hurt, restore=False) == (0, DENSE[seed])


@pytest.mark.long
@pytest.mark.explore
@pytest.mark.parametrize("restore", [False, True], ids=["filled", "restored"])
@pytest.mark.parametrize("crc", [False, True], ids=["bare", "crc"])
@pytest.mark.parametrize("kind", generator.KINDS)
def test_the_copy_displaces_nothing(kind: str, crc: bool, restore: bool) -> None:
    for seed in some(range(1)):
        assert kept(generator.generate(kind, seed, crc), restore) == (0, 0), seed
