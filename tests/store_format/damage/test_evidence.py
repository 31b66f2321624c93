"""Salvage by evidence: random damage with its truth, judged; and each witness by itself."""

from dataclasses import replace

import pytest

from reput.store_format.damage.evidence import (
    NextOffset,
    OwnOffsets,
    OwnQueues,
    QueueSpan,
    StretchFacts,
    StretchVerdict,
    Sureness,
    Votes,
    Witness,
    heard,
    judge_stretch,
    packed,
    votes_before,
    votes_behind,
)
from reput.store_format.damage.ranges import Damage, DamageKind
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import REASONS, Fault
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import Settings
from tests.damaged import SEGMENT, START, damaged, entries, messages, salvage
from tests.logs.batches import batch
from tests.logs.encoder import Message, properties
from tests.seeds import some
from tests.store_format.damage.generator import KINDS, generate, judged
from tests.store_format.damage.walked import SCAN_RULES, walked

QUICK = ["a stale older page", "a stale tail", "35% bad pages", "misdirected writes",
    "lost properties", "a time flipped, then a bad magic",
    "a queueOffset flipped, then a bad magic", "clock set back in a lost page"]  # fmt: skip
LONG_SEEDS = 1  # of 19 kinds, with and without `__CRC32#`, with and without queue files: 76 logs


@pytest.mark.parametrize("crc", [False, True], ids=["bare", "crc"])
@pytest.mark.parametrize("kind", QUICK)
def test_what_no_damage_touched_stays_and_nothing_is_made_up(kind: str, crc: bool) -> None:
    found = judged(generate(kind, 0, crc))
    assert (found.displaced, found.fabricated, found.contradicted) == (0, 0, 0)


@pytest.mark.long
@pytest.mark.explore
@pytest.mark.parametrize("derived", [False, True], ids=["alone", "derived"])
@pytest.mark.parametrize("crc", [False, True], ids=["bare", "crc"])
@pytest.mark.parametrize("kind", KINDS)
def test_random_damage_of_every_kind(kind: str, crc: bool, derived: bool) -> None:
    """Nothing untouched is displaced or lost, nothing fabricated, and each touched message that is
    kept is named where a checksum, the records around it or a queue file contradict it.
    """
    for seed in some(range(LONG_SEEDS)):
        found = judged(generate(kind, seed, crc), derived)
        assert (found.displaced, found.fabricated, found.contradicted) == (0, 0, 0), seed


def test_one_flipped_queue_offset_or_queue_costs_nobody_else_and_a_crc_decides() -> None:
    log = damaged(messages(60, queues=1))
    log.flip(30, 24, 6)
    rebuilt = salvage(log.log)
    assert entries(rebuilt, "T", 0) == log.places
    assert any("is outvoted by its neighbours" in line for line in rebuilt.summary.warnings)
    log = damaged(messages(60, queues=1, crc_property=True))
    log.flip(30, 24, 6)
    rebuilt = salvage(log.log)
    (found,) = rebuilt.summary.damage["ranges"]
    assert (found["kind"], found["field"]) == ("damaged", "__CRC32#")
    wanted = list(log.places)
    wanted[30] = wanted[31]
    assert entries(rebuilt, "T", 0) == wanted
    # Queue 1 misses a message, and one stands right there that is alone in queue 3.
    log = damaged(messages(60, queues=2))
    log.flip(31, 15, 1)
    wanted = [p for n, p in enumerate(log.places) if n % 2 == 1 and n != 31]
    wanted.insert(15, wanted[15])
    rebuilt = salvage(log.log)
    assert entries(rebuilt, "T", 1) == wanted
    assert entries(rebuilt, "T", 0) == log.places[::2]
    assert entries(rebuilt, "T", 3) == []
    (found,) = rebuilt.summary.damage["ranges"]
    assert (found["physical_offset"], found["field"]) == (log.places[31],
        "queueId/topic/queueOffset")  # fmt: skip


