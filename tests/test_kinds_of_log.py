"""One log for each kind that the rules name, derived by reput and by the slow reference.

Drawn logs have all of them now and then (test_against_reference); here each is there for sure,
which a look at the reference's files proves, and each is cut in several ways."""

import struct
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest

from reput.jobs.pipeline.pipeline import Cut
from tests.against_reference import difference
from tests.in_process import Session, rebuild_log
from tests.logs import Log
from tests.logs.encoder import HOST, Message, build_log, key_with_hash, properties
from tests.logs.fields import MALFORMED, MIN_VALUE, ODD_BYTES, _malform
from tests.reference import Derivation, derive
from tests.reference.javatext import hash_code

SETTINGS: dict[str, Any] = {"mappedFileSizeCommitLog": 4096, "mappedFileSizeConsumeQueue": 100,
                            "mapperFileSizeBatchConsumeQueue": 92, "maxHashSlotNum": 7,
                            "maxIndexNum": 10}  # fmt: skip
OLD, NEW = "4.1.0-incubating", "5.5.0"
START = 1_700_000_000_000
HOST_V6 = bytes(range(16)) + HOST[4:]
CUTS = (Cut(1 << 20, 1, 1), Cut(1000, 2, 2), Cut(100, 7, 7), Cut(300, 1))


class Kind(NamedTuple):
    """A log, and what must be seen in the reference's files for it to be of its kind."""

    messages: list[Message]
    shows: Callable[[Derivation], object]
    versions: tuple[str, ...] = (OLD, "4.9.7", NEW)
    settings: dict[str, Any] = {}
    topics: dict[str, dict[str, str]] = {}
    layout: dict[str, Any] = {}


def of(count: int, **fields: Any) -> list[Message]:
    """Messages of one queue, whose fields may be functions of their number."""
    return [
        Message(
            **{
                "queue_offset": number, "store_timestamp": START + number * 1000,
                **{k: v(number) if callable(v) else v for k, v in fields.items()},
            }
        )
        for number in range(count)
    ]  # fmt: skip


def keys(text: str | bytes) -> bytes:
    return properties(("KEYS", text))


class Entry(NamedTuple):
    offset: int
    size: int
    tags_code: int


