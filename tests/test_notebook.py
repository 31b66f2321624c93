"""The notebook runs as it is, and proves what it says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parent.parent / "notebooks" / "rebuild_store.py"


@pytest.mark.spark
def test_the_notebook_rebuilds_verifies_and_draws(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, NOTEBOOK],
        env={**os.environ, "REPUT_NOTEBOOK_WORK": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    assert "messages  3,750" in result.stdout
    assert "the same, byte for byte" in result.stdout
    assert (tmp_path / "queues.svg").read_text().count("<rect") == 19


def test_the_notebook_is_imports_prose_calls_and_one_picture() -> None:
    source = NOTEBOOK.read_text()
    assert source.startswith("# Databricks notebook source\n")
    assert "def " not in source
    assert "class " not in source
