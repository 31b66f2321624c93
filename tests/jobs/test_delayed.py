"""`reput delayed`: what is due when, and what should have been delivered and never was."""

from pathlib import Path

import pytest

from tests.jobs.listing import asked, only, put_store, rows
from tests.store_format.fate.logs import T0, SmallLog


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Level 1 waits a second; the broker has gone past its first two messages."""
    log = SmallLog()
    log.delay("a", 1)
    log.delay("b", 1)
    log.deliver("a")
    log.delay("d", 18)
    log.timer("c", T0 + 90_000)
    files = {"store/config/delayOffset.json": b'{"offsetTable":{1:2}}'}
    return put_store(tmp_path, log, files)


def test_what_was_delivered_is_counted_and_not_listed_without_all(store: str, capsys) -> None:
    found = rows(capsys, "delayed", store)
    assert only(found, "uniqueKey", "state", "by", "level") == [
        ("b", "never delivered", "level", 1), ("d", "waiting", "level", 18),
        ("c", "waiting", "timer", None)]  # fmt: skip
    due = dict(only(found, "uniqueKey", "due"))
    assert due == {"b": T0 + 2000, "c": T0 + 90_000, "d": T0 + 3000 + 2 * 3_600_000}
    _, _, err = asked(capsys, "delayed", store)
    assert any("1 delivered" in line and "--all" in line for line in err)
    found = rows(capsys, "delayed", store, "--all")
    assert only(found, "uniqueKey", "state")[0] == ("a", "delivered")
    assert len(found) == 4
    _, out, _ = asked(capsys, "delayed", store)
    never = next(line for line in out if "never delivered" in line)
    # due two seconds after the first record, and the last one came four after it
    assert never.split()[2:] == [
        "2023-11-14T22:13:22.000Z", "2", "s", "level", "1", "1", "Orders/1", "b", never.split()[-1],
    ]  # fmt: skip
    waiting = next(line for line in out if " timer " in line)
    assert waiting.split()[2:4] == ["-", "timer"]
