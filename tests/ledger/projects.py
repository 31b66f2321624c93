"""A project of a few tests, in a repository of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.ledger.sources import ROOT

VERDICTS = """
import os, signal, time
import pytest

def test_ok(): pass
def test_failed(): assert 1 == 2
def test_skipped(): pytest.skip("not here")
@pytest.mark.xfail(reason="known")
def test_expected(): assert 0
@pytest.fixture
def broken():
    yield
    raise OSError("no end")
def test_that_cannot_end(broken): pass
@pytest.mark.timeout(1)
@pytest.mark.long
def test_hang(): time.sleep(60)
def test_crash(): os._exit(3)
"""

SLOW = """
import signal, time
import pytest

def test_before(): pass
@pytest.mark.timeout(1)
def test_deaf():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(60)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree under git with a folder of tests; PYTHONPATH leads to the plugin."""
    for name, text in (("test_verdicts.py", VERDICTS), ("test_slow.py", SLOW)):
        (tmp_path / "checks").mkdir(exist_ok=True)
        (tmp_path / "checks" / name).write_text(text)
    marks = "long: takes minutes\n    explore: by a seed"
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nmarkers =\n    {marks}\ntimeout = 50\n")
    (tmp_path / ".gitignore").write_text(".ledger/\n__pycache__/\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p tests.ledger.plugin")
    return tmp_path


def git(folder: Path, *words: str) -> str:
    named = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    return subprocess.check_output(["git", *named, *words], cwd=folder, text=True)
