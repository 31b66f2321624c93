"""`reput query` with --tags, --sql, --grep and --decompress."""

import argparse
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.cli import main
from reput.jobs.query import refuse_words
from reput.store_format.faults import StoreError
from tests.built import Built
from tests.logs.encoder import Message, encode, properties
from tests.store_format.query.stores import asked

SEGMENT = 1 << 16


def batch(*bodies: bytes) -> bytes:
    made = b""
    for body in bodies:
        made += struct.pack(">iiiii", 22 + len(body) + 4, 0, 0, 5, len(body)) + body
        made += struct.pack(">h", 4) + b"n\x01" + body[:1] + b"\x02"
    return made


MESSAGES = [Message(body=b"order-17", properties=properties(("TAGS", "paid"), ("price", "12"))),
            Message(body=b"order-18", properties=properties(("TAGS", "new"), ("price", "9"))),
            Message(body=zlib.compress(b"order-19 " * 99), sys_flag=0x1,
                    properties=properties(("TAGS", "paid"), ("price", "12.0"))),
            Message(body=b"order-20 is not compressed", sys_flag=0x1),
            Message(body=batch(b"one", b"two \x1b[31m"), sys_flag=0xC0, queue_offset=40),
            Message(body=batch(b"one", b"two")[:-1], sys_flag=0xC0)]  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Path:
    raw = b""
    for message in MESSAGES:
        raw += encode(message, len(raw))
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(raw.ljust(SEGMENT, b"\0"))
    return tmp_path


def found(capsys: Any, store: Path, *words: str) -> tuple[list[dict[str, Any]], str]:
    code, rows, notes = asked(capsys, "query", str(store), "--scan", *words)
    assert code == 0, notes
    return rows, notes


@pytest.mark.parametrize(("words", "prices"), [
    (["--tags", "paid"], ["12", "12.0"]), (["--tags", "paid || new", "--sql", "price > 9"], ["12"]),
    (["--sql", "price > 8.5"], ["12", "9", "12.0"]), (["--grep", r"order-1[79]"], ["12", "12.0"]),
    (["--grep", "^paid$", "--sql", "price = 12.0"], ["12", "12.0"])])  # fmt: skip
def test_messages_are_chosen(store: Path, capsys: Any, words: list[str], prices: list[str]) -> None:
    rows, _ = found(capsys, store, *words)
    assert [row["properties"]["price"] for row in rows] == prices


@pytest.mark.parametrize(("words", "says"), [
    (["--sql", "price >"], "line 1, column 8"), (["--grep", "("], "regular expression: missing )"),
    (["--tags", "||"], "no tag stands"), (["--decompress"], "--body"),
    (["--grep", "x", "--message-id", "x"], "--grep: not obeyed")])  # fmt: skip
def test_what_cannot_be_asked(store: Path, capsys: Any, words: list[str], says: str) -> None:
    code, rows, notes = asked(capsys, "query", str(store), "--scan", *words)
    assert (code, [list(row) for row in rows]) == (2, [["error"]])
    assert says in notes


def test_bodies_are_decompressed_and_batches_taken_apart(store: Path, capsys: Any) -> None:
    rows, notes = found(capsys, store, "--body", "text", "--decompress")
    assert [row["body"][:9] for row in rows[:4]] == [
        "order-17", "order-18", "order-19 ", "order-20 "]  # fmt: skip
    place = rows[3]["physicalOffset"]
    assert f"physical offset {place}: body: sysFlag 0x1 says zlib" in notes
    assert "not compressed" not in notes  # the body's own words
    assert rows[4]["messages"] == [
        {"queueOffset": 40, "flag": 5, "properties": {"n": "o"}, "body": "one"},
        {"queueOffset": 41, "flag": 5, "properties": {"n": "t"}, "body": "two \x1b[31m"},
    ]
    assert [one["body"] for one in rows[5]["messages"]] == ["one"]
    assert f"physical offset {rows[5]['physicalOffset']}: inner batch: offset 29" in notes
    rows, notes = found(capsys, store, "--body", "hex")
    assert [row["body"] for row in rows] == [message.body.hex() for message in MESSAGES]
    assert not any("messages" in row for row in rows)
    assert notes == ""
    words = ["query", str(store), "--scan", "--body", "text", "--decompress"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "message 41 of the batch, flag 5" in said
    assert "two" in said
    assert "\x1b" not in said
    rows, notes = found(capsys, store, "--sql", "price = 9 price = 12")
    assert len(rows) == 1
    assert "ignores it from line 1, column 11 on" in notes


def test_what_a_group_has_not_consumed(tmp_path: Path, capsys: Any) -> None:
    """Also a queue that it has not begun, but no topic that it does not consume."""
    built = Built().put("T", 0, 3).put("T", 1, 2).put("U", 0, 2).derive()
    table = {"offsetTable": {"T@g": {"0": 2}, "U@h": {"0": 0}}}
    built.file("config/consumerOffset.json", json.dumps(table))
    store = str(built.write(tmp_path / "store"))
    for words in (["--topic", "T"], ["--scan"], ["--topic", "T", "--scan"]):
        code, rows, _ = asked(capsys, "query", store, *words, "--unconsumed-by", "g")
        places = [(row["topic"], row["queueId"], row["queueOffset"]) for row in rows]
        assert (code, places) == (0, [("T", 0, 2), ("T", 1, 0), ("T", 1, 1)])
    assert main(["query", store, "--topic", "T", "--unconsumed-by", "x"]) == 2
    assert "has no offsets of group 'x'" in capsys.readouterr().err


# --- Options of a query that do not go together are refused, so that none is ignored.
NAMES = ("key", "keys_file", "unique_key", "message_id", "offset", "topic", "queue", "begin", "end",
         "tags", "sql", "grep", "unconsumed_by", "rocketmq", "body")  # fmt: skip
NO_FLAGS = {"as_rocketmq": False, "scan": False, "decompress": False}


def words(**given: Any) -> argparse.Namespace:
    return argparse.Namespace(**{**dict.fromkeys(NAMES), **NO_FLAGS, **given})


ALLOWED: list[dict[str, Any]] = [
    {"topic": "T"}, {"topic": "T", "queue": 0, "begin": 0, "tags": "a"},
    {"key": "k", "topic": "T", "sql": "a = 1", "end": 5},
    {"keys_file": "f", "topic": "T", "grep": "x"}, {"unique_key": "u"},
    {"unique_key": "u", "topic": "T", "as_rocketmq": True, "rocketmq": "5.3.3"},
    {"message_id": "m", "topic": "T"}, {"offset": 0},
    {"offset": 0, "topic": "T", "queue": 0, "tags": "a"}, {"scan": True, "begin": 1, "grep": "x"},
    {"scan": True, "topic": "T"}, {"topic": "T", "body": "text", "decompress": True}]  # fmt: skip


@pytest.mark.parametrize("given", ALLOWED, ids=str)
def test_what_goes_together(given: dict[str, Any]) -> None:
    refuse_words(words(**given))


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "name what to look for"), ({"begin": 0}, "name what to look for"),
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
    ({"topic": "T", "decompress": True}, "--decompress: no body is shown")]  # fmt: skip


@pytest.mark.parametrize(("given", "why"), REFUSED, ids=[str(given) for given, _ in REFUSED])
def test_what_would_be_ignored_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(StoreError, match=why):
        refuse_words(words(**given))
