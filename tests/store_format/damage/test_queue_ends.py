"""The queueOffset that a queue goes on from: one flipped bit does not make it another."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import REFUSE, TRUNCATE
from reput.store_format.damage import queue_ends
from reput.store_format.damage.ranges import CONTENT, KINDS, RANGE, DamageKind
from reput.store_format.dispatch.scan import Buffers, End, Outputs, Runs
from reput.store_format.faults import DamageFound
from tests.against_reference import ANY, difference
from tests.damaged import Damaged, damaged, entries, messages, salvage
from tests.in_process import Session, rebuild_log
from tests.jobs.checking import checked
from tests.logs.batches import batch
from tests.logs.encoder import Message
from tests.reference import derive
from tests.store_format.damage.walked import SCAN_RULES, walked

SEGMENT = 1 << 14
TOP = (1 << 63) - 1


def test_each_queue_goes_on_by_itself_a_batch_by_all_of_its_messages() -> None:
    log = Dispatched(message(3), message(8, queue=1), message(9, queue=1), message(1, "U"))
    ends = queue_ends.QueueEnds(log.buffers)
    log.go_on(2)
    assert [ends.last(("T", queue)) for queue in (0, 1, 2)] == [3, 8, queue_ends.NEVER]
    log.go_on(2)
    assert [ends.last(("T", 1)), ends.last(("U", 0))] == [9, 1]
    log = Dispatched(*(message(n, queue=n) for n in range(150)))
    ends = queue_ends.QueueEnds(log.buffers)
    log.go_on(60)
    assert ends.last(("T", 59)) == 59
    log.go_on(90)
    assert [ends.last(("T", n)) for n in (0, 59, 64, 149)] == [0, 59, 64, 149]
    log = Dispatched(message(0, b"T\xff"), message(1, b"T\xed\xa0\x80"), message(2, b"T\xff", 0, 4))
    ends = queue_ends.QueueEnds(log.buffers)
    log.go_on(3)
    assert ends.last(("T\ufffd", 0)) == 1
    # An offset that waits for the next one waits over that too.
    log = Dispatched(message(3), message(90), message(91), message(4, "U"))
    ends = queue_ends.QueueEnds(log.buffers)
    log.go_on(2)
    ends.keep()
    log.buffers.empty()
    assert (ends.last(("T", 0)), ends.last(("U", 0))) == (3, queue_ends.NEVER)
    log.go_on(2)
    assert (ends.last(("T", 0)), ends.last(("U", 0))) == (91, 4)
    for records, last in [([(0, 4), (4, 4), (8, 2)], 9), ([(7, 1)], 7),
        ([(0, 4), (4, 0), (5, 3)], 7),  # a broker counts 0 as 1
        ([(0, 4), (500, 4)], 3), ([(0, 4), (500, 4), (4, 4)], 7),
        ([(0, 4), (500, 4), (504, 4)], 507), ([(0, 4), (500, 4), (600, 2)], 601),
        ([(0, 4), (500, 4), (503, 2)], 3),  # not above all messages of the one in doubt
        ([(0, 4), (4, 4), (4, 4)], 7)]:  # fmt: skip
        assert queue_ends.last_of(*zip(*records, strict=True)) == last
        log = Dispatched(*(batch(*each) for each in records))
        ends = queue_ends.QueueEnds(log.buffers)
        log.go_on(len(records))
        assert ends.last(("Batch", 0)) == last
        assert queue_ends.last_of_run(log.runs().runs, 0, True) == last
    for offsets, last in [([3, 4, 5], 5), ([3, 4, 90], 4), ([3, 90, 91], 91)]:
        log = Dispatched(message(1, "A"), *(message(each) for each in offsets))
        log.go_on(1 + len(offsets))
        found = log.runs()
        assert [queue.topic for queue in found.queues] == ["A", "T"]
        assert [queue_ends.last_of_run(found.runs, number, False) for number in (0, 1)] == [1, last]
    for offsets, last in [([], queue_ends.NEVER),
        ([7], 7),  # whatever comes first
        ([0, 1, 2], 2),
        ([0, 1, 500], 1),  # nobody confirms it
        ([0, 1, 500, 2], 2),  # flipped upwards
        ([0, 1, 500, 501], 501),  # a leap, confirmed
        ([0, 1, 500, 900], 900),  # the next one is above it
        ([0, 1, 500, 499], 1), ([0, 1, 500, 499, 500], 500), ([5, 6, 0], 6),
        ([5, 6, 0, 1], 1),  # begun anew
        ([5, 6, 0, 3], 6), ([5, 6, 6], 6), ([TOP], TOP),
        ([queue_ends.NEVER, 3, 4], 4),  # counts as none
        ([-5, -4], -4)]:  # fmt: skip
        assert queue_ends.last_of(offsets) == last


class Dispatched:
    """A log that is dispatched into buffers, as a scan does."""

    def __init__(self, *messages: Message) -> None:
        self._raw, self._rows = walked(*messages, segment=SEGMENT)
        self._done = 0
        self.buffers = Buffers(SEGMENT)
        self._outputs = Outputs(SCAN_RULES, self.buffers, End())

    def go_on(self, count: int) -> None:
        rows = self._rows[self._done : self._done + count]
        self._done += count
        assert list(self._outputs.dispatch(self._raw, rows)) == []

    def runs(self) -> Runs:
        (found,) = (part for part in self._outputs.empty() if isinstance(part, Runs))
        return found


def message(offset: int, topic: str | bytes = "T", queue: int = 0, flags: int = 0) -> Message:
    return Message(topic=topic, queue_id=queue, queue_offset=offset, sys_flag=flags)


# --- How many bytes the log lost between two places.
MISSING = KINDS.index(DamageKind.MISSING)


def loss(start: int, *ranges: tuple[int, int]) -> queue_ends.SegmentLoss:
    return queue_ends.SegmentLoss(start, 1 << 40, "", ranges, sum(length for _, length in ranges))


def reader(*losses: queue_ends.SegmentLoss, from_start: bool = True) -> queue_ends.LossReader:
    return queue_ends.LossReader(
        queue_ends.Losses(losses, from_start), lambda each: queue_ends.lost_places(each, ())
    )


def between(log: queue_ends.LossReader, after: int, before: int) -> int:
    return int(log.between(np.array([after]), np.array([before]))[0])


def test_what_a_segment_lost_between_two_places_is_read_when_asked() -> None:
    for after, before, lost in [
        (-1, 100, 0),  # a range counts behind the place where it starts
        (-1, 101, 10), (100, 101, 10), (101, 200, 0), (0, 301, 30), (0, 5000, 30), (0, 9001, 37),
        (201, 9001, 7 + 20), (9001, 1 << 62, 0)]:  # fmt: skip
        log = reader(loss(0, (100, 10), (300, 20)), loss(8000, (9000, 7)))
        assert between(log, after, before) == lost
    log = reader()
    assert not log.any
    assert between(log, -1, 1 << 62) == 0
    assert log.may_take(0, 1 << 62)
    assert not log.may_take(1, 1 << 62)
    for length, place, may in [(20, 0, True), (21, 0, False), (21, 7999, False), (21, 8000, True),
        (500, 8000, False)]:  # fmt: skip
        losses = loss(0, (100, 10), (300, 20)), loss(8000, (9000, 21))
        assert reader(*losses).may_take(length, place) is may
        assert reader(*losses, from_start=False).may_take(length, place)
    rows = np.zeros(4, RANGE)
    rows["offset"], rows["end"] = [50, 200, 900, 1000], [60, 300, 1100, 1010]
    rows["kind"] = [MISSING, CONTENT, MISSING, MISSING]
    found = queue_ends.lost_places(
        queue_ends.SegmentLoss(0, 1000, "run", ((400, 5), (10, 3)), 0), [rows[:2], rows[2:]]
    )
    assert found.tolist() == [(10, 3), (50, 10), (400, 5), (900, 200)]
    assert len(queue_ends.lost_places(queue_ends.SegmentLoss(0, 1000, "", (), 0), [])) == 0
    for lost, plain, batched in [(0, 0, 0), (90, 0, 0),
        (91, 1, 1),  # a batch of one message needs no body
        (91 + 2 * 22 - 1, 1, 1), (91 + 2 * 22, 1, 2), (91 + 32 * 22, 8, 32),
        ((1 << 63) - 1, ((1 << 63) - 1) // 91, ((1 << 63) - 92) // 22)]:  # fmt: skip
        most = [queue_ends.most_messages(lost, batches) for batches in (False, True)]
        assert most == [plain, batched]
        assert queue_ends.most_messages(np.array([0, lost]), True).tolist() == [0, batched]
    asked = []

    def read(each: queue_ends.SegmentLoss) -> np.ndarray:
        asked.append(each.start)
        return queue_ends.lost_places(each, ())

    losses = tuple(loss(1000 * n, (1000 * n + 5, n)) for n in range(1, 7))
    log = queue_ends.LossReader(queue_ends.Losses(losses, True), read)
    assert asked == []
    for n in (6, 3, 1, 3, 5, 6, 3):
        assert between(log, 1000 * n, 1000 * n + 6) == n
        assert between(log, -1, 1000 * n + 6) == n * (n + 1) // 2
    assert asked == [6000, 3000, 1000, 5000]
    between(log, 2000, 2006)
    between(log, 6000, 6006)
    assert asked[4:] == [2000, 6000]


# --- A queue whose first queueOffset is negative or huge: as RocketMQ has it, or by those that
# follow. What RocketMQ does with each of these was seen on 4.1.0, 4.9.7, 5.3.3, 5.4.0 and 5.5.0;
# the slow reference does the same (docs/damage.md).
OPENINGS_TOP = 1 << 63
FIRSTS = {"-1": -1, "-10": -10, "-11": -11, "-2^63": -OPENINGS_TOP, "2^62": 1 << 62,
    "2^63 - 1": OPENINGS_TOP - 1, "the last": queue_ends.LAST_FIRST_OFFSET,
    "one more": queue_ends.LAST_FIRST_OFFSET + 1,
    "wraps to 4 bytes": -(-(1 << 64) // 20), "2^40": 1 << 40, "-2^40": -(1 << 40)}  # fmt: skip


def wrap(value: int) -> int:
    return (value + OPENINGS_TOP) % (2 * OPENINGS_TOP) - OPENINGS_TOP


def queue_of(offsets: list[int]) -> Damaged:
    """30 messages, of which some are queue 9's, with these queueOffsets."""
    made = messages(30)
    for number, offset in enumerate(offsets):
        at = 10 + number
        made[at] = replace(made[at], queue_id=9, queue_offset=wrap(offset))
    return renumbered(made)


