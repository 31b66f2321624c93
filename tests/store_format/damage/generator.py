"""Random logs, damaged in 19 ways, with the truth: what each record was, and if it was touched.

A log is that of a busy broker: several topics and queues, bodies of many lengths, bornTimestamp a
little before storeTimestamp. `older` is the log that once stood in the same files: of another day,
with other lengths, so that its records stand in their own places too.
"""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import SALVAGE
from reput.store_format.log.rules import reaches_queue
from tests.damaged import SETTINGS, START, Damaged
from tests.in_process import STORE, Rebuilt, Session, rebuild_log, storage_of
from tests.logs.damage import record_places
from tests.logs.encoder import Message, build_log, encode, properties
from tests.logs.strategies import Log

SEGMENT = 1 << 16
PAGE, SECTOR = 4096, 512
DAY = 86_400_000
HEADER = {"totalSize": (0, 4), "magic": (4, 4), "bodyCRC": (8, 4), "queueId": (12, 4),
    "flag": (16, 4), "queueOffset": (20, 8), "physicalOffset": (28, 8), "sysFlag": (36, 4),
    "bornTimestamp": (40, 8), "bornHost": (48, 8), "storeTimestamp": (56, 8), "storeHost": (64, 8),
    "reconsumeTimes": (72, 4), "preparedTransactionOffset": (76, 8),
    "bodyLength": (84, 4)}  # fmt: skip


