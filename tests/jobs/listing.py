"""Commands that list what a store has, asked in this process for rows or for a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.cli import main
from tests.store_format.fate.logs import SEGMENT, SmallLog
from tests.store_format.query.stores import asked as rows_asked

BROKER = ("--rocketmq", "5.3.3", "--set", f"mappedFileSizeCommitLog={SEGMENT}")


def put_store(folder: Path, log: SmallLog, files: Mapping[str, bytes] | None = None) -> str:
    """A store that has this log and other files (`store/config/...`), and no queues."""
    for path, content in (log.files() | dict(files or {})).items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return str(folder / "store")


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str], list[str]]:
    """(the exit code, the lines of standard output, those of standard error)."""
    capsys.readouterr()
    code = main([*words, *BROKER])
    heard = capsys.readouterr()
    return code, heard.out.splitlines(), heard.err.splitlines()


def rows(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    """The rows that a command with --json lists, where it finds nothing wrong."""
    code, found, _ = rows_asked(capsys, *words, *BROKER)
    assert code == 0
    return found


def only(found: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in found]
