"""The stores that outputs are tried on."""

import tempfile
from pathlib import Path

import pytest

from reput.store_format.message.message import Message
from tests.attack.worlds import SETTINGS, World
from tests.broker.writer.stores import open_writer
from tests.in_process import run


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path / "world")
    monkeypatch.chdir(made.store)
    monkeypatch.setattr(tempfile, "tempdir", str(made.root / "work"))
    return made


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store in the usual place, and the set of it beside it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    root = tmp_path / "store"
    with open_writer(root, **SETTINGS) as writer:
        for number in range(20):
            writer.append(Message("T", bytes(60), 0, keys=f"k{number}"))
    run(str(root), str(tmp_path / "set"), rocketmq="5.3.3", settings=SETTINGS)
    (tmp_path / "link").symlink_to(root)
    monkeypatch.chdir(root)
    return root
