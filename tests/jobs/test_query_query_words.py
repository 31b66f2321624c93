"""Options of a query that do not go together are refused, so that none is ignored."""

import argparse
from typing import Any

import pytest

from reput.jobs.query import refuse_words
from reput.store_format.faults import StoreError

NAMES = ("key", "keys_file", "unique_key", "message_id", "offset", "topic", "queue", "begin", "end",
         "tags", "sql", "grep", "rocketmq", "body")  # fmt: skip
NO_FLAGS = {"as_rocketmq": False, "scan": False, "decompress": False}


def words(**given: Any) -> argparse.Namespace:
    return argparse.Namespace(**{**dict.fromkeys(NAMES), **NO_FLAGS, **given})


ALLOWED: list[dict[str, Any]] = [
    {"topic": "T"},
    {"topic": "T", "queue": 0, "begin": 0, "tags": "a"},
    {"key": "k", "topic": "T", "sql": "a = 1", "end": 5},
    {"keys_file": "f", "topic": "T", "grep": "x"},
    {"unique_key": "u"},
    {"unique_key": "u", "topic": "T", "as_rocketmq": True, "rocketmq": "5.3.3"},
    {"message_id": "m", "topic": "T"},
    {"offset": 0},
    {"offset": 0, "topic": "T", "queue": 0, "tags": "a"},
    {"scan": True, "begin": 1, "grep": "x"},
    {"scan": True, "topic": "T"},
    {"topic": "T", "body": "text", "decompress": True},
]


@pytest.mark.parametrize("given", ALLOWED, ids=str)
def test_what_goes_together(given: dict[str, Any]) -> None:
    refuse_words(words(**given))


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "name what to look for"),
    ({"begin": 0}, "name what to look for"),
    ({"key": "k"}, "--key is looked up in a topic"),
    ({"keys_file": "f"}, "--keys-file is looked up in a topic"),
    ({"key": "k", "offset": 0}, "--key, --offset: one of them"),
    ({"key": "", "unique_key": "u"}, "--key, --unique-key: one of them"),
    ({"queue": 0, "scan": True}, "--queue is one of a topic"),
    ({"offset": 0, "topic": "T"}, "a place without both"),
    ({"offset": 0, "queue": 0}, "a place without both"),
    ({"offset": 0, "grep": ""}, "--grep: not obeyed where a place in the log"),
    ({"offset": 0, "topic": "T", "queue": 0, "begin": 0}, "--since: not obeyed where a position"),
    ({"unique_key": "u", "begin": 0, "end": 1, "topic": "T"}, "--since, --until: not obeyed"),
    ({"message_id": "m", "tags": "a"}, "--tags: not obeyed where --message-id"),
    ({"keys_file": "f", "topic": "T", "as_rocketmq": True}, "--as-rocketmq: not obeyed"),
    ({"topic": "T", "as_rocketmq": True}, "name the release with --rocketmq"),
    ({"topic": "T", "scan": True, "as_rocketmq": True, "rocketmq": "5.3.3"}, "never answers by"),
    ({"topic": "T", "decompress": True}, "--decompress: no body is shown"),
]


@pytest.mark.parametrize(("given", "why"), REFUSED, ids=[str(given) for given, _ in REFUSED])
def test_what_would_be_ignored_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(StoreError, match=why):
        refuse_words(words(**given))
