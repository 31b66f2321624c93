# ruff: noqa: E501 - a line of source is quoted whole
"""Bugs in telling what became of messages; each must turn one of these tests red."""

from __future__ import annotations

from tests.planting import Bug

_MARKS, _GATHER = "store_format/fate/marks.py", "store_format/fate/gather.py"
_TRANSACTIONS, _DELAYS = "store_format/fate/transactions.py", "store_format/fate/delays.py"
_TRACE, _ANSWERS = "store_format/fate/trace.py", "store_format/fate/fate_rows.py"
_IN_LOGS = (
    "tests/store_format/fate/test_transactions.py",
    "tests/store_format/fate/test_delays.py",
)
_ROWS = ("tests/store_format/fate/test_fate_rows.py",)

BUGS: tuple[Bug, ...] = (
    Bug("fate: half messages in RocksDB's topic are half messages", _TRANSACTIONS + "::resolve",
        'np.isin(marks["kind"], (HALF, ROCKSDB_HALF)) | prepared', '(marks["kind"] == HALF) | prepared',
        (*_IN_LOGS, "tests/broker/change/test_expire.py")),
    Bug("fate: their op messages name a place in the log", _MARKS + "::_name_half",
        "    mark.prepared = place if good else NONE", "    mark.prepared = NONE", _IN_LOGS),
    Bug("fate: and the key of the half message", _MARKS + "::_name_half",
        "    mark.key = _text(buf, spans, _TRANSACTION_ID)", "    pass", _IN_LOGS),
    Bug("fate: a trace by the index finds them too", "store_format/fate/gather_few.py::gather_few",
        "    marks += _ops_of_places(log, marks, op_queue, split)", "    pass", ("tests/store_format/fate/test_lived.py",)),
    Bug("fate: a delivery has the attempt of what waited", _MARKS + "::mark_records",
        "get_i32(buf, middle + MIDDLE_AT.reconsumeTimes)", "0", _IN_LOGS),
    Bug("fate: a REAL_QID that is no number is named", _MARKS + "::_where_to",
        "        mark.flaws |= BAD_REAL_QID", "        pass", _IN_LOGS),
    Bug("fate: a record without a UNIQ_KEY has none of another", _MARKS + "::mark_records",
        "        if spans[_UNIQ_KEY, 0] >= 0:\n            home", "        if True:\n            home",
        _IN_LOGS),
    Bug("fate: an op names several half messages", _GATHER + "::op_offsets",
        'parts = body.split(b",")', 'parts = body.split(b",")[:1]', _IN_LOGS),
    Bug("fate: an op message has the tag d", _GATHER + "::named_by_op",
        "    if _REMOVE not in _PAIR_END + properties + _PAIR_END:", "    if False:", _IN_LOGS),
    Bug("fate: damage does not end the answer silently", _GATHER + "::gather",
        "            breaks.append(error)", "            pass", _IN_LOGS),
    Bug("fate: an op without a commit is a rollback", _TRANSACTIONS + "::_transaction",
        "state, end = TransactionState.ROLLED_BACK, op", "state, end = TransactionState.COMMITTED, op", _IN_LOGS),
    Bug("fate: a commit is of the message at its place", _TRANSACTIONS + "::_by_place",
        '        same = (halves["physicalOffset"][at] == ends["prepared"]) & (',
        '        same = (halves["physicalOffset"][at] != NONE) & (', _IN_LOGS),
    Bug("fate: a message sent twice is two transactions", _TRANSACTIONS + "::_of_one_key",
        "        if checks > 0:", "        if chains:", _IN_LOGS),
    Bug("fate: an op names the newest message before it", _TRANSACTIONS + "::_newest_before",
        'np.lexsort((np.concatenate([places, later["physicalOffset"]]), both))',
        'np.lexsort((np.concatenate([places, later["physicalOffset"] * 0]), both))', _IN_LOGS),
    Bug("fate: what the producer said counts more than a discard", _TRANSACTIONS + "::_transaction",
        "    elif op != NONE:", "    elif op != NONE and drop == NONE:", _IN_LOGS),
    Bug("fate: only what the broker has gone past was never delivered", _DELAYS + "::resolve",
        "offset < read.levels.get(level, 0)", "offset <= read.levels.get(level, 0)", _IN_LOGS),
    Bug("fate: a delivery stands behind what waited", _DELAYS + "::_deliveries",
        "pairs = starts[two][~delivered[starts[two]] & delivered[starts[two] + 1]]",
        "pairs = starts[two]", _IN_LOGS),
    Bug("fate: a timer that is put back is one message", _DELAYS + "::_deliveries",
        '            if marks["rolled"][i] and waiting:', "            if False:", _IN_LOGS),
    Bug("fate: a running broker's log may lack a delivery", _DELAYS + "::_state",
        "    return DelayState.NEVER if sure else DelayState.UNSURE", "    return DelayState.NEVER", _IN_LOGS),
    Bug("fate: a timer is due before what the wheel has read", _DELAYS + "::_wheel_passed",
        "due < read.timer_read", "due <= read.timer_read", _IN_LOGS),
    Bug("fate: a level's queue shows its delay", _ANSWERS + "::level_delays",
        "            found[level] = shown", "            pass", _ROWS),
    Bug("fate: an entry of another message shows no delay", _ANSWERS + "::_shown_delay",
        "    if record.topic != _SCHEDULE or record.queue_id != level - 1:", "    if False:", _ROWS),
    Bug("fate: what is put back into %RETRY% is retried", _TRACE + "::_at_home",
        "    if record.topic.startswith(RETRY_PREFIX):", "    if False:", _ROWS),
    Bug("fate: what is committed with a delay is not yet delivered", _TRACE + "::_events",
        "record.transaction == SYS_TRANSACTION_COMMIT and not waiting.get(home)",
        "record.transaction == SYS_TRANSACTION_COMMIT", _ROWS),
    Bug("fate: ops are read where the queue has them", "store_format/fate/gather_few.py::_position_after",
        "            high = middle\n", "            low = middle + 1\n",
        ("tests/store_format/fate/test_lived.py", "tests/jobs/test_fates.py")),
    Bug("fate: a queue of ops that lacks some is not believed", _ANSWERS + "::_gathered_few",
        "        if queue_gap(store, [queue], notes) is not None:", "        if False:",
        ("tests/jobs/test_fates.py",)),
)  # fmt: skip
