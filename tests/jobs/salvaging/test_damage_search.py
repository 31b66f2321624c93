"""The search for damage: where a range is, what is lost in it, and where the live log ends."""

from dataclasses import replace
from typing import Any

import pytest

from reput.jobs.check import check
from reput.jobs.pipeline.pipeline import Cut, Pipeline
from reput.jobs.salvaging.damage_map import DamageMap
from reput.jobs.salvaging.damage_search import index_contradictions, map_damage
from reput.store_format.damage.ranges import Damage, DamageKind
from reput.store_format.discover.purpose import REPLICATE
from reput.store_format.faults import Fault
from tests.built import Built
from tests.damaged import SEGMENT, START, Damaged, damaged, messages
from tests.in_process import STORE, Session, storage_of
from tests.jobs.found import found, job_of
from tests.logs.encoder import Message, properties
from tests.store_format.damage.generator import derived_of

DAMAGED, CONTENT, MISSING = DamageKind.DAMAGED, DamageKind.CONTENT, DamageKind.MISSING


def mapped(log: Damaged, without: int | None = None, **more: Any) -> DamageMap:
    storage = storage_of(log.log)
    if without is not None:
        del storage.files[f"{STORE}/commitlog/{without:020d}"]
    return map_damage(job_of(found(log.log, storage, Cut(1500), purpose=REPLICATE)), **more)


def of_three() -> Damaged:
    log = damaged(messages(100))
    assert sorted(log.segments) == [0, SEGMENT, 2 * SEGMENT]
    return log


def end(log: Damaged) -> int:
    return log.places[-1] + log.size(len(log.places) - 1)


def ranges(found_map: DamageMap) -> list[tuple[int, int, DamageKind, Fault]]:
    return [(each.offset, each.end, each.kind, each.fault) for each in found_map.ranges]


def test_a_sound_log_has_no_damage_and_spare_segments_are_not_in_use() -> None:
    for spare in (0, 1, 3):
        log = damaged(messages(100), extra_segments=spare)
        found_map = mapped(log)
        assert (found_map.count, found_map.bytes_lost, found_map.in_use) == (0, 0, 3)
        assert found_map.linked.end == end(log)
        assert not found_map.linked.lost.any
    log = damaged(messages(1), extra_segments=2)
    log.segments[0][:] = bytes(SEGMENT)
    found_map = mapped(log)
    assert (found_map.count, found_map.in_use, found_map.linked.end) == (0, 1, 0)


def test_bytes_are_lost_only_before_the_live_logs_end() -> None:
    log = of_three()
    log.put(end(log), b"\0\0\0\x7fgarbage")
    found_map = mapped(log)
    assert (found_map.count, found_map.bytes_lost) == (1, 0)
    assert found_map.linked.end == end(log)
    log.flip(10, 5)
    found_map = mapped(log)
    assert (found_map.count, found_map.bytes_lost) == (2, log.size(11))
    assert {fault for _, fault in found_map.causes} == {int(Fault.BAD_MAGIC)}


def test_a_missing_segment_is_one_range_of_its_length() -> None:
    log = of_three()
    found_map = mapped(log, without=SEGMENT)
    assert (SEGMENT, 2 * SEGMENT, MISSING, Fault.MISSING) in ranges(found_map)
    assert found_map.bytes_lost == SEGMENT
    assert found_map.linked.end == end(log)
    (loss,) = found_map.linked.lost.segments
    assert (loss.total, loss.more) == (SEGMENT, ((SEGMENT, SEGMENT),))


# --- The store's own index files as witnesses: a record that they contradict is named, once.
TIME = 61  # a byte of storeTimestamp: a bit in it is 65,536 ms and more


def keyed() -> Damaged:
    return damaged([
        Message("T", 0, n, b"body", properties(("KEYS", f"k{n}")), START + 1000 * n)
        for n in range(40)
    ], 1 << 16)  # fmt: skip


@pytest.fixture(scope="module")
def index() -> dict[str, bytes]:
    return {path: raw for path, raw in derived_of(keyed().log).items() if "/index/" in path}


def asked(log: Damaged, index: dict[str, bytes]) -> tuple[Pipeline, DamageMap]:
    storage = storage_of(log.log)
    storage.files |= index
    job = job_of(found(log.log, storage, purpose=REPLICATE))
    return job, map_damage(job)


