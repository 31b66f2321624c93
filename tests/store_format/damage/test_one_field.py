"""What one wrong field may cost: each case that issue 14 measured, by itself."""

from dataclasses import replace

import pytest

from reput.store_format.damage import evidence
from reput.store_format.damage.chain import MOST_OUTVOTED, ChainPiece, Outvoted, judge
from reput.store_format.faults import REASONS, Fault
from tests.damaged import SALVAGE, damaged, entries, messages, salvage
from tests.in_process import rebuild_log, storage_of
from tests.logs.encoder import Message
from tests.store_format.damage import generator
from tests.store_format.damage.generator import judge as judge_truth
from tests.store_format.damage.salvaged import whole_but


def busy(count: int = 200, queues: int = 1) -> list[Message]:
    return [replace(m, born_timestamp=m.store_timestamp - 3) for m in messages(count, queues)]


@pytest.mark.parametrize("seed", [2, 5])
def test_3_a_stale_page_is_named_and_no_message_of_it_kept(seed: int) -> None:
    hurt = generator.generate("a stale older page", seed, crc=False)
    rebuilt = generator.salvaged(hurt, derived=False)
    found = judge_truth(
        hurt, generator.queues_of(rebuilt.files), generator.named_in(rebuilt.summary)
    )
    assert (found.displaced, found.fabricated, found.contradicted) == (0, 0, 0)
    stale = [d for d in rebuilt.summary.damage["ranges"] if d["kind"] == "stale"]
    assert stale
    assert all(d["witnesses"] and d["sureness"] in ("likely", "even") for d in stale)


def test_those_behind_a_lost_page_outvote_its_first_record_and_an_end_is_looked_at() -> None:
    log = damaged(busy(), 1 << 16)
    at = 2 * generator.PAGE
    log.put(at, bytes(generator.PAGE))
    first = next(n for n, place in enumerate(log.places) if place >= at + generator.PAGE)
    log.flip(first, 27, 2)
    found = entries(salvage(log.log), "T", 0)
    assert found[first:] == log.places[first:]
    # Where the scan strides from one damaged record to the next, it must not stride past it.
    log = damaged(busy(), 1 << 16)
    log.flip(20, 5)
    log.put(log.places[61] - 3, b"\xff\xff\xff" + b"\1" * 20)
    ranges = salvage(log.log).summary.damage["ranges"]
    named = [(log.places.index(d["physical_offset"]), d["field"]) for d in ranges]
    assert named == [(20, "magic"), (60, "properties"), (61, "totalSize")]
    # Its records are not known when the next one is scanned; both are, at the same time.
    spans = {("T", 0): evidence.QueueSpan(40, 50)}
    assert evidence.votes_before(
        spans, {("T", 0): evidence.NextOffset(20, 4000)}, 0
    ) == evidence.Votes(0, 0)
    assert evidence.votes_before(
        spans, {("T", 0): evidence.NextOffset(20, 0)}, 0
    ) == evidence.Votes(0, 1)
    assert evidence.judge_stretch(
        evidence.StretchFacts(False, True, False, evidence.Votes(0, 1), evidence.Votes(6, 0), True)
    ).live
    wrong, rest = piece(1 << 51, 1), [piece(14, 1), piece(16, 9)]
    assert judge(piece(0, 13), wrong, rest, none_lost) == Outvoted(13)  # over a second fault
    # a message that is missing behind them is no reason to move two by one
    assert judge(piece(0, 704), piece(705, 2), [piece(708, 9)], three_lost) is None
    assert judge(piece(0, 704), piece(705, 1), [piece(708, 9)], three_lost) == Outvoted(707)
    assert MOST_OUTVOTED == 2


def test_4_a_record_that_lost_its_way_or_its_queue_is_named() -> None:
    """Of another topic by a flipped bit, so that bytes of it are no UTF-8; and where it stands a
    second message of that queue was lost.
    """
    log = damaged(busy(60, 2), 1 << 16)
    log.flip(30, 88 + len(log.messages[30].body) + 1, 7)  # topic
    log.flip(32, 5)
    rebuilt = salvage(log.log)
    assert entries(rebuilt, "T", 0) == whole_but(log, {30, 32})
    named = {d["physical_offset"]: d["field"] for d in rebuilt.summary.damage["ranges"]}
    assert named[log.places[30]] == "queueId/topic/queueOffset"
    log = damaged(busy(60), 1 << 16)
    log.flip(30, 39, 2)  # sysFlag: prepared
    rebuilt = salvage(log.log)
    assert entries(rebuilt, "T", 0) == whole_but(log, {30})
    (found,) = rebuilt.summary.damage["ranges"]
    assert (found["physical_offset"], found["field"], found["value"]) == (
        log.places[30], "sysFlag", 4)  # fmt: skip
    assert found["sureness"] == "likely"


