"""A damaged segment scanned past its damage: its ranges, and what is live behind them."""

import json
from dataclasses import replace
from typing import Any

import pytest

from reput.store_format.damage.ranges import DamageKind
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import Fault
from reput.store_format.files.protocol import FileState
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.udfs.damage.segments import DamagedSegment, MapSegments
from reput.udfs.range_files import read_ranges
from reput.udfs.staging import Staging
from tests.damaged import SEGMENT, SETTINGS, Damaged, damaged, messages
from tests.in_process import as_text
from tests.memory_storage import MemoryStorage
from tests.udfs.damage.logs import rows_of, stored

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


def test_the_driver_is_told_how_far_it_has_come_and_after_the_most_ranges_it_gives_up() -> None:
    log = damaged(messages(20))
    for n in (3, 7, 11):
        log.flip(n, MAGIC)
    assert [mapped(log, most_ranges=most)[0]["given_up"] for most in (2, 3, 4)] == [
        True, True, False,
    ]  # fmt: skip
    log = damaged(messages(20))
    log.flip(3, MAGIC)
    row, staging = mapped(log)
    assert f"staging/{row['run']}.{SEGMENT}.1.past" in staging.storage.files  # type: ignore[attr-defined]


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