def entries(derived: Derivation, queue: str = "consumequeue/T/0") -> list[Entry]:
    """A queue's entries, over all its files."""
    found = []
    for name in sorted(derived.files):
        if name.rpartition("/")[0] == queue:
            content, length = derived.files[name]
            whole = content.ljust(length, b"\0")
            found += [Entry(*e) for e in struct.iter_unpack(">qiq", whole[: length // 20 * 20])]
    return [entry for entry in found if entry.size]


def puts(derived: Derivation) -> list[list[tuple[int, int, int, int]]]:
    """The entries of each index file: hash, physical offset, seconds, previous."""
    files = []
    for number in range(sum(name.startswith("index/") for name in derived.files)):
        content, length = derived.files[f"index/{number}"]
        whole = content.ljust(length, b"\0")
        (count,) = struct.unpack_from(">i", whole, 36)
        at = 40 + 4 * SETTINGS["maxHashSlotNum"] + 20
        files.append(list(struct.iter_unpack(">iqii", whole[at : at + 20 * max(count - 1, 0)])))
    return files


def index_files(derived: Derivation) -> int:
    return sum(name.startswith("index/") for name in derived.files)


def queues(derived: Derivation) -> set[str]:
    return {name.rpartition("/")[0] for name in derived.files if not name.startswith("index")}


def lmq(names: str, offsets: str) -> bytes:
    return properties(("INNER_MULTI_DISPATCH", names), ("INNER_MULTI_QUEUE_OFFSET", offsets))


def delayed(level: object, number: int) -> Message:
    return Message(topic="SCHEDULE_TOPIC_XXXX", queue_id=2, queue_offset=number,
                   store_timestamp=START,
                   properties=properties(("DELAY", str(level)), ("TAGS", "t")))  # fmt: skip


MULTI = {"enableMultiDispatch": True, "enableLmq": True}
BATCH = {"T": {"queue.type": "BatchCQ"}}
MIN_KEY = key_with_hash("T#", MIN_VALUE)

KINDS: dict[str, Kind] = {
    "V1 and V2": Kind(
        [*of(3), *of(3, topic="x" * 128, version=2),
         *of(2, version=2, queue_offset=lambda n: 3 + n)],
        lambda d: len(entries(d)) == 5 and len(entries(d, f"consumequeue/{'x' * 128}/0")) == 3,
        ("5.1.0", NEW),
    ),
    "V2 is no record before 5.1.0": Kind(
        of(5, version=lambda n: 1 + n // 3), lambda d: d.messages == 3, (OLD, "5.0.0")
    ),
    "IPv6 hosts": Kind(
        of(
            8, sys_flag=lambda n: (n % 4) << 4, born_host=lambda n: HOST_V6 if n & 1 else HOST,
            store_host=lambda n: HOST_V6 if n & 2 else HOST, properties=keys("k"),
        ),
        lambda d: d.messages == 8 and len({e.size for e in entries(d)}) == 3, ("4.6.0", NEW),
    ),
    "flags of IPv6 hosts before there were any": Kind(
        of(8, sys_flag=lambda n: (n % 4) << 4),
        lambda d: len({e.size for e in entries(d)}) == 1 and d.messages == 8, (OLD, "4.5.2"),
    ),
    "every transaction kind": Kind(
        of(8, sys_flag=lambda n: (n % 4) << 2, properties=lambda n: keys(f"k{n}"),
           queue_offset=lambda n: n // 4 * 2 + (n % 4) // 2),
        lambda d: len(entries(d)) == 4 and sum(map(len, puts(d))) == 6,
    ),
    "delay levels": Kind(
        [delayed(level, n) for n, level in enumerate((1, 18, 19, 1000, 0, -1, "+2", 2147483647))],
        lambda d: [e.tags_code - START for e in entries(d, "consumequeue/SCHEDULE_TOPIC_XXXX/2")]
        == [1000, 7200000, 7200000, 7200000, 116 - START, 116 - START, 5000, 7200000],
    ),
    "delay levels of other settings": Kind(
        [delayed(level, n) for n, level in enumerate((1, 2, 3, 4))],
        lambda d: [e.tags_code - START for e in entries(d, "consumequeue/SCHEDULE_TOPIC_XXXX/2")]
        == [-2000, 86400000, 86400000, 86400000], settings={"messageDelayLevel": "-2s 1d"},
    ),
    "a delay that is not a number": Kind(
        [delayed(1, 0), delayed("3 ", 1), delayed(1, 2)], lambda d: d.messages == 1
    ),
    "a delay on another topic": Kind(
        of(2, properties=properties(("DELAY", "x"), ("TAGS", "t"))),
        lambda d: [e.tags_code for e in entries(d)] == [116, 116],
    ),
    "keys empty, repeated, and apart by several spaces": Kind(
        of(5, properties=lambda n: keys(["a  b   a", " a ", "   ", "a a a", "a\tb c"][n])),
        lambda d: [put[1] for file in puts(d) for put in file].count(0) == 3
        and sum(map(len, puts(d))) == 3 + 1 + 0 + 3 + 2,
    ),
    "UNIQ_KEY and an equal token are both put": Kind(
        [Message(properties=properties(("UNIQ_KEY", "u"), ("KEYS", "u v")))],
        lambda d: puts(d)[0][0][0] == puts(d)[0][1][0] != puts(d)[0][2][0],
    ),
    "tags": Kind(
        of(4, properties=lambda n: properties(("TAGS", ["a||b", "a", "a b", "\u6807\u7b7e"][n]))),
        lambda d: entries(d)[0].tags_code == hash_code("a||b") != hash_code("a"),
        (OLD, "5.3.3", "5.4.0"),
    ),
    "a negative hash is sign-extended": Kind(
        [Message(properties=properties(("TAGS", key_with_hash("", -5))))],
        lambda d: entries(d)[0].tags_code == -5,
    ),
    "hash MIN_VALUE": Kind(
        [Message(properties=keys(f"a {MIN_KEY} b"))], lambda d: puts(d)[0][1][0] == 0,
    ),
    "surrogates and invalid UTF-8": Kind(
        [
            *of(len(ODD_BYTES), properties=lambda n: properties(
                ("TAGS", ODD_BYTES[n]), ("UNIQ_KEY", ODD_BYTES[n]),
                ("KEYS", ODD_BYTES[n] + b" k"))),
            Message(topic=b"T\xff"), Message(topic=b"T\xed\xa0\x80", queue_offset=1),
        ],
        lambda d: len(queues(d)) == 2 and len(entries(d, "consumequeue/T\ufffd/0")) == 2
        and hash_code("\ufffd") in {e.tags_code for e in entries(d)},
    ),
    "gaps in queue offsets": Kind(
        of(8, queue_offset=lambda n: n * 3), lambda d: len(entries(d)) == 8
    ),
    "repeats in queue offsets": Kind(
        of(8, queue_offset=lambda n: [0, 1, 2, 1, 2, 3, 4, 3][n]),
        lambda d: len(entries(d)) == 5, ("4.2.0", "4.5.0", NEW),
    ),
    "repeats before 4.2.0": Kind(
        of(8, queue_offset=lambda n: [0, 1, 2, 1, 2, 3, 4, 3][n]),
        lambda d: len(entries(d)) == 8, (OLD,),
    ),
    "zeros among queue offsets": Kind(
        of(8, queue_offset=lambda n: [0, 1, 0, 0, 4, 0, 5, 7][n]), lambda d: len(entries(d)) >= 7
    ),
    "a repeat after a full file opens the next": Kind(
        of(6, queue_offset=lambda n: min(n, 4)),
        lambda d: sum(name.startswith("consumequeue") for name in d.files) == 2
        and len(entries(d)) == 5, (NEW,),
    ),
    "a first offset in the middle of a file": Kind(
        of(4, queue_offset=lambda n: 13 + n),
        lambda d: [e == (0, 0x7FFF_FFFF, 0) for e in entries(d)] == [True] * 3 + [False] * 4,
    ),
    "a first offset far off": Kind(
        of(2, queue_offset=lambda n: (1 << 40) + 2 + n),
        lambda d: f"consumequeue/T/0/{(1 << 40) // 5 * 100:020d}" in d.files,
    ),
    "rollovers inside one message's keys": Kind(
        of(4, properties=keys(" ".join(f"k{n}" for n in range(20)))),
        lambda d: any(a[-1][1] == b[0][1] for a, b in zip(puts(d), puts(d)[1:], strict=False)),
    ),
    "a full index file at the end": Kind(
        of(9, properties=keys("k")), lambda d: index_files(d) == 1 and len(puts(d)[0]) == 9
    ),
    "a message without keys opens the next index file": Kind(
        of(10, properties=lambda n: keys("k") if n < 9 else b""),
        lambda d: [len(file) for file in puts(d)] == [9, 0],
    ),
    "a rollback opens the next index file": Kind(
        of(10, properties=keys("k"), sys_flag=lambda n: 12 * (n // 9)),
        lambda d: [len(file) for file in puts(d)] == [9, 0],
    ),
    "no keys at all": Kind(of(3), lambda d: [len(file) for file in puts(d)] == [0]),
    "clocks that step back": Kind(
        of(30, store_timestamp=lambda n: START + (n % 4) * 100_000 - n * 5_000,
           properties=keys("k")),
        lambda d: 0 in {put[2] for put in puts(d)[0][1:]} and index_files(d) > 2,
    ),
    "times of nothing, before it, and at the end": Kind(
        of(20, store_timestamp=lambda n: [0, -1, START, (1 << 63) - 1, -(1 << 63)][n % 5],
           properties=keys("k l")),
        lambda d: {put[2] for file in puts(d) for put in file} >= {0, 0x7FFF_FFFF},
    ),
    "light message queues": Kind(
        of(6, properties=lambda n: lmq("%LMQ%a,%LMQ%b", f"{n},{n}"), queue_id=3),
        lambda d: queues(d) == {f"consumequeue/{q}" for q in ("%LMQ%a/0", "%LMQ%b/0", "T/3")},
        ("4.9.7", NEW), MULTI,
    ),
    "further queues that are no LMQ": Kind(
        of(3, properties=lambda n: lmq("extra,%LMQ%a", f"{n},{n}"), queue_id=3),
        lambda d: queues(d) >= {"consumequeue/extra/3", "consumequeue/%LMQ%a/3"},
        ("4.9.7", NEW), {"enableMultiDispatch": True},
    ),
    "one further queue named twice, and the message's own": Kind(
        of(6, properties=lambda n: lmq("T,%LMQ%a,%LMQ%a", f"{n},{2 * n},{2 * n + 1}")),
        lambda d: len(entries(d)) == 6 == len(entries(d, "consumequeue/%LMQ%a/0")),
        ("4.9.7", NEW), MULTI,
    ),
    "lists of unequal length": Kind(
        of(3, properties=lambda n: lmq("%LMQ%a,%LMQ%b", f"{n}")),
        lambda d: queues(d) == {"consumequeue/T/0"}, (NEW,), MULTI,
    ),
    "no further queues unless asked for": Kind(
        of(3, properties=lambda n: lmq("%LMQ%a", f"{n}")),
        lambda d: queues(d) == {"consumequeue/T/0"},
    ),
    "batch queues": Kind(
        of(7, properties=lambda n: properties(("INNER_BASE", str(5 + n * 3)), ("INNER_NUM", "3"))
           if n % 2 else b""),
        lambda d: queues(d) == {"batchconsumequeue/T/0"}
        and sum(name.startswith("batch") for name in d.files) == 4, ("5.0.0", NEW), topics=BATCH,
    ),
    "batch numbers that are negative, or none": Kind(
        of(5, properties=lambda n: properties(
            ("INNER_BASE", ["0", "-1", "3", "4", "5"][n]),
            ("INNER_NUM", ["1", "2", "-1", "0", "x"][n]))),
        lambda d: d.messages == 4, (NEW,), topics=BATCH,
    ),
    "a batch topic before 5.0.0": Kind(
        of(3), lambda d: queues(d) == {"consumequeue/T/0"}, (OLD, "4.9.7"), topics=BATCH
    ),
    "an empty store": Kind([], lambda d: d.files == {} and d.messages == 0),
    "an all-zero extra segment": Kind(
        of(3, properties=keys("k")), lambda d: d.messages == 3, layout={"extra_segments": 1}
    ),
    "an expired first segment": Kind(
        of(60, properties=keys("k"), queue_offset=lambda n: 900 + n),
        lambda d: d.messages == 60, layout={"first_offset": 4096 * 1000, "filler": b"old"},
    ),
    "one queue with everything": Kind(
        of(5000, properties=lambda n: keys(f"k{n}")),
        lambda d: len(queues(d)) == 1 and len(entries(d)) == 5000,
        ("5.3.3",), {"mappedFileSizeConsumeQueue": 20_000, "maxIndexNum": 2_000,
                     "mappedFileSizeCommitLog": 1 << 17},
    ),
    "thousands of queues with one message": Kind(
        of(3000, topic=lambda n: f"topic-{n}", queue_offset=0, properties=keys("k")),
        lambda d: len(queues(d)) == 3000,
        ("5.3.3",), {"maxIndexNum": 2_000, "mappedFileSizeCommitLog": 1 << 17},
    ),
    "a record longer than a window": Kind(
        [Message(), Message(queue_offset=1, body=b"\xdb" * (9 << 20), properties=keys("k")),
         Message(queue_offset=2)],
        lambda d: len(entries(d)) == 3, (NEW,), {"mappedFileSizeCommitLog": 12 << 20},
    ),
    "records with the CRC of the whole": Kind(
        of(6, crc_property=lambda n: n != 5, properties=keys("k")),
        lambda d: d.messages == 5, ("5.2.0", "5.3.2", NEW), {"forceVerifyPropCRC": True},
    ),
    "a body with a wrong CRC": Kind(
        of(6, body=b"x", body_crc=lambda n: 5 if n == 3 else None), lambda d: d.messages == 3
    ),
    "a body with a wrong CRC, not asked for": Kind(
        of(6, body=b"x", body_crc=lambda n: 5 if n == 3 else None), lambda d: d.messages == 6,
        settings={"checkCRCOnRecover": False},
    ),
    "no index": Kind(
        of(6, properties=keys("k")), lambda d: index_files(d) == 0,
        settings={"messageIndexEnable": False},
    ),
    "negative lengths count as 0": Kind(
        of(4, body_length=lambda n: -1 if n == 1 else None,
           properties_length=lambda n: -7 if n == 2 else None),
        lambda d: d.messages == 4,
    ),
    "a negative topicLength": Kind(
        of(4, topic_length=lambda n: -1 if n == 2 else None), lambda d: d.messages == 2
    ),
}  # fmt: skip


def log_of(kind: Kind, version: str) -> Log:
    settings = {**SETTINGS, **kind.settings}
    segments = build_log(kind.messages, settings["mappedFileSizeCommitLog"], **kind.layout)
    return Log(segments, settings, version, kind.topics)


def check(log: Log, shows: Callable[[Derivation], object], cuts: Iterable[Cut] = CUTS) -> None:
    derived = derive(*log)
    assert shows(derived), "the log is not of its kind"
    for seed, cut in enumerate(cuts):
        assert difference(rebuild_log(log, cut, Session(seed)), derived) is None, cut


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_log(name: str) -> None:
    kind = KINDS[name]
    large = len(kind.messages) > 1000 or "mappedFileSizeCommitLog" in kind.settings
    for number, version in enumerate(kind.versions[::-1]):  # the last one in each cut
        cuts = CUTS if not number else CUTS[number % 4 :: 4]
        check(log_of(kind, version), kind.shows, (Cut(50_000, 3, 3),) if large else cuts)


@pytest.mark.parametrize("version", ["4.9.0", "4.9.1", NEW])
@pytest.mark.parametrize("way", MALFORMED)
def test_properties_malformed(way: str, version: str) -> None:
    sound = properties(("UNIQ_KEY", "u"), ("TAGS", "t"), ("KEYS", "k1 k2"))
    kind = Kind(of(3, properties=lambda n: _malform(sound, way) if n == 1 else sound), len)  # type: ignore[arg-type]
    check(log_of(kind, version), lambda d: d.messages == 3, CUTS[1:3])


@pytest.mark.parametrize("cut", CUTS)
def test_messages_that_a_queue_skips_are_reported(cut: Cut) -> None:
    """The offsets go back by two: the queue has these already, so RocketMQ leaves them out."""
    offsets = [0, 1, 2, 3, 2, 3, 4, 5]
    log = log_of(Kind(of(8, queue_offset=lambda n: offsets[n]), len), NEW)
    reported = rebuild_log(log, cut).summary.in_no_queue
    record = "consumequeue/T/0: the record at physical offset"
    assert [line.startswith(record) for line in reported] == [True, True]
    below = "is below the next position"
    assert [f"queueOffset {n} {below}" in reported[n - 2] for n in (2, 3)] == [True, True]
    twice = rebuild_log(log_of(Kind(of(24, queue_offset=lambda n: n % 12), len), NEW), cut).summary
    assert len(twice.in_no_queue) + sum(int(line.split()[3]) - 1 for line in twice.in_no_queue
                                        if "leaves out" in line) == 12  # fmt: skip
