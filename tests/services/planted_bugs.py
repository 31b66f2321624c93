# ruff: noqa: E501 - a line of source is quoted whole
"""Bugs in the services done as jobs, and in the writer's; each must turn one of these tests red."""

from __future__ import annotations

from tests.planting import Bug

_DUE, _DELIVER = "store_format/services/due.py", "store_format/services/deliver.py"
_WHEEL, _JSON = "store_format/services/timer_log.py", "store_format/services/broker_json.py"
_RESOLVE, _HOOKS = "store_format/services/resolve.py", "store_format/message/hooks.py"
_LOG, _ADMISSION = "store_format/writer/commit_log.py", "store_format/writer/admission.py"
_DELIVERED = ("tests/services/test_deliver.py",)
_RESOLVED = ("tests/services/test_resolve.py", "-k", "not crash")
_TIMERS = ("tests/message/test_timers.py",)
_WRITER = ("tests/writer/test_services.py",)

BUGS: tuple[Bug, ...] = (
    Bug("resolve: from 5.4.0 on what is committed has no REAL_TOPIC", "store_format/writer/transactions.py",
        "        left_out = () if self.writer.profile.commit_keeps_place else _REAL_PLACE", "        left_out = ()", _RESOLVED),
    Bug("deliver: a timer that is long late gets a slot", _WHEEL,
        "            write = max(min(ticks, slot), slot - _DELAY_MAX)", "            write = ticks", _DELIVERED),
    Bug("deliver: what is no file of timerlog is named", _WHEEL,
        "                parse_segment_name(name)", "                pass", _DELIVERED),
    Bug("deliver: what the log shows as delivered is not due", _DUE,
        "        over = each.state == State.REPEATED", "        over = False", _DELIVERED),
    Bug("deliver: a level stops at the first that is not due", _DUE,
        "        elif levels.get(level) is not None or not (", "        elif not (", _DELIVERED),
    Bug("deliver: what was recalled is not delivered", _DUE,
        "if not over and not each.recalled:", "if not over:", _DELIVERED),
    Bug("deliver: recalls stay in the wheel", _DUE,
        "        wheel += _recalls(gathered, read, until)", "        pass", _DELIVERED),
    Bug("deliver: no broker is told to be ahead of its clock", _DUE,
        "return min(self.tick, self.now - self.now % self.precision)", "return self.tick", _DELIVERED),
    Bug("deliver: what a broker skipped is wanted only where it is asked for", _DUE,
        "if until.missed and each.state == State.NEVER:", "if each.state == State.NEVER:", _DELIVERED),
    Bug("deliver: a message that is refused holds its level", _DELIVER,
        "                held.add(each.level)", "                pass", _DELIVERED),
    Bug("deliver: the offset stays at the first that is left", _DELIVER,
        "for each in reversed(left):", "for each in left:", _DELIVERED),
    Bug("deliver: the half topic is no place to deliver to", _DELIVER,
        "    if topic == HALF_TOPIC:", "    if False:", _DELIVERED),
    Bug("deliver: a timer that never was in the wheel says so", _DELIVER,
        "_NEVER_IN_WHEEL if written is None else written", "until.now if written is None else written", _DELIVERED),
    Bug("deliver: the last unit is of the topic's last message", _WHEEL,
        "    _fill(units[-1], last, read, read, TIMER_DEFAULT)", "    units = units[:-1]", _DELIVERED),
    Bug("deliver: what waits longer than the window is rolled", _WHEEL,
        "    if ahead < window:", "    if True:", _DELIVERED),
    Bug("deliver: units of a slot are a chain", _WHEEL,
        "        latest[slot] = position", "        pass", _DELIVERED),
    Bug("deliver: a unit keeps when it was written", _WHEEL,
        "write = ticks if each.written is None else each.written", "write = ticks", _DELIVERED),
    Bug("deliver: the old wheel goes", _WHEEL,
        "        files.remove(name)\n    files.sync_folder(\"\")\n    if files", "        pass\n    files.sync_folder(\"\")\n    if files",
        _DELIVERED),
    Bug("deliver: what was in the broker's file stays in .bak", _JSON,
        "for name, content in ((path + _BACKUP, before), (path, text)):", "for name, content in ((path, text),):", _DELIVERED),
    Bug("deliver: integer keys have no quotes", _JSON,
        "key[len(_MARK) :] if _MARKED.fullmatch(key) else json.dumps(key)", "json.dumps(key)", _DELIVERED),
    Bug("resolve: an op names the copies that a broker would check", _RESOLVE,
        "        offsets |= {offset for offset in each.open_offsets if offset >= self._half_position}", "        pass", _RESOLVED),
    Bug("resolve: a commit without its op gets it", _RESOLVE,
        "                plan.unfinished.append(each)", "                pass", _RESOLVED),
    Bug("resolve: what was checked too often is discarded", _RESOLVE,
        "each.checks >= checks_most", "each.checks > checks_most", _RESOLVED),
    Bug("resolve: what was given up stays so unless it is asked for", _RESOLVE,
        "elif each.state in _GIVEN_UP and not (discarded or named):", "elif False:", _RESOLVED),
    Bug("resolve: an op has one offset up to 5.0.0", _RESOLVE,
        "writer.settings.transaction_op_msg_max_size if lists else 1", "writer.settings.transaction_op_msg_max_size", _RESOLVED),
    Bug("resolve: the broker goes on at the first that is pending", _RESOLVE,
        "    position = min((offset for offset in still if offset >= before), default=end)", "    position = end", _RESOLVED),
    Bug("resolve: a name is that of one transaction", _RESOLVE,
        "self._open.setdefault(key, each.first) != each.first:", "False:", _RESOLVED),
    Bug("resolve: a commit is of the newest copy", _RESOLVE,
        "        record = stored_at(store.log, each.last)", "        record = stored_at(store.log, each.first)", _RESOLVED),
    Bug("timers: a time that is a tick counts as the one before", _HOOKS,
        "return due - (due % rules.precision or rules.precision)", "return due - due % rules.precision", _TIMERS),
    Bug("timers: what is due already goes to its own topic", _HOOKS,
        "    if due <= now:", "    if due < now:", _TIMERS),
    Bug("timers: seconds count before milliseconds", _HOOKS,
        "    if _SECONDS in properties:", "    if _SECONDS in properties and _MILLISECONDS not in properties:", _TIMERS),
    Bug("writer: only so many segments wait in memory", _LOG,
        "            if len(self._waiting) >= self._buffers:", "            if False:", _WRITER),
    Bug("writer: a full segment gives its buffer back", _LOG,
        "            self._waiting.popleft()", "            break", _WRITER),
    Bug("writer: nothing is taken where the disk is full", _ADMISSION,
        "self._files.used_share() > self._ratio", "False", _WRITER),
    Bug("writer: nothing is taken while another is on its way for long", _ADMISSION,
        "if began and self._busy_after", "if False and self._busy_after", _WRITER),
    Bug("writer: queues are flushed by pages", "store_format/writer/queue_files.py",
        "if high // OS_PAGE_BYTES - low // OS_PAGE_BYTES >= least_pages:", "if True:", _WRITER),
    Bug("writer: locked pages are let go of", _LOG,
        "        self._locked.pop(segment, lambda: None)()", "        pass", _WRITER),
)  # fmt: skip
