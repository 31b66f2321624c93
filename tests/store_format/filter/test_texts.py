"""Regular expressions over bodies and properties, and the wanted records of a log."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.store_format.filter.filters import AllOf, Filter, tag_filter
from reput.store_format.filter.rows import Match
from reput.store_format.filter.sql import sql_filter
from reput.store_format.filter.texts import GrepFilter, Repeats, WrongPattern
from reput.store_format.log.reader import LogReader
from reput.store_format.log.rules import RecordRules
from reput.store_format.log.segments import find_segments
from reput.store_format.message.message import parse_properties
from reput.store_format.release.profiles import profile
from tests.logs.encoder import Message, build_log
from tests.memory_storage import MemoryStorage

SEGMENT = 1 << 16
NEW = profile("5.5.0")
RULES = RecordRules(True, True)


def log_of(messages: list[Message]) -> LogReader:
    (raw,) = build_log(messages, SEGMENT).values()
    storage = MemoryStorage({f"log/{0:020d}": raw.ljust(SEGMENT, b"\0")})
    return LogReader(storage, find_segments(storage, ["log"], SEGMENT), RULES)


def found(log: LogReader, wanted: Filter) -> list[int]:
    """Numbers of the wanted messages; what is said of windows at once must be the same."""
    slow = [wanted.matches(r, parse_properties(r.properties), lambda r=r: log.body(r))
            for r in log.records(0)]  # fmt: skip
    fast = [v for step in log.steps(0) for v in wanted.judge(step, False).tolist()]
    for number, (verdict, said) in enumerate(zip(fast, slow, strict=True)):
        assert verdict == Match.ASK or bool(verdict) == said, number
    return [number for number, said in enumerate(slow) if said]


MESSAGES = [
    Message(body=b"order-17 paid", properties=b"TAGS\x01paid\x02KEYS\x01o-17\x02"),
    Message(body=b"", properties=b"KEYS\x01o-18\x02note\x01x\x01y\x02"),
    Message(body=zlib.compress(b"order-19 " * 50), sys_flag=0x1),
    Message(body=b"order-20, said to be compressed", sys_flag=0x1),
    Message(body="größe".encode(), properties="ort\x01Köln\x02".encode()),
    Message(body=b"\xff\xfe\x00binary", properties=b"bad\x01\xff\xfe\x02"),
    Message(body=b"\x1b[31mred", properties=b"KEYS\x01o-17\x02KEYS\x01o-21\x02"),
]


@pytest.mark.parametrize(("pattern", "numbers"), [
    (r"order-\d+", [0, 2, 3]),
    (r"^o-1[78]$", [0, 1]),  # each value by itself; of two of a name only the last counts
    (r"^KEYS$", [0, 1, 6]), (r"KEYS.o", []), (r"^x.y$", [1]), (r"(?i)PAID", [0]),
    (r"^gr..e$", [4]),  # characters, not bytes
    (r"K\p{L}ln", [4]), (r"binary$", [5]), (r"\x1b", [6]), (r"^$", [1]), (r"nowhere", []),
])  # fmt: skip
def test_where_an_expression_is_found(pattern: str, numbers: list[int]) -> None:
    with log_of(MESSAGES) as log:
        assert found(log, GrepFilter(pattern, 1 << 20)) == numbers


def test_windows_are_searched_at_once_of_large_bodies_the_start_and_no_expression_takes_long() -> (
    None
):
    with log_of(MESSAGES) as log:
        (step,) = log.steps(0)
        said = GrepFilter("paid", 1 << 20).judge(step, False).tolist()
    # compressed bodies, and properties that are not ASCII or have a separator too many, are asked
    assert said == [2, 2, 2, 2, 2, 2, 0]
    body = zlib.compress(b"a" * 5000 + b"needle")
    with log_of([Message(body=body, sys_flag=0x1)]) as log:
        reported: list[str] = []
        enough = GrepFilter("needle", 5006, reported.append)
        short = GrepFilter("needle", 5005, reported.append)
        assert found(log, enough) == [0]
        assert reported == []
        assert found(log, short) == []
    assert reported == ["physical offset 0: only 5005 bytes of the body are searched"]
    # It would take Python's `re` longer than the sun will shine.
    with log_of([Message(body=b"a" * 30_000)]) as log:
        assert found(log, GrepFilter("(a*)*b", 1)) == []


@pytest.mark.parametrize("pattern", ["(", "[a", "*", r"\1", "a{2,1}", "(?=x)"])
def test_a_wrong_expression_is_refused_with_the_reason(pattern: str) -> None:
    with pytest.raises(WrongPattern, match=r"regular expression: \S"):
        GrepFilter(pattern, 1)


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=8),
       st.sampled_from(["a", "^.$", "..", "\\xff", "^$", "[^a]$", "ä", "a\\x01b"]))  # fmt: skip
def test_any_properties(raw: list[bytes], p: str) -> None:
    made = [Message(properties=b"a\x01" + one + b"\x02" + one, body=one[:3]) for one in raw]
    with log_of(made) as log:
        found(log, GrepFilter(p, 100))


def test_with_other_filters() -> None:
    messages = [
        Message(body=b"x", properties=b"TAGS\x01%s\x02n\x01%d\x02" % (b"AB"[n % 2 :][:1], n))
        for n in range(300)
    ]
    both = AllOf(tag_filter("A"), sql_filter("n >= 250 OR n = 7.0", NEW), GrepFilter("x", 9))
    with log_of(messages) as log:
        assert found(log, both) == list(range(250, 300, 2))
        (step,) = log.steps(0)
        verdicts = sql_filter("n = 7.0", NEW).judge(step, False)
        assert np.flatnonzero(verdicts).tolist() == [7]


# --- Which texts repeat one that was to be kept out: short ones as words, long ones anywhere.
def found_repeats(wanted: list[bytes], *texts: bytes) -> set[int]:
    return Repeats(wanted).found_in(list(texts))


@pytest.mark.parametrize(("text", "repeats"), [
    (b"4711", True), (b"order 4711.", True), (b"-4711-", True), (b"\xe9" b"4711\xe9", True),
    (b"154711", False), (b"47110", False), (b"x4711", False), (b"4711Z", False), (b"471", False),
    (b"47110 4711", True), (b"", False),
])  # fmt: skip
def test_a_short_text_counts_only_as_a_word(text: bytes, repeats: bool) -> None:
    assert found_repeats([b"4711"], text) == ({0} if repeats else set())


@pytest.mark.parametrize(("wanted", "texts", "numbers"), [
    ([b"abcdefghijkl"], [b"xabcdefghijklx"], {0}),  # twelve bytes count anywhere
    ([b"abcdefghijk"], [b"xabcdefghijkx"], set()),
    ([b"(47)"], [b"x(47)x"], {0}),  # no letters at its ends: it need not be a word
    ([b"(471"], [b"x(47119"], set()),
    ([b"", b"a", b"abc"], [b"a", b"abc"], set()),  # too short
    ([b"abcd", b"efgh"], [b"", b"abcd", b"x", b"efgh abcd", b""], {1, 3}), ([b"abcd"], [], set()),
    ([], [b"abcd"], set()),
    ([b"abcd", b"abcdefghijklmnop"], [b"ab", b"cd", b"abcdefgh", b"ijklmnop"], set()),
    ([b"abcd", b"abcdef", b"abcdefghijklmn"],
     [b"abcde", b"abcdef", b"abcdefg", b"abcdefghijklmnop"], {1, 3}),
])  # fmt: skip
def test_the_numbers_are_those_of_the_texts_that_repeat_one(wanted, texts, numbers) -> None:
    assert found_repeats(wanted, *texts) == numbers


def test_a_short_text_at_an_end_is_not_taken_for_a_longer_one() -> None:
    texts = b"154711", b"15471199999999", b"15 4711"
    assert found_repeats([b"4711", b"471199999999"], *texts) == {1, 2}


@pytest.mark.parametrize("at", [(1 << 20) - 4, (1 << 20) - 1, 1 << 20])
def test_a_text_is_found_across_the_pieces_that_are_searched(at: int) -> None:
    long = bytearray(b" ") * ((1 << 20) + 4)
    long[at : at + 4] = b"abcd"
    assert found_repeats([b"abcd"], bytes(long)) == {0}
