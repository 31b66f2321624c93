"""Records that name a queue which is not theirs: what else the log and the store say of them.

The rows are those of `reput.udfs.damage.gaps.GAP`.
"""

from typing import Any

from reput.store_format.damage.filler import least_bytes
from reput.udfs.damage.gaps import ALONE, CLAIM, HOLE, IS_GAP, OTHER, PLACED, TWICE
from reput.udfs.lost import LongestLost

Row = dict[str, Any]
ENTRIES_A_BREAK = 32  # of a queue that goes on, for each place where it does not
_MOST_LOST_BESIDE = 64  # messages that one queue lost where another record may be of it too
_UNREAD = "\ufffd"  # what Java and `decode` make of bytes that are no UTF-8


def explained_by_queues(rows: list[Row], longest: LongestLost) -> list[tuple[Row, Row]]:
    """(record, queue) of the records whose queueOffset another queue misses there: those without
    neighbours, and those that their neighbours give another one.

    Witnesses: the queue that the record names has no message beside it, outvotes it, or has that
    queueOffset twice; the other queue misses just this one, between two places around it; and one
    flipped bit makes one queue the other.
    longest: what the log lost at once, see `_may_be_own`.
    """
    holes: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        if row["what"] == HOLE or (row["what"] == IS_GAP and row["count"] <= _MOST_LOST_BESIDE):
            for offset in range(row["first"], row["first"] + row["count"]):
                holes.setdefault(offset, []).append(row)
    found = []
    for row in rows:
        if row["what"] in (ALONE, PLACED, TWICE):
            for hole in holes.get(row["value"], ()):
                beside = hole["after"] < row["before"] < hole["before"]
                # What may be in order in its own queue is so, unless another surely misses it.
                sure = hole["what"] == HOLE and hole["value"] >= ENTRIES_A_BREAK
                if not beside or bits_between(row, hole) != 1:
                    continue
                if sure or not _may_be_own(row, longest):
                    found.append((row, hole))
                    break
    return found


def _may_be_own(row: Row, longest: LongestLost) -> bool:
    """Whether a record may be of the queue that it names: one of two with its queueOffset, one that
    a single flipped bit gives the place which its queue has for it, or its queue's only survivor.

    What the queue had before it was lost at once then. That many small ranges took each of its
    messages, and nothing but them, is no chance to reckon with beside one flipped bit.
    """
    if row["what"] == TWICE:
        return True
    if row["what"] == PLACED:
        return int(row["first"] ^ row["value"]).bit_count() <= 1
    if not row["first"]:
        return False
    needs = row["value"] * least_bytes(row["topic"], False)
    return not longest.from_start or needs <= longest.up_to(row["before"])


def bits_between(one: dict[str, Any], other: dict[str, Any]) -> int:
    """How many bits of topic and queueId differ between two queues; many where the topics are not
    of one length. What is no UTF-8 differs from a letter in one bit at least, and counts so.
    """
    if len(one["topic"]) != len(other["topic"]):
        return 64
    bits = int(((one["queue_id"] ^ other["queue_id"]) & 0xFFFFFFFF).bit_count())
    for mine, theirs in zip(one["topic"], other["topic"], strict=True):
        unread = (mine == _UNREAD) != (theirs == _UNREAD)
        bits += 1 if unread else (ord(mine) ^ ord(theirs)).bit_count()
    return bits


def known_elsewhere(rows: list[Row]) -> list[tuple[Row, Row]]:
    """(record, claim) of the records that the store's own queue files know at another position.

    Two witnesses: the position that a record says is another one's there, or it is alone in its
    queue; and an entry elsewhere points to just this record.
    """
    claims = {(row["before"], row["count"]): row for row in rows if row["what"] == CLAIM}
    return [
        (row, claims[row["before"], row["count"]])
        for row in rows
        if row["what"] in (OTHER, ALONE) and (row["before"], row["count"]) in claims
    ]
