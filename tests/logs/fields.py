"""Strategies for the parts of a message: topics, property texts, times, queue offsets."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.logs.encoder import key_with_hash, properties

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
BATCH_TOPIC = "Batch"
MIN_VALUE = -(1 << 31)
START = 1_700_000_000_000

Version = tuple[int, int, int]

TOPICS: list[str | bytes] = [
    "T",
    "T",
    "Topic-1",
    "Topic-1",
    BATCH_TOPIC,
    BATCH_TOPIC,
    SCHEDULE_TOPIC,
    SCHEDULE_TOPIC,
    "%RETRY%group",
    "rmq_sys_wheel_timer",
    "rmq_sys_other",
    "%LMQ%a",
    "主題",
    "\U0001f600",
    # Two spellings of one topic, once decoded: `T` and U+FFFD.
    b"T\xff",
    b"T\xed\xa0\x80",
]
# As long as a file system takes a name.
LONG_TOPICS = ["L" * 128, "長" * 85, "L" * 255]

# A key's hash depends on what stands before it, so there is one such key for each of these.
MIN_HASH_KEYS = [key_with_hash(topic + "#", MIN_VALUE) for topic in ("T", "Topic-1", BATCH_TOPIC)]
MIN_HASH_TAG = key_with_hash("T#T#", MIN_VALUE)

# Lone surrogates (whole and cut), an overlong form, bytes that never occur, a cut sequence.
ODD_BYTES = [b"\xed\xa0\x80", b"\xed\xa0", b"\xed\xbf\xbf\xed\xb0\x80", b"\xed\xa0\x41",
    b"\xc0\x80", b"\xff\xfe", b"\xe2\x82", b"\xf0\x9f\x98\x80", b"\xf4\x90\x80\x80",
    b"\xc3\xa9"]  # fmt: skip
WORDS = [b"a", b"b", b"key", b"0", "ключ".encode(), "鍵".encode(), *ODD_BYTES]
MIN_HASH_WORDS = [key.encode() for key in MIN_HASH_KEYS]

LEVELS = ["0", "1", "3", "18", "19", "100", "-1", "+2", "\u0663", "2147483647", "-2147483648"]
BAD_NUMBERS = ["x", "3 ", "1_0", "+", "2147483648", "1.5"]

LMQ_NAMES = ["%LMQ%a", "%LMQ%a,%LMQ%b", "%LMQ%b,%LMQ%a,%LMQ%b", "extra", "T,%LMQ%a", "%LMQ%a,,",
    ",", " "]  # fmt: skip
# From 5.1.2 a name with `/` is skipped; before, it would be a path.
LMQ_NAMES_WITH_SLASH = ["a/b,%LMQ%a", "%LMQ%a/b"]
LMQ_OFFSETS = ["0", "1", "7", "0,0", "1,2", "3,4,5", "2,2,2", "+9", ",", "\u2003", "100,0"]


def words() -> st.SearchStrategy[bytes]:
    return st.sampled_from(WORDS)


@st.composite
def key_lists(draw: st.DrawFn) -> bytes:
    """KEYS: tokens, some repeated, with one space or several, also around them; never empty."""
    tokens = draw(st.lists(st.sampled_from(WORDS + MIN_HASH_WORDS), min_size=1, max_size=5))
    spaces = st.sampled_from([b" ", b" ", b"  ", b"\t", b"   "])
    text = b"".join(token + draw(spaces) for token in tokens)
    return draw(st.sampled_from([text[:-1].rstrip(b" ") or b" ", text, b" " + text, b" "]))


def tag_values() -> st.SearchStrategy[bytes]:
    plain = [b"a", b"a||b", b"TagA", b" ", b"a b", "标签".encode(), MIN_HASH_TAG.encode()]
    return st.sampled_from(plain + ODD_BYTES)


@st.composite
def pairs(draw: st.DrawFn, version: Version, bad_numbers: bool) -> list[tuple[bytes, bytes]]:
    """A message's properties in any order, some more than once (the last one counts)."""
    numbers = LEVELS + (BAD_NUMBERS if bad_numbers else [])
    lmq = LMQ_NAMES + (LMQ_NAMES_WITH_SLASH if version >= (5, 1, 2) else [])
    made: list[tuple[bytes, bytes]] = []
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=6)):
        match name:
            case "KEYS":
                made.append((b"KEYS", draw(key_lists())))
            case "UNIQ_KEY":
                made.append((b"UNIQ_KEY", draw(st.sampled_from(WORDS + MIN_HASH_WORDS))))
            case "TAGS":
                made.append((b"TAGS", draw(tag_values())))
            case "DELAY":
                made.append((b"DELAY", draw(st.sampled_from(numbers)).encode()))
            case "INNER":
                base = draw(st.sampled_from(["0", "5", "-1", "1000000000000"]))
                count = draw(st.sampled_from(["1", "3", "0", "-1", "32767"]))
                if bad_numbers:
                    count = draw(st.sampled_from([count, "32768", "x"]))
                both = [(b"INNER_BASE", base.encode()), (b"INNER_NUM", count.encode())]
                made += both[: draw(st.sampled_from([2, 2, 2, 1]))]
            case "LMQ":
                names, offsets = draw(st.sampled_from(lmq)), draw(st.sampled_from(LMQ_OFFSETS))
                made.append((b"INNER_MULTI_DISPATCH", names.encode()))
                made.append((b"INNER_MULTI_QUEUE_OFFSET", offsets.encode()))
            case _:
                made.append((b"other", draw(words())))
    return made


