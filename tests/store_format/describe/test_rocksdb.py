"""`reput dump` of a RocksDB: each row, as its page of docs/formats has it."""

import json
from typing import Any

import pytest

from reput.jobs.cli import main
from reput.store_format.describe.rocksdb import _checkpoint, _half, _index
from tests.store_format.fate.stores import IN_ROCKSDB
from tests.store_format.fate.stores import unpack as unpack_fates
from tests.store_format.rocksdb.stores import unpack


def dumped(capsys: pytest.CaptureFixture[str], *words: object) -> list[dict[str, Any]]:
    assert main(["dump", "--json", *map(str, words)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_queues_and_config_are_shown_and_other_options_refused(tmp_path, capsys) -> None:
    store, sent = unpack("alone_5.3.3", tmp_path)
    rows = dumped(capsys, store / "consumequeue")
    entries = [row for row in rows if row["family"] == "default"]
    found = sorted((row["topic"], row["queueId"], row["queueOffset"]) for row in entries)
    assert found == sorted((topic, queue, offset) for topic, queue, offset, *_ in sent)
    others = {row["row"] for row in rows if row["family"] == "offset"}
    assert others - {"min"} == {"max", "dispatch checkpoint"}
    assert len(dumped(capsys, store / "consumequeue", "--limit", 7)) == 7
    assert main(["dump", str(store / "consumequeue"), "--limit", "1"]) == 0
    assert "topic Live0 queueId 0 queueOffset 0 physicalOffset" in capsys.readouterr().out
    rows = dumped(capsys, store / "config" / "consumerOffsets")
    assert any(row["key"] == "Live0@reading" for row in rows)
    assert main(["dump", str(store / "consumequeue"), "--from", "3"]) == 2
    assert "is a RocksDB: without --kind, --part, --bodies and --from" in capsys.readouterr().err
    assert main(["dump", str(store)]) == 2
    assert "is a folder; dump takes one file of a store" in capsys.readouterr().err


def test_of_an_index_what_senders_gave_is_shown_where_it_is_asked_for(tmp_path, capsys) -> None:
    store, sent = unpack("index_5.5.1", tmp_path)
    rows = dumped(capsys, store / "rocksdbstore")
    assert {row.get("row") for row in rows} == {None, "lastOffsetPy", "lastStoreTimeStamp"}
    assert "key3" not in json.dumps(rows)
    rows = dumped(capsys, store / "rocksdbstore", "--properties")
    keys = {row["uniqueKey"] for row in rows if row.get("of") == "U"}
    assert keys == {message[3] for message in sent}
    assert "key3" in {row["key"] for row in rows if row.get("of") == "K"}


def test_timers_and_half_messages_are_shown(tmp_path, capsys) -> None:
    store, done = unpack_fates(IN_ROCKSDB, tmp_path)
    rows = dumped(capsys, store / "rocksdbstore")
    timers = {row["uniqueKey"] for row in rows if "due" in row}
    assert timers >= {key for key, state in done["timers"].items() if state == "waiting"}
    halves = {row["uniqueKey"]: row["checks"] for row in rows if "checks" in row}
    wanted = {key for key, state in done["transactions"].items() if state in ("pending", "asked")}
    assert halves.keys() == wanted


def test_what_keys_and_values_hold() -> None:
    def number(value: int, size: int = 8) -> bytes:
        return value.to_bytes(size, "big", signed=True)

    key = number(17) + b"@T@K@a@b@unique@" + number(4096)
    found = _index(key, number(9), properties=True)
    assert found is not None
    assert (found["key"], found["uniqueKey"], found["storeTimestamp"]) == ("a@b", "unique", 9)
    half = _half(number(4096) + b"@T@unique", number(3, 4) + number(200, 4))
    assert half is not None
    assert (half["checks"], half["size"]) == (3, 200)
    assert _checkpoint(b"lastOffsetPy", number(-1)) == {"row": "lastOffsetPy", "value": -1}
