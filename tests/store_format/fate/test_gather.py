"""One pass over a log: the marks that are wanted, and the half messages that op messages name."""

from typing import Any

import numpy as np

from reput.store_format.fate.gather import (
    BAD_CHECKS,
    BAD_HALF_PLACE,
    BAD_OUT,
    BAD_PREPARED,
    BAD_REAL_QID,
    DISCARDED,
    HALF,
    MARK,
    NAMED,
    NO_REAL_TOPIC,
    NONE,
    OP,
    OTHER,
    ROCKSDB_HALF,
    ROCKSDB_OP,
    SCHEDULE,
    WHEEL,
    Gathered,
    Skipped,
    gather,
    hash_text,
    mark_records,
    named_by_op,
)
from reput.store_format.files.protocol import FileState
from reput.store_format.log.reader import LogReader
from reput.store_format.log.rules import RecordRules
from reput.store_format.log.segments import Segment
from tests.memory_storage import MemoryStorage
from tests.store_format.fate import logs
from tests.store_format.fate.logs import SEGMENT, T0, SmallLog


def everything(marks: Any) -> Any:
    return np.ones(len(marks), np.bool_)


def test_a_pass_takes_what_is_wanted_and_reads_on_behind_damage(log: SmallLog) -> None:
    log.put("Plain")
    half = log.half("k")
    op = log.op(b"0,5,")
    log.put("Plain")
    seen: list[int] = []
    found = log.gather(everything, seen.append)
    assert found.marks[["physicalOffset", "kind"]].tolist() == [(half, HALF), (op, OP)]
    assert found.ended.tolist() == [(0, op, T0 + 2000), (5, op, T0 + 2000)]
    assert (found.last_timestamp, found.skips, found.breaks) == (T0 + 3000, 0, [])
    assert seen == [len(log.raw)]
    halves = log.gather(lambda marks: marks["kind"] == HALF)
    assert (len(halves.marks), len(halves.ended)) == (1, 0)
    log = SmallLog()
    ops = [log.op(b"secret,x"), log.op(b"7", tag="e")]
    timer = log.timer("k", "soon")
    found = log.gather(everything)
    assert found.skips == 3
    assert [str(each) for each in found.skipped] == [
        f"physical {ops[0]}: body of an op message: 2 of its parts are no numbers",
        f"physical {ops[1]}: TAGS of an op message is not d",
        f"physical {timer}: TIMER_OUT_MS is not a number",
    ]
    log = SmallLog()
    for _ in range(1005):
        log.op(b"x")
    storage = MemoryStorage({"store/commitlog/0": bytes(log.raw)})
    found = _gathered(storage, len(log.raw))
    assert (found.skips, len(found.skipped)) == (1005, 1000)
    for properties, is_one in [(b"TAGS\1d\2", True), (b"TAGS\1d", True),
        (b"KEYS\1k\2TAGS\1d\2UNIQ_KEY\1u\2", True), (b"TAGS\1dd\2", False), (b"XTAGS\1d\2", False),
        (b"KEYS\1TAGS\1d\2", False), (b"", False)]:  # fmt: skip
        named, wrong = named_by_op(500, 9, properties, b"7,3,")
        assert named.tolist() == ([(3, 500, 9), (7, 500, 9)] if is_one else [])
        assert wrong == ([] if is_one else [Skipped(500, "TAGS", "of an op message is not d")])
    first, second = SmallLog(), SmallLog(start=SEGMENT)
    first.half("a")
    bad = first.half("b")
    first.half("c")
    last = second.half("d")
    raw = bytearray(first.raw.ljust(SEGMENT, b"\0"))
    raw[bad + 4] = 0
    storage = MemoryStorage({"store/commitlog/0": bytes(raw)})
    storage.files["store/commitlog/1"] = bytes(second.raw.ljust(SEGMENT, b"\0"))
    found = _gathered(storage, SEGMENT, SEGMENT)
    assert found.marks["physicalOffset"].tolist() == [0, last]
    assert ([each.place for each in found.breaks], found.unread_to) == ([bad], SEGMENT)


def _gathered(storage: MemoryStorage, *lengths: int) -> Gathered:
    segments, start = [], 0
    for number, length in enumerate(lengths):
        segments.append(Segment(f"store/commitlog/{number}", start, FileState(length, 0, 0)))
        start += length
    with LogReader(storage, segments, RecordRules(True, True)) as log:
        return gather(log, everything, False)


# --- One small row for each record that a broker's own services have touched.
def marks(log: SmallLog, every: bool = False) -> Any:
    spans = np.empty((NAMED, 2), np.int64)
    with log.reader() as reader:
        for step in reader.steps(0):
            found = np.zeros(len(step.rows), MARK)
            return found[: mark_records(step.window, step.rows, False, every, spans, found)]
    raise AssertionError("no records")


