"""Real jobs whose processes are killed, or run out of disk: the same bytes (Spark runs a task
again), or an error and nothing left (on this machine, where whoever killed one had a reason)."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reput import check_repository
from reput.jobs.engines.engine import Engine, EngineFailed
from reput.store_format.files.s3 import S3Storage
from reput.store_format.files.webhdfs import WebHdfsStorage
from tests import golden_stores
from tests.attack.killing import GOLDEN, ROOT, STAGES, Killing, check, in_cluster, job
from tests.built import Built
from tests.in_process import Session
from tests.jobs.repository.backing import catalogue, content, log_of, run, store, whole_log
from tests.processes import tree
from tests.rocketmq.judge import difference
from tests.seeds import seeds
from tests.store_format.files import battery, hdfs_cluster, s3_server
from tests.trees import held

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("stage", ["scan", "chain", "small queues"])
def test_a_python_worker_is_killed(spark: "SparkSession", stage: str, tmp_path: Path) -> None:
    marker = tmp_path / "killed"
    (tmp_path / "sets").mkdir()
    check(spark, Killing(stage, str(marker)), tmp_path / "sets" / "output")
    assert marker.exists()


@pytest.mark.parametrize("stage", STAGES)
def test_a_worker_of_this_machine_is_killed(local: Engine, stage: str, tmp_path: Path) -> None:
    """The job fails by name, and leaves nothing; the next one on the same engine is done."""
    marker = tmp_path / "killed"
    (tmp_path / "sets").mkdir()
    with pytest.raises(EngineFailed, match="a worker process was killed"):
        job(local, Killing(stage, str(marker)), tmp_path / "sets" / "output")
    assert marker.exists()
    assert list((tmp_path / "sets").iterdir()) == []
    check(local, Killing(stage, str(marker)), tmp_path / "sets" / "output")


# One cluster has a job for each. In the other stages a worker is killed, above.
OF_OBJECTS = "scan,queues"


@pytest.mark.long
@pytest.mark.spark
def test_an_executor_is_killed_in_each_stage_on_s3(tmp_path: Path) -> None:
    with s3_server.served():
        url, storage = f"s3://{s3_server.BUCKET}", S3Storage()
        battery.upload(golden_stores.unpack(GOLDEN).input, storage, f"{url}/store")
        in_cluster(OF_OBJECTS, tmp_path, url=url)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.hadoop
@pytest.mark.skipif(hdfs_cluster.missing() is not None, reason=str(hdfs_cluster.missing()))
def test_an_executor_is_killed_in_each_stage_on_hdfs(tmp_path: Path) -> None:
    (tmp_path / "hdfs").mkdir()
    with hdfs_cluster.running(tmp_path / "hdfs") as cluster:
        url = f"webhdfs://{cluster.http}/kills"
        battery.upload(golden_stores.unpack(GOLDEN).input, WebHdfsStorage(), f"{url}/store")
        in_cluster(OF_OBJECTS, tmp_path, url=url)


# --- Backups, restores and forgets that are killed or stopped at drawn moments, two at once by
# turns.
# Forks commands, as they begin faster so; a claim dies after 0.3 s instead of ten minutes.
NURSERY = """
import json, os, signal, sys, time
from reput.jobs import cli
import reput.jobs.repository.backup, reput.jobs.repository.forget, reput.jobs.repository.restored
import reput.jobs.outputs.publish, reput.jobs.engines.local, pyarrow
from reput.jobs.repository import repository

repository._RENEW, repository._STALE, repository._SETTLES = 0.05, 0.3, 0.02
def start(words):
    child = os.fork()
    if child == 0:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 70
        try:
            code = cli.main(words)
        finally:
            os._exit(code)
    return child
for line in sys.stdin:
    children, waits = [], []
    for words, signals in json.loads(line):
        children.append(start(words))
        waits += [(at, children[-1], number) for at, number in signals]
    began = time.monotonic()
    for at, child, number in sorted(waits):
        time.sleep(max(began + at - time.monotonic(), 0))
        os.kill(child, number)  # at most a zombie: none is waited for yet
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in children]),
          flush=True)
