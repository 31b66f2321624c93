"""One message's life, event by event, as its records show it."""

from reput.store_format.fate.delays import Read
from reput.store_format.fate.gather import gather
from reput.store_format.fate.trace import Event, Follows, TraceSettings, events
from tests.store_format.fate.logs import DISCARDED, HALF, T0, WHEEL, SmallLog

READ = Read({1: 99, 2: 99, 3: 99}, 99, T0 + (1 << 40), True)
KNOWN = TraceSettings(False, {1: 1000, 2: 5000, 3: 60_000}, READ, 99)


def traced(log: SmallLog, key: str = "k", origin: str = "") -> list[Event]:
    follows = Follows(key, origin)
    with log.reader() as reader:
        return events(reader, gather(reader, follows, False, every=True), follows, KNOWN)


def names(log: SmallLog, key: str = "k", origin: str = "") -> list[str]:
    return [each.event for each in traced(log, key, origin)]


def test_one_record_shows_one_event_and_a_transaction_its_end(log: SmallLog) -> None:
    for topic, flags, event in [("Orders", 0, "put"), ("Orders", 4, "half"),
        ("Orders", 8, "committed"), ("Orders", 12, "rolled back"), ("%RETRY%g", 0, "retried"),
        ("%DLQ%g", 0, "dead-lettered"), (DISCARDED, 0, "discarded"),
        (HALF, 0, "half")]:  # fmt: skip
        log = SmallLog()
        place = log.put(topic, 2, ("UNIQ_KEY", "k"), sys_flag=flags, reconsume_times=4)
        (found,) = traced(log)
        assert found.event == event
        assert (found.topic, found.queue_id, found.physical_offset) == (topic, 2, place)
        assert (found.store_timestamp, found.reconsume_times) == (T0, 4)
    for committed in [True, False]:
        log = SmallLog()
        half = log.half("k")
        log.half("k", ("TRANSACTION_CHECK_TIMES", "1"), ("TRAN_PREPARED_QUEUE_OFFSET", "0"))
        if committed:
            log.commit(half, "k")
        log.op(b"9,")
        log.op(b"0,1,")
        end = ["committed"] if committed else []
        assert names(log) == ["half", "checked", *end, "op"]
        first = traced(log)[0]
        assert (first.checks, first.real_topic) == (0, "Orders")
        assert str(first.state).startswith("committed" if committed else "rolled back")


def test_a_waiting_message_and_an_op_message_behind_it(log: SmallLog) -> None:
    log.delay("k", 2)
    log.deliver("k")
    log.deliver("k")
    waits, delivered, again = traced(log)
    assert [waits.event, delivered.event, again.event] == ["delayed", "delivered", "put"]
    assert (waits.level, waits.due, waits.real_topic, waits.real_queue_id) == (
        2, T0 + 5000, "Orders", "1")  # fmt: skip
    assert waits.state == "delivered"
    assert (delivered.real_topic, delivered.level, delivered.state) == (None, None, None)
    log = SmallLog()
    log.delay("k", 4)
    (found,) = traced(log)
    assert (found.level, found.due, found.real_topic) == (4, None, "Orders")
    log = SmallLog()
    log.timer("k", T0 + 9000)
    log.timer("k", T0 + 9000, ("TIMER_ROLL_TIMES", "1"))
    log.deliver("k")
    log.put("Orders", 1, ("UNIQ_KEY", "k"))
    assert names(log) == ["timed", "rolled", "delivered", "put"]
    log.timer("k", T0 + 9000, ("TIMER_DEL_UNIQKEY", "Orders+k"))
    found = traced(log)[-1]
    assert (found.event, found.topic, found.due) == ("recalled", WHEEL, T0 + 9000)
    # Queue offsets begin anew where the half topic was deleted, or its queue lost its start.
    log = SmallLog()
    log.op(b"0,")
    log.half("k")
    assert names(log) == ["half"]
    before = log.op(b"1,")
    log.half("k", ("TRANSACTION_CHECK_TIMES", "1"), ("TRAN_PREPARED_QUEUE_OFFSET", "0"))
    assert names(log) == ["half", "checked"]
    after = log.op(b"1,")
    found = traced(log)
    assert [each.event for each in found] == ["half", "checked", "op"]
    assert found[2].physical_offset == after > before
    log = SmallLog()
    log.op(b"0,")
    log.half("other")
    log.op(b"1,")
    log.half("k")
    later = log.op(b"2,")
    log.half("k")
    assert log.gather(Follows("k", "")).ended["physicalOffset"].tolist() == [later]
    log = SmallLog()
    half = log.rocksdb_half("k")
    log.rocksdb_op(half + 1, "k")
    log.rocksdb_op(half, "k")
    found = traced(log)
    assert [each.event for each in found] == ["half", "op"]
    assert found[1].physical_offset > half


def test_a_message_is_followed_by_either_of_two_ids(log) -> None:
    for key, origin, found in [("k", "", ["put", "retried"]), ("", "0A", ["retried", "retried"]),
        ("k", "0A", ["put", "retried", "retried"]), ("x", "", []), ("", "", [])]:  # fmt: skip
        log = SmallLog()
        log.put("Orders", 0, ("UNIQ_KEY", "k"))
        log.put("%RETRY%g", 0, ("UNIQ_KEY", "k"), ("ORIGIN_MESSAGE_ID", "0A"))
        log.put("%RETRY%g", 0, ("ORIGIN_MESSAGE_ID", "0A"))
        log.put("Orders", 0, ("KEYS", "k"))
        assert names(log, key, origin) == found
    follows = Follows("k", "0A")
    assert follows.admits({"UNIQ_KEY": "k"})
    assert follows.admits({"UNIQ_KEY": "x", "ORIGIN_MESSAGE_ID": "0A"})
    assert not follows.admits({"UNIQ_KEY": "x", "ORIGIN_MESSAGE_ID": "0a"})
    assert not Follows("", "").admits({"UNIQ_KEY": "", "ORIGIN_MESSAGE_ID": ""})
