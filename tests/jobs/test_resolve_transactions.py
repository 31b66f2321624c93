"""`reput resolve-transactions`: what is decided by which words, and what is said of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.resolve_transactions import ResolveReport, resolve_transactions
from reput.store_format.faults import StoreError
from tests.jobs.listing import asked, put_store
from tests.store_format.fate.logs import SEGMENT, SmallLog

SETTINGS = {"mappedFileSizeCommitLog": str(SEGMENT)}


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Two half messages are pending; one was checked fifteen times."""
    log = SmallLog()
    log.half("a")
    log.half("b")
    log.half("c", ("TRANSACTION_CHECK_TIMES", "15"))
    return put_store(tmp_path, log)


def dry(store: str, decide: str | Mapping[str | int, str], **more: Any) -> ResolveReport:
    before = {path: path.read_bytes() for path in Path(store).rglob("*") if path.is_file()}
    about = resolve_transactions(
        store, decide=decide, dry_run=True, rocketmq="5.3.3", settings=SETTINGS, **more
    )
    assert {path: path.read_bytes() for path in before} == before
    assert not about.done
    return about


@pytest.mark.parametrize(
    ("decide", "discarded", "numbers"),
    [
        ("commit", False, (2, 0, 1, 0)),
        ("rollback", False, (0, 2, 1, 0)),
        ("commit", True, (3, 0, 0, 0)),
        ({"a": "commit", "b": "rollback"}, False, (1, 1, 0, 1)),
        ({0: "rollback"}, False, (0, 1, 0, 2)),  # by its physical offset
        ({}, False, (0, 0, 0, 3)),
    ],
)
def test_a_dry_run_counts_what_would_be_done(store, decide, discarded, numbers) -> None:
    about = dry(store, decide, discarded=discarded)
    found = (about.to_commit, about.to_roll_back, about.to_discard, about.pending)
    assert found == numbers
    assert about.needed == any(numbers[:3])


def test_what_cannot_be_decided_is_refused(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for decide in ("Commit", "", "commit ", {"a": "yes"}):
        with pytest.raises(StoreError, match=r"decide: .*: expected commit or rollback"):
            dry(store, decide)
    with pytest.raises(StoreError, match=r"RocketMQ 4\.2\.0 has no topic of half messages"):
        resolve_transactions(store, decide="commit", dry_run=True, rocketmq="4.2.0",
                             settings=SETTINGS)  # fmt: skip
    monkeypatch.setattr("reput.store_format.discover.config.config_in_rocksdb",
                        lambda at, _: at / "config/consumerOffsets")  # fmt: skip
    with pytest.raises(StoreError, match=r"config/consumerOffsets: RocksDB tells a broker"):
        dry(store, "commit")


def test_the_command_says_with_its_code_whether_there_is_something_to_do(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("resolve-transactions", store, "--dry-run", "--decide")
    code, out, _ = asked(capsys, *words, "rollback")
    assert (code, out[0]) == (
        1, "would commit 0, roll back 2, discard 1, and write the missing op messages of 0",
    )  # fmt: skip
    file = tmp_path / "decisions.txt"
    file.write_text("\ufeff# none yet\n", encoding="utf-8")
    assert asked(capsys, *words, str(file))[:2] == (0, ["nothing to do", "3 stay pending"])
    file.write_bytes(b"a commit\n\xff")
    code, out, err = asked(capsys, *words, str(file))
    assert (code, out) != (0, [])
    assert any("is not UTF-8" in line for line in err)
