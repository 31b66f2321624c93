"""Stores on HDFS by its RPC port: pyarrow and libhdfs, towards Hadoop's own mini-cluster."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.store_format.files import hdfs_cluster

_LIBRARY = bool(os.environ.get("ARROW_LIBHDFS_DIR") and os.environ.get("JAVA_HOME"))
pytestmark = [
    *([pytest.mark.hadoop] if _LIBRARY else []),  # CI fails where such a test is skipped
    pytest.mark.long,
    pytest.mark.skipif(hdfs_cluster.missing() is not None, reason=str(hdfs_cluster.missing())),
    pytest.mark.skipif(
        not _LIBRARY,
        reason="no libhdfs.so (Maven Central has none): ARROW_LIBHDFS_DIR and JAVA_HOME say where",
    ),
]


@pytest.mark.timeout(300)
def test_a_store_by_rpc(tmp_path: Path) -> None:
    jars = [str(path) for path in (hdfs_cluster.build() / "lib").glob("*.jar")]
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    # the cluster's own jars have this one under another name, where libhdfs does not look
    jars += map(str, (Path(spark.origin).parent / "jars").glob("commons-lang3*.jar"))
    with hdfs_cluster.running(tmp_path) as cluster:
        (tmp_path / "here").mkdir()
        words = [sys.executable, "-m", "tests.store_format.files.hdfs_by_rpc",
            f"hdfs://{cluster.rpc}/data", str(tmp_path / "here")]  # fmt: skip
        environment = {**os.environ, "CLASSPATH": ":".join(jars)}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
