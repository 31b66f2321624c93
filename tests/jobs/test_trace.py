"""`reput trace`: one message's life, an event a record, with what only that event has."""

import zlib
from pathlib import Path

import pytest

from tests.jobs.listing import asked, only, put_store, rows
from tests.store_format.fate.logs import SmallLog


def lived(folder: Path) -> str:
    log = SmallLog()
    first = log.half("t")
    log.delay("d", 3)
    log.commit(first, "t")
    log.deliver("d")
    log.put("Orders", 0, ("UNIQ_KEY", "p"))
    log.op(b"0,")
    return put_store(folder, log)


def told(capsys: pytest.CaptureFixture[str], store: str, key: str) -> list[str]:
    """The lines of a table from the event on, in single blanks."""
    code, out, _ = asked(capsys, "trace", store, "--message-id", key)
    assert code == 0
    return [" ".join(line.split()[1:]) for line in out[1:]]


def test_lives_of_a_delayed_a_half_a_plain_and_no_message(tmp_path: Path, capsys) -> None:
    store = lived(tmp_path)
    delayed, delivered = told(capsys, store, "d")
    assert delayed.startswith("delayed SCHEDULE_TOPIC_XXXX/2 0 ")
    # level 3 waits 10 s from the second record's time on
    assert "to Orders/1, level 3, due 2023-11-14T22:13:31.000Z, " in delayed
    assert delivered.startswith("delivered Orders/1 ")
    after = asked(capsys, "trace", store, "--scan", "d")
    assert after == asked(capsys, "trace", store, "d", "--scan")
    half, committed, op = told(capsys, store, "t")
    assert half == "half RMQ_SYS_TRANS_HALF_TOPIC/0 0 0 to Orders/1, committed"
    assert committed.startswith("committed Orders/1 0 ")
    assert op.startswith("op RMQ_SYS_TRANS_OP_HALF_TOPIC/0 0 ")
    [line] = told(capsys, store, "p")
    assert line.startswith("put Orders/0 0 ")
    assert len(line.split()) == 4
    found = rows(capsys, "trace", store, "--message-id", "p", "--scan")
    assert only(found, "event", "realTopic", "level", "due") == [("put", None, None, None)]
    code, out, err = asked(capsys, "trace", store, "--message-id", "nobody")
    assert (code, out) == (0, [])
    assert any("nothing was found" in line for line in err)


OFFSETS = b'{"offsetTable":{"Orders@later":{0:0},"Orders@quiet":{0:1},"Orders@g":{0:1}}}'
CONTEXTS = (
    "Pub|5|r|makers|Orders|p|||h|1|3|0|OFF|true",
    "SubBefore|6|r|g|a|p|0|k", "SubAfter|a|p|7|false|k|2|13|g",  # one event
    "SubBefore|20|r|g|b|p|1|k", "SubAfter|b|p|0|true|k|0",  # before 4.7.1: no time, no group
    "SubBefore|30|r|lost|c|p,q|0|k",  # its consumer ended meanwhile
    "EndTransaction|9|r|makers|Orders|p|||h|2|tx|UNKNOW|true",
    "SubBefore|30|r|g|d|other|0|k", "Pub|spoilt",
)  # fmt: skip


def traced(folder: Path, topic: str = "RMQ_SYS_TRACE_TOPIC") -> str:
    log = SmallLog()
    log.put("Orders", 0, ("UNIQ_KEY", "p"))
    for context in CONTEXTS:
        body = zlib.compress((context + "|").replace("|", "\x01").encode() + b"\x02")
        log.put(topic, 0, ("KEYS", "x p,q p k"), body=body, sys_flag=1)
    return put_store(folder, log, {"store/config/consumerOffset.json": OFFSETS})


def test_clients_tell_who_sent_and_who_consumed(tmp_path: Path, capsys) -> None:
    code, out, err = asked(capsys, "trace", traced(tmp_path), "p", "--tz", "+8")
    assert code == 0
    assert out[0].startswith("stored (+8)  ")
    at = out.index("") + 1
    told = [" ".join(line.replace("1970-01-01T08:00:00.", "").split()) for line in out[at:]]
    assert told == [
        "client time (+8) group event host ms attempt",
        "005+08:00 makers sent 127.0.0.1 3 - success",
        "009+08:00 makers ended 127.0.0.1 - - UNKNOW",
        "013+08:00 g consumed 127.0.0.1 7 0 failed, EXCEPTION",
        "020+08:00 g consumed 127.0.0.1 0 1 success", "030+08:00 lost consuming 127.0.0.1 - 0",
        "- later has not reached it - - 0 by its offset 0 in Orders/0: weaker than a trace",
        "- quiet has passed it - - 0 by its offset 1 in Orders/0: weaker than a trace"]  # fmt: skip
    assert len([line for line in err if "trace at" in line and "cannot be read" in line]) == 1


def test_clients_may_have_told_another_topic(tmp_path: Path, capsys) -> None:
    store = traced(tmp_path, "Told")
    found = rows(capsys, "trace", store, "p", "--trace-topic", "Told", "--scan")
    assert only(found, "event", "group")[1] == ("sent", "makers")
    assert {row["event"] for row in rows(capsys, "trace", store, "p")} == {
        "put", "has passed it", "has not reached it"}  # fmt: skip
    # of a message that the log has no more, what was told of it is left
    assert [row["event"] for row in rows(capsys, "trace", store, "q", "--trace-topic", "Told")] == [
        "consuming"
    ]
