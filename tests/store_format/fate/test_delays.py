"""What became of delayed messages, rule by rule, on logs written here."""

import time

import numpy as np

from reput.store_format.fate.delays import Delayed, Read, concerns, judged, resolve, unread
from reput.store_format.fate.gather import ENDED, MARK, SCHEDULE, WHEEL, Gathered
from reput.store_format.rocksdb.rows import Timers
from tests.store_format.fate.logs import HALF, T0, SmallLog

LEVELS = {1: 1000, 2: 5000, 3: 60_000}
NOTHING = Read(None, None, 0, True)


def read(**levels: int) -> Read:
    return Read({int(name[1:]): offset for name, offset in levels.items()}, 0, 0, True)


def resolved(log: SmallLog, read: Read) -> list[Delayed]:
    return list(resolve(log.gather(concerns), LEVELS, read))


def states(log: SmallLog, read: Read) -> list[str]:
    return [each.state for each in resolved(log, read)]


def test_delivered_or_due_by_the_offset_of_its_level(log: SmallLog) -> None:
    log.put("Orders")
    at = log.delay("a", 3)
    [found] = resolved(log, NOTHING)
    assert found == Delayed(found.state, at, 3, 0, T0 + 1000 + 60_000, -1)
    assert found.state == "waiting"
    log.now += 60_000
    log.put("Orders")
    assert states(log, NOTHING) == ["late"]
    log = SmallLog()
    log.delay("a", 1)
    end = log.deliver("a")
    assert states(log, read(l1=1)) == ["delivered"]
    assert resolved(log, read(l1=1))[0].delivery == end
    assert states(log, read(l1=0)) == ["delivered, will be again"]
    assert states(log, read(l2=1)) == ["delivered, will be again"]
    log = SmallLog()
    for key in "abc":
        log.delay(key, 1)
    log.deliver("a")
    log.deliver("c")
    assert states(log, read(l1=3)) == ["delivered", "never delivered", "delivered"]
    log = SmallLog()
    log.delay("a", 1)
    log.delay("b", 2)
    log.now += 10_000
    log.put("Orders")
    assert states(log, read(l1=1)) == ["never delivered", "late"]


def test_a_delivery_is_of_the_place_and_the_oldest_message(log: SmallLog) -> None:
    for other in [{"topic": "Others"}, {"born_timestamp": 5}, {"reconsume_times": 1},
        {"queue_id": 2}]:  # fmt: skip
        log = SmallLog()
        log.delay("a", 1)
        log.deliver("a", **other)
        assert states(log, read(l1=1)) == ["never delivered"]
    log = SmallLog()
    for born in (1, 2):
        log.put("Orders", 0, ("UNIQ_KEY", "k" * 40 * born), ("REAL_TOPIC", "Orders"))
        pairs = (("REAL_TOPIC", "Orders"), ("REAL_QID", "1"))
        log.put("SCHEDULE_TOPIC_XXXX", 0, *pairs, born_timestamp=born)
    log.put("Orders", 0, ("UNIQ_KEY", "k" * 99), ("REAL_TOPIC", "Orders"))
    log.put("Orders", 1, *pairs, born_timestamp=2)
    assert states(log, read(l1=2)) == ["never delivered", "delivered"]
    log = SmallLog()
    log.deliver("a")
    log.delay("a", 1)
    assert states(log, read(l1=1)) == ["never delivered"]
    log = SmallLog()
    log.delay("a", 1)
    log.delay("a", 1)
    end = log.deliver("a")
    assert [each.delivery for each in resolved(log, read(l1=2))] == [end, -1]
    log = SmallLog()
    log.delay("a", 1)
    log.deliver("a")
    log.deliver("a")
    log.delay("a", 1)
    assert states(log, read(l1=2)) == ["delivered", "never delivered"]


def test_a_log_that_ends_too_early_or_is_damaged_is_not_sure(log: SmallLog) -> None:
    """A running broker's files copied one after the other, or a log's end lost in a crash."""
    log.delay("a", 1)
    running = read(l1=1)._replace(stopped=False)
    assert states(log, running) == ["not delivered in this log"]
    log.now += 20_000
    log.put("Orders")
    assert states(log, running) == ["never delivered"]
    log = SmallLog()
    log.delay("a", 1)
    end = log.deliver("a")
    log.put("Orders")
    log.raw[end + 4] ^= 0xFF  # its magic
    assert states(log, read(l1=1)) == ["not delivered in this log"]
    assert [each.place for each in log.gather(concerns).breaks] == [end]
    log = SmallLog()
    log.delay("a", 1, topic=HALF)
    assert states(log, read(l1=1)) == ["never delivered"]


