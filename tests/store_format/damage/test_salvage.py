"""Salvage: what no damage touched is found, nothing is invented, positions stay as they were."""

import struct
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reput.jobs.check import check
from reput.jobs.engines.engine import Engine
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import REFUSE, TRUNCATE, rebuild
from reput.jobs.repair import repair
from reput.jobs.verify import verify
from reput.store_format.derived.queue_files import decode_entries
from reput.store_format.faults import DamageFound
from tests import golden_stores
from tests.damaged import SEGMENT, START, Damaged, damaged, entries, messages, salvage
from tests.in_process import Rebuilt, as_text, rebuild_log
from tests.logs.batches import BATCH_QUEUE, batches
from tests.logs.encoder import Message, encode
from tests.store_format.damage.salvaged import check_queues

CUTS = (1, 2, 7, 64)
HEAD_BYTES = {"totalSize": 3, "magic": 5, "physicalOffset": 35, "bodyLength": 87}


def log_size(log: Damaged, number: int) -> int:
    return len(encode(log.messages[number], 0))


def reported(rebuilt: Rebuilt) -> list[dict[str, object]]:
    assert rebuilt.summary.damage is not None
    found: list[dict[str, object]] = rebuilt.summary.damage["ranges"]
    return found


@pytest.mark.parametrize("field", HEAD_BYTES)
@pytest.mark.parametrize("number", [0, 1, 10, 30, 31, 58])
def test_one_flipped_bit_costs_one_message(field: str, number: int) -> None:
    log = damaged()
    log.flip(number, HEAD_BYTES[field], 2)
    made = [salvage(log.log, splits) for splits in CUTS]
    assert all(each.files == made[0].files for each in made)
    assert all(reported(each) == reported(made[0]) for each in made)
    (found,) = reported(made[0])
    assert found["physical_offset"] == log.places[number]
    assert found["length"] == log.size(number) if field != "totalSize" else True
    assert made[0].summary.messages == 59
    check_queues(log, made[0], {number})
    (gap,) = found["missing"] or [None]  # type: ignore[misc]
    if number < 57:
        assert gap is not None
        assert (gap["queue_id"], gap["first"], gap["count"]) == (number % 3, number // 3, 1)


def test_a_wrong_body_place_or_blank_costs_one_record_at_most() -> None:
    log = damaged()
    log.flip(10, 90)
    rebuilt = salvage(log.log)
    (found,) = reported(rebuilt)
    assert (found["kind"], found["field"], found["follows"]) == ("content", "bodyCRC", "record")
    assert rebuilt.summary.messages == 60
    check_queues(log, rebuilt, set())
    log = damaged()
    log.put(log.places[10] + 28, struct.pack(">q", 7))
    rebuilt = salvage(log.log)
    (found,) = reported(rebuilt)
    assert (found["kind"], found["field"]) == ("stale", "physicalOffset")
    check_queues(log, rebuilt, {10})
    log = damaged()
    log.put(log.places[10], struct.pack(">iI", log_size(log, 10), 0xCBD43194))
    rebuilt = salvage(log.log)
    (found,) = reported(rebuilt)
    assert (found["field"], found["follows"]) == ("size", "record")
    check_queues(log, rebuilt, {10})


def test_zeros_over_several_records_and_a_wrong_last_digit() -> None:
    log = damaged(messages(200), 1 << 14)
    log.put(4096, bytes(4096))
    made = [salvage(log.log, splits) for splits in CUTS]
    assert all(each.files == made[0].files for each in made)
    lost = {n for n, at in enumerate(log.places) if at < 8192 and at + log_size(log, n) > 4096}
    assert len(lost) > 20
    assert made[0].summary.messages == 200 - len(lost)
    check_queues(log, made[0], lost)
    log = damaged(messages(5, 1, crc_property=True))
    log.settings["forceVerifyPropCRC"] = True
    log.put(log.places[-1] + log_size(log, 4) - 1, b"0")
    assert salvage(log.log).summary.messages == 5
    log.put(log.places[-1] + log_size(log, 4) - 1, b"1")
    assert salvage(log.log).summary.messages == 4


def test_stale_records_are_not_brought_back_nor_what_a_body_holds() -> None:
    """Behind the log's end, in their own places: of an earlier time, or in their queue already."""
    log = damaged()
    last = log.places[-1] + log_size(log, 59)
    place = last + 30
    for stale in (Message(store_timestamp=START - 1, queue_offset=99, topic="T"),
                  Message(store_timestamp=START + 59, queue_offset=3, topic="T")):  # fmt: skip
        log.put(place, encode(stale, place))
        place += len(encode(stale, place))
    log.put(last, b"garbage")
    rebuilt = salvage(log.log)
    assert [found["kind"] for found in reported(rebuilt)] == ["damaged", "stale"]
    assert rebuilt.summary.messages == 60
    assert rebuilt.summary.log_end == last
    # A body with a record that claims to stand where it does: seen only if its frame is lost.
    made = messages(9)
    place = sum(len(encode(m, 0)) for m in made)
    forged = Message(topic="Forged", queue_offset=5, body=b"x", store_timestamp=START + 9)
    inner = encode(forged, place + 88)
    made.append(Message(topic="T", queue_offset=3, body=inner, store_timestamp=START + 9))
    made += [Message(queue_offset=n, queue_id=4, store_timestamp=START + 9 + n) for n in range(5)]
    log = damaged(made)
    log.flip(9, 5)
    rebuilt = salvage(log.log)
    assert not any("Forged" in path for path in rebuilt.files)
    assert rebuilt.summary.messages == 14


def test_earlier_times_are_stale_only_in_the_last_segment_and_gaps_stay() -> None:
    """A clock that was set back: the log's later segments tell that all is live."""
    made = [m if n < 10 else replace(m, store_timestamp=m.store_timestamp - 1_000_000)
        for n, m in enumerate(messages(100))]  # fmt: skip
    log = damaged(made)
    log.flip(9, 5)
    rebuilt = salvage(log.log)
    assert rebuilt.summary.messages == 99
    check_queues(log, rebuilt, {9})
    # and where each message has a queue of its own, which goes on from nothing
    alone = [replace(m, queue_id=n, queue_offset=5) for n, m in enumerate(made)]
    log = damaged(alone)
    log.flip(9, 5)
    assert salvage(log.log).summary.messages == 99
    # Damage took one record; a jump of a thousand in queueOffset is not its doing.
    made = [m if n < 10 else replace(m, queue_offset=m.queue_offset + 1000)
        for n, m in enumerate(messages(30, queues=1))]  # fmt: skip
    log = damaged(made)
    log.flip(9, 5)
    found = entries(salvage(log.log), "T", 0)
    assert found == [place for n, place in enumerate(log.places) if n != 9]


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=30)
@given(st.integers(5, 80), st.sampled_from([1, 3, 7]), st.sampled_from(CUTS), st.booleans(),
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from([1, 1, 4, 100, 700, 5000]), st.booleans()),
    min_size=1, max_size=4), st.randoms(use_true_random=False))  # fmt: skip
