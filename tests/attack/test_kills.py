"""Real jobs whose processes are killed, or run out of disk: the same bytes (Spark runs a task
again), or an error and nothing left (on this machine, where whoever killed one had a reason)."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reput.jobs.engines.engine import Engine, EngineFailed
from reput.store_format.files.s3 import S3Storage
from reput.store_format.files.webhdfs import WebHdfsStorage
from tests import golden_stores
from tests.attack.killing import GOLDEN, ROOT, STAGES, Killing, check, in_cluster, job
from tests.store_format.files import battery, hdfs_cluster, s3_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("stage", STAGES)
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


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("stage", ["scan", "queues"])
def test_an_executor_is_killed(stage: str, tmp_path: Path) -> None:
    in_cluster(stage, tmp_path)
    assert (tmp_path / "killed").exists()


# Small queues are created there. One cluster has a job for each: all in ten minutes of two cores.
OF_OBJECTS = ",".join(stage for stage in STAGES if stage != "small queues")


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


FULL = """
import json, sys
from pathlib import Path

from tests.built import write_log
from tests.logs.small import SETTINGS, messages
from tests.in_process import run
from tests.logs.encoder import build_log
from tests.trees import contents
store, disk = Path(sys.argv[1]), Path(sys.argv[2])
output = disk / "output"
def rebuild(count, **more):
    run(str(write_log(store / str(count), build_log(messages(count), 4096))), str(output),
        rocketmq="5.3.3", settings=SETTINGS, **more)
rebuild(30)
old, said = contents(output), []
import errno
for room in range(0, 400, 7):
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    size = ballast.stat().st_size
    with ballast.open("r+b") as file:
        file.truncate(max(size - room * 4096, 0))
    try:
        rebuild(90 + room, replace=True)
        new = contents(output)
        assert new != old, "nothing was published"
        said.append("done")
        break
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
        assert contents(output) == old
        assert sorted(p.name for p in disk.iterdir()) == ["ballast", "output"]
        said.append("full")
assert sorted(p.name for p in disk.iterdir()) == ["ballast", "output"]
print(json.dumps(said))
"""


def test_a_full_disk(tmp_path: Path) -> None:
    """A tmpfs of 4 MB with less and less ballast in it, in a mount namespace of our own."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-rm", "true"], capture_output=True).returncode:
        pytest.skip("no unshare, or no user namespaces: nothing can be mounted here")
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run([unshare, "-rm", "sh", "-c",
                           'mount -t tmpfs -o size=4m none "$1" && exec "$2" -c "$3" "$4" "$1"',
                           "sh", str(disk), sys.executable, FULL, str(tmp_path / "stores")],
                          cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
                          capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    said: list[Any] = json.loads(done.stdout.splitlines()[-1])
    assert said.count("full") > 2
    assert said[-1] == "done"
