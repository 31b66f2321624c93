"""Many keys of one topic: which messages have one, at once and one by one, and what is missing."""

import pytest

from reput.store_format.filter.rows import Match
from reput.store_format.log.record import record_from
from reput.store_format.message.message import parse_properties
from reput.store_format.query.by_keys import WantedKeys
from tests.logs import Message, key_with_hash, properties
from tests.store_format.log.windows import RULES, window_of

NO, YES, ASK = Match.NO, Match.YES, Match.ASK


def judged(wanted: WantedKeys, *messages: Message, split: bool = False) -> list[Match]:
    """The verdicts on a window; each that is sure is what one message alone gives."""
    window, rows = window_of(messages)
    found = [Match(one) for one in wanted.judge_rows(window, rows, split).tolist()]
    alone = WantedKeys(wanted.topic, wanted.keys)
    for row, verdict in zip(rows.tolist(), found, strict=True):
        record = record_from(window.data, row, RULES)
        said = alone.matches(record, parse_properties(record.properties, split), bytes)
        assert verdict in (ASK, YES if said else NO)
    return found


def message(topic: str = "T", sys_flag: int = 0, **named: str) -> Message:
    names = {"keys": "KEYS", "unique": "UNIQ_KEY", "tags": "TAGS"}
    pairs = [(names[name], value) for name, value in named.items()]
    return Message(topic, properties=properties(*pairs), sys_flag=sys_flag)


def test_a_message_counts_by_any_of_its_keys() -> None:
    wanted = WantedKeys("T", ["u", "k2", "T#t"])
    assert judged(
        wanted, message(unique="u"), message(keys=" k1  k2 "), message(tags="t"), message(keys="u"),
        message(unique="k1", keys="k"), message(tags="u"), message(keys="k2 "), Message(),
    ) == [YES, YES, YES, YES, NO, NO, YES, NO]  # fmt: skip


def test_other_topics_and_rollbacks_do_not_count() -> None:
    wanted = WantedKeys("T", ["k"])
    assert judged(
        wanted, message("TT", keys="k"), message("U", keys="k"), message(keys="k", sys_flag=0xC),
        message(keys="k", sys_flag=4), message(keys="k", sys_flag=8),
    ) == [NO, NO, NO, YES, YES]  # fmt: skip


def test_keys_with_one_hash_are_told_apart_by_their_text() -> None:
    """`Aa` and `BB` have one hash code, and so has every text with one in the other's place."""
    wanted = WantedKeys("T", ["AaAa", "BBBB"])
    values = ("AaAa", "BBBB", "AaBB", "BBAa")
    assert judged(wanted, *(message(keys=value) for value in values)) == [YES, YES, NO, NO]
    assert len(wanted.index_hashes) == 1


def test_what_no_message_had_is_missing() -> None:
    wanted = WantedKeys("T", ["a", "b", "a", "c"])
    assert (wanted.keys, wanted.missing) == (["a", "b", "c"], ["a", "b", "c"])
    judged(wanted, message(keys="c x"), message("U", keys="a"))
    assert wanted.missing == ["a", "b"]
    judged(wanted, message(unique="b", keys="a"))
    assert wanted.missing == []


@pytest.mark.parametrize(
    ("raw", "key", "verdict"),
    [
        ("\xe9", "\xe9", YES), ("\U0001f600", "\U0001f600", YES), (b"\xff", "\ufffd", ASK),
        (b"\xef\xbf\xbd", "\ufffd", ASK), (b"\xff", "\xe9", NO), (b"x", "\ufffd", NO),
    ],
)  # fmt: skip
def test_a_key_that_malformed_bytes_may_mean_is_asked_for(
    raw: bytes | str, key: str, verdict: Match
) -> None:
    one = Message("T", properties=properties(("KEYS", raw)))
    assert judged(WantedKeys("T", [key]), one) == [verdict]


def test_of_a_topic_that_malformed_bytes_may_mean_every_message_is_asked_for() -> None:
    one = Message(b"T\xff", properties=properties(("KEYS", "k")))
    assert judged(WantedKeys("T\ufffd", ["k"]), one, message(keys="x")) == [ASK, ASK]


def test_the_index_has_a_hash_without_its_sign() -> None:
    hashes = (-7, 7, -(1 << 31), 9)
    wanted = WantedKeys("T", [key_with_hash("T#", each) for each in hashes])
    assert wanted.index_hashes.tolist() == [0, 7, 9]


def test_properties_are_split_as_the_release_splits_them() -> None:
    twice = Message("T", properties=b"KEYS\x01k\x01\x02")
    assert judged(WantedKeys("T", ["k"]), twice, split=True) == [YES]
    assert judged(WantedKeys("T", ["k"]), twice) == [NO]


def test_of_no_keys_there_is_no_message() -> None:
    wanted = WantedKeys("T", [])
    assert judged(wanted, message(keys="k")) == [NO]
    assert (wanted.missing, wanted.index_hashes.tolist()) == ([], [])
