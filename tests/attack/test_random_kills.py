"""Real processes killed at random: driver, JVM or a worker, at any moment, in any command, on each
engine in turn.

Each kill is from a seed that the test's name holds. What must hold afterwards: a store that is only
read is as it was; an output is wholly there or not at all; the command done again succeeds and
gives the same bytes; `reput clean --yes` leaves nothing behind.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import golden_stores
from tests.rocketmq.judge import difference
from tests.seeds import seeds
from tests.trees import held

pytestmark = [pytest.mark.long, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
STORE = "small_all_5.3.3"
SEEDS = range(int(os.environ.get("REPUT_KILLS", "20")))
COMMANDS = ("rebuild", "replace", "verify", "check", "repair", "convert", "recover", "install",
            "append", "dump")  # fmt: skip
READ_ONLY = ("rebuild", "replace", "verify", "check", "repair", "convert", "dump")
ON_ENGINES = ("rebuild", "replace", "verify", "check", "repair", "convert", "recover")
# Seconds into a command; later than its end is no kill, and counts as a run.
LONGEST = {"local": 3.0, "spark": 12.0}
WITHOUT_SPARK = {"install": 1.5, "dump": 1.5}
LINE = json.dumps({"topic": "Killed", "body": "x" * 200, "keys": "k"}) + "\n"


def _words() -> list[str]:
    golden = golden_stores.unpack(STORE)
    words = ["--rocketmq", golden.version]
    for name, value in golden.settings.items():
        words += ["--set", f"{name}={json.dumps(value).strip(chr(34))}"]
    return words


def _line(command: str, folder: Path) -> list[str]:
    store, out = str(folder / "store"), str(folder / "out")
    reported = _words()
    return {
        "rebuild": ["rebuild", store, "--output", out, *reported],
        "replace": ["rebuild", store, "--output", out, "--replace", *reported],
        "verify": ["verify", store, "--against", str(folder / "built"), *reported],
        "check": ["check", store, *reported],
        "repair": ["repair", store, "--output", out, *reported],
        "convert": ["convert", store, "--output", out, *reported],
        "recover": ["recover", store, "--yes", *reported],
        "install": ["install", str(folder / "built"), store, "--yes"],
        "append": ["append", "--yes", store, "--from", str(folder / "lines.jsonl"), *reported],
        "dump": ["dump", str(folder / "store" / "commitlog" / ("0" * 20)), "--json"],
    }[command]


def _start(words: list[str], temporary: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "reput", *words], cwd=ROOT,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            start_new_session=True, env={**os.environ,
                                                         "TMPDIR": str(temporary)})  # fmt: skip


def _done(words: list[str], temporary: Path) -> None:
    run = _start(words, temporary)
    _, said = run.communicate(timeout=300)
    assert run.returncode == 0, f"{words[0]}: {run.returncode}: {said.decode()[-2000:]}"


def _ours(process: subprocess.Popen[bytes]) -> list[int]:
    """The processes below one that we started, and itself: by their parents, never by a name."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, left = [process.pid], [process.pid]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def _kill_one(process: subprocess.Popen[bytes], chance: random.Random) -> None:
    """SIGKILL to the driver or to one of what it started; then let the rest come to its end."""
    chosen = chance.choice(_ours(process))
    if process.poll() is None:
        try:
            os.kill(chosen, signal.SIGKILL)
        except ProcessLookupError:
            return


def _prepared(folder: Path) -> Path:
    """A store, a set built from it, lines to append, and a folder for temporary files."""
    golden = golden_stores.unpack(STORE)
    shutil.copytree(golden.input, folder / "store")
    (folder / "lines.jsonl").write_text(LINE * 20_000)
    temporary = folder / "tmp"
    temporary.mkdir()
    _done(
        ["rebuild", str(folder / "store"), "--output", str(folder / "built"), *_words()], temporary
    )
    return temporary


@pytest.mark.explore
@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_a_kill_at_random(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    command = COMMANDS[seed % len(COMMANDS)]
    engine = ("local", "spark")[seed // len(COMMANDS) % 2]
    wait = chance.uniform(0.1, WITHOUT_SPARK.get(command, LONGEST[engine]))
    print(f"seed {seed}: {command}, a kill after {wait:.2f} s")
    temporary = _prepared(tmp_path)
    store, out, built = tmp_path / "store", tmp_path / "out", tmp_path / "built"
    if command == "replace":
        shutil.copytree(built, out)
    before = held(store)
    on = ["--engine", engine] if command in ON_ENGINES else []
    run = _start([*_line(command, tmp_path), *on], temporary)
    time.sleep(wait)
    _kill_one(run, chance)
    try:
        run.communicate(timeout=120)
    finally:
        for each in _ours(run) if run.poll() is None else ():
            os.kill(each, signal.SIGKILL)
    if command in READ_ONLY:
        assert held(store) == before, f"seed {seed}: {command} changed its input"
    if command in ("rebuild", "replace") and (out / "manifest.json").exists():
        assert difference(out, built) is None, f"seed {seed}: half a set"
    if command == "replace":
        assert (out / "manifest.json").exists(), f"seed {seed}: neither the old set nor the new"
    _again(command, tmp_path, run.returncode == 0, temporary)
    if command in ("rebuild", "replace"):
        assert difference(out, built) is None
    for path in (store, out, built):
        if path.exists():
            _done(["clean", str(path), "--yes"], temporary)
    # what an install has put aside stays, for its --undo
    kept = {tmp_path / "store.reput-old"} if command == "install" else set()
    left = [path for path in tmp_path.rglob("*") if ".reput-" in path.name and path not in kept]
    left += list(temporary.glob("reput-*"))
    assert not left, f"seed {seed}: {command} left {left}"


def _again(command: str, folder: Path, ended: bool, temporary: Path) -> None:
    """The same command again: done, unless the first one was and may not be done twice."""
    if ended and command in ("rebuild", "repair", "convert", "install"):
        return
    if command == "append":
        # what is said to have been appended was not reported: what is there must read whole
        (folder / "lines.jsonl").write_text(LINE)
    _done(_line(command, folder), temporary)
