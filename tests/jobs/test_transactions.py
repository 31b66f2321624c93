"""`reput transactions`: what is pending, and with --all what became of the others."""

from pathlib import Path

import pytest

from tests.jobs.listing import asked, only, put_store, rows
from tests.store_format.fate.logs import T0, SmallLog


@pytest.fixture
def store(tmp_path: Path) -> str:
    """a is committed; b was checked once, and copied for it; c is rolled back."""
    log = SmallLog()
    first = log.half("a", born_timestamp=T0 - 500)
    log.half("b", born_timestamp=T0 - 1000)
    log.half("c")
    log.commit(first, "a")
    log.half("b", ("TRANSACTION_CHECK_TIMES", "1"), born_timestamp=T0 - 1000)
    log.op(b"0,2,")
    return put_store(tmp_path, log)


def test_what_is_ended_is_counted_and_listed_with_all(store: str, capsys) -> None:
    code, out, err = asked(capsys, "transactions", store)
    assert code == 0
    assert [line.split()[0] for line in out] == ["state", "pending"]
    assert any("1 committed" in line and "--all" in line for line in err)
    [row] = rows(capsys, "transactions", store)
    assert (row["uniqueKey"], row["checks"], row["copies"]) == ("b", 1, 1)
    assert row["age"] == 6000  # born a second before the first record, of six a second apart
    found = rows(capsys, "transactions", store, "--all")
    assert only(found, "uniqueKey", "state") == [
        ("a", "committed"), ("b", "pending"), ("c", "rolled back")]  # fmt: skip
    assert {(row["topic"], row["queueId"]) for row in found} == {("Orders", "1")}
    _, out, _ = asked(capsys, "transactions", store)
    assert out[1].split()[1:] == [
        "2023-11-14T22:13:19.000Z", "6", "s", "1", "1", "Orders/1", "shop", "b", out[1].split()[-1],
    ]  # fmt: skip
