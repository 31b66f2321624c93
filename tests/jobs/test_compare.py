"""`reput compare`: the first store against each other one, and where its lines may go."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from reput.jobs.cli import main
from reput.jobs.compare import compare
from reput.store_format.faults import StoreError
from tests.in_process import Session
from tests.jobs.comparing.pairs import (
    COMMON,
    MASTER,
    SLAVE,
    STAGING,
    compared,
    message,
    pair,
    store,
)
from tests.memory_storage import MemoryStorage

OURS = message(60, sender="B")


def test_equal_logs_are_the_same_and_one_of_several_that_differs_is_not() -> None:
    files = pair(COMMON, COMMON)
    assert compared(files).same
    assert compared({**files, **store("second", COMMON)}, 0, SLAVE, "second").same
    files = {**pair(COMMON, COMMON), **store("second", COMMON[:-1])}
    assert not compared(files, 0, SLAVE, "second").same
    assert not compared(files, 0, "second").same
    with pytest.raises(StoreError):
        compared(store(MASTER, COMMON))


def test_a_message_that_only_one_has_is_a_line_without_its_body() -> None:
    storage, lines = MemoryStorage(pair([*COMMON, OURS], [*COMMON, message(60, sender="C")])), []
    storage.folders.add(STAGING)
    found = io.BytesIO()
    report = compare(
        Session(), MASTER, [SLAVE], rocketmq="5.3.3", storage=storage, staging_folder=STAGING,
        messages=found)  # fmt: skip
    assert not report.same
    lines = [json.loads(line) for line in found.getvalue().splitlines()]
    assert len(lines) == 2
    assert b"body of 60" not in found.getvalue()
    assert all("T" in json.dumps(line) for line in lines)


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Stores that are the same, a and b, to be compared."""
    for path, content in {**store("a", COMMON[:3]), **store("b", COMMON[:3])}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    return ["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--rocketmq", "5.3.3"]


def test_the_exit_code_says_whether_they_differ(
    tmp_path: Path, words: list[str], commands_in_process: None
) -> None:
    assert main(words) == 0
    for path, content in store("b", COMMON[:2]).items():
        (tmp_path / path).write_bytes(content)
    assert main(words) == 1


@pytest.mark.parametrize("place", ["a", "b"])
def test_the_lines_lie_in_none_of_the_stores(
    tmp_path: Path, words: list[str], place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    only = tmp_path / place / "only.jsonl"
    assert main([*words, "--messages", str(only)]) == 2
    assert "--messages" in capsys.readouterr().err
    assert not only.exists()
