"""Finds records that name a wrong queue, by other queues and the store's own files."""

from reput.store_format.damage.filler import least_bytes
from reput.store_format.damage.losses import LossReader
from reput.store_format.damage.queue_findings import (
    ContradictedRecord,
    Gap,
    LoneRecord,
    OutvotedRecord,
    QueueClaim,
    QueueFindings,
    QueueGap,
    QueueRecord,
    TwinRecord,
    UnexplainedGap,
)

ENTRIES_A_BREAK = 32  # entries for each place where a credible queue does not go on
_MOST_LOST_BESIDE = 64  # messages; longer gaps are not compared with other queues' records
_UNREAD = "\ufffd"  # what Java and `decode` make of bytes that are no UTF-8

Doubted = LoneRecord | OutvotedRecord | TwinRecord


def displaced_records(findings: QueueFindings, lost: LossReader) -> list[tuple[Doubted, QueueGap]]:
    """(record, gap) of each record whose queueOffset another queue misses at its place.

    Three witnesses: the queue that the record names has no message beside it, outvotes it, or has
    its queueOffset twice; the other queue misses just this queueOffset, between two places around
    the record; and one flipped bit makes one queue's name the other's.
    """
    by_offset: dict[int, list[QueueGap]] = {}
    short = [gap for gap in findings.of(Gap) if gap.count <= _MOST_LOST_BESIDE]
    gaps: list[QueueGap] = [*short, *findings.of(UnexplainedGap)]
    for gap in gaps:
        for offset in range(gap.first, gap.first + gap.count):
            by_offset.setdefault(offset, []).append(gap)
    found: list[tuple[Doubted, QueueGap]] = []
    doubted: list[Doubted] = [
        *findings.of(LoneRecord), *findings.of(OutvotedRecord), *findings.of(TwinRecord)
    ]  # fmt: skip
    for record in doubted:
        for gap in by_offset.get(record.queue_offset, ()):
            if not gap.after < record.place < gap.before or bits_between(record, gap) != 1:
                continue
            # A record that may be of its named queue stays there, unless another surely misses it.
            sure = isinstance(gap, UnexplainedGap) and gap.entries_a_break >= ENTRIES_A_BREAK
            if sure or not _may_be_own(record, lost):
                found.append((record, gap))
                break
    return found


def _may_be_own(record: Doubted, lost: LossReader) -> bool:
    """Whether a record may be of the queue that it names: it is a twin, or one bit away from the
    queueOffset that its queue has for it, or its queue's only survivor.

    A survivor's queue lost everything before it in one range: that many small ranges took just its
    messages is too unlikely beside one flipped bit.
    """
    match record:
        case TwinRecord():
            return True
        case OutvotedRecord():
            return (record.counts_as ^ record.queue_offset).bit_count() <= 1
    needs = record.queue_offset * least_bytes(record.topic, False)
    return record.may_be_own and lost.may_take(needs, record.place)


def bits_between(one: QueueRecord, other: QueueGap) -> int:
    """How many bits of topic and queueId differ between two queues; 64 where the topics differ in
    length. What is no UTF-8 differs from a letter in at least one bit, and counts as one.
    """
    if len(one.topic) != len(other.topic):
        return 64
    bits = ((one.queue_id ^ other.queue_id) & 0xFFFFFFFF).bit_count()
    for mine, theirs in zip(one.topic, other.topic, strict=True):
        unread = (mine == _UNREAD) != (theirs == _UNREAD)
        bits += 1 if unread else (ord(mine) ^ ord(theirs)).bit_count()
    return bits


def claimed_records(findings: QueueFindings) -> list[tuple[QueueRecord, QueueClaim]]:
    """(record, claim) of each record that the store's own queue files have at another position.

    Two witnesses: the files have another record at the record's own position, or it is alone in its
    queue; and an entry elsewhere points to just this record.
    """
    claims = {(claim.place, claim.size): claim for claim in findings.of(QueueClaim)}
    others = [each for each in findings.of(ContradictedRecord) if not each.tag_only]
    asked: list[QueueRecord] = [*others, *findings.of(LoneRecord)]
    return [(r, claims[r.place, r.size]) for r in asked if (r.place, r.size) in claims]
