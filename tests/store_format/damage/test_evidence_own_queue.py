"""The queue that a record goes to by itself, and its queueOffsets there."""

from dataclasses import replace

import pytest

from reput.store_format.damage.evidence import OwnOffsets, OwnQueues
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import Settings
from tests.logs.batches import batch
from tests.logs.encoder import Message, properties
from tests.store_format.damage.walked import SCAN_RULES, walked

TOP = (1 << 63) - 1


def numbers(base: str, count: str) -> Message:
    return batch(7, 1, properties=properties(("INNER_BASE", base), ("INNER_NUM", count)))


def taken(message: Message, release: str = "5.3.3") -> OwnOffsets | None:
    raw, rows = walked(message)
    rules = scan_rules(profile(release), Settings(), SCAN_RULES.batch_topics)
    return OwnQueues(rules).of(raw, rows[0])


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        (Message(topic="T", queue_id=-1, queue_offset=3), OwnOffsets(("T", -1), 3, 3)),
        (Message(topic=b"T\xed\xa0\x80"), OwnOffsets(("T\ufffd", 0), 0, 0)),  # as Java decodes it
        (Message(sys_flag=4), None),
        (Message(sys_flag=12), None),
        (Message(sys_flag=0x31 | 8, born_host=bytes(20), store_host=bytes(20)),
         OwnOffsets(("T", 0), 0, 0)),
        (Message(queue_offset=TOP), OwnOffsets(("T", 0), TOP, TOP)),
    ],
)  # fmt: skip
def test_the_queue_that_a_record_goes_to(message: Message, wanted: OwnOffsets | None) -> None:
    assert taken(message) == wanted


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        (batch(5, 4), (5, 8)),
        (batch(5, 1), (5, 5)),
        (numbers("5", "32767"), (5, 32771)),
        (numbers("9", "0"), (9, 9)),  # a broker counts it as one message
        (numbers("9", "-1"), None),
        (numbers("-9", "2"), None),
        (numbers("9", "x"), None),
        (numbers("9", "32768"), None),
        (batch(5, 4, properties=properties(("INNER_NUM", "4"))), (5, 5)),
        (batch(5, 4, properties=b""), (5, 5)),
        (replace(batch(5, 4), sys_flag=0xC4), None),
    ],
)
def test_a_batch_has_as_many_queue_offsets_as_messages(
    message: Message, wanted: tuple[int, int] | None
) -> None:
    assert taken(message) == (OwnOffsets(("Batch", 0), *wanted, True) if wanted else None)


def test_of_other_topics_and_before_batch_queues_it_has_one() -> None:
    assert taken(batch(5, 4, topic="T")) == OwnOffsets(("T", 0), 5, 5)
    assert taken(batch(5, 4), "4.9.7") == OwnOffsets(("Batch", 0), 5, 5)