def renumbered(made: list[Message]) -> Damaged:
    """With the other queues' offsets going on by one."""
    after: dict[int, int] = {}
    for at, message in enumerate(made):
        if message.queue_id != 9:
            offset = after.get(message.queue_id, 0)
            made[at] = replace(message, queue_offset=offset)
            after[message.queue_id] = offset + 1
    return damaged(made)


@pytest.mark.parametrize("version", ["4.1.0", "5.3.3"])
@pytest.mark.parametrize("first", FIRSTS)
def test_truncate_does_as_rocketmq(first: str, version: str) -> None:
    value = FIRSTS[first]
    for follow in ([], [value + 1, value + 2], [5, 6, 7]):
        log = queue_of([value, *follow])
        log.version = version
        for splits in (1, 7):
            rebuilt = rebuild_log(log.log, Cut(-(-4096 // splits), 2, 2), Session(1), TRUNCATE)
            assert difference(rebuilt, derive(*log.log)) is None, follow
            assert len(entries(rebuilt, "T", 0)) > 5


# What the real RocketMQ wrote into queue 9: pre-blank entries (-1), and which of its messages.
SEEN: list[tuple[str, list[int], dict[str, list[int]]]] = [("-1", [], {"00000000000000000000": []}),
    ("-1", [5, 6, 7], {"00000000000000000000": [-1] * 5 + [1, 2, 3]}),
    ("2^62", [(1 << 62) + 1, (1 << 62) + 2], {"00000000000000000000": [0, 1, 2]}),
    ("2^63 - 1", [], {"00000000000000000000": []}), ("-2^63", [5, 6, 7],
    {"00000000000000000000": [0, 1, 2, 3]}), ("wraps to 4 bytes", [5, 6, 7],
    {"00000000000000000000": [-1, 1, 2, 3]}), ("2^40", [5, 6, 7],
    {"00000021990232555400": [-1] * 6 + [0]}), ("one more", [5, 6, 7],
    {"09223372036854775800": [0, 1, 2, 3]}), ("the last", [queue_ends.LAST_FIRST_OFFSET + 1],
    {"09223372036854775600": [-1] * 9 + [0], "09223372036854775800": [1]})]  # fmt: skip


@pytest.mark.parametrize(("first", "follow", "wanted"), SEEN)
def test_what_the_real_one_wrote(first: str, follow: list[int], wanted) -> None:
    log = queue_of([FIRSTS[first], *follow])
    rebuilt = rebuild_log(log.log, on_damage=TRUNCATE)
    prefix = "consumequeue/T/9/"
    made = sorted(path.removeprefix(prefix) for path in rebuilt.files if path.startswith(prefix))
    assert made == sorted(wanted)
    mine = [n for n, message in enumerate(log.messages) if message.queue_id == 9]
    places = [-1 if n < 0 else log.places[mine[n]] for name in made for n in wanted[name]]
    assert entries(rebuilt, "T", 9) == places


def test_a_file_of_negative_name_is_left_out_and_refuse_names_the_record() -> None:
    for first in ["-11", "-2^40", "-10"]:
        log = queue_of([FIRSTS[first], 5, 6])
        rebuilt = rebuild_log(log.log, on_damage=TRUNCATE)
        (said,) = rebuilt.summary.left_out
        assert "consumequeue/T/9" in said
        assert "which no file's name can say" in said
        assert not any(path.startswith("consumequeue/T/9/") for path in rebuilt.files)
        assert len(entries(rebuilt, "T", 0)) == 9
    for first in ["-1", "2^62", "2^63 - 1", "-2^63"]:
        log = queue_of([FIRSTS[first], 5, 6])
        with pytest.raises(
            DamageFound, match=f"physical offset {log.places[10]}.*salvage.*truncate"
        ):
            rebuild_log(log.log, on_damage=REFUSE)


@pytest.mark.parametrize("splits", [1, 2, 7, 64])
@pytest.mark.parametrize("first", FIRSTS)
def test_salvage_goes_by_those_that_follow(first: str, splits: int) -> None:
    log = queue_of([FIRSTS[first], 5, 6, 7])
    mine = [n for n, message in enumerate(log.messages) if message.queue_id == 9]
    rebuilt = salvage(log.log, splits)
    assert entries(rebuilt, "T", 9) == [-1] * 4 + [log.places[n] for n in mine]
    assert not rebuilt.summary.left_out
    (said,) = [w for w in rebuilt.summary.warnings if "cannot begin topic" in w]
    assert f"physical {log.places[10]}" in said
    assert "1 kept from position 4" in said


def test_salvage_goes_by_what_outvotes_what_and_lives_without_room() -> None:
    log = queue_of([-7, -9, 1, 2])
    mine = [n for n, message in enumerate(log.messages) if message.queue_id == 9]
    rebuilt = salvage(log.log)
    assert entries(rebuilt, "T", 9) == [log.places[n] for n in mine[1:]]
    (said,) = [w for w in rebuilt.summary.warnings if "cannot begin topic" in w]
    assert "1 kept from position 0, 1 without a position" in said
    log = queue_of([-7])
    assert entries(salvage(log.log), "T", 9) == [log.places[10]]
    for offsets in ([57, 58, 0, 1, 2], [3, 4, 5], [0, 1, 2], [7, 0, 1]):
        assert checked(queue_of(offsets)).findings == []
    for offsets, wanted in [([0, 1, 2], None), ([5], None), ([-1], queue_ends.Opening(1, 0)),
        ([-1, 4, 5], queue_ends.Opening(1, 3)), ([9, 4, 5], queue_ends.Opening(1, 3)),
        ([9, 4], None),  # one against one
        ([9, 0, 1], None),  # a topic made anew
        ([OPENINGS_TOP - 1, 9, 4, 5], queue_ends.Opening(2, 2)),
        ([-3, -2, 1], queue_ends.Opening(2, -1)), ([4, 4, 5], None)]:  # fmt: skip
        assert queue_ends.opening(offsets, True) == wanted


@pytest.mark.parametrize("first", FIRSTS)
def test_check_reports_it_and_lives(first: str) -> None:
    report = checked(queue_of([FIRSTS[first], 5, 6]))
    (found,) = report.findings
    assert "cannot begin topic 'T', queue 9" in found.reason
    assert not report.sound


OFFSETS = st.one_of(st.sampled_from([*FIRSTS.values(), 0, 1]), st.integers(0, 40),
    st.integers(-OPENINGS_TOP, OPENINGS_TOP - 1),
    st.integers(0, 30).map(lambda n: n * 10 - 100))  # fmt: skip


@settings(ANY, max_examples=15)
@given(st.lists(OFFSETS, min_size=1, max_size=14), st.sampled_from([1, 3, 64]),
       st.sampled_from(["4.1.0", "4.9.7", "5.5.0"]))  # fmt: skip
def test_any_offsets_as_the_reference(offsets: list[int], splits: int, version: str) -> None:
    log = queue_of(offsets)
    log.version = version
    rebuilt = rebuild_log(log.log, Cut(-(-4096 // splits), 2, 2), Session(3), TRUNCATE)
    assert difference(rebuilt, derive(*log.log)) is None


@settings(ANY, max_examples=10)
@given(st.lists(OFFSETS, min_size=1, max_size=14), st.integers(0, 40))
def test_salvage_lives_with_any_offsets(offsets: list[int], follow: int) -> None:
    log = queue_of([*offsets, *(follow + n for n in range(4))])
    made = [salvage(log.log, splits) for splits in (1, 64)]
    assert made[0].files == made[1].files
    check_whole: Any = entries(made[0], "T", 0)
    assert len(check_whole) >= 4


# --- What runs refer to: queueOffsets that are kept only where they jump, and entries of two sizes.
