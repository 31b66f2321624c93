"""A queue whose first queueOffset is negative or huge: as RocketMQ has it, or by those that follow.

What RocketMQ does with each of these was seen on 4.1.0, 4.9.7, 5.3.3, 5.4.0 and 5.5.0; the slow
reference does the same (docs/damage.md).
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import REFUSE, TRUNCATE
from reput.store_format.damage.queue_ends import LAST_FIRST_OFFSET, Opening, opening
from reput.store_format.faults import DamageFound
from tests.against_reference import ANY, difference
from tests.damaged import Damaged, damaged, entries, messages, salvage
from tests.in_process import Session, rebuild_log
from tests.jobs.checking import checked
from tests.logs.encoder import Message
from tests.reference import derive

TOP = 1 << 63
FIRSTS = {
    "-1": -1, "-10": -10, "-11": -11, "-2^63": -TOP, "2^62": 1 << 62, "2^63 - 1": TOP - 1,
    "the last": LAST_FIRST_OFFSET, "one more": LAST_FIRST_OFFSET + 1,
    "wraps to 4 bytes": -(-(1 << 64) // 20), "2^40": 1 << 40, "-2^40": -(1 << 40),
}  # fmt: skip


def wrap(value: int) -> int:
    return (value + TOP) % (2 * TOP) - TOP


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
SEEN: list[tuple[str, list[int], dict[str, list[int]]]] = [
    ("-1", [], {"00000000000000000000": []}),
    ("-1", [5, 6, 7], {"00000000000000000000": [-1] * 5 + [1, 2, 3]}),
    ("2^62", [(1 << 62) + 1, (1 << 62) + 2], {"00000000000000000000": [0, 1, 2]}),
    ("2^63 - 1", [], {"00000000000000000000": []}),
    ("-2^63", [5, 6, 7], {"00000000000000000000": [0, 1, 2, 3]}),
    ("wraps to 4 bytes", [5, 6, 7], {"00000000000000000000": [-1, 1, 2, 3]}),
    ("2^40", [5, 6, 7], {"00000021990232555400": [-1] * 6 + [0]}),
    ("one more", [5, 6, 7], {"09223372036854775800": [0, 1, 2, 3]}),
    ("the last", [LAST_FIRST_OFFSET + 1], {
        "09223372036854775600": [-1] * 9 + [0], "09223372036854775800": [1]}),
]  # fmt: skip


@pytest.mark.parametrize(("first", "follow", "wanted"), SEEN)
def test_what_the_real_one_wrote(
    first: str, follow: list[int], wanted: dict[str, list[int]]
) -> None:
    log = queue_of([FIRSTS[first], *follow])
    rebuilt = rebuild_log(log.log, on_damage=TRUNCATE)
    prefix = "consumequeue/T/9/"
    made = sorted(path.removeprefix(prefix) for path in rebuilt.files if path.startswith(prefix))
    assert made == sorted(wanted)
    mine = [n for n, message in enumerate(log.messages) if message.queue_id == 9]
    places = [-1 if n < 0 else log.places[mine[n]] for name in made for n in wanted[name]]
    assert entries(rebuilt, "T", 9) == places


@pytest.mark.parametrize("first", ["-11", "-2^40", "-10"])
def test_a_file_of_negative_name_is_left_out_and_named(first: str) -> None:
    log = queue_of([FIRSTS[first], 5, 6])
    rebuilt = rebuild_log(log.log, on_damage=TRUNCATE)
    (said,) = rebuilt.summary.left_out
    assert "consumequeue/T/9" in said
    assert "which no file's name can say" in said
    assert not any(path.startswith("consumequeue/T/9/") for path in rebuilt.files)
    assert len(entries(rebuilt, "T", 0)) == 9


@pytest.mark.parametrize("first", ["-1", "2^62", "2^63 - 1", "-2^63"])
def test_refuse_names_the_record_and_the_ways_out(first: str) -> None:
    log = queue_of([FIRSTS[first], 5, 6])
    with pytest.raises(DamageFound, match=f"physical offset {log.places[10]}.*salvage.*truncate"):
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


def test_salvage_without_room_before_those_that_follow() -> None:
    log = queue_of([-7, -9, 1, 2])
    mine = [n for n, message in enumerate(log.messages) if message.queue_id == 9]
    rebuilt = salvage(log.log)
    assert entries(rebuilt, "T", 9) == [log.places[n] for n in mine[1:]]
    (said,) = [w for w in rebuilt.summary.warnings if "cannot begin topic" in w]
    assert "1 kept from position 0, 1 without a position" in said


def test_salvage_of_a_queue_of_nothing_else() -> None:
    log = queue_of([-7])
    assert entries(salvage(log.log), "T", 9) == [log.places[10]]


@pytest.mark.parametrize("first", FIRSTS)
def test_check_reports_it_and_lives(first: str) -> None:
    report = checked(queue_of([FIRSTS[first], 5, 6]))
    (found,) = report.findings
    assert "cannot begin topic 'T', queue 9" in found.reason
    assert not report.sound


def test_check_says_nothing_of_queues_that_begin_anew() -> None:
    for offsets in ([57, 58, 0, 1, 2], [3, 4, 5], [0, 1, 2], [7, 0, 1]):
        assert checked(queue_of(offsets)).findings == []


OFFSETS = st.one_of(
    st.sampled_from([*FIRSTS.values(), 0, 1]),
    st.integers(0, 40),
    st.integers(-TOP, TOP - 1),
    st.integers(0, 30).map(lambda n: n * 10 - 100),
)


@settings(ANY, max_examples=30)
@given(st.lists(OFFSETS, min_size=1, max_size=14), st.sampled_from([1, 3, 64]),
       st.sampled_from(["4.1.0", "4.9.7", "5.5.0"]))  # fmt: skip
def test_any_offsets_as_the_reference(offsets: list[int], splits: int, version: str) -> None:
    log = queue_of(offsets)
    log.version = version
    rebuilt = rebuild_log(log.log, Cut(-(-4096 // splits), 2, 2), Session(3), TRUNCATE)
    assert difference(rebuilt, derive(*log.log)) is None


@settings(ANY, max_examples=20)
@given(st.lists(OFFSETS, min_size=1, max_size=14), st.integers(0, 40))
def test_salvage_lives_with_any_offsets(offsets: list[int], follow: int) -> None:
    log = queue_of([*offsets, *(follow + n for n in range(4))])
    made = [salvage(log.log, splits) for splits in (1, 64)]
    assert made[0].files == made[1].files
    check_whole: Any = entries(made[0], "T", 0)
    assert len(check_whole) >= 4


@pytest.mark.parametrize(
    ("offsets", "wanted"),
    [
        ([0, 1, 2], None),
        ([5], None),
        ([-1], Opening(1, 0)),
        ([-1, 4, 5], Opening(1, 3)),
        ([9, 4, 5], Opening(1, 3)),
        ([9, 4], None),  # one against one
        ([9, 0, 1], None),  # a topic made anew
        ([TOP - 1, 9, 4, 5], Opening(2, 2)),
        ([-3, -2, 1], Opening(2, -1)),
        ([4, 4, 5], None),
    ],
)
def test_what_outvotes_what(offsets: list[int], wanted: Opening | None) -> None:
    assert opening(offsets, True) == wanted