def test_nothing_is_lost_that_was_not_touched_and_nothing_invented(
    count: int, queues: int, splits: int, bodies: bool, spots: list[Any], rng: Random
) -> None:
    """Every byte is covered by `__CRC32#`, so that every change can be known but for one: its end
    that became a 0 is one more digit of it, the highest, for RocketMQ too.
    """
    body = {} if bodies else {"body": b""}
    log = damaged(messages(count, queues, crc_property=True, **body))
    log.settings["forceVerifyPropCRC"] = True
    whole = {start: bytes(content) for start, content in log.segments.items()}
    end = log.places[-1] + log_size(log, count - 1)
    for spot, length, zeros in spots:
        at = min(int(spot * end), end - 1)
        length = min(length, end - at)
        log.put(at, bytes(length) if zeros else rng.randbytes(length))
    rebuilt = salvage(log.log, splits)
    left = set()
    for n in range(count):
        was, found = log.record(whole, n), log.record(log.segments, n)
        if found in (was, was[:-1] + b"0"):
            left.add(n)
    assert rebuilt.summary.messages == len(left)
    check_queues(log, rebuilt, set(range(count)) - left)


@pytest.mark.parametrize(
    "engine", ["local"], indirect=True
)  # on Spark: tests/rocketmq/test_recovered.py
def test_a_golden_store_is_salvaged_on_an_engine(engine: Engine, tmp_path: Path) -> None:
    """One record of 1,500 is damaged; RocketMQ's own recovery keeps 745 of them."""
    store = golden_stores.unpack("middle_size_5.3.3")
    given: dict[str, Any] = {"rocketmq": store.version, "settings": as_text(store.settings)}
    log, output = str(store.input), str(tmp_path / "out")
    cut = Cut(split_bytes=50_000)
    summary = rebuild(engine, log, output, on_damage="salvage", cut=cut, **given)
    assert summary.messages == 1499
    report = verify(engine, log, against=output, **given)
    assert report.same, report.text()
    found = check(engine, log, **given)
    assert [each["kind"] for each in found.damage["ranges"]] == ["damaged"]
    repaired = str(tmp_path / "repaired")
    repair(engine, log, repaired, **given)
    assert check(engine, repaired, **given).sound


