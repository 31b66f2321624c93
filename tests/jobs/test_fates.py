"""`reput transactions`, `delayed` and `trace` on stores that real brokers wrote."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import reput
from reput.jobs.cli import main
from tests.store_format.fate.logs import SmallLog
from tests.store_format.fate.stores import SKIPPED, unpack
from tests.store_format.query.stores import asked

LIVED = "live_4.9.7"


def test_json_has_one_object_a_line(tmp_path: Path, capsys: Any) -> None:
    store, done = unpack(LIVED, tmp_path)
    code, rows, said = asked(capsys, "transactions", str(store), "--all")
    assert code == 0
    assert {row["uniqueKey"]: row["state"] for row in rows} == done["transactions"]
    assert rows[0]["producerGroup"] == "transactions"
    assert list(rows[0])[:4] == ["state", "topic", "queueId", "uniqueKey"]
    assert "not listed" not in said
    code, rows, said = asked(capsys, "transactions", str(store))
    assert code == 0
    assert {row["state"] for row in rows} == {"pending", "discarded"}
    assert "reput: 3 committed: not listed without --all\n" in said


def test_what_was_never_delivered(tmp_path: Path, capsys: Any) -> None:
    store, done = unpack(SKIPPED, tmp_path)
    code, rows, _ = asked(capsys, "delayed", str(store))
    assert code == 0
    assert {row["state"] for row in rows} == {"never delivered"}
    lost = [key for key, when in done["delays"].items() if when == "meanwhile"]
    assert [row["uniqueKey"] for row in rows] == lost
    main(["delayed", str(store)])
    table = capsys.readouterr().out.splitlines()
    assert table[0].split()[0] == "state"
    assert [line.split()[:2] for line in table[1:]] == [["never", "delivered"]] * 3


def test_a_trace_by_the_broker_s_id(tmp_path: Path, capsys: Any) -> None:
    store, done = unpack(LIVED, tmp_path)
    with reput.open_store(str(store)) as opened:
        [message] = opened.by_unique_key(done["retried"], "Failing")
    broker_id = message.record.store_host.hex() + f"{message.physical_offset:016x}"
    steps = [asked(capsys, "trace", str(store), "--message-id", each, *more)[1]
             for each in (done["retried"], broker_id.upper(), broker_id)
             for more in ([], ["--scan"])]  # fmt: skip
    assert [step["event"] for step in steps[0]] == [
        "put", "delayed", "retried", "delayed", "retried", "dead-lettered", "has passed it",
    ]  # fmt: skip
    assert steps == steps[:1] * 6


@pytest.mark.parametrize("lost", ["index", "consumequeue", "config"])
def test_where_other_files_are_missing_the_log_tells(lost: str, tmp_path, capsys) -> None:
    store, done = unpack(LIVED, tmp_path)
    shutil.rmtree(store / lost)
    rolled_back = next(k for k, state in done["transactions"].items() if state == "rolled back")
    code, rows, _ = asked(capsys, "trace", str(store), "--message-id", rolled_back)
    assert (code, [row["event"] for row in rows]) == (0, ["half", "op"])
    assert rows[0]["state"] == "rolled back"
    rows = asked(capsys, "delayed", str(store), "--all")[1]
    delivered = "delivered, will be again" if lost == "config" else "delivered"
    assert {row["state"] for row in rows if row["level"] == 1} == {delivered}


def test_hostile_texts_never_reach_the_terminal(tmp_path: Path, capsys: Any) -> None:
    log = SmallLog()
    evil = "\x1b[2Jevil"
    log.half(evil)
    pairs = (("REAL_TOPIC", evil), ("REAL_QID", "1"), ("UNIQ_KEY", evil))
    log.put("SCHEDULE_TOPIC_XXXX", 0, *pairs)
    log.put("SCHEDULE_TOPIC_XXXX", 0, ("REAL_TOPIC", evil), ("REAL_QID", evil))
    log.op(evil.encode())
    for name, raw in log.files().items():
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_bytes(raw)
    for words in (["transactions", "--all"], ["delayed"], ["trace", "--message-id", evil]):
        for more in ([], ["--json"]):
            assert main([words[0], str(tmp_path / "store"), *words[1:], *more]) == 0
            said = capsys.readouterr()
            assert "\x1b" not in said.out + said.err
            assert "secret body" not in said.out + said.err
            assert "evil" not in said.err
            assert "evil" in said.out
            for line in said.out.splitlines() if more else []:
                json.loads(line)