def content(log: Damaged, number: int, fault: Fault) -> Damage:
    place, size = log.places[number], log.size(number)
    return Damage(place, place + size, DamageKind.CONTENT, fault, size, None, "record")


def test_a_changed_key_and_a_changed_second_are_named_in_the_logs_order(index) -> None:
    log = keyed()
    assert index_contradictions(*asked(log, index)) == []
    log.flip(20, TIME)
    log.flip(9, log.size(9) - 2)  # its key's last digit
    wanted = [content(log, 9, Fault.KEYS), content(log, 20, Fault.STORED)]
    assert index_contradictions(*asked(log, index)) == wanted
    foreign = {f"{STORE}/index/notes.txt": b"mine"}
    assert index_contradictions(*asked(log, {**index, **foreign})) == wanted
    assert index_contradictions(*asked(log, {})) == []
    log.settings["messageIndexEnable"] = False
    assert index_contradictions(*asked(log, index)) == []


def test_a_record_that_a_range_names_already_is_not_named_again(index: dict[str, bytes]) -> None:
    log = keyed()
    log.flip(9, log.size(9) - 2)
    log.flip(30, 5)  # magic: the log is damaged, and its index was asked
    job, found_map = asked(log, index)
    assert content(log, 9, Fault.KEYS) in found_map.ranges
    assert index_contradictions(job, found_map) == []


# --- What damage did to queues: positions that are lost, and records that are not of their queue.
QUEUE_SEGMENT = 1 << 16
MAGIC, QUEUE_ID, QUEUE_OFFSET, SYS_FLAG = 5, 15, 20, 39  # bytes of a record


def queue_mapped(log: Damaged, **more: Any) -> DamageMap:
    return map_damage(job_of(found(log.log, purpose=REPLICATE)), **more)


def flipped(*changes: tuple[int, int, int], count: int = 60, queues: int = 3) -> Damaged:
    """A log with flipped bits: (record, byte, bit) each."""
    log = damaged(messages(count, queues), QUEUE_SEGMENT)
    for number, byte, bit in changes:
        log.flip(number, byte, bit)
    return log


def leaping(by: int) -> Damaged:
    """One queue of 120 messages; from the 60th on its positions are higher."""
    made = [
        replace(m, queue_offset=m.queue_offset + by * (n >= 60))
        for n, m in enumerate(messages(120, 1))
    ]
    return damaged(made, QUEUE_SEGMENT)


@pytest.mark.parametrize(("by", "kept"), [(1, True), (2, True), (3, False)])
def test_a_queue_keeps_a_position_or_two_that_no_lost_bytes_explain_in_a_damaged_log(
    by: int, kept: bool
) -> None:
    log = leaping(by)
    found_map = queue_mapped(log)
    assert (found_map.count, found_map.gaps, found_map.messages_missing) == (0, [], 0)
    assert not found_map.linked.queue_damage.no_room
    log.flip(10, MAGIC)
    found_map = queue_mapped(log)
    surely = {("T", 0, log.places[60])} if kept else set()
    assert found_map.linked.queue_damage.no_room == surely
    assert found_map.messages_missing == 1 + (by if kept else 0)


def test_a_queue_offset_that_others_outvote_counts_as_they_say() -> None:
    found_map = queue_mapped(flipped((30, QUEUE_OFFSET, 6)))
    assert (found_map.renumberings, found_map.messages_missing, found_map.count) == (1, 0, 0)
    (finding,) = found_map.findings
    assert f"queueOffset {(1 << 62) + 10} is outvoted by its neighbours" in finding.reason
    assert finding.reason.endswith("in topic 'T', queue 0: 1 kept from position 10")
    assert [each.queue_offset for each in found_map.testimony] == [10]
    found_map = queue_mapped(flipped((0, QUEUE_OFFSET, 7)))
    assert found_map.renumberings == 1
    (finding,) = found_map.findings
    assert "cannot begin topic 'T', queue 0: by those that follow, of its first 1" in finding.reason
    assert finding.reason.endswith("1 kept from position 0")


@pytest.mark.parametrize("kept_out", [4, 12])
def test_a_record_that_its_queue_has_is_kept_out_by_a_flipped_transaction_type(kept_out) -> None:
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
