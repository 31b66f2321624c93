"""`reput trace`: one message's life, an event a record, with what only that event has."""

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


def test_a_delayed_messages_life(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    delayed, delivered = told(capsys, lived(tmp_path), "d")
    assert delayed.startswith("delayed SCHEDULE_TOPIC_XXXX/2 0 ")
    # level 3 waits 10 s from the second record's time on
    assert "to Orders/1, level 3, due 2023-11-14T22:13:31.000Z, " in delayed
    assert delivered.startswith("delivered Orders/1 ")


def test_a_transactions_life(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    half, committed, op = told(capsys, lived(tmp_path), "t")
    assert half == "half RMQ_SYS_TRANS_HALF_TOPIC/0 0 0 to Orders/1, committed"
    assert committed.startswith("committed Orders/1 0 ")
    assert op.startswith("op RMQ_SYS_TRANS_OP_HALF_TOPIC/0 0 ")


def test_a_messages_only_record_has_no_more_to_tell(tmp_path, capsys) -> None:
    store = lived(tmp_path)
    [line] = told(capsys, store, "p")
    assert line.startswith("put Orders/0 0 ")
    assert len(line.split()) == 4
    found = rows(capsys, "trace", store, "--message-id", "p", "--scan")
    assert only(found, "event", "realTopic", "level", "due") == [("put", None, None, None)]


def test_an_unknown_id_has_no_life(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = asked(capsys, "trace", lived(tmp_path), "--message-id", "nobody")
    assert (code, out) == (0, [])
    assert any("nothing was found" in line for line in err)
