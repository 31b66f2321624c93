"""Random logs of two lives: cut back by a recovery and written on, with pages of the older life.

The lives have a beginning in common, and go on from the cut each with messages of its own: from the
same queueOffsets on, in the same queues, so that either life's record may claim a position. The
later life began after the older one had ended. Pages whose last write never reached the disk show
the older life.

And healthy logs of one life, with all that a broker's life does to times and queueOffsets.
"""

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.damaged import SETTINGS, START, Damaged
from tests.logs.damage import record_places
from tests.logs.encoder import Message, build_log, encode, properties
from tests.store_format.damage.generator import PAGE, SEGMENT, Hurt

_TOPICS = [*(f"Topic{n}" for n in range(8)), "订单", "V2" + "x" * 140]
_TRANSACTIONS = [0] * 10 + [0x4, 0x8, 0xC]
_BODIES = [3, 20, 80, 400, 1600, 700, 2900]
_PAGES = [1, 1, 2, 2, 8]  # what one lost write leaves
Queues = dict[tuple[str, int], int]


@dataclass
class _Life:
    """Draws the messages of one broker's life. queues: each queue's next queueOffset."""

    rng: Random
    crc: bool
    now: int
    queues: Queues
    topics: list[str]
    body: int | None  # bytes of each body; None: of many lengths
    width: int = 4  # queues of a topic
    number: int = 0

    def messages(self, count: int) -> list[Message]:
        return [self._message() for _ in range(count)]

    def _message(self) -> Message:
        rng = self.rng
        self.number += 1
        self.now += rng.choice([0, 0, 0, 1, 1, 3, 20])
        topic, queue = rng.choice(self.topics), rng.randrange(self.width)
        kind = rng.choice(_TRANSACTIONS)
        offset = 0
        if kind in (0, 0x8):
            offset = self.queues.get((topic, queue), 0)
            self.queues[topic, queue] = offset + 1
        keys = ("KEYS", f"k{rng.randrange(1 << 30):010d}"), ("TAGS", "abc"[self.number % 3])
        unique = ("UNIQ_KEY", f"{rng.randrange(1 << 120):032X}")
        return Message(topic=topic, queue_id=queue, queue_offset=offset, store_timestamp=self.now,
            born_timestamp=self.now - 2, crc_property=self.crc, sys_flag=kind,
            version=2 if len(topic) > 127 else 1,
            body=rng.randbytes(self.body or rng.choice(_BODIES)),
            properties=properties(*keys, unique) if self.body
            or rng.random() < 0.7 else b"")  # fmt: skip


def two_lives(seed: int, crc: bool, body: int | None = None) -> Hurt:
    """The log of a seed, and which of its later life's messages the older pages have touched.

    body: bytes of each, of one topic, without `__CRC32#`: records of both lives lie alike.
    """
    rng = Random(f"lives/{seed}/{crc}")
    topics = ["T"] if body else rng.sample(_TOPICS, rng.randrange(1, len(_TOPICS) + 1))
    body = rng.choice([None, None, None, 100]) if crc else body
    many = 4 if body else 1
    life = _Life(rng, crc, START, {}, topics, body)
    before = life.messages(many * rng.randrange(100, 500))
    cut = dict(life.queues)
    older = build_log(before + life.messages(many * rng.randrange(150, 500)), SEGMENT)
    later = _Life(rng, crc, life.now + rng.choice([1, 30, 500, 60_000]), cut, topics, body)
    messages = before + later.messages(many * rng.randrange(150, 500))
    whole = build_log(messages, SEGMENT)
    places = record_places(whole)
    settings: dict[str, Any] = {**SETTINGS, "mappedFileSizeCommitLog": SEGMENT,
        "mappedFileSizeConsumeQueue": 2000, "maxHashSlotNum": 97, "maxIndexNum": 20000}  # fmt: skip
    log = Damaged(messages, {s: bytearray(raw) for s, raw in whole.items()}, places, settings)
    hurt = Hurt("two lives", log, whole, rng, crc)
    hurt.sizes = [len(encode(m, p)) for m, p in zip(messages, places, strict=True)]
    first, end = places[len(before)] // PAGE + 1, min(hurt.end, record_places(older)[-1]) // PAGE
    for _ in range(rng.randrange(1, 8)):
        put_older(hurt, older, rng.randrange(first, end) * PAGE, rng.choice(_PAGES) * PAGE)
    return hurt


_CLOCK = [-1, -5, -300, -60_000, -3_600_000, 300, 60_000, 3_600_000]  # set back, or forward
_OFTEN = [0.002, 0.01, 0.05]


def one_life(seed: int) -> Damaged:
    """The healthy log of a seed: its clock was set back and forward, topics were deleted and made
    again, and queues may begin where the log's first messages have expired. Rarely two records of a
    queue have one queueOffset, as RocketMQ's issues 2865 and 7689 show.
    """
    rng = Random(f"one life/{seed}")
    topics, often = rng.sample(_TOPICS, rng.choice([1, 1, 2, 5])), rng.choice(_OFTEN)
    life = _Life(rng, False, START, {}, topics, rng.choice([None, 100, 100]))
    life.width = rng.choice([1, 2, 4, 4, 16])
    first = rng.choice([0, 0, rng.randrange(1000)])
    life.queues |= {(topic, queue): first for topic in topics for queue in range(life.width)}
    messages: list[Message] = []
    for _ in range(rng.randrange(500, 1500)):
        if rng.random() < often:
            life.now += rng.choice(_CLOCK)
        if rng.random() < often:
            again = rng.choice(topics)
            life.queues |= {queue: 0 for queue in life.queues if queue[0] == again}
        if rng.random() < min(often, 0.01):
            queue = rng.choice(list(life.queues))
            life.queues[queue] = max(life.queues[queue] - 1, 0)
        messages += life.messages(1)
    whole = build_log(messages, SEGMENT)
    settings = {**SETTINGS, "mappedFileSizeCommitLog": SEGMENT}
    segments = {start: bytearray(raw) for start, raw in whole.items()}
    return Damaged(messages, segments, record_places(whole), settings)


def put_older(hurt: Hurt, older: dict[int, bytes], at: int, length: int) -> None:
    """Put pages of the older life in the place of the later one's, also over a segment's end."""
    for page in range(at, at + length, PAGE):
        start = page // SEGMENT * SEGMENT
        if start in older and start in hurt.log.segments:
            hurt.log.put(page, older[start][page - start : page - start + PAGE])
