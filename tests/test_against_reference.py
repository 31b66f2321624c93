"""What reput derives from a log, and what the slow reference derives, on logs of every kind.

The jobs run in this process (tests.in_process); how the work is cut is drawn along with the log.
Stores that the real RocketMQ wrote are in test_golden."""

import struct
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import REFUSE
from reput.store_format.faults import DamageFound
from reput.store_format.release.profiles import profile
from tests.against_reference import ANY, GREATEST_FIRST_OFFSET, difference, first_offsets
from tests.in_process import Session, rebuild_log
from tests.logs import Log, logs
from tests.logs.strategies import VERSIONS
from tests.reference import Derivation, Message, derive, records
from tests.reference.derive import COMMITTED
from tests.reference.log import MAGIC_BLANK, BadRecordError, read_record
from tests.reference.rules import Rules, parse_version
from tests.seeds import examples

# Of the releases that have all rules in common the first: to derive is the same for the others.
UNLIKE = {replace(profile(version), release=""): version for version in VERSIONS[::-1]}.values()


def check(log: Log, cut: Cut | None = None, seed: int = 0) -> Derivation:
    """Rebuild and compare; a queue's first offset that can be none is refused, not truncated."""
    derivation = derive(*log)
    assert difference(rebuild_log(log, cut, Session(seed)), derivation) is None
    if any(not 0 <= first <= GREATEST_FIRST_OFFSET for first in first_offsets(log)):
        event("a queue's first offset can be none")
        with pytest.raises(DamageFound):
            rebuild_log(log, cut, Session(seed), REFUSE)
    return derivation


@st.composite
def cuts(draw: st.DrawFn) -> Cut:
    """1 to hundreds of splits, also shorter than a record; any ranges and partitions."""
    return Cut(
        # splits of 64 bytes take longer than all others together
        split_bytes=draw(st.sampled_from([1 << 20, 2048, 1000, 300] * 2 + [64])),
        index_ranges=draw(st.sampled_from([None, 1, 2, 7, 64])),
        partitions=draw(st.sampled_from([1, 2, 7])),
    )


def tell(log: Log, derivation: Derivation) -> None:
    """For `pytest --hypothesis-show-statistics`: which kinds of log there were."""
    event(f"stop: {derivation.stop}")
    event(f"index files: {min(sum(n.startswith('index/') for n in derivation.files), 3)}")
    event(f"messages: {min(derivation.messages, 31)}")
    for kind in ("consumequeue/", "batchconsumequeue/", "consumequeue/%LMQ%"):
        if any(name.startswith(kind) for name in derivation.files):
            event(f"has {kind}")


@settings(ANY, max_examples=25)
@given(logs(), cuts(), st.integers(0, 1000))
def test_any_log(log: Log, cut: Cut, seed: int) -> None:
    tell(log, check(log, cut, seed))


@pytest.mark.long
@pytest.mark.explore
def test_many_logs_of_each_version() -> None:
    seen: Counter[str] = Counter()
    for version in UNLIKE:

        @settings(ANY, max_examples=examples(25))
        @given(logs(only_version=version), cuts(), st.integers(0, 1000))
        def run(log: Log, cut: Cut, seed: int) -> None:
            seen[check(log, cut, seed).stop] += 1

        run()
    assert len(seen) > 5, seen  # ends of many kinds were met


def wrong_blanks(log: Log, end: int) -> list[int]:
    """Where BLANKs before the log's end stand whose size is not the rest of their segment."""
    found = []
    known = records(*log[:3])
    for base, segment in sorted(log.segments.items()):
        here = [each for each in known if base <= each.physical_offset < base + len(segment)]
        at = here[-1].physical_offset + here[-1].size - base if here else 0
        size, magic = struct.unpack_from(">iI", segment.ljust(at + 8, b"\0"), at)
        if magic == MAGIC_BLANK and size != len(segment) - at and base + at < end:
            found.append(base + at)
    return found


def first_live(log: Log, end: int) -> int | None:
    """Where the first record of a live queue stands after `end`, looked for at every byte.

    Its records are sound, in their own places, and stored no earlier than the last record before.
    A queue is live if one of them has a queueOffset that it does not have yet."""
    rules = Rules(parse_version(log.version), log.settings, log.topic_attributes)
    greatest: dict[tuple[str, int], int] = {}
    first: dict[tuple[str, int], int] = {}
    live: set[tuple[str, int]] = set()
    known = [each for each in records(*log[:3]) if each.physical_offset < end]

    def offset_of(message: Message) -> int | None:
        """The offset in its queue; none where no queue takes it."""
        batch = rules.is_batch_topic(message.topic)
        if batch and (message.base_offset < 0 or message.batch_size < 0):
            return None
        return message.base_offset if batch else message.queue_offset

    for message in known:
        if message.transaction in COMMITTED and (offset := offset_of(message)) is not None:
            key = message.topic, message.queue_id
            greatest[key] = max(greatest.get(key, offset), offset)
    for base, segment in sorted(log.segments.items()):
        at = segment.find(b"\xda\xa3\x20")
        while at >= 0:
            place, at = base + at - 4, segment.find(b"\xda\xa3\x20", at + 1)
            if place <= end:
                continue
            try:
                found = read_record(segment, place - base, place, rules)
            except BadRecordError:
                continue
            if found is None or found.transaction not in COMMITTED:
                continue
            if known and found.store_timestamp < known[-1].store_timestamp:
                continue
            if not 0 < len(found.topic.encode()) < 256 or {"/", "\\", "\0"} & set(found.topic):
                continue
            offset = offset_of(found)
            least = greatest.get((found.topic, found.queue_id), -(1 << 63))
            if offset is None:
                continue
            key = found.topic, found.queue_id
            first.setdefault(key, place)
            if offset > least or least == -(1 << 63):
                live.add(key)
    return min((first[key] for key in live), default=None)


def damaged_logs() -> st.SearchStrategy[Log]:
    """Whose further queues would need a look at more than a record's own."""
    return logs().filter(
        lambda log: (
            not log.settings["enableMultiDispatch"]
            and derive(*log).stop not in ("end of segments", "zeros")
            and all(0 <= first <= GREATEST_FIRST_OFFSET for first in first_offsets(log))
        )
    )


def check_refusal(log: Log, cut: Cut) -> None:
    derivation = derive(*log)
    ends = [*wrong_blanks(log, derivation.end), derivation.end]
    live = next((at for end in ends if (at := first_live(log, end)) is not None), None)
    event("live records follow" if live is not None else "nothing live follows")
    if live is None:
        rebuilt = rebuild_log(log, cut, on_damage=REFUSE)
        assert difference(rebuilt, derivation) is None
        assert any("nothing live follows" in said for said in rebuilt.summary.warnings)
    else:
        with pytest.raises(DamageFound, match=f"live records follow, the first at offset {live}:"):
            rebuild_log(log, cut, on_damage=REFUSE)


@settings(ANY, max_examples=8)
@given(damaged_logs(), cuts())
def test_damage_is_refused_where_live_records_follow(log: Log, cut: Cut) -> None:
    check_refusal(log, cut)


@pytest.mark.long
@pytest.mark.explore
@settings(ANY, max_examples=examples(40))
@given(damaged_logs(), cuts())
def test_more_damage_is_refused_where_live_records_follow(log: Log, cut: Cut) -> None:
    check_refusal(log, cut)
