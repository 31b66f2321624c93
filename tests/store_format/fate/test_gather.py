"""One pass over a log: the marks that are wanted, and the half messages that op messages name."""

from typing import Any

import numpy as np
import pytest

from reput.store_format.fate import gather
from reput.store_format.files.protocol import FileState
from reput.store_format.log.reader import LogReader
from reput.store_format.log.rules import RecordRules
from reput.store_format.log.segments import Segment
from tests.memory_storage import MemoryStorage
from tests.store_format.fate import logs
from tests.store_format.fate.logs import SEGMENT, T0, SmallLog


def everything(marks: Any) -> Any:
    return np.ones(len(marks), np.bool_)


def test_a_pass_takes_what_is_wanted(log: SmallLog) -> None:
    log.put("Plain")
    half = log.half("k")
    op = log.op(b"0,5,")
    log.put("Plain")
    seen: list[int] = []
    found = log.gather(everything, seen.append)
    assert found.marks["physicalOffset"].tolist() == [half, op]
    assert found.marks["kind"].tolist() == [gather.HALF, gather.OP]
    assert found.ended.tolist() == [(0, op, T0 + 2000), (5, op, T0 + 2000)]
    assert (found.last_timestamp, found.skips, found.breaks) == (T0 + 3000, 0, [])
    assert seen == [len(log.raw)]
    halves = log.gather(lambda marks: marks["kind"] == gather.HALF)
    assert (len(halves.marks), len(halves.ended)) == (1, 0)


def test_what_is_skipped_is_counted_and_the_first_thousand_are_named(log: SmallLog) -> None:
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


@pytest.mark.parametrize(("properties", "is_one"), [
    (b"KEYS\1k\2TAGS\1d\2UNIQ_KEY\1u\2", True), (b"TAGS\1d", True), (b"TAGS\1dd\2", False),
    (b"XTAGS\1d\2", False), (b"KEYS\1TAGS\1d\2", False), (b"", False),
])  # fmt: skip
def test_an_op_message_has_the_tag_d(properties: bytes, is_one: bool) -> None:
    named, wrong = gather.named_by_op(500, 9, properties, b"7,3,")
    assert named.tolist() == ([(3, 500, 9), (7, 500, 9)] if is_one else [])
    assert wrong == ([] if is_one else [gather.Skipped(500, "TAGS", "of an op message is not d")])


def test_behind_damage_a_pass_goes_on_with_the_next_segment() -> None:
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


def _gathered(storage: MemoryStorage, *lengths: int) -> gather.Gathered:
    segments, start = [], 0
    for number, length in enumerate(lengths):
        segments.append(Segment(f"store/commitlog/{number}", start, FileState(length, 0, 0)))
        start += length
    with LogReader(storage, segments, RecordRules(True, True)) as log:
        return gather.gather(log, everything, False)


# --- One small row for each record that a broker's own services have touched.
def marks(log: SmallLog, every: bool = False) -> Any:
    spans = np.empty((gather.NAMED, 2), np.int64)
    with log.reader() as reader:
        for step in reader.steps(0):
            found = np.zeros(len(step.rows), gather.MARK)
            return found[: gather.mark_records(step.window, step.rows, False, every, spans, found)]
    raise AssertionError("no records")


def test_a_record_is_marked_by_its_topic_transaction_or_where_it_is_sent_on(log) -> None:
    log.put("Plain", 0, ("UNIQ_KEY", "u"))
    names = ("HALF", "OP", "DISCARDED", "SCHEDULE", "WHEEL", "ROCKSDB_HALF", "ROCKSDB_OP")
    for name in names:
        log.put(getattr(logs, name))
        assert marks(log)["kind"].tolist()[-1] == getattr(gather, name)
    log.put(logs.HALF + "X")
    log.put(logs.HALF[:-1])
    for flags in (4, 8, 12, 3):
        log.put("Plain", 0, sys_flag=flags)
    log.put("Plain", 0, ("REAL_TOPIC", "T"))
    log.put("Plain", 0, ("TIMER_OUT_MS", "x"))
    found = marks(log)[7:]
    assert found["kind"].tolist() == [gather.OTHER] * 5
    assert found[["transaction", "sentOn"]].tolist() == [(4, 0), (8, 0), (12, 0), (0, 1), (0, 1)]
    assert len(marks(log, every=True)) == 16


def test_a_number_that_is_none_or_missing_is_a_flaw_where_a_service_reads_it() -> None:
    for topic, pairs, flaws in [(logs.SCHEDULE, {"REAL_TOPIC": "T", "REAL_QID": "1"}, 0),
        (logs.SCHEDULE, {"REAL_QID": "1"}, gather.NO_REAL_TOPIC),
        (logs.SCHEDULE, {"REAL_TOPIC": "T"}, gather.BAD_REAL_QID),
        (logs.SCHEDULE, {"REAL_TOPIC": "T", "REAL_QID": str(1 << 31)}, gather.BAD_REAL_QID),
        (logs.SCHEDULE, {"REAL_TOPIC": "T", "REAL_QID": "-1"}, 0),
        (logs.WHEEL, {"REAL_TOPIC": "T", "REAL_QID": "1", "TIMER_OUT_MS": "9"}, 0),
        (logs.WHEEL, {"REAL_TOPIC": "T", "REAL_QID": "1"}, gather.BAD_OUT),
        (logs.WHEEL, {"TIMER_OUT_MS": str(1 << 63)},
         gather.NO_REAL_TOPIC | gather.BAD_REAL_QID | gather.BAD_OUT),
        (logs.HALF, {}, 0), (logs.HALF, {"TRANSACTION_CHECK_TIMES": "1x"}, gather.BAD_CHECKS),
        (logs.HALF, {"TRAN_PREPARED_QUEUE_OFFSET": ""}, 0),  # no value, no property
        (logs.HALF, {"TRAN_PREPARED_QUEUE_OFFSET": "x"}, gather.BAD_PREPARED),
        (logs.DISCARDED, {"TRAN_PREPARED_QUEUE_OFFSET": "x"}, 0),
        (logs.ROCKSDB_OP, {"TRANS_OFFSET": "7"}, 0), (logs.ROCKSDB_OP, {}, gather.BAD_HALF_PLACE),
        ("Plain", {"REAL_TOPIC": "T", "TIMER_OUT_MS": "x"}, 0)]:  # fmt: skip
        log = SmallLog()
        log.put(topic, 0, *pairs.items())
        assert marks(log)["flaws"].tolist() == [flaws]
