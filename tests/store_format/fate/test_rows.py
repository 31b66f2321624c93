"""The rows that are shown, and what is reported beside them."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.jobs.opening.questions import open_store
from reput.store_format.fate import rows as module
from reput.store_format.fate.delays import any_fate
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.layouts import QUEUE_ENTRY
from reput.store_format.notes import Notes
from reput.store_format.query.reader import NEWEST, OpenedStore
from tests.built import Built
from tests.logs.encoder import properties
from tests.memory_storage import MemoryStorage
from tests.store_format.fate.logs import OP, SCHEDULE, T0, SmallLog
from tests.store_format.fate.stores import unpack

CHECKS = "TRANSACTION_CHECK_TIMES"
LEVELS = {"messageDelayLevel": "1s 5s 1m"}


def opened(log: SmallLog, files: dict[str, bytes] | None = None) -> OpenedStore:
    """A log, and the other files of its store, in memory."""
    storage = MemoryStorage(log.files() | (files or {}))
    return OpenedStore(Folder(storage, "store"), NEWEST, LEVELS, Notes())


def transactions() -> SmallLog:
    log = SmallLog()
    first = log.half("a", born_timestamp=T0 - 500)
    log.half("b")
    log.commit(first, "a")
    log.half("b", (CHECKS, "1"))
    log.op(b"0,")
    return log


def test_open_transactions_are_listed_and_all_with_what_ended_them() -> None:
    heard = Notes()
    [row] = module.transaction_rows(opened(transactions()), False, heard)
    assert (row.state, row.unique_key, row.topic, row.queue_id) == ("pending", "b", "Orders", "1")
    assert (row.producer_group, row.checks, row.copies, row.half_offset) == ("shop", 1, 1, 2)
    assert row.age == 4000  # from bornTimestamp to the last record
    assert heard.lines == ["1 committed: not listed without --all"]
    assert heard.scanned == heard.to_scan > 0
    log = transactions()
    heard = Notes()
    store = opened(log)
    first = module.transaction_rows(store, True, heard)[0]
    assert first.state == "committed"
    assert first.age == 4500
    assert first.end_timestamp == T0 + 2000
    assert first.end_physical_offset is not None
    assert store.log.record_at(first.end_physical_offset).topic == "Orders"
    assert first.op_physical_offset is not None
    assert store.log.record_at(first.op_physical_offset).topic == OP
    assert heard.lines == []
    log = transactions()
    log.raw[4] ^= 0xFF
    heard = Notes()
    assert module.transaction_rows(opened(log), True, heard) == []
    assert "what follows in this segment is not read" in heard.lines[0]


def test_delayed_rows_without_the_value_of_what_is_wrong(log: SmallLog) -> None:
    log.delay("a", 1)
    log.delay("b", 1)
    log.deliver("a")
    log.timer("c", T0 + 90_000)
    files = {"store/config/delayOffset.json": b'{"offsetTable":{1:2}}'}
    heard = Notes()
    rows = module.delayed_rows(opened(log, files), False, heard)
    assert [(row.state, row.by, row.level, row.unique_key) for row in rows] == [
        ("never delivered", "level", 1, "b"), ("waiting", "timer", None, "c")]  # fmt: skip
    assert [(row.due, row.late) for row in rows] == [(T0 + 2000, 1000), (T0 + 90_000, None)]
    assert heard.lines == ["1 delivered: not listed without --all"]
    assert len(module.delayed_rows(opened(log, files), True, Notes())) == 3
    heard = Notes()
    module.delayed_rows(opened(log), False, heard)
    assert "delayOffset.json is missing" in heard.lines[0]
    log = SmallLog()
    for _ in range(30):
        log.timer("evil", "evil")
    log.put(SCHEDULE, 98, ("REAL_TOPIC", "evil"), ("REAL_QID", "0"))
    heard = Notes()
    assert module.delayed_rows(opened(log), True, heard) == []
    assert heard.lines[0] == "physical 0: TIMER_OUT_MS is not a number; skipped"
    assert "10 more like that" in heard.lines
    assert heard.lines[-1].endswith(
        "queueId is none of the 3 levels of messageDelayLevel: brokers do not read it; skipped"
    )
    assert "evil" not in " ".join(heard.lines)
    log = SmallLog()
    log.put("Orders")
    at = log.delay("a", 2)
    heard = Notes()
    store = opened(log, queue_of(log, 2, at, T0 + 1000 + 7000))
    assert module.level_delays(store, heard) == {1: 1000, 2: 7000, 3: 60_000}
    assert heard.lines == ["level 2 is 7000 ms by its queue; messageDelayLevel says 5000"]
    for wrong in (0, 1, 1 << 40):  # another message's place, none's, one past the log
        store = opened(log, queue_of(log, 2, wrong, 12))
        assert module.level_delays(store, Notes())[2] == 5000


def queue_of(log: SmallLog, level: int, place: int, due: int) -> dict[str, bytes]:
    entry = np.array([(place, 100, due)], QUEUE_ENTRY)
    return {f"store/consumequeue/{SCHEDULE}/{level - 1}/{0:020d}": entry.tobytes() + bytes(40)}


def test_what_is_committed_with_a_delay_level_goes_through_the_schedule_topic() -> None:
    log = SmallLog()
    half = log.half("a")
    log.delay("a", 1, sys_flag=8, prepared_transaction_offset=half)
    log.op(b"0,")
    log.deliver("a", sys_flag=8)
    files = {"store/config/delayOffset.json": b'{"offsetTable":{1:1}}'}
    steps = module.message_events(opened(log, files), "a", "", None, Notes())
    assert [step.event for step in steps] == ["half", "committed", "delayed", "op", "delivered"]


def test_a_retry_is_found_by_the_id_of_the_message_that_was_sent() -> None:
    log = SmallLog()
    log.put("%RETRY%shop", 0, ("ORIGIN_MESSAGE_ID", "7F00000100002A9F0000000000000000"))
    log.put("Orders", 0, ("UNIQ_KEY", "x"))
    steps = module.message_events(
        opened(log), "", "7F00000100002A9F0000000000000000", None, Notes()
    )
    assert [step.event for step in steps] == ["retried"]
    assert module.message_events(opened(log), "unknown", "", None, Notes()) == []


def store_of(built: Built) -> OpenedStore:
    return OpenedStore(Folder(built.storage(), "s"), NEWEST, built.given(), Notes())


WAITS = {"topic": SCHEDULE, "properties": properties(("REAL_TOPIC", "T"), ("REAL_QID", "0"))}


@pytest.mark.parametrize(("first", "later", "removed", "waiting"), [
    ({}, {}, "", (0, 0)), ({}, {}, "index", (0, 0)),
    ({}, WAITS, "", (1, 0)),  # not in its queue yet
    (WAITS, {}, f"consumequeue/{SCHEDULE}", (1, 0)),  # its queue is gone
    ({"sys_flag": 4}, {}, "", (0, 1))  # as before 4.3.0
    ])  # fmt: skip
def test_no_log_is_read_where_the_other_topics_queues_have_all_of_it(
    first: dict[str, Any], later: dict[str, Any], removed: str, waiting: tuple[int, int]
) -> None:
    built = Built().put("T", count=9, keys="k").put(**first).put("T", count=9, keys="k").derive()
    if later:
        built.put(**later)
    built.remove(removed)
    heard, every = Notes(), Notes()
    rows = module.delayed_rows(store_of(built), False, heard)
    assert (len(rows), len(module.transaction_rows(store_of(built), False, Notes()))) == waiting
    assert (heard.to_scan > 0) == any(waiting)
    assert module.delayed_rows(store_of(built), True, every) == rows
    assert every.to_scan > 0


# --- The sums of fates are those of the lists, from one walk over the log in place of two.
@pytest.mark.parametrize("name", ["live_5.3.3", "live_4.9.7", "skipped_5.2.0"])
def test_sums_are_those_of_the_lists(name: str, tmp_path: Path) -> None:
    store = str(unpack(name, tmp_path)[0])
    with open_store(store) as asked:
        transactions, delayed = asked.transactions(everything=True), asked.delayed(everything=True)
        open_transactions, open_delayed = list(asked.transactions()), list(asked.delayed())
    with OpenedStore(Folder(LocalStorage(), store), NEWEST, {}, Notes()) as opened:
        gathered = module.gather_shown(opened, any_fate, Notes())
        found = module.fate_sums(opened, 1000, Notes(), gathered)
        few = module.fate_sums(opened, 1, Notes(), gathered)
    assert found.transactions == Counter(row.state for row in transactions)
    assert found.delayed == Counter((row.by, row.state) for row in delayed)
    assert found.open_transactions == open_transactions
    assert found.open_delayed == open_delayed
    assert transactions or delayed
    assert few.transactions == found.transactions
    assert few.open_delayed == open_delayed[:1]
