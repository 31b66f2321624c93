"""indexFileWriteEnable=false, from 5.4.0 on: no index/ in RocketMQ's store, nor in ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from reput.broker.writer.writer import CommitLogWriter
from reput.jobs.check import check
from reput.jobs.verify import verify
from reput.store_format.message.message import Message
from reput.store_format.release.settings import writer_settings_from
from tests.rocketmq.driver import remove_derived
from tests.rocketmq.engines import Reput
from tests.rocketmq.judge import Drivers, copy, difference

pytestmark = pytest.mark.rocketmq

GIVEN = {
    "indexFileWriteEnable": "false", "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "2000", "maxHashSlotNum": "100", "maxIndexNum": "400",
}  # fmt: skip
MESSAGES = [
    {"t": "T", "q": n % 2, "p": {"KEYS": f"k{n}", "TAGS": "a"}, "b": 100, "bs": n}
    for n in range(300)
]


@pytest.mark.long
@pytest.mark.parametrize("version", ["5.4.0", "5.5.0"])
def test_without_index_files(version: str, folder: Path, drivers: Drivers, reput: Reput) -> None:
    store, theirs, ours = folder / "store", folder / "theirs", folder / "ours"
    drivers.get(version).ask("put", store=str(store), settings=GIVEN, messages=MESSAGES)
    assert not (store / "index").exists()
    copy(store, theirs)
    remove_derived(theirs)
    drivers.get(version).derive(theirs, GIVEN)
    reput.rebuild(version, GIVEN, store, ours)
    assert difference(ours, theirs) is None
    assert not (ours / "index").exists()
    assert not (theirs / "index").exists()
    reported = {"rocketmq": version, "settings": GIVEN}
    assert verify(reput.engine, str(store), **reported).differences == []
    assert check(reput.engine, str(store), **reported).sound


@pytest.mark.long
def test_the_writer_keeps_none_and_rocketmq_takes_its_store(folder: Path, drivers: Drivers) -> None:
    settings = writer_settings_from(GIVEN, release="5.4.0")
    with CommitLogWriter.open(
        str(folder), settings, clock=lambda: 1_700_000_000_000, release="5.4.0"
    ) as writer:
        for number in range(300):
            writer.append(Message("T", b"x" * 100, keys=f"k{number}"))
    assert not (folder / "index").exists()
    assert drivers.get("5.4.0").open_check(folder, GIVEN)["dispatched"] == 0
    assert not (folder / "index").exists()
