"""The real RocketMQ opens what recover and install leave, and finds nothing to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.install import install_set
from store_format.names import COMMIT_LOG
from tests import golden_stores, in_process
from tests.in_process import as_text
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import snapshot
from tests.test_recover import copy, run

pytestmark = [pytest.mark.rocketmq]


def log(store: Path) -> dict[str, bytes]:
    """The segments that hold anything: a broker prepares further ones, and removes them."""
    contents = {path.name: path.read_bytes() for path in (store / COMMIT_LOG).iterdir()}
    return {name: content for name, content in contents.items() if any(content)}


def opens_without_a_change(version: str, store: Path, settings: dict[str, int | str]) -> None:
    before = snapshot(store), log(store)
    with Driver(version, log_level="INFO") as driver:
        answer = driver.open_check(store, settings)
        said = driver.log
    assert answer["dispatched"] == 0
    assert (snapshot(store), log(store)) == before
    for complaint in ("[BUG]", "delete it", "will be deleted"):
        assert complaint not in said


def test_a_recovered_store(tmp_path: Path, needs_rocketmq: Callable[[str], None]) -> None:
    needs_rocketmq("5.3.3")
    store, golden = copy("torn_tail_5.3.3", tmp_path, derived=False)
    (store / "abort").write_bytes(b"")
    assert run(store, golden.version, golden.settings).cut_bytes
    opens_without_a_change("5.3.3", store, golden.settings)


def test_an_installed_set(tmp_path: Path, needs_rocketmq: Callable[[str], None]) -> None:
    needs_rocketmq("5.3.3")
    golden = golden_stores.unpack("mixed_5.3.3")
    store = golden_stores.copy_input(golden, tmp_path / "store")
    shutil.rmtree(store / "consumequeue", ignore_errors=True)
    in_process.run(
        str(store), str(tmp_path / "set"), rocketmq="5.3.3", settings=as_text(golden.settings)
    )
    install_set(str(store), str(tmp_path / "set"))
    opens_without_a_change("5.3.3", store, golden.settings)