def _clock_set_back(queues: int, goes_on: bool = True) -> tuple[Damaged, int]:
    """A log whose clock was set back as its second segment began, with remains of an earlier time
    behind its end; and how many messages its first segment has. goes_on: else the second segment's
    queueOffsets repeat what the first one had.
    """
    made = messages(60, queues)
    first = sum(place < SEGMENT for place in damaged(made).places)
    back = 0 if goes_on else 3
    made[first:] = [
        replace(m, store_timestamp=START - 10_000 + n, queue_offset=m.queue_offset - back)
        for n, m in enumerate(made[first:])
    ]
    log = damaged(made)
    at = log.places[-1] + log.size(-1)
    log.put(at, struct.pack(">iI", 100, 0xCBD43194) + b"x" * 92)  # a BLANK of a wrong size
    at += 100
    for offset in range(3):
        old = encode(Message(queue_offset=offset, store_timestamp=START - 90_000_000), at)
        log.put(at, old)
        at += len(old)
    return log, first


def test_queues_that_go_on_in_the_next_segment_outweigh_a_clock_set_back() -> None:
    for queues in [1, 2, 3]:
        log, _ = _clock_set_back(queues)
        rebuilt = salvage(log.log)
        for queue in range(queues):
            found = entries(rebuilt, "T", queue)
            assert found == log.places[queue::queues]
    log, first = _clock_set_back(3, goes_on=False)
    found = [place for queue in range(3) for place in entries(salvage(log.log), "T", queue)]
    assert sorted(found) == log.places[:first]
    # A page as an older log had it, at a segment's start: one of its queues happens to fit.
    log, first = _clock_set_back(2)
    at = log.places[first]
    for number in range(first + 1, 60, 2):
        message = replace(log.messages[number], queue_offset=log.messages[number].queue_offset - 3)
        log.put(log.places[number], encode(message, log.places[number]))
    found = [place for queue in range(2) for place in entries(salvage(log.log), "T", queue)]
    assert at not in found


def _in_batch_queue(rebuilt: Rebuilt) -> list[int]:
    raw = b"".join(v for k, v in sorted(rebuilt.files.items()) if k.startswith("batchconsumequeue"))
    found = decode_entries(raw, True)
    return [int(place) for place in found["physicalOffset"][found["size"] > 0]]


@pytest.mark.parametrize(("count", "body"), [(2, 0), (4, 80), (8, 0), (32, 0), (32, 80)])
def test_one_flipped_bit_costs_one_batch(count: int, body: int) -> None:
    log = damaged(batches([count] * 30, START, body), 1 << 16)
    log.flip(10, 5)
    rebuilt = salvage(log.log._replace(topic_attributes=BATCH_QUEUE))
    assert _in_batch_queue(rebuilt) == [at for n, at in enumerate(log.places) if n != 10]
    assert [each["kind"] for each in reported(rebuilt)] == ["damaged"]
    (gap,) = rebuilt.summary.damage["missing"]
    assert (gap["first"], gap["count"]) == (10 * count, count)
    assert rebuilt.summary.damage["messages_missing"] == count


def test_batches_that_go_on_in_the_next_segment_outweigh_a_clock_set_back() -> None:
    """The next segment is damaged, so its records are judged."""
    log = damaged(batches([5] * 60, START))
    first = next(n for n, place in enumerate(log.places) if place >= SEGMENT)
    for number in range(first, 60):
        m = replace(log.messages[number], store_timestamp=START - 10_000 + number)
        log.put(log.places[number], encode(m, log.places[number]))
    hurt = next(n for n, place in enumerate(log.places) if place >= SEGMENT + 2000)
    log.flip(hurt, 5)
    made = [salvage(log.log._replace(topic_attributes=BATCH_QUEUE), splits) for splits in (1, 7)]
    assert made[0].files == made[1].files
    assert _in_batch_queue(made[0]) == [at for n, at in enumerate(log.places) if n != hurt]


# --- A record whose physicalOffset is not its place: truncate ends the log, RocketMQ does not.
DIFFERS = r"physicalOffset is not the place.*RocketMQ does not look at that: it dispatches such"


def foreign(place: int) -> Damaged:
    made = messages(30)
    made[10] = replace(made[10], physical_offset=place)
    return damaged(made)


def test_truncate_says_where_it_differs_from_rocketmq() -> None:
    for place in [7, 1 << 40, -1]:
        log = foreign(place)
        rebuilt = rebuild_log(log.log, on_damage=TRUNCATE)
        assert rebuilt.summary.messages == 10
        assert rebuilt.summary.log_end == log.places[10]
        assert any("RocketMQ does not look at that" in each for each in rebuilt.summary.warnings)
        with pytest.raises(
            DamageFound, match=f"{DIFFERS}.*truncate ends the log here, where RocketMQ"
        ):
            rebuild_log(log.log, on_damage=REFUSE)
        assert salvage(log.log).summary.messages == 29
    log = damaged(messages(30))
    log.flip(10, 5)
    with pytest.raises(DamageFound, match="truncate ends the log here as RocketMQ does"):
        rebuild_log(log.log, on_damage=REFUSE)