def test_a_time_that_two_others_outvote_makes_nothing_stale() -> None:
    made = [replace(m, born_timestamp=m.store_timestamp - 3) for m in messages(60, queues=1)]
    made[30] = replace(made[30], store_timestamp=START + 3 * 86_400_000)
    log = damaged(made, 1 << 16)
    log.flip(31, 5)
    rebuilt = salvage(log.log)
    assert rebuilt.summary.messages == 59
    # All records from 47 on are of a queue that nobody knows before the break behind record 45.
    made = [m if n < 47 else replace(m, queue_id=1, queue_offset=n - 47)
        for n, m in enumerate(messages(100, queues=1))]  # fmt: skip
    made[45] = replace(made[45], store_timestamp=START + 3 * 86_400_000)
    log = damaged(made)
    assert [place // SEGMENT for place in (log.places[n] for n in (30, 45, 46, 80))] == [0, 1, 1, 2]
    log.flip(46, 5)
    log.flip(80, 5)
    rebuilt = salvage(log.log)
    assert rebuilt.summary.messages == 98


SILENT = Votes(0, 0)


def test_witnesses_of_a_stretch_and_lost_bytes_that_may_have_been_one_batch() -> None:
    for facts, live in [
        (StretchFacts(False, False, False, SILENT, SILENT), True),
        (
            StretchFacts(True, False, False, Votes(3, 0), SILENT),
            False,
        ),  # right behind the log's end
        (StretchFacts(True, False, True, Votes(3, 0), SILENT), True),  # a clock that was set back
        (StretchFacts(True, False, True, Votes(3, 1), SILENT), False),  # one queue does not go on
        (StretchFacts(True, True, True, Votes(3, 0), SILENT), False),  # between newer ones: a tie
        (StretchFacts(True, True, True, Votes(3, 0), Votes(3, 0)), True),  # and yet they go on
        (StretchFacts(False, False, False, Votes(0, 2), SILENT), False),
        (StretchFacts(False, True, False, SILENT, Votes(0, 2)), False),
    ]:
        verdict = judge_stretch(facts)
        assert verdict.live == live
        assert live or verdict.spoke != Witness.NONE
    for first, lost, earlier, votes in [(10, 0, 0, Votes(1, 0)), (30, ONE_BATCH, 0, Votes(1, 0)),
        (31, ONE_BATCH, 0, Votes(0, 1)),
        (31, 22, ONE_BATCH, Votes(0, 0)),  # perhaps lost before
        (9, ONE_BATCH, 0, Votes(0, 1))]:  # fmt: skip
        known = {BATCH: NextOffset(9, earlier), PLAIN: NextOffset(9, earlier)}
        assert votes_before({BATCH: QueueSpan(first, 40, batch=True)}, known, lost) == votes
        if first > 10:
            plain = {PLAIN: QueueSpan(first, 40)}
            assert votes_before(plain, known, lost) == Votes(0, 1)
            both = {BATCH: QueueSpan(30, 40, batch=True), PLAIN: QueueSpan(10, 20)}
            assert votes_before(both, known, ONE_BATCH) == Votes(2, 0)
    for span, lost, votes in [
        (QueueSpan(0, 19, batch=True), ONE_BATCH, Votes(1, 0)),
        (QueueSpan(0, 19), ONE_BATCH, Votes(0, 1)),
        (QueueSpan(0, 18, batch=True), ONE_BATCH, Votes(0, 1)),
        # a batch of 21 messages in between, whose queueOffset nobody believes
        (QueueSpan(0, 18, 520, 21, True), 0, Votes(1, 0)),
        (QueueSpan(0, 18, 520, 20, True), 0, Votes(0, 1)),
    ]:
        queue = BATCH if span.batch else PLAIN
        assert votes_behind({queue: span}, {queue: None}, [(queue, 40)], lost, 4000) == votes


BATCH, PLAIN = ("Batch", 0), ("T", 0)
ONE_BATCH = 91 + 20 * 22  # bytes of a record with 20 messages at most


# --- The queue that a record goes to by itself, and its queueOffsets there.
TOP = (1 << 63) - 1


def numbers(base: str, count: str) -> Message:
    return batch(7, 1, properties=properties(("INNER_BASE", base), ("INNER_NUM", count)))


def taken(message: Message, release: str = "5.3.3") -> OwnOffsets | None:
    raw, rows = walked(message)
    rules = scan_rules(profile(release), Settings(), SCAN_RULES.batch_topics)
    return OwnQueues(rules).of(raw, rows[0])


def test_a_record_has_as_many_queue_offsets_as_messages_in_the_queue_that_it_goes_to() -> None:
    for message, wanted in [(Message(topic="T", queue_id=-1, queue_offset=3),
        OwnOffsets(("T", -1), 3, 3)), (Message(topic=b"T\xed\xa0\x80"),
        OwnOffsets(("T\ufffd", 0), 0, 0)),  # as Java decodes it
        (Message(sys_flag=4), None), (Message(sys_flag=12), None),
        (Message(sys_flag=0x31 | 8, born_host=bytes(20), store_host=bytes(20)),
        OwnOffsets(("T", 0), 0, 0)), (Message(queue_offset=TOP),
        OwnOffsets(("T", 0), TOP, TOP))]:  # fmt: skip
        assert taken(message) == wanted
    for message, wanted in [(batch(5, 4), (5, 8)), (batch(5, 1), (5, 5)),
        (numbers("5", "32767"), (5, 32771)),
        (numbers("9", "0"), (9, 9)),  # a broker counts it as one message
        (numbers("9", "-1"), None), (numbers("-9", "2"), None), (numbers("9", "x"), None),
        (numbers("9", "32768"), None),
        (batch(5, 4, properties=properties(("INNER_NUM", "4"))), (5, 5)),
        (batch(5, 4, properties=b""), (5, 5)),
        (replace(batch(5, 4), sys_flag=0xC4), None)]:  # fmt: skip
        assert taken(message) == (OwnOffsets(("Batch", 0), *wanted, True) if wanted else None)
    assert taken(batch(5, 4, topic="T")) == OwnOffsets(("T", 0), 5, 5)
    assert taken(batch(5, 4), "4.9.7") == OwnOffsets(("Batch", 0), 5, 5)


# --- Who spoke of a damaged range, and how sure that makes it.
TIME, BEFORE, BEHIND = Witness.TIME, Witness.OFFSETS, Witness.OFFSETS_BEHIND


def damage(kind: DamageKind, fault: Fault, value: int | None = None) -> Damage:
    return Damage(0, 100, kind, fault, 100, value, "record")


def test_each_range_has_the_witnesses_of_its_fault() -> None:
    for spoke, against, sureness in [(TIME | BEFORE, BEHIND, Sureness.LIKELY),
        (TIME, Witness.NONE, Sureness.LIKELY), (TIME, BEHIND, Sureness.EVEN),
        (BEFORE, TIME | Witness.FRAME, Sureness.EVEN),
        (Witness.NONE, Witness.NONE, Sureness.EVEN)]:  # fmt: skip
        value = packed(StretchVerdict(False, spoke, against))
        found = heard(damage(DamageKind.STALE, Fault.NONE, value))
        assert (len(found.witnesses), len(found.against)) == (len(spoke), len(against))
        assert found.sureness == sureness
    every = [heard(damage(DamageKind.STALE, Fault.NONE, packed(StretchVerdict(False, each, each))))
        for each in Witness]  # fmt: skip
    assert all(found.witnesses == found.against for found in every)
    assert len({found.witnesses for found in every}) == len(Witness)
    assert len({word for found in every for word in found.witnesses}) == len(Witness)
    assert heard(damage(DamageKind.STALE, Fault.NONE)) == ((), (), Sureness.EVEN)
    for kind, fault, sureness, word in [
        (DamageKind.STALE, Fault.PLACE, Sureness.CERTAIN, "physicalOffset"),
        (DamageKind.CONTENT, Fault.BODY_CRC, Sureness.CERTAIN, "bodyCRC"),
        (DamageKind.DAMAGED, Fault.PROPERTY_CRC, Sureness.CERTAIN, "__CRC32#"),
        (DamageKind.DAMAGED, Fault.BAD_MAGIC, Sureness.CERTAIN, "magic"),
        (DamageKind.DAMAGED, Fault.LENGTHS, Sureness.CERTAIN, "lengths"),
        (DamageKind.DAMAGED, Fault.DELAY_LEVEL, Sureness.CERTAIN, "DELAY"),
        (DamageKind.DAMAGED, Fault.BATCH_NUMBERS, Sureness.CERTAIN, "INNER_NUM"),
        (DamageKind.DAMAGED, Fault.BLANK_SIZE, Sureness.CERTAIN, "segment's end"),
        (DamageKind.CONTENT, Fault.HEAD_MAGIC, Sureness.CERTAIN, "DLedger head's own magic"),
        (DamageKind.CONTENT, Fault.HEAD_SIZE, Sureness.CERTAIN, "DLedger head's lengths"),
        (DamageKind.CONTENT, Fault.HEAD_PLACE, Sureness.CERTAIN, "pos"),
        (DamageKind.CONTENT, Fault.HEAD_INDEX, Sureness.CERTAIN, "index of the DLedger entry"),
        (DamageKind.CONTENT, Fault.HEAD_TERM, Sureness.CERTAIN, "term of the DLedger entry"),
        (DamageKind.MISSING, Fault.MISSING, Sureness.CERTAIN, "segments"),
        (DamageKind.CONTENT, Fault.TIME, Sureness.LIKELY, "bornTimestamp"),
        (DamageKind.CONTENT, Fault.TAG, Sureness.EVEN, "ConsumeQueue"),
        (DamageKind.CONTENT, Fault.KEYS, Sureness.EVEN, "IndexFile"),
    ]:
        found = heard(damage(kind, fault, 5))
        assert found.sureness == sureness
        assert any(word in witness for witness in found.witnesses)
    for fault in REASONS:
        found = heard(damage(DamageKind.DAMAGED, fault))
        counted = {Sureness.LIKELY: 2, Sureness.EVEN: 1}.get(found.sureness, len(found.witnesses))
        assert len(found.witnesses) == counted, fault
    # What is wrong in such a record is one of the fields that make its frame.
    frame = heard(damage(DamageKind.DAMAGED, Fault.BAD_MAGIC))
    by_frame = {fault for fault in REASONS if heard(damage(DamageKind.DAMAGED, fault)) == frame}
    assert {REASONS[fault][0] for fault in by_frame} == {"totalSize", "magic", "bodyLength",
        "topicLength", "propertiesLength"}  # fmt: skip
