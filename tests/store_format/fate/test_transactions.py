"""What became of transactions, rule by rule, on logs written here."""

import time
from collections import Counter

import numpy as np

from reput.store_format.fate.gather import ENDED, MARK, Gathered, op_offsets
from reput.store_format.fate.gather import HALF as HALF_KIND
from reput.store_format.fate.transactions import (
    PENDING,
    STATES,
    Transaction,
    TransactionState,
    concerns,
    judged,
    resolve,
)
from reput.store_format.rocksdb.rows import HalfRows
from tests.store_format.fate.logs import HALF, SmallLog

CHECKS = "TRANSACTION_CHECK_TIMES"


def resolved(log: SmallLog, half_position: int = 0) -> list[Transaction]:
    """What became of them; what only `services/` asks for is looked at there."""
    found = resolve(log.gather(concerns), half_position)
    return [each._replace(key=0, open_offsets=()) for each in found]


def states(log: SmallLog, half_position: int = 0) -> list[str]:
    return [each.state for each in resolved(log, half_position)]


def test_a_half_message_ends_with_a_commit_of_its_place_or_key_or_with_an_op(log: SmallLog) -> None:
    log.put("Orders")
    at = log.half("a")
    log.put("Orders")
    assert resolved(log) == [Transaction(TransactionState.PENDING, at, at, 0, 0, 0, -1, -1)]
    log = SmallLog()
    at = log.half("a")
    end = log.commit(at, "a")
    op = log.op(b"7,0,")
    assert resolved(log) == [Transaction(TransactionState.COMMITTED, at, at, 0, 0, 0, end, op)]
    log = SmallLog()
    log.half("a")
    at = log.half("b")
    log.half("c")
    op = log.op(b"1,")
    assert states(log) == ["pending", "rolled back", "pending"]
    assert resolved(log)[1] == Transaction(TransactionState.ROLLED_BACK, at, at, 1, 0, 0, op, op)
    log = SmallLog()
    first, second = log.half("a"), log.half("b")
    log.commit(second, "b")
    assert states(log) == ["pending", "committed"]
    other = SmallLog()
    first = other.half("a")
    other.commit(first, "z")  # the place is right, the message another one
    assert states(other) == ["pending"]
    log = SmallLog()
    log.half("a")
    log.commit(12345, "a")
    assert states(log) == ["committed"]
    log = SmallLog()
    log.put("Orders")
    log.half("a")
    log.half("a")
    log.commit(1, "a")
    assert states(log) == ["pending", "committed"]
    log = SmallLog()
    at = log.half("a")
    end = log.commit(at, "a")
    log.commit(at, "a")
    assert resolved(log)[0].end == end
    # A delivered record keeps the commit type; its preparedTransactionOffset is 0.
    log = SmallLog()
    log.half("a")
    log.put("Orders", 1, ("UNIQ_KEY", "b"), ("REAL_TOPIC", "Orders"), sys_flag=8)
    assert states(log) == ["pending"]


def test_copies_are_of_the_message_that_was_checked(log: SmallLog) -> None:
    first = log.half("a")
    log.half("b")
    log.half("a", (CHECKS, "1"))
    last = log.half("a", (CHECKS, "2"))
    assert resolved(log)[0] == Transaction(TransactionState.PENDING, first, last, 3, 2, 2, -1, -1)
    assert len(resolved(log)) == 2
    log.op(b"3,")
    assert states(log) == ["rolled back", "pending"]
    # The producer's retry after a timeout: one is committed, the other will be checked.
    log = SmallLog()
    first, second = log.half("a"), log.half("a")
    log.commit(second, "a")
    log.op(b"1,")
    copy = log.half("a", (CHECKS, "1"))
    found = resolved(log)
    assert [(each.state, each.first, each.last) for each in found] == [
        ("pending", first, copy), ("committed", second, second)]  # fmt: skip
    log = SmallLog()
    log.half("a")
    second = log.half("a")
    copy = log.half("a", (CHECKS, "1"), ("TRAN_PREPARED_QUEUE_OFFSET", "1"))
    found = resolved(log)
    assert [(each.first, each.last) for each in found][1] == (second, copy)
    log.op(b"1,")  # the producer ends the half message, not its copy
    assert states(log) == ["pending", "rolled back"]


def test_what_is_checked_too_often_is_discarded_or_abandoned(log: SmallLog) -> None:
    log.half("a")
    log.half("a", (CHECKS, "15"))
    end = log.put("TRANS_CHECK_MAX_TIME_TOPIC", 0, ("UNIQ_KEY", "a"), (CHECKS, "15"))
    [found] = resolved(log)
    assert (found.state, found.end, found.checks, found.copies) == ("discarded", end, 15, 1)
    # Seen on 5.3.3: ops are gathered, and the half message is checked and discarded meanwhile.
    log = SmallLog()
    for key in "ab":
        log.half(key)
    log.commit(0, "a")
    for key in "ab":
        log.half(key, (CHECKS, "1"))
        log.put("TRANS_CHECK_MAX_TIME_TOPIC", 0, ("UNIQ_KEY", key), (CHECKS, "1"))
    assert states(log) == ["committed", "discarded"]
    log.op(b"0,1,")
    assert states(log) == ["committed", "rolled back"]
    log = SmallLog()
    log.half("a")
    log.half("b")
    assert states(log, half_position=1) == ["abandoned", "pending"]


