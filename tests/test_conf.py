"""The examples of conf/: what Spark takes them for, and a command that runs with them."""

import re
import shutil
from pathlib import Path

import pytest

from tests.jobs.page import stores
from tests.processes import run_python

CONF = Path(__file__).parent.parent / "conf"


def test_each_example_is_described() -> None:
    reported = set(re.findall(r"^\| `([^`]+)`", (CONF / "README.md").read_text("utf-8"), re.M))
    assert reported | {"README.md", "spark.properties"} == {path.name for path in CONF.iterdir()}


@pytest.mark.long
@pytest.mark.spark
def test_a_command_runs_with_them(tmp_path: Path) -> None:
    """All three, by a Spark that somebody has set up; its log is silent."""
    conf = tmp_path / "conf"
    shutil.copytree(CONF, conf)
    text = (conf / "spark-defaults.conf").read_text()
    (conf / "spark-defaults.conf").write_text(
        text.replace("/var/tmp/reput-numba", str(tmp_path / "numba"))
    )
    done = run_python("-m", "reput", "check", str(stores.healthy(tmp_path)), "--rocketmq", "5.3.3",
                      "--master", "local[2]", env={"SPARK_CONF_DIR": str(conf)},
                      cwd=Path(__file__).parent.parent, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "sound" in done.stdout
    assert " WARN " not in done.stderr
    assert " ERROR " not in done.stderr
