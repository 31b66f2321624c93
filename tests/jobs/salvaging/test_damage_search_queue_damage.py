"""What damage did to queues: positions that are lost, and records that are not of their queue."""

from dataclasses import replace
from typing import Any

import pytest

from reput.jobs.check import check
from reput.jobs.salvaging.damage_map import DamageMap
from reput.jobs.salvaging.damage_search import map_damage
from reput.store_format.damage.queue_findings import Gap
from reput.store_format.discover.purpose import REPLICATE
from reput.store_format.faults import Fault
from tests.built import Built
from tests.damaged import Damaged, damaged, messages
from tests.in_process import Session
from tests.jobs.found import found, job_of

SEGMENT = 1 << 16
MAGIC, QUEUE_ID, QUEUE_OFFSET, SYS_FLAG = 5, 15, 20, 39  # bytes of a record


def mapped(log: Damaged, **more: Any) -> DamageMap:
    return map_damage(job_of(found(log.log, purpose=REPLICATE)), **more)


def flipped(*changes: tuple[int, int, int], count: int = 60, queues: int = 3) -> Damaged:
    """A log with flipped bits: (record, byte, bit) each."""
    log = damaged(messages(count, queues), SEGMENT)
    for number, byte, bit in changes:
        log.flip(number, byte, bit)
    return log


def test_the_position_of_a_lost_message_is_between_its_queues_neighbours() -> None:
    log = flipped((7, MAGIC, 0))
    found_map = mapped(log)
    at = log.places
    assert found_map.gaps == [Gap("T", 1, False, 2, 1, at[4], at[10])]
    assert (found_map.messages_missing, found_map.gaps_unlisted) == (1, 0)


def test_what_a_queue_lost_at_its_begin_is_known_and_at_its_end_is_not() -> None:
    log = flipped((0, MAGIC, 0))
    assert mapped(log).gaps == [Gap("T", 0, False, 0, 1, -1, log.places[3])]
    assert mapped(flipped((58, MAGIC, 0))).messages_missing == 0


@pytest.mark.parametrize(("listed", "named"), [(1, 1), (2, 2), (4, 4), (5, 4)])
def test_so_many_gaps_are_listed_in_the_logs_order_and_all_are_counted(
    listed: int, named: int
) -> None:
    log = flipped(*((number, MAGIC, 0) for number in (40, 7, 20, 31)))
    found_map = mapped(log, gaps_listed=listed)
    wanted = [(1, 2), (2, 6), (1, 10), (1, 13)]  # queue and position of records 7, 20, 31, 40
    assert [(gap.queue_id, gap.first) for gap in found_map.gaps] == wanted[:named]
    assert (found_map.messages_missing, found_map.gaps_unlisted) == (4, 4 - named)


def leaping(by: int) -> Damaged:
    """One queue of 120 messages; from the 60th on its positions are higher."""
    made = [
        replace(m, queue_offset=m.queue_offset + by * (n >= 60))
        for n, m in enumerate(messages(120, 1))
    ]
    return damaged(made, SEGMENT)


@pytest.mark.parametrize(("by", "kept"), [(1, True), (2, True), (3, False)])
def test_a_queue_keeps_a_position_or_two_that_no_lost_bytes_explain_in_a_damaged_log(
    by: int, kept: bool
) -> None:
    log = leaping(by)
    found_map = mapped(log)
    assert (found_map.count, found_map.gaps, found_map.messages_missing) == (0, [], 0)
    assert not found_map.linked.queue_damage.no_room
    log.flip(10, MAGIC)
    found_map = mapped(log)
    surely = {("T", 0, log.places[60])} if kept else set()
    assert found_map.linked.queue_damage.no_room == surely
    assert found_map.messages_missing == 1 + (by if kept else 0)


def test_a_queue_offset_that_its_neighbours_outvote_counts_as_they_say() -> None:
    found_map = mapped(flipped((30, QUEUE_OFFSET, 6)))
    assert (found_map.renumberings, found_map.messages_missing, found_map.count) == (1, 0, 0)
    (finding,) = found_map.findings
    assert f"queueOffset {(1 << 62) + 10} is outvoted by its neighbours" in finding.reason
    assert finding.reason.endswith("in topic 'T', queue 0: 1 kept from position 10")
    assert [each.queue_offset for each in found_map.testimony] == [10]


def test_a_queue_offset_that_cannot_begin_its_queue_counts_by_those_behind() -> None:
    found_map = mapped(flipped((0, QUEUE_OFFSET, 7)))
    assert found_map.renumberings == 1
    (finding,) = found_map.findings
    assert "cannot begin topic 'T', queue 0: by those that follow, of its first 1" in finding.reason
    assert finding.reason.endswith("1 kept from position 0")


def test_a_record_that_another_queue_misses_is_lost_and_its_queue_is_told() -> None:
    log = flipped((30, QUEUE_ID, 2))  # alone in queue 4
    found_map = mapped(log)
    (stray,) = found_map.strays
    assert (stray.offset, stray.length, stray.fault) == (log.places[30], log.size(30), Fault.STRAY)
    assert found_map.strays == found_map.ranges
    assert found_map.bytes_lost == log.size(30)
    (loss,) = found_map.linked.lost.segments
    assert (loss.total, loss.more) == (log.size(30), ((log.places[30], log.size(30)),))
    assert [(gap.queue_id, gap.first) for gap in found_map.gaps] == [(0, 10)]
    told = [(each.topic, each.queue_id) for each in found_map.testimony]
    assert told == [("T", 0)]
    assert found_map.linked.queue_damage.strays == {log.places[30]}


def test_a_transaction_type_that_keeps_a_record_out_of_its_queue_is_named() -> None:
    log = flipped((200, SYS_FLAG, 2), count=300, queues=1)
    found_map = mapped(log)
    (kept_out,) = found_map.strays
    assert (kept_out.offset, kept_out.fault, kept_out.value) == (
        log.places[200], Fault.KEPT_OUT, 4,
    )  # fmt: skip
    assert found_map.messages_missing == 1


@pytest.mark.parametrize("kept_out", [4, 12])
def test_a_record_that_its_queue_has_is_kept_out_by_a_flipped_transaction_type(
    kept_out: int,
) -> None:
    """The queue is too short to be believed without its file, whose entry names the record."""
    built = Built().put(count=15).put("U", count=15).derive()
    place = built.places()[6]
    built.damage("commitlog", place + SYS_FLAG, bytes([kept_out]))
    given = {"rocketmq": "5.3.3", "settings": built.given()}
    report = check(Session(), "s", storage=built.storage(), **given)  # type: ignore[arg-type]
    assert [(each["offset"], each["field"]) for each in report.damage["ranges"]] == [
        (place, "sysFlag")
    ]
    assert report.damage["messages_missing"] == 1
    without = check(Session(), "s", storage=built.remove("consumequeue").storage(), **given)  # type: ignore[arg-type]
    assert without.damage["ranges"] == []