def test_timers_are_reported_by_timercheck(log: SmallLog) -> None:
    for key, out in (("a", T0 + 5000), ("b", T0 + 6000), ("c", T0 + 7000), ("d", T0 + 6000)):
        log.timer(key, out)
    log.deliver("a")
    log.now = T0 + 8000
    log.put("Orders")
    said = Read(None, 3, T0 + 7000, True)
    assert states(log, said) == ["delivered", "never delivered", "late", "late"]
    assert [each.due - T0 for each in resolved(log, said)] == [5000, 6000, 7000, 6000]
    assert states(log, NOTHING)[1] == "late"
    # TimerMessageStore.convertMessage clears it, which counts where the text is made anew.
    log = SmallLog()
    log.timer("a", T0 + 5000)
    log.put("Orders", 1, ("UNIQ_KEY", "a"), ("TIMER_OUT_MS", str(T0 + 5000)))
    assert states(log, Read(None, 1, T0 + 7000, True)) == ["delivered"]
    log = SmallLog()
    log.timer("a", T0 + 5000)
    second = log.timer("a", T0 + 5000, ("TIMER_ROLL_TIMES", "1"))
    said = Read(None, 2, T0 + 7000, True)
    assert [each.physical_offset for each in resolved(log, said)] == [second]
    log.deliver("a")
    assert states(log, said) == ["delivered"]
    for name in ["a", "Orders+a"]:
        log = SmallLog()
        log.timer("a", T0 + 5000)
        log.timer("b", T0 + 5000)
        log.timer("x", T0 + 5000, ("TIMER_DEL_UNIQKEY", name))
        said = Read(None, 3, T0 + 7000, True)
        assert states(log, said) == ["deleted", "never delivered"]


def in_rocksdb(position: int, *waiting: int) -> Timers:
    return Timers(position, 0, np.array(sorted(waiting), np.int64))


def test_timers_are_reported_by_rocksdb_where_it_has_them(log: SmallLog) -> None:
    for key in ("a", "b", "c", "d"):
        log.timer(key, T0 + 60_000)
    again = log.timer("e", T0 + 5000)
    log.timer("not read", T0 + 60_000)
    log.timer("x", T0 + 60_000, ("TIMER_DEL_UNIQKEY", "Orders+b"))
    log.deliver("c")
    log.deliver("e")
    places = [each.physical_offset for each in resolved(log, NOTHING)]
    timers = in_rocksdb(5, places[0], again)
    assert states(log, NOTHING._replace(timers=timers)) == [
        "waiting", "deleted", "delivered", "never delivered", "delivered, will be again", "waiting",
    ]  # fmt: skip
    assert states(log, NOTHING._replace(timers=timers, timer_position=None))[3] != "waiting"
    log = SmallLog()
    for key in ("wheel", "rocksdb"):
        log.timer(key, T0 + 5000)
    log.now = T0 + 8000
    log.put("Orders")
    said = Read(None, 1, T0 + 3000, True, timers=in_rocksdb(2))
    assert states(log, said) == ["late", "never delivered"]


def test_who_cannot_be_delivered_is_named(log: SmallLog) -> None:
    pairs = (("UNIQ_KEY", "k"), ("DELAY", "1"))
    places = [
        log.put("SCHEDULE_TOPIC_XXXX", 0, *pairs, ("REAL_TOPIC", "Orders"), ("REAL_QID", "evil")),
        log.put("SCHEDULE_TOPIC_XXXX", 0, *pairs, ("REAL_TOPIC", "Orders")),
        log.put("SCHEDULE_TOPIC_XXXX", 0, *pairs, ("REAL_QID", "1")),
        log.timer("a", "evil"),
    ]
    far = log.delay("a", 2_000_000_000)
    gathered = log.gather(concerns)
    assert [each.physical_offset for each in gathered.skipped] == places
    assert [each.physical_offset for each in unread(gathered, LEVELS)] == [far]
    assert states(log, read(l1=9)) == []
    said = [str(each) for each in gathered.skipped + unread(gathered, LEVELS)]
    assert not [text for text in said if "evil" in text]
    assert said[0] == "physical 0: REAL_QID is not a number: it cannot be delivered"


def test_what_waits_by_the_hundred_thousand_takes_no_seconds() -> None:
    """Each look of `reput metrics` asks, and a store may be hostile: each timer is recalled."""
    many = 300_000
    marks = np.zeros(many, MARK)
    marks["home"] = marks["physicalOffset"] = marks["key"] = np.arange(1, many + 1)
    marks["kind"], marks["out"] = SCHEDULE, T0 + marks["physicalOffset"]
    marks["kind"][: many // 2] = WHEEL
    marks["deletes"][: many // 4] = marks["key"][many // 4 : many // 2]
    marks["out"][: many // 4] = marks["out"][many // 4 : many // 2]
    begun = time.process_time()
    found = judged(Gathered(marks, np.zeros(0, ENDED), [], 0, T0, [], 0), LEVELS, NOTHING)
    assert time.process_time() - begun < 1.5
    assert (len(found), np.count_nonzero(found["recalled"])) == (many * 3 // 4, many // 4)
