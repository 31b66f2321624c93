"""LMQ queues in RocksDB: in double writing stores (combineCQUseRocksdbForLmq, 5.5.0 on: the files
are without them), and moved there and back by reput.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.install import install_set
from reput.jobs.rebuild import rebuild
from reput.jobs.verify import verify
from reput.store_format.release.setting_table import SettingError
from tests import golden_stores
from tests.in_process import Session, as_text
from tests.jobs.deriving.rocksdb_rows import rows
from tests.rocketmq.driver import Driver
from tests.rocketmq.judge import copy, difference
from tests.rocketmq.live import SETTINGS, Client, living, messages
from tests.rocketmq.rocksdb_stores import ALONE

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

IN_ROCKSDB = {"rocksdbCQDoubleWriteEnable": True, "combineCQUseRocksdbForLmq": True}
APART = {"useSeparateStorePathForRocksdbCQ": True}


@pytest.mark.parametrize(("reput", "version"), [("local", "5.5.1")], indirect=["reput"])
def test_files_have_no_entries_of_lmq(version, folder, drivers, reput) -> None:
    golden = golden_stores.unpack("small_lmq_batch_5.5.0")
    assert any(path.name.startswith("%LMQ%") for path in (golden.expect / "consumequeue").iterdir())
    given = {**golden.settings, **IN_ROCKSDB}
    store, theirs, ours = folder / "store", folder / "theirs", folder / "ours"
    copy(golden.input, store)
    shutil.rmtree(store / "config")  # RocketMQ fails with batch queues and RocksDB at once
    copy(store, theirs)
    drivers.get(version).derive(theirs, {**given, **APART}, pace=20)
    assert (theirs / "consumequeue_rocksdb" / "CURRENT").exists()
    reput.rebuild(version, given, store, ours)
    assert not any(path.name.startswith("%LMQ%") for path in (ours / "consumequeue").iterdir())
    assert difference(ours, theirs) is None
    report = verify(Session(), str(theirs), rocketmq=version, settings=as_text(given))
    # inner batches have no place in RocksDB: RocketMQ leaves rows there that it does not read
    assert all("/BatchTopic/" in each.path for each in report.differences), report.text()
    assert report.in_rocksdb
    with pytest.raises(SettingError, match=r"has queues in files and in RocksDB .* --queues files"):
        reput.rebuild(version, given, theirs, folder / "again")


# A client of 5.3.3 goes through its topics as a HashMap does: these come after Live0, whose route
# leads it to the broker.
LMQ = ("%LMQ%f", "%LMQ%用户")
LITE: dict[str, object] = {"enableLmq": True, "enableMultiDispatch": True}


def multi(count: int, first: int) -> list[dict[str, Any]]:
    """Messages of which each is for LMQ queues too, in turn for the first, the second, and both."""
    made = messages(count, first)
    for number, message in enumerate(made):
        names = LMQ if number % 3 == 2 else LMQ[number % 3 :][:1]
        message["p"]["INNER_MULTI_DISPATCH"] = ",".join(names)
    return made


def in_lmq(client: Client, group: str) -> dict[str, list[str]]:
    """The KEYS of the messages in each LMQ queue, in its order, as a client reads them."""
    before = len(client.ask("pull", group=group, queues={"Live0": 1})["messages"])
    found = {}
    for name in LMQ:  # the other topic's route leads to the broker
        read = client.ask("pull", group=group, queues={"Live0": 1, name: 1})["messages"]
        found[name] = [message[7] for message in read[before:]]
    return found


@pytest.mark.parametrize("version", ["5.3.3", "5.5.1"])
def test_a_broker_serves_lmq_queues_that_were_moved(version: str, tmp_path: Path) -> None:
    store, wanted = tmp_path / "store", {name: list[str]() for name in LMQ}
    settings = as_text({**SETTINGS, **LITE})
    with Driver(version) as driver:
        for number, kind in enumerate(("files", "rocksdb", "files")):
            given = {**LITE, **(ALONE if kind == "rocksdb" else {})}
            with living(version, store, **given, driver=driver) as (broker, client):
                if number:
                    assert in_lmq(client, f"moved{number}") == wanted
                    assert broker.status()["dispatched"] == 0
                made = multi(30, 30 * number)
                client.send(made, send_timeout_ms=60_000)
                for message in made:
                    for name in message["p"]["INNER_MULTI_DISPATCH"].split(","):
                        wanted[name].append(message["p"]["KEYS"])
                broker.catch_up()
                assert in_lmq(client, f"all{number}") == wanted
            other, output = {"files": "rocksdb", "rocksdb": "files"}[kind], tmp_path / "set"
            for queues in (kind, other):  # the broker's own, and those that it goes on with
                rebuild(Session(), str(store), str(output), rocketmq=version, settings=settings,
                        queues=queues, replace=True)  # fmt: skip
                report = verify(Session(), str(store), against=str(output), rocketmq=version,
                                settings=settings)  # fmt: skip
                assert report.same, report.differences
                if queues == "rocksdb" == kind:
                    assert rows(output / "consumequeue") == rows(store / "consumequeue")
            assert install_set(str(store), str(output)).done
