"""Commands as processes, and the words that they take."""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from reput.jobs.cli import _parser

ROOT = Path(__file__).parents[3]


def reput(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "reput", *words], cwd=ROOT, env={**os.environ, **env},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def options_of(command: str) -> list[argparse.Action]:
    choices: Any = next(a.choices for a in _parser(False)._actions if a.choices)
    choices[command].fill()
    return list(choices[command]._actions)
