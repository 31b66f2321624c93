"""What spark-submit.sh gives to Spark: words and environment, by a Spark that prints them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clusters import environment
from tests.pages import ROOT
from tests.processes import run_words

_PRINTS = """#!/usr/bin/env bash
for each in "$@"; do echo "word $each"; done
echo "workers ${PYSPARK_PYTHON-none}"
echo "driver ${PYSPARK_DRIVER_PYTHON-none}"
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with little in it, so that its zip is made at once, and a Spark that prints."""
    root = tmp_path_factory.mktemp("checkout")
    for name in ("spark-submit.sh", "scripts/make_zip.py", "conf/spark.properties"):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / "reput").mkdir()
    (root / "reput" / "__main__.py").write_text("")
    (root / "spark" / "bin").mkdir(parents=True)
    (root / "spark" / "bin" / "spark-submit").write_text(_PRINTS)
    (root / "spark" / "bin" / "spark-submit").chmod(0o755)
    return root


def submitted(checkout: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = environment(SPARK_HOME=str(checkout / "spark"), **more)
    return run_words(str(checkout / "spark-submit.sh"), *words, env=env)


def said(done: subprocess.CompletedProcess[str]) -> tuple[list[str], str, str]:
    """(the words, the workers' Python, the driver's Python)."""
    assert done.returncode == 0, done.stderr
    *words, workers, driver = done.stdout.splitlines()
    return [w[5:] for w in words], workers.split(" ", 1)[1], driver.split(" ", 1)[1]


@pytest.mark.parametrize(
    ("words", "python"),
    [
        (("--archives", "x.tar.gz#env"), "./env/bin/python"),
        (("--archives=x.tar.gz#env",), "./env/bin/python"),
        (("--conf", "spark.archives=x.tar.gz#env"), "./env/bin/python"),
        (("--conf=spark.archives=x.tar.gz#env",), "./env/bin/python"),
        (("--archives", "x.tar.gz#env,more.zip#data"), "./env/bin/python"),
        (("--archives", "more.zip,x.tar.gz#env,y#z"), "./env/bin/python"),
    ],
)
def test_the_workers_python_is_in_the_archive(checkout, words, python) -> None:
    given, workers, _ = said(submitted(checkout, *words, "check", "store"))
    assert workers == python
    assert given[-2:] == ["check", "store"]
    assert words[-1].removeprefix("--conf=").removeprefix("--archives=") in given


@pytest.mark.parametrize(
    "mode",
    [("--deploy-mode", "cluster"), ("--deploy-mode=cluster",),
     ("--conf", "spark.submit.deployMode=cluster")],
)  # fmt: skip
def test_a_driver_on_the_cluster_has_the_clusters_python(checkout, mode) -> None:
    words = ("--master", "yarn", *mode, "check", "store")
    assert said(submitted(checkout, *words))[1:] == ("none", "none")
    archive = ("--archives", "x#env", *words)
    assert said(submitted(checkout, *archive))[1:] == ("./env/bin/python", "none")
    own = submitted(checkout, *words, PYSPARK_PYTHON="/p", PYSPARK_DRIVER_PYTHON="/d")
    assert said(own)[1:] == ("/p", "/d")
    _, workers, driver = said(submitted(checkout, "--master", "yarn", "check", "store"))
    assert workers == driver != "none"


@pytest.mark.parametrize(
    "given",
    [("--py-files", "a.py,b.zip"), ("--py-files=a.py,b.zip",),
     ("--conf", "spark.submit.pyFiles=a.py,b.zip"), ("--py-files", "a.py", "--py-files", "b.zip")],
)  # fmt: skip
def test_the_users_files_go_beside_ours(checkout: Path, given: tuple[str, ...]) -> None:
    words, _, _ = said(submitted(checkout, *given, "check", "store"))
    assert words.count("--py-files") == 1
    shipped = words[words.index("--py-files") + 1]
    assert shipped == f"{checkout}/dist/reput.zip,a.py,b.zip"


def test_two_dashes_end_the_options(checkout: Path) -> None:
    words, _, _ = said(submitted(checkout, "--verbose", "--", "check", "--json"))
    assert words[-4:] == ["--verbose", f"{checkout}/reput/__main__.py", "check", "--json"]


def test_an_option_without_its_value_is_named(checkout: Path) -> None:
    done = submitted(checkout, "--master")
    assert done.returncode == 2
    assert done.stderr == "spark-submit.sh: --master wants a value\n"


def test_two_at_once_make_the_zip(checkout: Path) -> None:
    words = [sys.executable, str(checkout / "scripts" / "make_zip.py")]
    makers = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    assert {maker.communicate()[0] for maker in makers} == {f"{checkout}/dist/reput.zip\n"}
    assert [maker.returncode for maker in makers] == [0] * 6
    assert [path.name for path in (checkout / "dist").iterdir()] == ["reput.zip"]


def test_a_checkout_that_cannot_be_written(checkout: Path, tmp_path: Path) -> None:
    """A file stands where the folder would be made: root may write anywhere else."""
    root = tmp_path / "root"
    shutil.copytree(checkout, root, ignore=shutil.ignore_patterns("dist"))
    (root / "dist").write_text("")
    script = [sys.executable, str(root / "scripts" / "make_zip.py")]
    done = run_words(*script, env={**os.environ, "REPUT_CACHE": str(tmp_path / "cache")},
                     check=True)  # fmt: skip
    assert Path(done.stdout.strip()).is_relative_to(tmp_path / "cache")
    assert Path(done.stdout.strip()).is_file()
    done = run_words(*script, str(root / "dist" / "x.zip"))
    assert done.returncode == 1
    assert done.stderr.startswith(f"make_zip.py: {root}/dist/x.zip: ")
