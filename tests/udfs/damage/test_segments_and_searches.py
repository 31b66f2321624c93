"""A damaged segment scanned past its damage: its ranges, and what is live behind them."""

import json
from dataclasses import replace
from typing import Any

import pytest

from reput.jobs.rebuild import REFUSE
from reput.store_format.damage.ranges import DamageKind
from reput.store_format.derived.checkpoint import Checkpoint
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import DamageFound, Fault
from reput.store_format.files.protocol import FileState
from reput.store_format.log.rules import RecordRules
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.udfs.damage.searches import FindFalseTransactions, FindTorn, Missed
from reput.udfs.damage.segments import DamagedSegment, MapSegments
from reput.udfs.range_files import read_ranges
from reput.udfs.staging import Staging
from tests.damaged import SEGMENT, SETTINGS, Damaged, damaged, messages
from tests.in_process import as_text, rebuild_log
from tests.logs.encoder import properties
from tests.memory_storage import MemoryStorage
from tests.udfs.damage.logs import stored
from tests.udfs.tables import rows_of

RULES = scan_rules(profile("5.3.3"), settings_from(as_text(SETTINGS)), ())
MAGIC = 4
Row = dict[str, Any]


def mapped(log: Damaged, number: int = 0, cut: int = SEGMENT, **more: Any) -> tuple[Row, Staging]:
    """cut: bytes of the segment's file"""
    storage, segments = stored(log)
    segment = segments[number]
    storage.files[segment.path] = storage.files[segment.path][:cut]
    segment = segment._replace(state=FileState(cut, 0, 0))
    staging = more.pop("staging", Staging(MemoryStorage(), "staging"))
    one = DamagedSegment(number, segment, more.pop("last_timestamp", None),
                         number == len(segments) - 1)  # fmt: skip
    task = MapSegments(storage, staging, (one,), SEGMENT, 1, RULES, more.pop("runs", ()), **more)
    (row,) = rows_of(task, 0)
    return row, staging


def ranges(row: Row, staging: Staging) -> list[tuple[int, int, DamageKind, Fault]]:
    return [damage[:4] for damage in read_ranges(staging, row["run"])]


@pytest.mark.parametrize("known", [False, True])
def test_records_that_their_queues_have_already_are_stale_behind_damage(known: bool) -> None:
    made = messages(60, 1)
    count = sum(place < SEGMENT for place in damaged(made).places)
    made[count + 1 :] = [replace(m, queue_offset=n) for n, m in enumerate(made[count + 1 :])]
    log = damaged(made)
    log.flip(count, MAGIC)
    before, staging = mapped(log)
    runs = ((0, before["run"]),) if known else ()
    row, _ = mapped(log, 1, staging=staging, runs=runs, last_timestamp=before["last_timestamp"])
    assert (row["records"] == 0) == known
    assert {kind for kind, *_ in json.loads(row["causes"])} == (
        {"damaged", "stale"} if known else {"damaged"}
    )


# --- A message that a queue misses, and a record that only its transaction type keeps out of it.
RULES_SEARCHES = RecordRules(True, True)
SYS_FLAG, PREPARED, COMMIT = 39, 2, 3  # the flag's last byte, and bits in it
OF = 20  # the record that is looked for: position 6 of queue 2


def log_with(*flips: tuple[int, int, int]) -> Damaged:
    log = damaged(messages(60))
    for flip in flips:
        log.flip(*flip)
    return log


def found(log: Damaged, *missed: Missed, segment: int = 0) -> list[tuple[int, int, int]]:
    storage, segments = stored(log)
    task = FindFalseTransactions(storage, segments, SEGMENT, RULES_SEARCHES, missed)
    return [tuple(row.values()) for row in rows_of(task, segment)]


def missed(log: Damaged, topic: str = "T", queue: int = 2, offset: int = 6, after: int = OF - 3,
           before: int = OF + 3) -> Missed:  # fmt: skip
    return Missed(topic, queue, offset, log.places[after], log.places[before])


@pytest.mark.parametrize(
    ("flips", "flag"), [((PREPARED,), 4), ((PREPARED, COMMIT), 12), ((COMMIT,), None), ((), None)]
)
def test_prepared_and_rolled_back_records_are_in_no_queue(flips, flag) -> None:
    log = log_with(*((OF, SYS_FLAG, bit) for bit in flips))
    wanted = [] if flag is None else [(log.places[OF], log.size(OF), flag)]
    assert found(log, missed(log)) == wanted


@pytest.mark.parametrize(("asked", "is_found"), [
    ({}, True), ({"topic": "U"}, False), ({"queue": 1}, False), ({"offset": 7}, False),
    ({"after": OF - 1, "before": OF + 1}, True), ({"after": OF}, False), ({"before": OF}, False),
])  # fmt: skip
def test_it_must_be_the_missed_message_between_its_neighbours(asked, is_found) -> None:
    log = log_with((OF, SYS_FLAG, PREPARED))
    assert bool(found(log, missed(log, **asked))) == is_found  # type: ignore[arg-type]


# --- Whether live records follow the damage: then a rebuild is refused.
def test_live_records_behind_a_stale_stretch_are_seen() -> None:
    """All stretches of a split are looked at, not the first one behind the damage alone."""
    made = messages(100, 1)
    made[30:40] = [
        replace(m, queue_offset=n, store_timestamp=m.store_timestamp - 10_000_000)
        for n, m in enumerate(made[30:40])
    ]
    log = damaged(made, 1 << 16)
    log.flip(29, 5)
    log.flip(40, 5)
    first = log.places[41]
    with pytest.raises(DamageFound, match=f"live records follow, the first at offset {first}:"):
        rebuild_log(log.log, on_damage=REFUSE)


# --- Records that lost a sector of topic or properties, or that were written in part.
SIZE = 1000  # of each record: 88 bytes, its body's 8, a topic of 1, and its properties
TEXT = properties(("KEYS", "k" * (SIZE - 91 - 8 - 1 - 6)))


def log() -> Damaged:
    made = damaged(messages(4, 1, properties=TEXT))
    assert made.places == [0, 1000, 2000, 3000]
    return made


def torn(
    changed: Damaged, durable: int = 0, start: int = 0, end: int = 4 * SIZE, killed: bool = False
) -> list[int]:
    """The places of the records that are torn."""
    storage, segments = stored(changed)
    task = FindTorn(
        storage, segments[0], start, end, RecordRules(True, True), Checkpoint(durable),
        "store" if killed else None,
    )  # fmt: skip
    rows = rows_of(task, 0)
    assert all(row["size"] == SIZE for row in rows)
    return [row["offset"] for row in rows]


@pytest.mark.parametrize(("place", "length", "found"), [
    (1536, 464, []),  # the record after it has bytes in that sector
    (1024, 512, []),  # so has the record's head
    (2560, 512, [2000]), (2560, 440, []),
    (3584, 416, [3000]),  # the log's last record: nothing follows
    (3585, 415, []), (3583, 417, []), (3584, 415, []), (3072, 512, []),
])  # fmt: skip
def test_zeros_of_a_whole_sector_are_a_lost_one(place: int, length: int, found: list[int]) -> None:
    changed = log()
    changed.put(place, bytes(length))
    assert torn(changed) == found
