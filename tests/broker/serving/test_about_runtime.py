"""The broker's state: real figures of the store, and the release's own names for them."""

import json

import pytest

from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.store_format.release.profiles import profile
from tests.broker.serving.served import FIXED, T0, message, served
from tests.jobs.sockets.asked import Asked, said

SIZE = FIXED + 1 + 9


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    return served(tmp_path_factory.mktemp("store"), [message(n) for n in range(3)])


def figures(asked: Asked) -> dict[str, str]:
    found: dict[str, str] = said(asked.ask(RequestCode.GET_BROKER_RUNTIME_INFO, 1))["table"]
    return found


def test_figures_are_of_the_store_and_of_what_was_given(asked: Asked) -> None:
    asked.broker.given.total = 7
    found = figures(asked)
    expected = {
        "commitLogMinOffset": "0", "commitLogMaxOffset": str(3 * SIZE),
        "earliestMessageTimeStamp": str(T0), "msgGetTotalTodayNow": "7",
        "bootTimestamp": str(asked.broker.started), "brokerVersionDesc": "V5_3_3",
        "putTps": "0.0 0.0 0.0",
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert 0 < float(found["commitLogDiskRatio"]) <= 1
    assert list(found) == sorted(found)


@pytest.mark.parametrize(
    ("seconds", "spoken"),
    [
        (0, "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"),
        (59, "[ 0 days, 0 hours, 0 minutes, 59 seconds ]"),
        (60, "[ 0 days, 0 hours, 1 minutes, 0 seconds ]"),
        (90_061, "[ 1 days, 1 hours, 1 minutes, 1 seconds ]"),
        (86_400 * 40 - 1, "[ 39 days, 23 hours, 59 minutes, 59 seconds ]"),
    ],
)
def test_how_long_it_runs_is_told_in_words(asked: Asked, seconds: int, spoken: str) -> None:
    asked.now = asked.broker.started + 1000 * seconds + 999
    assert figures(asked)["runtime"] == spoken


@pytest.mark.parametrize(("release", "since_5"), [("4.9.7", False), ("5.0.0", True)])
def test_names_are_those_of_the_release(
    asked: Asked, release: str, since_5: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked.broker.store.opened, "profile", profile(release))
    found = figures(asked)
    assert ("getTransferredTps" in found) is since_5
    assert ("getTransferedTps" in found) is not since_5  # spelt so
    for name in ("brokerActive", "timerReadBehind", "ackThreadPoolQueueSize"):
        assert (name in found) is since_5
    assert "pullThreadPoolQueueSize" in found


def test_settings_are_lines_of_properties(asked: Asked) -> None:
    lines = asked.ask(RequestCode.GET_BROKER_CONFIG, 1).body.decode().splitlines()
    assert {"brokerIP1=127.0.0.1", "listenPort=9876", "mappedFileSizeCommitLog=4096",
            "brokerPermission=4"} <= {*lines}  # fmt: skip


def test_there_are_no_replicas_and_no_counters(asked: Asked) -> None:
    found = json.loads(asked.ask(RequestCode.GET_BROKER_HA_STATUS, 1).body)
    assert found["masterCommitLogMaxOffset"] == 3 * SIZE
    assert found["haConnectionInfo"] == []
    answer = asked.ask(RequestCode.VIEW_BROKER_STATS_DATA, 1, statsName="S", statsKey="k")
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR, "The stats <S> <k> not exist",
    )  # fmt: skip
