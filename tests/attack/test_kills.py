"""Real jobs whose processes are killed, or run out of disk: the same bytes (Spark runs a task
again), or an error and nothing left (on this machine, where whoever killed one had a reason)."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reput import check_repository
from reput.jobs.engines.engine import Engine, EngineFailed
from reput.store_format.files.s3 import S3Storage
from reput.store_format.files.webhdfs import WebHdfsStorage
from tests import golden_stores
from tests.attack.killing import GOLDEN, STAGES, Killing, check, in_cluster, job
from tests.built import Built
from tests.in_process import Session
from tests.jobs.repository.backing import catalogue, content, log_of, run, store, whole_log
from tests.seeds import seeds
from tests.store_format.files import battery, hdfs_cluster, s3_server

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
