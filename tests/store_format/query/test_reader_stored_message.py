"""One message as an answer: its keys, and what is read of it only when asked for."""

import zlib
from typing import Any

import pytest

from reput.store_format.log.record import Record
from reput.store_format.query.reader import StoredMessage, key_words, keys_of
from tests.logs import Message, build_log, properties
from tests.store_format.log.windows import reader_of

TEXT = properties(("TAGS", "t"), ("KEYS", " k1  k2 "), ("UNIQ_KEY", "u"))


def record(text: bytes = TEXT, **fields: Any) -> Record:
    log, _ = reader_of(build_log([Message("T", 3, 7, b"body", text, 99, **fields)], 4096))
    with log:
        return log.record_at(0)


def nobody(_: Record) -> bytes:
    raise AssertionError("nobody asked for the body")


@pytest.mark.parametrize(
    ("keys", "words"),
    [(None, []), ("", []), ("a", ["a"]), ("a b a", ["a", "b", "a"]), ("  a  ", ["a"]), (" ", []),
     ("a\tb\u00a0c", ["a\tb\u00a0c"])],
)  # fmt: skip
def test_keys_are_split_at_single_blanks_and_repeats_stay(
    keys: str | None, words: list[str]
) -> None:
    assert key_words({} if keys is None else {"KEYS": keys}) == words


def test_all_keys_are_those_of_any_release() -> None:
    found = {"KEYS": "k1 k2", "TAGS": "a||b", "UNIQ_KEY": "u"}
    assert keys_of(found) == ["u", "k1", "k2", "T#a||b"]
    assert keys_of({"TAGS": "", "UNIQ_KEY": ""}) == [""]  # buildIndex asks only for null
    assert keys_of({}) == []


def test_a_message_has_each_of_its_keys() -> None:
    message = StoredMessage(record(), False, nobody)
    assert [message.has_key(key) for key in ("u", "k1", "k2", "T#t")] == [True] * 4
    assert [message.has_key(key) for key in ("t", "k1 ", "", "K1")] == [False] * 4
    assert (message.tags, message.keys, message.unique_key) == ("t", ["k1", "k2"], "u")


def test_the_record_is_made_once_when_a_field_is_asked_for() -> None:
    made, asked = record(), list[int]()

    def make() -> Record:
        asked.append(1)
        return made

    message = StoredMessage(make, False, nobody)
    assert asked == []
    assert (message.topic, message.queue_id, message.queue_offset) == ("T", 3, 7)
    assert (message.store_timestamp, message.physical_offset, asked) == (99, 0, [1])


def test_the_body_is_read_each_time_and_only_then() -> None:
    message = StoredMessage(record(), False, lambda found: b"%d" % found.body_length)
    assert message.body() == b"4"


def test_properties_are_split_as_the_release_splits_them() -> None:
    text = b"a\x01x\x01\x02"
    assert StoredMessage(record(text), False, nobody).properties == {"a": "x\x01"}
    assert StoredMessage(record(text), True, nobody).properties == {"a": "x"}


def test_a_row_has_all_but_the_body() -> None:
    row = StoredMessage(record(flag=-1, sys_flag=8, reconsume_times=2), False, nobody).row()
    assert row == {
        "topic": "T", "queueId": 3, "queueOffset": 7, "physicalOffset": 0, "storeTimestamp": 99,
        "bornTimestamp": 1_700_000_000_000, "storeHost": "127.0.0.1:10911",
        "bornHost": "127.0.0.1:10911", "tags": "t", "keys": ["k1", "k2"], "uniqueKey": "u",
        "properties": {"TAGS": "t", "KEYS": " k1  k2 ", "UNIQ_KEY": "u"}, "flag": -1, "sysFlag": 8,
        "reconsumeTimes": 2, "preparedTransactionOffset": 0,
        "bodyCRC": zlib.crc32(b"body") & 0x7FFFFFFF,
        "size": 91 + 4 + 1 + len(TEXT),
    }  # fmt: skip
