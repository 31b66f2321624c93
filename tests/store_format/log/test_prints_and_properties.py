"""Fingerprints: which fields make two messages, and two records, the same."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.store_format.kernels.bytes import BLOCK
from reput.store_format.log.prints import PRINT, among, make_prints
from reput.store_format.log.properties import NAMES, find_properties, new_spans
from reput.store_format.release.profiles import profile
from tests.logs import Message, properties
from tests.reference.log import parse_properties
from tests.reference.rules import Rules, parse_version
from tests.store_format.log.windows import RULES, window_of

UNIQUE = Message("Topic", 1, 5, b"body", properties(("UNIQ_KEY", "0A01"), ("KEYS", "k")))
BARE = replace(UNIQUE, properties=properties(("KEYS", "k")))
OTHER_HOST = bytes((10, 9, 8, 7, 0, 0, 0, 1))


def prints(*messages: Message) -> Any:
    window, rows = window_of(messages)
    out = np.empty(len(rows), PRINT)
    make_prints(window, rows, RULES, False, new_spans(), out)
    return out


def same(one: Message, **changed: Any) -> tuple[bool, bool]:
    """Whether a changed message has the same print as a message, and as a record."""
    first, second = prints(one, replace(one, **changed))
    message, record = (first[kind] == second[kind] for kind in ("message", "record"))
    assert message[0] == message[1]  # each half tells
    assert record[0] == record[1]
    return bool(message[0]), bool(record[0])


@pytest.mark.parametrize(
    "changed", [{"queue_id": 2}, {"queue_offset": 6}, {"store_timestamp": 1}, {"sys_flag": 8}]
)
@pytest.mark.parametrize("one", [UNIQUE, BARE])
def test_what_a_broker_adds_is_the_records_alone(one: Message, changed: dict[str, int]) -> None:
    assert same(one, **changed) == (True, False)


@pytest.mark.parametrize("changed", [{"topic": "TopiC"}, {"body": b"bodz"}, {"body": b""}])
@pytest.mark.parametrize("one", [UNIQUE, BARE])
def test_topic_and_body_are_the_messages(one: Message, changed: dict[str, Any]) -> None:
    assert same(one, **changed) == (False, False)


@pytest.mark.parametrize("changed", [{"born_host": OTHER_HOST}, {"born_timestamp": 1},
                                     {"properties": properties(("KEYS", "l"))},
                                     {"properties": b""}])  # fmt: skip
def test_without_a_unique_key_host_time_and_keys_tell_messages_apart(changed: Any) -> None:
    assert same(BARE, **changed) == (False, False)


def test_with_a_unique_key_they_do_not_but_every_byte_does_and_both_halves_of_a_print() -> None:
    first, second = prints(UNIQUE, UNIQUE)
    assert (first["place"], first["bad"]) == (0, 0)
    assert second["place"] > 0
    assert (first["record"] == second["record"]).all()
    names = ["", "\0", "\0\0", *("x" * n + "y" + "x" * (19 - n) for n in range(20)),
             "x" * 19 + "y\0"]  # fmt: skip
    made = prints(*(replace(UNIQUE, topic=name) for name in names))
    assert len({tuple(one) for one in made["message"].tolist()}) == len(names)
    assert same(UNIQUE, born_host=OTHER_HOST, born_timestamp=1) == (True, True)
    assert same(UNIQUE, properties=properties(("KEYS", "l"), ("UNIQ_KEY", "0A01"))) == (True, True)
    assert same(UNIQUE, properties=properties(("UNIQ_KEY", "0A02"))) == (False, False)
    some = np.array([(1, 2), (1, 3), (0, 2), (-5, 9)], np.int64)
    others = np.array([(7, 7), (-5, 9), (1, 2)], np.int64)
    assert among(some, others).tolist() == [True, False, False, True]
    assert among(some, np.array([(1, 9), (1, 3), (0, 1), (1, 1)], np.int64)).tolist() == (
        [False, True, False, False]
    )
    assert among(some[[1, 1, 0]], some[[1, 1]]).tolist() == [True, True, False]
    assert among(some, others[:0]).tolist() == [False] * 4
    assert among(some[:0], others).tolist() == []


# --- Which name-value pairs of a message count: a table of malformed cases, by release.
# up to 4.9.0 by Java's split, from 4.9.1 by the first separator
SPLIT, FIRST = "4.9.0", "4.9.1"


def found(raw: bytes, release: str) -> dict[bytes, bytes]:
    """The values found; the same ones where the buffer ends soon and where it goes on."""
    soon, later = (found_before(raw, behind, release) for behind in (b"", b"\x01v\x02" * BLOCK))
    assert soon == later
    return soon


def found_before(raw: bytes, behind: bytes, release: str) -> dict[bytes, bytes]:
    before = b"TAGS\x01before\x02"  # not part of the properties, nor is this:
    buf = np.frombuffer(before + raw + b"\x02TAGS\x01behind\x02" + behind, np.uint8)
    spans = np.full((len(NAMES), 2), 77, np.int64)
    at = len(before)
    find_properties(buf, at, at + len(raw), profile(release).split_properties, spans)
    values = buf.tobytes()
    return {name: values[start:end]
            for name, (start, end) in zip(NAMES, spans.tolist(), strict=True)
            if start >= 0}  # fmt: skip


@pytest.mark.parametrize(("raw", "by_split", "by_first"), [
    (b"", None, None), (b"TAGS\x01a\x02", b"a", b"a"),
    (b"TAGS\x01a", b"a", b"a"),  # 4.9.1 to 5.1.x may leave the last 02 out
    (b"TAGS", None, None), (b"TAGS\x01", None, None), (b"TAGS\x01\x02", None, None),
    (b"TAGS\x02", None, None), (b"TAGS\x01\x01\x02", None, b"\x01"),
    (b"TAGS\x01a\x01\x02", b"a", b"a\x01"),  # split drops empty parts at the end
    (b"TAGS\x01a\x01\x01\x01\x02", b"a", b"a\x01\x01\x01"),
    (b"TAGS\x01a\x01b\x02", None, b"a\x01b"), (b"TAGS\x01\x01a\x02", None, b"\x01a"),
    (b"\x01TAGS\x02", None, None), (b"\x01TAGS\x01a\x02", None, None),
    (b"\x01a\x02TAGS\x01b\x02", b"b", b"b"), (b"\x02\x02TAGS\x01a\x02\x02", b"a", b"a"),
    (b"TAGS\x01a\x02TAGS\x01b\x02", b"b", b"b"),  # the last one wins
    (b"TAGS\x01a\x02TAGS\x01\x02", b"a", b"a"),  # but not where it does not count
    (b"TAGS\x01a\x02TAGS\x01b\x01c\x02", b"a", b"b\x01c"),
    (b"TAG\x01a\x02TAGSS\x01b\x02tags\x01c\x02", None, None), (b" TAGS\x01a\x02", None, None),
    (b"x\x01TAGS\x02TAGS\x01y\x02", b"y", b"y"), (b"TAGS\x01 \x02", b" ", b" "),
    (b"TAGS\x01\xff\x02", b"\xff", b"\xff"),
])  # fmt: skip
def test_malformed_pairs(raw: bytes, by_split: bytes | None, by_first: bytes | None) -> None:
    assert found(raw, SPLIT).get(b"TAGS") == by_split
    assert found(raw, FIRST).get(b"TAGS") == by_first


def test_every_name_is_found_at_its_own_place_in_a_release_on_each_side() -> None:
    raw = b"".join(name + b"\x01" + name.lower() + b"\x02" for name in NAMES)
    for release in (SPLIT, FIRST):
        assert found(raw, release) == {name: name.lower() for name in NAMES}
    assert profile("4.9.0").split_properties
    assert not profile("4.9.1").split_properties


NAMES_AND_OTHERS = [*NAMES, b"", b"KEY", b"TAGSX", b"\xff", b"x"]
PIECES = st.sampled_from([*NAMES_AND_OTHERS, b"\x01", b"\x02", b"\x01\x01", b"v", b"\xed\xa0"])


@settings(deadline=None)  # a kernel may have to be compiled first
@given(st.lists(PIECES, max_size=16).map(b"".join), st.sampled_from([SPLIT, FIRST]))
def test_any_bytes_agree_with_the_reference(raw: bytes, release: str) -> None:
    rules = Rules(parse_version(release), {}, {})
    # latin-1 keeps every byte, and both separators, apart
    expected = parse_properties(raw.decode("latin-1"), rules)
    kept = {name.encode("latin-1"): value.encode("latin-1") for name, value in expected.items()}
    assert found(raw, release) == {name: kept[name] for name in NAMES if name in kept}
