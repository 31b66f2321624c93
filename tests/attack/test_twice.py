"""Commands that change a store, while somebody has it: refused, by name, and nothing is changed."""

import shutil
from pathlib import Path

import pytest

from reput.store_format.files.disk import DiskFiles
from tests.attack.works import WORKS, make, run
from tests.trees import unlocked

LEAVE_IT = (
    "backup",
    "restore",
    "forget",
    "convert",
    "export",
    "parquet",
    "rebuild",
    "repair",
    "report",
)  # as it is: they read a store


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    make(folder)
    return folder


@pytest.mark.parametrize("name", [name for name in WORKS if name not in LEAVE_IT])
def test_a_second_one_at_once_is_refused(name: str, stores: Path, tmp_path: Path) -> None:
    for each in ("store", "behind"):
        shutil.copytree(stores / each, tmp_path / each)
    (tmp_path / "replica/commitlog").mkdir(parents=True)
    releases = [
        DiskFiles(str(tmp_path / each)).lock("lock") for each in ("store", "behind", "replica")
    ]
    before = unlocked(tmp_path)
    try:
        code, said = run(WORKS[name], stores, tmp_path)
    finally:
        for release in releases:
            release()
    assert code == 2
    assert "open already" in said or "holds its lock" in said, said
    assert unlocked(tmp_path) == before
    assert run(WORKS[name], stores, tmp_path)[0] == 0