def test_an_op_names_the_newest_half_message_before_it_by_its_offsets(log: SmallLog) -> None:
    """After a crash queue offsets may be given again."""
    log.half("a")
    log.positions[HALF, 0] = 0
    log.half("b")
    log.op(b"0")
    assert states(log) == ["pending", "rolled back"]
    log = SmallLog()
    log.op(b"0,")
    log.half("a")
    assert states(log) == ["pending"]
    log = SmallLog()
    places = [log.put("Orders", 0, ("UNIQ_KEY", key), sys_flag=4) for key in "abc"]
    log.put("Orders", 0, ("UNIQ_KEY", "a"), sys_flag=8, prepared_transaction_offset=places[0])
    log.put("Orders", 0, ("UNIQ_KEY", "b"), sys_flag=12, prepared_transaction_offset=places[1])
    assert states(log) == ["committed", "rolled back", "pending"]
    log = SmallLog()
    for _ in range(2):
        log.put(HALF, 0, ("REAL_TOPIC", "Orders"), ("REAL_QID", "1"))
    assert states(log) == ["pending", "pending"]
    log = SmallLog()
    for body, offsets, bad in [(b"12", [12], 0), (b"12,13,", [12, 13], 0),
        (b"13,12,13,,", [12, 13], 0), (b"12,x,14", [12, 14], 1), (b"12,,14,", [12, 14], 1),
        (b"", [], 1), (b",,,", [], 1), (b"\xff\x00\x1b[2J", [], 1), (b"-3,+5,", [5], 0),
        (b"9223372036854775807,9223372036854775808", [9223372036854775807], 0),
        (b"1" * 40, [], 1)]:  # fmt: skip
        found, wrong = op_offsets(body)
        assert (found.tolist(), wrong) == (offsets, bad)
    log = SmallLog()
    ops = [log.op(b"evil\x1b,0"), log.op(b"0,", tag="evil")]
    half = log.half("a", (CHECKS, "evil"), ("TRAN_PREPARED_QUEUE_OFFSET", "evil"))
    gathered = log.gather(concerns)
    assert [each.physical_offset for each in gathered.skipped] == [*ops, half, half]
    assert gathered.skips == 4
    text = " ".join(map(str, gathered.skipped))
    assert "evil" not in text
    assert "TRANSACTION_CHECK_TIMES is not a number" in text
    assert states(log) == ["pending"]


def test_half_messages_by_the_hundred_thousand_take_no_seconds() -> None:
    """Each look of `reput metrics` asks."""
    marks = np.zeros(200_000, MARK)
    marks["kind"], marks["key"] = HALF_KIND, np.arange(1, len(marks) + 1)
    marks["physicalOffset"] = marks["queueOffset"] = np.arange(len(marks))
    begun = time.process_time()
    found, numbers, opens = judged(Gathered(marks, np.zeros(0, ENDED), [], 0, 0, [], 0), 50_000)
    assert time.process_time() - begun < 1
    assert Counter(found["state"].tolist()) == {PENDING: 150_000, STATES.index("abandoned"): 50_000}
    assert (numbers == opens).all()


# Half messages of transRocksDBEnable; tests/store_format/fate/test_lived.py has a real broker's


def test_what_is_in_rocksdb_is_known_by_its_place_and_key(log: SmallLog) -> None:
    first, second, third = log.rocksdb_half("a"), log.rocksdb_half("b"), log.rocksdb_half("c")
    log.op(b"0,1,2,")  # of the other topic's queue
    log.rocksdb_op(first, "z")
    log.rocksdb_op(second + 1, "b")
    op = log.rocksdb_op(third, "c")
    assert [(each.state, each.op, each.in_rocksdb) for each in resolved(log)] == [
        ("pending", -1, True), ("pending", -1, True), ("rolled back", op, True)]  # fmt: skip
    log = SmallLog()
    log.rocksdb_half("a")
    at = log.rocksdb_op("x", "a")
    gathered = log.gather(concerns)
    assert [str(each) for each in gathered.skipped] == [
        f"physical {at}: TRANS_OFFSET of an op message is not a number"
    ]
    assert states(log) == ["pending"]
    log = SmallLog()
    at = log.rocksdb_half("a")
    log.half("b")
    assert states(log, half_position=7) == ["pending", "abandoned"]
    end = log.commit(at, "a")
    assert [each.end for each in resolved(log)] == [end, -1]
    log = SmallLog()
    checked, gone, ended, new = (log.rocksdb_half(key) for key in "abcd")
    log.half("e")
    log.rocksdb_op(ended, "c")
    rows = HalfRows({checked: 3, ended: 2}, gone)
    found = list(resolve(log.gather(concerns), 0, rows))
    assert [(each.first, each.state, each.checks) for each in found][:4] == [
        (checked, "pending", 3), (gone, "abandoned", 0), (ended, "rolled back", 2),
        (new, "pending", 0)]  # fmt: skip
    assert found[4].state == "pending"  # of the other topic