"""
KILL, STOP, CONT = 9, 19, 18
STATES = [f'{{"topicConfigTable":{{"T":{{"perm":{n}}}}}}}' for n in (2, 4, 6)]
GIVEN = [word for name, value in Built().given().items() for word in ("--set", f"{name}={value}")]


@pytest.fixture(scope="module")
def nursery() -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen([sys.executable, "-c", NURSERY], text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    yield process
    process.communicate(timeout=60)


def words(folder: Path, command: str, made: Path) -> list[str]:
    repo = f"{folder}/repo"
    return {
        "backup": ["backup", f"{folder}/store", repo, "--rocketmq", "5.3.3", *GIVEN],
        "forget": ["forget", repo, "--keep-last", "2", "--yes"],
        "restore": ["restore", repo, "--output", str(made)],
    }[command]


def drawn_signals(drawn: random.Random, command: str) -> list[Any]:
    """Times on a grid of 3 ms, up to where the command has mostly ended."""
    at = drawn.randrange(500 if command == "restore" else 120) * 0.003
    return [[at, KILL]] if drawn.random() < 0.8 else [[at, STOP], [at + 0.6, CONT]]


def all_whole(folder: Path, log: bytes) -> None:
    for each in catalogue(folder).backups():
        ((begin, raw),) = log_of(folder, each.run).items()
        assert raw == log[begin : each.end]
        for entry in each.state:
            assert len(content(folder, each, entry.path)) == entry.length


@pytest.mark.parametrize("seed", [
    100, *(pytest.param(seed, marks=[pytest.mark.long, pytest.mark.explore])
           for seed in seeds(range(5)))])  # fmt: skip
def test_killed_or_stopped_at_any_moment(seed, tmp_path, nursery: "subprocess.Popen[str]") -> None:
    drawn, built = random.Random(seed), Built().put(count=20)
    run(tmp_path, built)
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    for step in range(12):
        built.put(count=drawn.randrange(9)).file("config/topics.json", drawn.choice(STATES))
        store(tmp_path, built)
        made = tmp_path / f"made-{step}"
        some = [["backup", "forget", "backup", "restore"][step % 4]]
        some += drawn.choices(["backup", "forget"], k=step % 2)
        asked = [[words(tmp_path, each, made), drawn_signals(drawn, each)] for each in some]
        asked[1:] = [[each, []] for each, _ in asked[1:]] if drawn.random() < 0.5 else asked[1:]
        nursery.stdin.write(json.dumps(asked) + "\n")
        nursery.stdin.flush()
        codes = json.loads(nursery.stdout.readline())
        print(f"seed {seed}, step {step}: {some} {codes}")
        assert all(code in (0, 1, 2, -KILL) for code in codes), (seed, step, some, codes)
        all_whole(tmp_path, whole_log(built))
        if made.exists():  # in one step, or not at all
            restored_is(made, whole_log(built))
    (tmp_path / "repo/store/claim.json").unlink(missing_ok=True)
    assert run(tmp_path).end == len(whole_log(built))
    (found,) = check_repository(Session(), str(tmp_path / "repo"), restore=1).stores
    assert found.good, found.text()


def restored_is(made: Path, log: bytes) -> None:
    segments = sorted((made / "commitlog").iterdir())
    raw = b"".join(path.read_bytes() for path in segments).rstrip(b"\0")
    begin = int(segments[0].name)
    assert raw == log[begin : begin + len(raw)]


# --- Real processes killed at random: driver, JVM or a worker, in any command, on each engine in
# turn.

STORE = "small_all_5.3.3"
# One of each kind: what replaces, changes or reads a store, on either engine; REPUT_KILLS: more.
SEEDS = range(int(os.environ["REPUT_KILLS"])) if "REPUT_KILLS" in os.environ else (1, 6, 7, 8, 15)
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
    return subprocess.Popen(
        [sys.executable, "-m", "reput", *words], cwd=ROOT, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, start_new_session=True,
        env={**os.environ, "TMPDIR": str(temporary)})  # fmt: skip


def _done(words: list[str], temporary: Path) -> None:
    run = _start(words, temporary)
    _, said = run.communicate(timeout=300)
    assert run.returncode == 0, f"{words[0]}: {run.returncode}: {said.decode()[-2000:]}"


def _kill_one(process: subprocess.Popen[bytes], chance: random.Random) -> None:
    """SIGKILL to the driver or to one of what it started; then let the rest come to its end."""
    chosen = chance.choice(list(tree(process.pid)))
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.kill(chosen, signal.SIGKILL)


def _prepared(folder: Path) -> Path:
    """A store, a set built from it, lines to append, and a folder for temporary files."""
    golden = golden_stores.unpack(STORE)
    shutil.copytree(golden.input, folder / "store")
    (folder / "lines.jsonl").write_text(LINE * 20_000)
    temporary = folder / "tmp"
    temporary.mkdir()
    _done(["rebuild", str(folder / "store"), "--output", str(folder / "built"), *_words()],
          temporary)  # fmt: skip
    return temporary


@pytest.mark.long
@pytest.mark.spark
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
        for each in tree(run.pid) if run.poll() is None else ():
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
