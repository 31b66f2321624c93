"""A store whose derived files are partly wrong, and the set that takes their place."""

import shutil
from pathlib import Path

import pytest

from reput.broker.change.install import DERIVED
from reput.store_format.message.message import Message
from tests.broker.writer.stores import open_writer
from tests.in_process import run
from tests.jobs.opening.writing import SETTINGS
from tests.trees import contents


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store that was stopped cleanly, whose derived files are partly wrong."""
    root = tmp_path / "store"
    with open_writer(root, **SETTINGS) as writer:
        for number in range(120):
            writer.append(Message(f"T{number % 2}", bytes(60), number % 3, keys=f"k{number}"))
    (root / "config").mkdir()
    (root / "config" / "consumerOffset.json").write_text("{}")
    shutil.rmtree(root / "consumequeue" / "T1")
    return root


@pytest.fixture
def rebuilt(store: Path, tmp_path: Path) -> Path:
    run(str(store), str(tmp_path / "set"), rocketmq="5.3.3", settings=SETTINGS)
    return tmp_path / "set"


def derived(folder: Path) -> dict[str, bytes]:
    return {p: c for p, c in contents(folder).items() if p.split("/")[0] in DERIVED}


def others(folder: Path) -> dict[str, tuple[int, int, int]]:
    """What an installation leaves alone: each file with what tells that it is the same one."""
    return {str(path.relative_to(folder)): (
        path.stat().st_ino, path.stat().st_size, path.stat().st_mode) for path in folder.rglob("*")
            if path.is_file() and path.relative_to(folder).parts[0] not in DERIVED}  # fmt: skip