def test_a_record_is_marked_by_its_topic_or_transaction_or_where_it_goes(log: SmallLog) -> None:
    """By the vectors of the algorithm's authors; none for an empty text."""
    assert hash_text(b"a") == 0xAF63DC4C8601EC8C
    assert hash_text(b"foobar") == 0x85944171F73967E8
    assert hash_text(b"") == 0
    log = SmallLog()
    log.half("foobar")
    log.deliver("a", sys_flag=8)
    assert marks(log)["key"].tolist() == [0x85944171F73967E8, 0xAF63DC4C8601EC8C]
    log = SmallLog()
    log.put("Plain", 0, ("UNIQ_KEY", "u"))
    for topic, kind in ((logs.HALF, HALF), (logs.OP, OP), (logs.DISCARDED, DISCARDED),
        (logs.SCHEDULE, SCHEDULE), (logs.WHEEL, WHEEL), (logs.ROCKSDB_HALF, ROCKSDB_HALF),
        (logs.ROCKSDB_OP, ROCKSDB_OP)):  # fmt: skip
        log.put(topic)
        assert marks(log)["kind"].tolist()[-1] == kind
    log.put(logs.HALF + "X")
    log.put(logs.HALF[:-1])
    for flags in (4, 8, 12, 3):
        log.put("Plain", 0, sys_flag=flags)
    log.put("Plain", 0, ("REAL_TOPIC", "T"))
    log.put("Plain", 0, ("TIMER_OUT_MS", "x"))
    found = marks(log)[7:]
    assert found["kind"].tolist() == [OTHER] * 5
    assert found[["transaction", "sentOn"]].tolist() == [(4, 0), (8, 0), (12, 0), (0, 1), (0, 1)]
    assert len(marks(log, every=True)) == 16


def test_a_delivery_has_the_home_of_the_message_that_waited_and_numbers_have_flaws(log) -> None:
    """Topic, queue, UNIQ_KEY, bornTimestamp and reconsumeTimes are copied."""
    log.delay("k", 3)
    log.timer("k", 5000)
    log.deliver("k")
    log.deliver("k", flag=9, store_timestamp=1, queue_offset=77)
    for other in ({"reconsume_times": 1}, {"born_timestamp": 1}, {"topic": "Order"},
        {"queue_id": 2}):  # fmt: skip
        topic, queue = other.pop("topic", "Orders"), other.pop("queue_id", 1)
        log.deliver("k", str(topic), int(queue), **other)
    log.deliver("j")
    homes = marks(log)["home"].tolist()
    assert len(set(homes[:4])) == 1
    assert len(set(homes[3:])) == 6
    for topic, pairs, flaws in [(logs.SCHEDULE, {"REAL_TOPIC": "T", "REAL_QID": "1"}, 0),
        (logs.SCHEDULE, {"REAL_QID": "1"}, NO_REAL_TOPIC),
        (logs.SCHEDULE, {"REAL_TOPIC": "T"}, BAD_REAL_QID),
        (logs.SCHEDULE, {"REAL_TOPIC": "T", "REAL_QID": str(1 << 31)}, BAD_REAL_QID),
        (logs.SCHEDULE, {"REAL_TOPIC": "T", "REAL_QID": "-1"}, 0),
        (logs.WHEEL, {"REAL_TOPIC": "T", "REAL_QID": "1", "TIMER_OUT_MS": "9"}, 0),
        (logs.WHEEL, {"REAL_TOPIC": "T", "REAL_QID": "1"}, BAD_OUT),
        (logs.WHEEL, {"TIMER_OUT_MS": str(1 << 63)}, NO_REAL_TOPIC | BAD_REAL_QID | BAD_OUT),
        (logs.HALF, {}, 0), (logs.HALF, {"TRANSACTION_CHECK_TIMES": "1x"}, BAD_CHECKS),
        (logs.HALF, {"TRAN_PREPARED_QUEUE_OFFSET": ""}, 0),  # no value, no property
        (logs.HALF, {"TRAN_PREPARED_QUEUE_OFFSET": "x"}, BAD_PREPARED),
        (logs.DISCARDED, {"TRAN_PREPARED_QUEUE_OFFSET": "x"}, 0),
        (logs.ROCKSDB_OP, {"TRANS_OFFSET": "7"}, 0), (logs.ROCKSDB_OP, {}, BAD_HALF_PLACE),
        ("Plain", {"REAL_TOPIC": "T", "TIMER_OUT_MS": "x"}, 0)]:  # fmt: skip
        log = SmallLog()
        log.put(topic, 0, *pairs.items())
        assert marks(log)["flaws"].tolist() == [flaws]


def test_a_half_message_says_how_often_it_was_checked_and_a_timer_is_recalled(log) -> None:
    log.half("a")
    log.half("a", ("TRANSACTION_CHECK_TIMES", "3"), ("TRAN_PREPARED_QUEUE_OFFSET", "12"))
    log.put(logs.DISCARDED, 0, ("TRANSACTION_CHECK_TIMES", "15"), prepared_transaction_offset=5)
    log.commit(500, "a")
    found = marks(log)[["checks", "prepared"]].tolist()
    assert found == [(0, NONE), (3, 12), (15, 5), (0, 500)]
    log = SmallLog()
    log.timer("k", 5000)
    log.timer("other", 5000, ("TIMER_DEL_UNIQKEY", "Orders+k"), ("TIMER_ROLL_TIMES", "1"))
    first, second = marks(log)
    assert first["deletedBy"] == second["deletes"] == hash_text(b"Orders+k")
    assert (first["deletes"], first["rolled"], first["out"]) == (0, 0, 5000)
    assert second["rolled"] == 1
    log = SmallLog()
    half = log.rocksdb_half("k")
    log.rocksdb_op(half, "k")
    log.rocksdb_op("x", "k")
    assert marks(log)[["key", "prepared"]].tolist() == [(hash_text(b"k"), 0),
        (hash_text(b"k"), half), (hash_text(b"k"), NONE)]  # fmt: skip