@dataclass
class Hurt:
    """A damaged log and its truth. touched: numbers of messages of which a byte has changed."""

    kind: str
    log: Damaged
    whole: dict[int, bytes]
    rng: Random
    crc: bool
    sizes: list[int] = field(default_factory=list)
    swapped: bool = False  # whole segments stand under other names

    @property
    def end(self) -> int:
        return self.log.places[-1] + self.sizes[-1]

    def touched(self) -> set[int]:
        """By comparing bytes; a missing or shorter file has changed them too."""
        found = set()
        for number, place in enumerate(self.log.places):
            start = place // SEGMENT * SEGMENT
            piece = slice(place - start, place - start + self.sizes[number])
            now = self.log.segments.get(start)
            if now is None or bytes(now[piece]) != self.whole[start][piece]:
                found.add(number)
        return found

    def read(self, at: int, length: int) -> bytes:
        """Zeros for what is missing."""
        start = at // SEGMENT * SEGMENT
        there = self.log.segments.get(start, b"")[at - start : at - start + length]
        return bytes(there).ljust(length, b"\0")

    def whole_log(self) -> bytes:
        """The damaged segments, one behind the other; zeros for what is missing."""
        raw = bytearray(max(self.log.segments) + SEGMENT)
        for start, segment in self.log.segments.items():
            raw[start : start + len(segment)] = segment
        return bytes(raw)

    def page(self, last: bool = True) -> int:
        """Where some page of the log starts; not the one that holds its end."""
        return self.rng.randrange(0, (self.end // PAGE) - (0 if last else 1)) * PAGE

    def flip(self, number: int, byte: int, bit: int) -> None:
        self.log.flip(number, byte, bit)


def made(rng: Random, crc: bool, count: int, start: int = START, queues: int = 0) -> list[Message]:
    """Messages of a broker: queueOffsets go on by one in each queue, times never fall."""
    topics = ["Orders", "Payments", "T"][: rng.randrange(1, 4)]
    each = queues or rng.randrange(1, 5)
    offsets: dict[tuple[str, int], int] = {}
    now, made = start, []
    for number in range(count):
        topic, queue = rng.choice(topics), rng.randrange(each)
        offset = offsets.get((topic, queue), 0)
        offsets[topic, queue] = offset + 1
        now += rng.randrange(0, 40)
        made.append(Message(topic=topic, queue_id=queue, queue_offset=offset, store_timestamp=now,
            born_timestamp=now - rng.randrange(1, 30), crc_property=crc,
            body=rng.randbytes(rng.choice([0, 3, 20, 80, 200, 400])),
            properties=properties(("KEYS", f"k{number}"), ("UNIQ_KEY", f"{number:032X}"),
            ("TAGS", "abc"[number % 3]))))  # fmt: skip
    return made


def generate(kind: str, seed: int, crc: bool, count: int = 1200) -> Hurt:
    """The damaged log of a kind and a seed."""
    rng = Random(f"{kind}/{seed}/{crc}")
    messages = made(rng, crc, count)
    if kind == "clock set back in a lost page":
        at = rng.randrange(count // 4, count - 60)
        messages = [m if n < at else replace(m, store_timestamp=m.store_timestamp - 7_200_000,
            born_timestamp=m.born_timestamp - 7_200_000) for n, m in enumerate(
            messages)]  # fmt: skip
    segments = build_log(messages, SEGMENT)
    places = record_places(segments)
    settings: dict[str, Any] = {**SETTINGS, "mappedFileSizeCommitLog": SEGMENT,
        "mappedFileSizeConsumeQueue": 2000, "maxHashSlotNum": 100, "maxIndexNum": 5000}  # fmt: skip
    log = Damaged(messages, {s: bytearray(raw) for s, raw in segments.items()}, places, settings)
    hurt = Hurt(kind, log, segments, rng, crc)
    hurt.sizes = [len(encode(m, p)) for m, p in zip(messages, places, strict=True)]
    if kind == "clock set back in a lost page":
        log.put(places[at] // PAGE * PAGE, bytes(PAGE))
    else:
        KINDS[kind](hurt)
    return hurt


def _older(hurt: Hurt) -> dict[int, bytes]:
    rng = Random(hurt.rng.random())
    older = made(rng, hurt.crc, len(hurt.log.messages) + 200, START - DAY)
    return build_log(older, SEGMENT)


def stale_page(hurt: Hurt) -> None:
    """Pages as they were in an older log: writes that never reached the disk."""
    older = _older(hurt)
    for _ in range(hurt.rng.randrange(1, 3)):
        at = hurt.page(last=False)
        start = at // SEGMENT * SEGMENT
        hurt.log.put(at, older[start][at - start : at - start + PAGE])


def stale_tail(hurt: Hurt) -> None:
    """Behind the log's end stands what was there before; the last record may be torn."""
    older = _older(hurt)
    start = hurt.end // SEGMENT * SEGMENT
    end = hurt.end if hurt.rng.random() < 0.5 else hurt.end - hurt.rng.randrange(1, 100)
    hurt.log.segments[start][end - start :] = older[start][end - start :]


def flips(hurt: Hurt, count: int) -> None:
    for _ in range(count):
        at = hurt.rng.randrange(hurt.end)
        hurt.log.segments[at // SEGMENT * SEGMENT][at % SEGMENT] ^= 1 << hurt.rng.randrange(8)


def header_flips(hurt: Hurt) -> None:
    for _ in range(hurt.rng.randrange(10, 40)):
        at, length = HEADER[hurt.rng.choice(list(HEADER))]
        byte = at + hurt.rng.randrange(length)
        hurt.flip(hurt.rng.randrange(len(hurt.log.places)), byte, hurt.rng.randrange(8))


def _flip_then_magic(hurt: Hurt, byte: int, bit: int) -> None:
    number = hurt.rng.randrange(len(hurt.log.places) * 2 // 3, len(hurt.log.places) - 60)
    hurt.flip(number, byte, bit)
    hurt.flip(number + hurt.rng.randrange(1, 8), 5, 0)


def bad_pages(hurt: Hurt) -> None:
    for at in range(0, hurt.end, PAGE):
        if hurt.rng.random() < 0.35:
            hurt.log.put(at, hurt.rng.choice([bytes(PAGE), hurt.rng.randbytes(PAGE)]))


def zeroed(hurt: Hurt, unit: int) -> None:
    for _ in range(hurt.rng.randrange(1, 12)):
        hurt.log.put(hurt.rng.randrange(hurt.end // unit) * unit, bytes(unit))


def random_pages(hurt: Hurt) -> None:
    for _ in range(hurt.rng.randrange(1, 6)):
        hurt.log.put(hurt.page(), hurt.rng.randbytes(PAGE))


def misdirected(hurt: Hurt) -> None:
    """A page of this log also stands where another should be."""
    for _ in range(hurt.rng.randrange(1, 4)):
        hurt.log.put(hurt.page(), hurt.read(hurt.page(), PAGE))


def _inner(hurt: Hurt) -> int:
    return hurt.rng.choice(sorted(hurt.log.segments)[:-1])


def missing(hurt: Hurt) -> None:
    del hurt.log.segments[hurt.rng.choice(sorted(hurt.log.segments)[1:-1])]


def halved(hurt: Hurt) -> None:
    start = _inner(hurt)
    del hurt.log.segments[start][hurt.rng.randrange(1000, SEGMENT - 1000) :]


def beheaded(hurt: Hurt) -> None:
    start, length = _inner(hurt), hurt.rng.randrange(1000, SEGMENT - 1000)
    hurt.log.segments[start][:length] = bytes(length)


def swapped(hurt: Hurt) -> None:
    one, other = hurt.rng.sample(sorted(hurt.log.segments)[:-1], 2)
    segments = hurt.log.segments
    segments[one], segments[other] = segments[other], segments[one]
    hurt.swapped = True


def torn_tail(hurt: Hurt) -> None:
    last = max(hurt.log.segments)
    at = hurt.rng.randrange(last + 1, hurt.end) - last
    if hurt.rng.random() < 0.5:
        hurt.log.segments[last][at:] = bytes(SEGMENT - at)
    else:
        piece = hurt.rng.randbytes(hurt.end - last - at)
        hurt.log.segments[last][at : hurt.end - last] = piece


def lost_properties(hurt: Hurt) -> None:
    """A record ends with zeros; the next one's first bytes are lost too."""
    number = hurt.rng.randrange(100, len(hurt.log.places) - 100)
    end = hurt.log.places[number] + hurt.sizes[number]
    start = end // SEGMENT * SEGMENT
    length = hurt.rng.randrange(30, 60)
    for at in range(end - length, end + 60):
        if at - start < SEGMENT:
            hurt.log.segments[start][at - start] = 0


KINDS: dict[str, Callable[[Hurt], Any]] = {"a stale older page": stale_page,
    "a stale tail": stale_tail, "200 flips": lambda h: flips(h, 200),
    "flips of header fields": header_flips,
    "3 to 7 flips": lambda h: flips(h, h.rng.randrange(3, 8)), "35% bad pages": bad_pages,
    "zeroed sectors": lambda h: zeroed(h, SECTOR), "zeroed pages": lambda h: zeroed(h, PAGE),
    "random pages": random_pages, "misdirected writes": misdirected, "a missing segment": missing,
    "a halved segment": halved, "a beheaded segment": beheaded, "swapped segments": swapped,
    "a torn tail": torn_tail, "lost properties": lost_properties,
    "a time flipped, then a bad magic": lambda h: _flip_then_magic(h, 59, 4),
    "a queueOffset flipped, then a bad magic": lambda h: _flip_then_magic(h, 24, 6),
    "clock set back in a lost page": lambda h: None}  # fmt: skip


INDEX_NAME = 20260101000000000
SURE_MS = 1000  # a clock that is set by less contradicts nobody
_COVERED = {"totalSize", "magic", "queueId", "queueOffset", "physicalOffset", "bodyLength"}
CRC_BYTES = 20  # of a `__CRC32#` property
KEY = re.compile(rb"(?:KEYS|UNIQ_KEY)\x01([^\x01\x02]+)\x02?")
TAGS = re.compile(rb"TAGS\x01([^\x01\x02]*)")


def changed(hurt: Hurt, number: int) -> list[tuple[str, int]]:
    """(field, byte) of each byte of a record that is another one now."""
    message, place = hurt.log.messages[number], hurt.log.places[number]
    start = place // SEGMENT * SEGMENT
    was = hurt.whole[start][place - start : place - start + hurt.sizes[number]]
    now = hurt.read(place, hurt.sizes[number])
    fields = [("header", 88), ("body", len(message.body)), ("topic", 1 + len(str(message.topic)))]
    found = []
    for at in range(len(was)):
        if was[at] == now[at]:
            continue
        name = next((n for n, (start, size) in HEADER.items() if start <= at < start + size), "")
        left = at
        for part, length in fields:
            if not name and left < length:
                name = part
            left -= length
        found.append((name or "properties", at))
    return found


def breaks(hurt: Hurt, number: int) -> bool:
    """Whether reading stops at a record, so that its segment is looked at closely."""
    return bool({"totalSize", "magic", "physicalOffset"} & {n for n, _ in changed(hurt, number)})


def _seal_bits(was: bytes, now: bytes) -> int:
    """How many bits differ of what makes a `__CRC32#`: its name, and the separators around that."""
    at = len(was) - CRC_BYTES
    return sum((was[n] ^ now[n]).bit_count() for n in range(at - 1, at + len(b"__CRC32#\x01")))


def _odd_time(hurt: Hurt, number: int, now: bytes) -> bool:
    """Whether the times around and its own bornTimestamp both contradict a record's."""
    around = [hurt.log.messages[number + n].store_timestamp for n in (-1, 1)]
    born, stored = (
        struct.unpack_from(">q", now, HEADER[n][0])[0] for n in ("bornTimestamp", "storeTimestamp")
    )
    flipped = (stored ^ hurt.log.messages[number].store_timestamp).bit_count() == 1
    off = not around[0] - SURE_MS <= stored <= around[1] + SURE_MS
    near = max(abs(born - around[0]), around[1] - around[0])
    return flipped and off and 2 * near < abs(stored - around[0])


def _unlike_its_entries(hurt: Hurt, number: int, was: bytes, now: bytes) -> bool:
    """Whether its IndexFile entries know a key that a record does not have now, or another time."""
    had, has = (
        {key for found in KEY.findall(raw) for key in found.split(b" ")} for raw in (was, now)
    )
    begin = hurt.log.messages[0].store_timestamp
    at = HEADER["storeTimestamp"][0]
    stored = [(struct.unpack_from(">q", raw, at)[0] - begin) // 1000 for raw in (was, now)]
    late = number > 0 and max(stored[0], 0) != min(max(stored[1], 0), 0x7FFFFFFF)
    return bool(had) and (bool(had - has) or late)


def contradicted(hurt: Hurt, number: int, derived: bool) -> bool:
    """Whether a checksum or two other witnesses contradict a record that was changed: by what it
    and its neighbours were, not by how reput judges. One alone may be wrong in a sound log too:
    a time or a lost `__CRC32#` counts only in a segment that is damaged elsewhere, a tag only in
    such a log, and a storeHost never.
    """
    fields = changed(hurt, number)
    names = {name for name, _ in fields}
    message = hurt.log.messages[number]
    touched = hurt.touched()
    segment_of = [place // SEGMENT for place in hurt.log.places]
    near = [n for n in (number - 2, number - 1, number + 1, number + 2) if 0 <= n < len(hurt.sizes)
        and n not in touched and segment_of[n] == segment_of[number]]  # fmt: skip
    broken = {segment_of[n] for n in touched if breaks(hurt, n)}
    doubtful = len(near) == 4 and segment_of[number] in broken
    size, place = hurt.sizes[number], hurt.log.places[number]
    now = hurt.read(place, size)
    start = segment_of[number] * SEGMENT
    was = hurt.whole[start][place - start : place - start + size]
    if hurt.crc:
        bits = _seal_bits(was, now)
        if bits == 0 or (bits == 1 and doubtful):
            return True
    if names & (_COVERED | {"topic"}) or (message.body and names & {"body", "bodyCRC"}):
        return True
    if doubtful and "storeTimestamp" in names and _odd_time(hurt, number, now):
        return True
    ends_log = not any(hurt.whole_log()[place + size :])  # as every log does: only `check` tells
    if "properties" in names and number + 1 in touched and not ends_log:
        after = changed(hurt, number + 1) if number + 1 < len(hurt.sizes) else []
        text = now[-sum(name == "properties" for name, _ in fields) :]
        plain = text.replace(b"\1", b"").replace(b"\2", b"").decode("latin1").isprintable()
        if after and after[0][1] < 8 and not plain:
            return True
    if derived and broken and not ends_log and _unlike_its_entries(hurt, number, was, now):
        return True
    tags = [found[1] if (found := TAGS.search(raw)) else b"" for raw in (was, now)]
    return derived and bool(broken) and not ends_log and tags[0] != tags[1] and tags[0] != b""


@dataclass
class Judged:
    """Counts of one log. unnamed: touched messages that are kept and no report names; of these
    contradicted: those that a checksum or two witnesses contradict.
    """

    untouched: int = 0
    displaced: int = 0
    fabricated: int = 0
    unnamed: int = 0
    contradicted: int = 0

    def add(self, other: "Judged") -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def queues_of(files: dict[str, bytes], prefix: str = "") -> dict[tuple[str, int], dict[int, int]]:
    """(topic, queue id) -> {position: physical offset} of published files."""
    found: dict[tuple[str, int], dict[int, int]] = {}
    for path in sorted(files):
        if not path.startswith(f"{prefix}consumequeue/"):
            continue
        topic, queue, name = path.removeprefix(prefix).split("/")[1:]
        mine = found.setdefault((topic, int(queue)), {})
        for at, (place, size, _) in enumerate(struct.iter_unpack(">qiq", files[path])):
            if size and not (size == 0x7FFFFFFF and not place):
                mine[int(name) // 20 + at] = place
    return found


def derived_of(log: Log) -> dict[str, bytes]:
    """The queue and index files of a sound log, as they lie in a store."""
    found: dict[str, bytes] = {}
    for path, raw in rebuild_log(log).files.items():
        folder, _, name = path.partition("/")
        if folder == "consumequeue":
            found[f"{STORE}/{path}"] = raw
        elif folder == "index":  # its name is a time, which the job leaves out
            found[f"{STORE}/index/{INDEX_NAME + int(name)}"] = raw
    return found


def salvaged(hurt: Hurt, derived: bool) -> Rebuilt:
    """What salvage makes of it. derived: the store has the files that were derived from the log
    while it was whole.
    """
    storage = storage_of(hurt.log.log)
    if derived:
        storage.files |= derived_of(hurt.log.log._replace(segments=hurt.whole))
    return rebuild_log(hurt.log.log, Cut(SEGMENT, 2, 2), Session(), SALVAGE, storage)


def judge(
    hurt: Hurt, queues: dict[tuple[str, int], dict[int, int]], named: list[tuple[int, int]],
    derived: bool = False,
) -> Judged:  # fmt: skip
    """Compare what was derived with the truth. named: [start, end) of the ranges in the report."""
    judged = Judged()
    touched = hurt.touched()
    numbers = {place: number for number, place in enumerate(hurt.log.places)}
    kept: set[int] = set()
    for positions in queues.values():
        kept.update(positions.values())
    judged.fabricated = len(kept - numbers.keys())
    for number, message in enumerate(hurt.log.messages):
        place = hurt.log.places[number]
        if number not in touched:
            judged.untouched += 1
            if not reaches_queue(message.sys_flag):
                continue
            mine = queues.get((str(message.topic), message.queue_id), {})
            judged.displaced += mine.get(message.queue_offset) != place
        elif place in kept and not any(start <= place < end for start, end in named):
            judged.unnamed += 1
            judged.contradicted += contradicted(hurt, number, derived)
    return judged


def named_in(summary: Any) -> list[tuple[int, int]]:
    """[start, end) of the ranges in a summary, and the places that its warnings name."""
    damage = summary.damage or {"ranges": []}
    found = [(d["physical_offset"], d["physical_offset"] + d["length"]) for d in damage["ranges"]]
    for line in summary.warnings:
        found += [(int(at), int(at) + 1) for at in re.findall(r"physical (\d+)", line)]
    return found


def judged(hurt: Hurt, derived: bool = False) -> Judged:
    """What salvage makes of a damaged log, judged by its truth."""
    rebuilt = salvaged(hurt, derived)
    return judge(hurt, queues_of(rebuilt.files), named_in(rebuilt.summary), derived)
