"""Parts of a broker that do not run here are answered as by a broker that has them switched off."""

import json
from pathlib import Path

import pytest

from reput.broker.wire.codes import RequestCode, ResponseCode
from tests.broker.serving.served import message, served
from tests.jobs.sockets.asked import Asked


def test_no_group_reads_cold_data_and_the_limits_are_brokerconfigs(store: Asked) -> None:
    said = store.ask(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO)
    assert said.code == ResponseCode.SUCCESS
    assert json.loads(said.body) == {
        "runtimeTable": {}, "configTable": {}, "globalAcc": 0,
        "cgColdReadThreshold": 3 * 1024 * 1024, "globalColdReadThreshold": 100 * 1024 * 1024,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("release", "told"),
    [
        ("5.3.0", "diffResult"),
        ("5.3.1", "checkStatus"),
        ("5.3.3", "checkStatus"),
        ("5.4.0", "checkStatus"),
    ],
)
def test_queues_in_rocksdb_are_asked_for_in_the_words_of_each_release(
    tmp_path: Path, release: str, told: str
) -> None:
    broker = served(tmp_path / "s", [message(0)], release)
    said = broker.ask(RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, topic="T")
    assert said.code == ResponseCode.SUCCESS
    about = json.loads(said.body)
    assert list(about) == [told]
    if told == "checkStatus":
        assert about[told] == 2  # CheckRocksdbCqWriteResult.CHECK_IN_PROGRESS
    else:
        assert "rocksdbCQWriteEnable is false" in about[told]
