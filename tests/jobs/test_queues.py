"""`reput queues`: where each queue begins and ends, by what the log still has."""

from pathlib import Path

import pytest

from tests.jobs.listing import asked, only, put_store, rows
from tests.store_format.fate.logs import T0, SmallLog


@pytest.fixture
def store(tmp_path: Path) -> str:
    """T's first queue has lost five messages of seven."""
    log = SmallLog(positions={("T", 0): 5})
    for topic, queue_id in (("T", 0), ("U", 0), ("T", 1), ("T", 0)):
        log.put(topic, queue_id)
    return put_store(tmp_path, log)


def test_each_queue_has_its_ends_its_messages_and_their_times(store: str, capsys) -> None:
    found = rows(capsys, "queues", store, "--scan")
    size = 91 + 1 + len(b"secret body")
    assert only(found, "topic", "queueId", "minOffset", "maxOffset", "messages", "bytes") == [
        ("T", 0, 5, 7, 2, 2 * size), ("T", 1, 0, 1, 1, size), ("U", 0, 0, 1, 1, size)]  # fmt: skip
    assert only(found, "minTimestamp", "maxTimestamp")[0] == (T0, T0 + 3000)
    assert not any(row["batch"] for row in found)
    assert only(rows(capsys, "queues", store, "--scan", "--topic", "U"), "topic") == [("U",)]
    code, out, err = asked(capsys, "queues", store, "--scan", "--topic", "t")
    assert (code, out) == (0, [])
    assert any("nothing was found" in line for line in err)
    _, out, err = asked(capsys, "queues", store)
    assert "the log is read instead" in err[0]  # the store has no queues
    assert out[0].split() == [
        "topic", "queue", "first", "end", "messages", "bytes", "oldest", "(UTC)", "newest", "(UTC)",
    ]  # fmt: skip
    assert out[1].split()[:5] == ["T", "0", "5", "7", "2"]
    assert out[1].endswith("2023-11-14T22:13:20.000Z  2023-11-14T22:13:23.000Z")
    assert out[1].index("5") == out[0].index("first") + len("first") - 1