NAMES = ["KEYS", "KEYS", "UNIQ_KEY", "UNIQ_KEY", "TAGS", "TAGS", "DELAY", "INNER", "LMQ", "other"]


def _malform(data: bytes, way: str) -> bytes:
    """One of the ways in which a properties text can be wrong."""
    match way:
        case "no last separator":
            return data.removesuffix(b"\x02")
        case "empty value":
            return b"TAGS\x01\x02" + data + b"KEYS\x01\x02"
        case "empty name":
            return b"\x01x\x02" + data
        case "no name separator":
            return b"TAGS\x02" + data + b"KEYS"
        case "value with a name separator":
            return data + b"TAGS\x01a\x01b\x02KEYS\x01k\x01l\x02"
        case "trailing name separators":
            return data + b"TAGS\x01a\x01\x02UNIQ_KEY\x01u\x01\x01\x02"
        case "leading separators":
            return b"\x02\x02" + data
        case "doubled separators":
            return data.replace(b"\x02", b"\x02\x02")
        case "doubled name separators":
            return data.replace(b"\x01", b"\x01\x01")
        case "separators only":
            return b"\x02\x01\x02\x01\x01\x02"
        case "separators exchanged":
            return (
                data.replace(b"\x01", b"\x00").replace(b"\x02", b"\x01").replace(b"\x00", b"\x02")
            )
        case "one short pair":
            return b"K\x01" + data
        case _:
            return data


MALFORMED = ["no last separator", "empty value", "empty name", "no name separator",
    "value with a name separator", "trailing name separators", "leading separators",
    "doubled separators", "doubled name separators", "separators only", "separators exchanged",
    "one short pair"]  # fmt: skip


@st.composite
def property_texts(draw: st.DrawFn, version: Version, bad_numbers: bool) -> bytes:
    data = properties(*draw(pairs(version, bad_numbers)))
    way = draw(st.sampled_from(["none"] * len(MALFORMED) + MALFORMED))
    return _malform(data, way)


@dataclass
class Clock:
    """Store times that run on, stand still, jump and step back; now and then none at all."""

    now: int = START

    def draw(self, draw: st.DrawFn) -> int:
        step = draw(st.sampled_from([0, 1, 999, 1000, 1500, 60_000, -1, -5000, -10_000_000, None]))
        if step is None:
            return draw(st.sampled_from([0, -1, 5, START + (1 << 42), (1 << 63) - 1, -(1 << 63)]))
        self.now += step
        return self.now


@dataclass
class QueueOffsets:
    """Each queue's next offset, with gaps, repeats and zeros; first offsets anywhere.

    None is negative: a queue whose first offset is makes RocketMQ refuse to start.
    """

    next: dict[tuple[bytes, int], int] = field(default_factory=dict)
    odd: bool = True

    def draw(self, draw: st.DrawFn, queue: tuple[bytes, int]) -> int:
        if queue not in self.next:
            first = st.sampled_from([0, 0, 0, 1, 2, 4, 5, 7, 99, 1_000_003, 1 << 40])
            self.next[queue] = draw(first)
        step = draw(st.sampled_from([0, 0, 0, 0, 0, 1, 6, -1, -3, None])) if self.odd else 0
        if step is None:
            return 0
        offset = max(self.next[queue] + step, 0)
        self.next[queue] = max(self.next[queue], offset) + 1
        return offset