@pytest.mark.parametrize(("byte", "bit", "field", "elsewhere"), [
    (59, 4, "storeTimestamp", 10), (66, 3, "storeHost", 29), (59, 4, "storeTimestamp", None),
    (66, 3, "storeHost", 10), (66, 3, "storeHost", None)])  # fmt: skip
def test_a_field_that_two_witnesses_contradict_is_named(byte, bit, field: str, elsewhere) -> None:
    """Of a time its own bornTimestamp is the second one, of a host the damage right beside it; and
    only in a segment that is damaged elsewhere.
    """
    log = damaged(busy(60), 1 << 16)
    log.flip(30, byte, bit)
    if elsewhere is not None:
        log.flip(elsewhere, 5)
    rebuilt = salvage(log.log)
    assert entries(rebuilt, "T", 0) == whole_but(log, {elsewhere} - {None})  # type: ignore[arg-type]
    named = {(d["physical_offset"], d["field"]) for d in rebuilt.summary.damage["ranges"]}
    reported = elsewhere is not None and (field == "storeTimestamp" or elsewhere == 29)
    assert ((log.places[30], field) in named) == reported
    assert len(named) == reported + (elsewhere is not None)


def test_a_time_that_its_birth_confirms_is_not_doubted_but_a_lost_seal_is() -> None:
    log = damaged(busy(60), 1 << 16)
    for byte in (43, 59):  # bornTimestamp, storeTimestamp
        log.flip(30, byte, 4)
    log.flip(10, 5)
    (found,) = salvage(log.log).summary.damage["ranges"]
    assert found["physical_offset"] == log.places[10]
    for back in [16, 21]:
        log = damaged([replace(m, crc_property=True) for m in busy(60)], 1 << 16)
        log.flip(30, log.size(30) - back, 2)
        log.flip(10, 5)
        rebuilt = salvage(log.log)
        assert entries(rebuilt, "T", 0) == whole_but(log, {10})
        named = {(d["physical_offset"], d["field"]) for d in rebuilt.summary.damage["ranges"]}
        assert (log.places[30], "properties") in named


def none_lost(before: ChainPiece, after: ChainPiece) -> int:
    return 0


def three_lost(before: ChainPiece, after: ChainPiece) -> int:
    return 3 if before.after == 704 else 0


def piece(first: int, count: int) -> ChainPiece:
    return ChainPiece(first, first + count, count)


def test_queue_files_tell_where_a_record_belongs_and_what_its_tag_was() -> None:
    hurt = generator.generate("200 flips", 3, crc=False)
    rebuilt = generator.salvaged(hurt, derived=True)
    named = generator.named_in(rebuilt.summary)
    found = judge_truth(hurt, generator.queues_of(rebuilt.files), named, derived=True)
    assert (found.displaced, found.fabricated, found.contradicted) == (0, 0, 0)
    fields = {d["field"] for d in rebuilt.summary.damage["ranges"]}
    assert "TAGS" in fields
    bare = generator.salvaged(hurt, derived=False)
    before = judge_truth(
        hurt, generator.queues_of(bare.files), generator.named_in(bare.summary), derived=True
    )
    assert before.contradicted > 0
    log = damaged(busy(200, 2), 1 << 16)
    files = generator.derived_of(log.log)
    log.flip(150, 14, 0)
    log.flip(150, 15, 6)  # two bits of queueId: no other message is in that queue
    storage = storage_of(log.log)
    storage.files |= files
    (found,) = rebuild_log(log.log, on_damage=SALVAGE, storage=storage).summary.damage["ranges"]
    assert found["reason"] == REASONS[Fault.ELSEWHERE][1]
    assert (found["physical_offset"], found["value"]) == (log.places[150], 75)


@pytest.mark.parametrize("at_once", [False, True])
def test_4_a_queue_that_flipped_bits_made_up_has_lost_nothing(at_once: bool) -> None:
    """The log may have lost as many messages as the queue lacks before its only one: many small
    ranges never took just these, one long range may have.
    """
    log = damaged([replace(m, body=bytes(200)) for m in busy(200, 2)], 1 << 16)
    lost = set(range(140)) if at_once else {*range(0, 140, 3), 151, 152}
    if at_once:
        log.put(0, b"x" * log.places[140])
        log.flip(151, 5)
        log.flip(152, 5)
    for number in () if at_once else lost:
        log.flip(number, 5)
    log.flip(150, 15, 6)  # queueId 64, which has no other message
    rebuilt = salvage(log.log)
    strays = [d["physical_offset"] for d in rebuilt.summary.damage["ranges"]
              if d["field"] == "queueId/topic/queueOffset"]  # fmt: skip
    assert strays == ([] if at_once else [log.places[150]])
    assert entries(rebuilt, "T", 64)[-1:] == ([log.places[150]] if at_once else [])
    if not at_once:
        assert entries(rebuilt, "T", 0) == whole_but(log, {*lost, 150})
