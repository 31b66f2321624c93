"""Commands as processes, and the words that they take."""

import argparse
import subprocess
from pathlib import Path
from typing import Any

from reput.jobs.cli import _parser
from tests.processes import run_python

ROOT = Path(__file__).parents[3]


def reput(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "reput", *words, env={**env}, timeout=120)


def options_of(command: str) -> list[argparse.Action]:
    choices: Any = next(a.choices for a in _parser(False)._actions if a.choices)
    choices[command].fill()
    return list(choices[command]._actions)
