"""A session of Sail, which speaks PySpark's API without a JVM: the pipeline runs on it unchanged.

Needs a package index, or pip's cache, for pysail. Its server listens on loopback for every user of
the machine, so nothing of ours starts one (docs/decisions/0025).
"""

import site
import subprocess
import sys
from pathlib import Path

import pytest

from tests import golden_stores
from tests.rocketmq.judge import difference

ROOT = Path(__file__).parent.parent
_NEEDS = ("pysail==0.7.2", "grpcio", "grpcio-status", "googleapis-common-protos", "zstandard")
_CLIENT = """
import sys
from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession
import reput
server = SparkConnectServer(ip="127.0.0.1", port=0)
server.start(background=True)
spark = SparkSession.builder.remote(f"sc://127.0.0.1:{server.listening_address[1]}").getOrCreate()
settings = dict(word.split("=") for word in sys.argv[3:])
how = {"rocketmq": "5.3.3", "settings": settings}
for _ in range(3):  # its tasks are threads of one process, which keep what they used
    print(reput.rebuild(spark, sys.argv[1], sys.argv[2], replace=True, **how).text())
print(reput.verify(spark, sys.argv[1], against=sys.argv[2], **how).same)
"""


@pytest.mark.long
def test_a_store_is_rebuilt_in_a_session_of_sail(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run([f"{venv}/bin/pip", "install", "--quiet", *_NEEDS], check=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "ours.pth").write_text("\n".join([*site.getsitepackages(), str(ROOT)]))
    golden = golden_stores.unpack("mixed_5.3.3")
    settings = [f"{key}={str(value).lower()}" for key, value in golden.settings.items()]
    out = tmp_path / "out"
    done = subprocess.run(
        [f"{venv}/bin/python", "-c", _CLIENT, str(golden.input), str(out), *settings],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "True"
    assert difference(golden.expect, out) is None
