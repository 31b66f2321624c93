"""`make demo`, the first of the README's two commands."""

import subprocess
import sys
from pathlib import Path

import pytest

CLONE = Path(__file__).parents[2]


@pytest.mark.spark
def test_the_demo_proves_a_bundled_store() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "reput.jobs.demo"],
        cwd=CLONE, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("demo: the store of a live RocketMQ 5.3.3 broker")
    for engine in ("local", "spark"):
        assert f"proved, by-{engine}: 20 files, 534,000,040 bytes" in done.stdout
