"""What `reput serve --ha-listen` tells a broker that is its slave."""

from pathlib import Path

from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.jobs.sockets.opened import ServedSource, open_broker
from tests import golden_stores
from tests.jobs.sockets.asked import Asked, opened

REGISTER = RequestCode.REGISTER_BROKER


def test_a_slave_is_reported_where_log_and_config_are() -> None:
    asked = Asked(opened())
    asked.broker.slaves_at = "127.0.0.1", 10912
    found = asked.ask(REGISTER, brokerId=1, brokerName="b")
    assert found.code == ResponseCode.SUCCESS
    assert found.fields["haServerAddr"] == "127.0.0.1:10912"
    assert found.fields["masterAddr"].count(":") == 1
    asked.broker.slaves_at = "0.0.0.0", 10912  # as the slave reaches us
    host = found.fields["masterAddr"].rpartition(":")[0]
    again = asked.ask(REGISTER, brokerId=2, brokerName="b")
    assert again.fields["haServerAddr"] == f"{host}:10912"
    assert asked.ask(RequestCode.UNREGISTER_BROKER, brokerId=1).code == ResponseCode.SUCCESS


def test_a_master_is_refused_and_so_is_any_where_no_slave_is_served() -> None:
    asked = Asked(opened())
    assert asked.ask(REGISTER, brokerId=1).code == ResponseCode.NO_PERMISSION
    asked.broker.slaves_at = "127.0.0.1", 10912
    assert asked.ask(REGISTER, brokerId=0).code == ResponseCode.NO_PERMISSION


def test_a_slave_is_told_where_delayed_messages_and_timers_are(tmp_path: Path) -> None:
    """The slave gets how far they were delivered, as it stands in the store."""
    store = golden_stores.copy_input(golden_stores.unpack("broker_clean_5.3.3"), tmp_path / "store")
    asked = Asked(open_broker(ServedSource(str(store), "5.3.3"), lambda _: None))
    path = store / "config/delayOffset.json"
    path.unlink(missing_ok=True)
    assert asked.ask(RequestCode.GET_ALL_DELAY_OFFSET).code == ResponseCode.SYSTEM_ERROR
    path.write_text('{"offsetTable":{3:17}}')
    assert asked.ask(RequestCode.GET_ALL_DELAY_OFFSET).body == b'{"offsetTable":{3:17}}'
    # TimerCheckpoint.encode has the first 56 bytes of the file timercheck, in the same order.
    store = golden_stores.copy_input(golden_stores.unpack("broker_clean_5.3.3"), tmp_path / "store")
    asked = Asked(open_broker(ServedSource(str(store), "5.3.3"), lambda _: None))
    (store / "config/timercheck").write_bytes(bytes(range(56)) + bytes(4040))
    (store / "config/timermetrics").write_text('{"timingCount":{}}')
    assert asked.ask(RequestCode.GET_TIMER_CHECK_POINT).body == bytes(range(56))
    assert asked.ask(RequestCode.GET_TIMER_METRICS).body == b'{"timingCount":{}}'
    (store / "config/timercheck").unlink()
    assert asked.ask(RequestCode.GET_TIMER_CHECK_POINT).code == ResponseCode.SYSTEM_ERROR
