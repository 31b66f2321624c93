"""A real Spark Connect server, whose Python has nothing of reput: the code is shipped to it.

The session shows none of its settings, as on serverless.

docs/clusters.md has the recipe. Needs a package index, or pip's cache, for grpcio."""

import site
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from reput.jobs.page.store_sections import BEGINS
from reput.jobs.sources.derived_source import ConsumeQueueSource
from tests import golden_stores
from tests.clusters import daemon, environment
from tests.jobs.sources.reading import table
from tests.jobs.sources.reading import table_of as derived_table
from tests.processes import run_words
from tests.rocketmq.judge import difference

ROOT = Path(__file__).parent.parent
_NEEDS = ("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard")  # pyspark[connect]
_CLIENT = """
import sys
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.connect.conf import RuntimeConf
import reput
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
spark.addArtifacts(sys.argv[2], pyfile=True)
settings = dict(word.split("=") for word in sys.argv[5:])

def closed(conf, name, *_):  # as on serverless, where no default helps
    if name == "spark.python.sql.dataFrameDebugging.enabled":
        return "false"  # PySpark's own client asks, and wants an answer
    raise AnalysisException(f"[CONFIG_NOT_AVAILABLE] Configuration {name} is not available.")

RuntimeConf.get = RuntimeConf.set = RuntimeConf.unset = closed
print(reput.rebuild(spark, sys.argv[3], sys.argv[4], rocketmq="5.3.3", settings=settings).text())
print(reput.verify(spark, sys.argv[3], against=sys.argv[4]).same)
reput.register(spark)
log = spark.read.format("commitlog").option("rocketmq", "5.3.3").load(sys.argv[3])
queues = spark.read.format("consumequeue").load(sys.argv[4])
page = reput.report(spark, sys.argv[3], "report.html", rocketmq="5.3.3", settings=settings)
print(page.sound, "check" in page.unknown)
print(log.select("physicalOffset").distinct().count(), log.count(), queues.count())
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python with all that workers and clients need, and without reput."""
    venv = tmp_path_factory.mktemp("connect") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run([f"{venv}/bin/pip", "install", "--quiet", *_NEEDS], check=True)
    # a folder that a .pth names is searched, but what .pth files are in it is not read
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "ours.pth").write_text("\n".join(site.getsitepackages()))
    there = subprocess.run([f"{venv}/bin/python", "-c", "import reput"], cwd=venv, check=False)
    assert there.returncode == 1
    return f"{venv}/bin/python"


def test_a_store_is_rebuilt_by_spark_connect(python: str, tmp_path: Path) -> None:
    golden = golden_stores.unpack("tiny_5.3.3")
    archive = tmp_path / "reput.zip"
    subprocess.run([sys.executable, "scripts/make_zip.py", str(archive)], cwd=ROOT, check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    conf = {"spark.connect.grpc.binding.port": port,
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.ui.enabled": "false"}  # fmt: skip
    words = ["org.apache.spark.deploy.SparkSubmit", "--master", "local[2]"]
    for name, value in conf.items():
        words += ["--conf", f"{name}={value}"]
    words += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
              "spark-internal"]  # fmt: skip
    out = tmp_path / "out"
    settings = [f"{name}={str(value).lower()}" for name, value in golden.settings.items()]
    with daemon(
        tmp_path / "server", "(Spark Connect server started)", *words, PYSPARK_PYTHON=python,
        PYTHONSAFEPATH="1", SPARK_DAEMON_MEMORY="1g",
    ):  # fmt: skip
        done = run_words(python, "-c", _CLIENT, f"sc://127.0.0.1:{port}", str(archive),
                         str(golden.input), str(out), *settings, cwd=tmp_path,
                         env=environment(PYTHONPATH=str(ROOT)), timeout=600)  # fmt: skip
    assert done.returncode == 0, done.stderr
    *_, same, page, counts = done.stdout.splitlines()
    messages = table(golden.input, rocketmq="5.3.3").num_rows
    entries = derived_table(ConsumeQueueSource, golden.expect).num_rows
    assert same == "True"
    assert page == "True False"
    assert (tmp_path / "report.html").read_bytes().startswith(BEGINS)
    assert counts.split() == [str(messages), str(messages), str(entries)]
    assert difference(golden.expect, out) is None


# --- A session of Sail, which speaks PySpark's API without a JVM: the pipeline runs on it
# unchanged.
_NEEDS_SAIL = ("pysail==0.7.2", "grpcio", "grpcio-status", "googleapis-common-protos", "zstandard")
_CLIENT_SAIL = """
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
    subprocess.run([f"{venv}/bin/pip", "install", "--quiet", *_NEEDS_SAIL], check=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "ours.pth").write_text("\n".join([*site.getsitepackages(), str(ROOT)]))
    golden = golden_stores.unpack("mixed_5.3.3")
    settings = [f"{key}={str(value).lower()}" for key, value in golden.settings.items()]
    out = tmp_path / "out"
    done = run_words(f"{venv}/bin/python", "-c", _CLIENT_SAIL, str(golden.input), str(out),
                     *settings, cwd=tmp_path, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "True"
    assert difference(golden.expect, out) is None
