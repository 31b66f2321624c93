"""Fingerprints: which fields make two messages, and two records, the same."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reput.store_format.log.prints import PRINT, among, make_prints
from reput.store_format.log.properties import new_spans
from tests.logs import Message, properties
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


def test_with_a_unique_key_they_do_not_nor_does_the_place_but_every_byte_of_a_text() -> None:
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


def test_among_others_by_both_halves() -> None:
    some = np.array([(1, 2), (1, 3), (0, 2), (-5, 9)], np.int64)
    others = np.array([(7, 7), (-5, 9), (1, 2)], np.int64)
    assert among(some, others).tolist() == [True, False, False, True]
    assert among(some, np.array([(1, 9), (1, 3), (0, 1), (1, 1)], np.int64)).tolist() == (
        [False, True, False, False]
    )
    assert among(some[[1, 1, 0]], some[[1, 1]]).tolist() == [True, True, False]
    assert among(some, others[:0]).tolist() == [False] * 4
    assert among(some[:0], others).tolist() == []
