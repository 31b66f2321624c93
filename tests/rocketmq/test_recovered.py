"""The real RocketMQ opens what recover and install leave, and finds nothing to do."""

import shutil
import threading
from pathlib import Path

import pytest

from reput.jobs.install import install_set
from reput.store_format.faults import StoreChanged
from reput.store_format.files.protocol import StoreInUse
from tests import golden_stores, in_process
from tests.in_process import as_text
from tests.jobs.recovering import run
from tests.rocketmq.live import SETTINGS, contents, living, messages
from tests.rocketmq.opened import opens_without_a_change

pytestmark = [pytest.mark.rocketmq]


def test_a_recovered_store(tmp_path: Path) -> None:
    store, golden = golden_stores.whole("torn_tail_5.3.3", tmp_path, ())
    (store / "abort").write_bytes(b"")
    assert run(store, golden.version, golden.settings).cut_bytes
    opens_without_a_change("5.3.3", store, golden.settings)


def test_an_installed_set(tmp_path: Path) -> None:
    golden = golden_stores.unpack("mixed_5.3.3")
    store = golden_stores.copy_input(golden, tmp_path / "store")
    shutil.rmtree(store / "consumequeue", ignore_errors=True)
    in_process.run(
        str(store), str(tmp_path / "set"), rocketmq="5.3.3", settings=as_text(golden.settings)
    )
    install_set(str(store), str(tmp_path / "set"))
    opens_without_a_change("5.3.3", store, golden.settings)


@pytest.mark.long
def test_a_live_brokers_store(tmp_path: Path) -> None:
    """Its lock is seen, nothing is installed, and a rebuild ends where the log did."""
    store = tmp_path / "store"
    settings = as_text(SETTINGS)
    with living("5.3.3", store) as (_, asking):
        asking.send(messages(200))
        sending = threading.Thread(
            target=lambda: [asking.send(messages(50, first=200 + 50 * n)) for n in range(6)]
        )
        sending.start()
        summary = in_process.run(
            str(store), str(tmp_path / "set"), rocketmq="5.3.3", settings=settings
        )
        sending.join()
        assert "holds its lock" in summary.warnings[0]
        assert 200 <= summary.messages <= 500
        with pytest.raises(StoreInUse):
            install_set(str(store), str(tmp_path / "set"))
    with pytest.raises(StoreChanged, match="has grown"):
        install_set(str(store), str(tmp_path / "set"))
    again = in_process.run(str(store), str(tmp_path / "whole"), rocketmq="5.3.3", settings=settings)
    assert again.messages >= 500 > 0
    # what was derived while it ran is the beginning of what is derived now
    whole = contents(tmp_path / "whole")
    for name, begun in contents(tmp_path / "set").items():
        assert whole[name].startswith(begun), name
