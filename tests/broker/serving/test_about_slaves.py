"""Real brokers that are our slaves: who may register, and the files that they ask for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reput.broker.wire.codes import RequestCode, ResponseCode
from tests.jobs.sockets.asked import Asked


@pytest.fixture
def asked(store: Asked) -> Iterator[Asked]:
    store.broker.slaves_at = "10.9.8.7", 10912
    yield store
    store.broker.slaves_at = None


@pytest.mark.parametrize(
    ("host", "told"),
    [("10.9.8.7", "10.9.8.7"), ("0.0.0.0", "127.0.0.1"), ("::", "127.0.0.1")],
)
def test_a_slave_is_told_where_the_log_and_the_configuration_are(
    asked: Asked, host: str, told: str
) -> None:
    """An address for all is not an address: the one by which the slave reached us is."""
    asked.broker.slaves_at = host, 10912
    answer = asked.ask(RequestCode.REGISTER_BROKER, 1, brokerId=1)
    assert answer.fields == {"haServerAddr": f"{told}:10912", "masterAddr": "127.0.0.1:9876"}
    assert asked.ask(RequestCode.UNREGISTER_BROKER, 1, brokerId=1).code == ResponseCode.SUCCESS


def test_a_master_is_refused_and_so_is_everybody_where_no_slaves_are_served(asked: Asked) -> None:
    register = RequestCode.REGISTER_BROKER
    assert asked.ask(register, 1, brokerId=0).code == ResponseCode.NO_PERMISSION
    assert asked.ask(register, 1).code == ResponseCode.SYSTEM_ERROR  # it has to say what it is
    asked.broker.slaves_at = None
    assert asked.ask(register, 1, brokerId=1).code == ResponseCode.NO_PERMISSION
    answer = asked.ask(RequestCode.UNREGISTER_BROKER, 1, brokerId=1)
    assert answer.code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    ("code", "name", "most"),
    [
        (RequestCode.GET_ALL_DELAY_OFFSET, "delayOffset.json", 100),
        (RequestCode.GET_TIMER_CHECK_POINT, "timercheck", 56),
        (RequestCode.GET_TIMER_METRICS, "timermetrics", 100),
    ],
)
def test_a_file_of_config_is_given_as_it_is_or_its_absence_told(
    store: Asked, code: int, name: str, most: int
) -> None:
    absent = store.ask(code, 1)
    assert (absent.code, absent.body) == (ResponseCode.SYSTEM_ERROR, b"")
    path = Path(store.broker.store.opened.path) / "config" / name
    path.parent.mkdir(exist_ok=True)
    content = bytes(range(100))
    path.write_bytes(content)
    given = store.ask(code, 1)
    assert (given.code, given.body) == (ResponseCode.SUCCESS, content[:most])
