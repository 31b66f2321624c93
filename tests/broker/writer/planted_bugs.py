# ruff: noqa: E501 - a line of source is quoted whole
"""Bugs to plant in the writer, each with the tests that must turn red.

`python -m tests.broker.writer.planted_bugs` plants one after the other in a copy of the tree.
"""

import sys

from tests import planting


def Bug(name: str, module: str, sound: str, broken: str, tests: str) -> planting.Bug:
    """A bug in a module of broker/writer, or in one that is named from the root on.

    tests: files of tests/broker/writer, of a named folder of tests/store_format, or from the root
    on, and perhaps -k.
    """
    names, _, expression = tests.partition(" -k ")
    words = [
        name if name.startswith("tests/")
        else f"tests/store_format/{name}" if "/" in name
        else f"tests/broker/writer/{name}"
        for name in names.split()
    ]  # fmt: skip
    words += ["-k", expression.replace("_or_", " or ")] if expression else []
    module, _, function = module.partition("::")
    path = module if "/" in module else f"broker/writer/{module}"
    return planting.Bug(name, f"{path}.py::{function}", sound, broken, tuple(words))


_CRASH = "test_crash.py -k crash_anywhere"
BUGS = (
    Bug("the log is not synced", "commit_log::CommitLog.sync", "                    file.sync()\n                    self.syncs",
        "                    self.syncs", _CRASH),
    Bug("a new segment's name is not synced", "commit_log::CommitLog._create",
        "        self.files.sync_folder(COMMIT_LOG)\n", "        pass\n", _CRASH),
    Bug("a kill leaves a segment without its length", "commit_log::CommitLog._create",
        "self.files.create_zeros(_path(segment), self.segment_bytes)) as file:\n",
        "self.files.create(_path(segment))) as file:\n            file.set_length(self.segment_bytes)\n",
        "test_commit_log.py -k without_its_length"),
    Bug("a kill leaves a queue's file without its length", "queue_writer::QueueWriter._file",
        "self.files.create_zeros(path, file_size)\n",
        "self.files.create(path)\n            file.set_length(file_size)\n",
        "test_queue_writer.py -k without_its_length"),
    Bug("what was cut stays in the segment", "log_cutter::LogCutter.cut",
        "            self._zero(segment, end)\n", "            pass\n", _CRASH),
    Bug("a queue file is shorter while it is cut", "queue_writer::QueueWriter._cut",
        "                self._zero(file, used, rest, batch)\n",
        "                file.set_length(used)\n", "test_crash.py -k while_recovering"),
    Bug("an entry that is cut loses its place before its size", "queue_writer::QueueWriter._zero",
        "        for data in (whole[: len(rest)], np.zeros", "        for data in (rest, np.zeros",
        "test_crash.py -k while_recovering"),
    Bug("a crash is not put right where only the log grows", "writer_store::OpenStore.open",
        "        self.dispatches |= crashed and", "        crashed and", "test_writer_store.py -k put_right"),
    Bug("a linked index/ is refused before anything changes", "index_writer::IndexWriter.load",
        "        self.folder.refuse_link()\n", "", "test_index_folder.py -k is_a_link"),
    Bug("index/ changes only when a file is full", "index_writer::IndexWriter.append",
        "        if full or self.indexed_to - self._covered.physical_offset >= PUBLISH_LOG_BYTES:\n",
        "        if full:\n", "test_writer_store.py -k far"),
    Bug("files are not given to the store's owner", "writer::CommitLogWriter.open",
        "DiskFiles.as_owned_by(os.stat(path), path) if there else", "", "test_owner.py"),
    Bug("the mark is called a difference", "udfs/file_comparison::CompareFiles._index",
        "        if found and _is_mark(found):", "        if False:", "test_mark.py"),
    Bug("a file for the mark alone is called a difference", "jobs/judging/verdict::_Judging.verdict",
        "and not self._holds_the_mark(path, index)", "", "test_mark.py"),
    Bug("a torn tail is taken for whole", "torn_records::first_torn", "        if row.storeTimestamp < durable_before",
        "        if True", "test_writer_store.py -k torn"),
    Bug("abort is not synced", "writer_store::OpenStore._write_abort",
        '        self.files.sync_folder("")\n', "", _CRASH),
    Bug("abort goes before queues and checkpoint are synced", "writer_store::OpenStore.finish",
        "        self.keep_checkpoint(physic_timestamp)\n        self._remove_abort()",
        "        self._remove_abort()\n        self.keep_checkpoint(physic_timestamp)",
        _CRASH),
    Bug("queues are believed after a crash", "writer_store::OpenStore.open",
        "self.queues.load(end.checked_from if crashed else end.end)", "self.queues.load(end.end)",
        _CRASH),
    Bug("the last message is not marked", "growing_index::GrowingIndex.header",
        "last = self.ended._replace(physical_offset=self.ended.physical_offset + 1)", "last = self.ended", _CRASH),
    Bug("the checkpoint vouches for what only the growing index file has", "index_writer::IndexWriter.covered",
        "        if not self._unpublished:\n            return dispatched\n", "        return dispatched\n",
        "test_writer_store.py -k not_vouch"),
    Bug("more is vouched for only after index/ has changed", "index_folder::IndexFolder.publish",
        "        before()\n        try:\n            files.exchange(STAGED_INDEX, INDEX)\n",
        "        try:\n            files.exchange(STAGED_INDEX, INDEX)\n            before()\n", _CRASH),
    Bug("what is indexed is durable first", "writer_store::OpenStore._vouch_for_index",
        "        if self.index.indexed_to >= self.log.flushed:\n            self.log.sync()\n", "", "test_crash.py -k power_lost"),
    Bug("a second sync waits for the first", "commit_log::CommitLog.sync", "        with self._syncing:\n            if", "        with threading.Lock():\n            if",
        "test_flush.py -k second_sync"),
    Bug("a sync that failed is not tried again", "commit_log::CommitLog.sync", "                self._sync_error = error\n", "", "test_flush.py -k second_sync"),
    Bug("the mark is taken off while abort is there", "writer_store::OpenStore._remove_abort",
        '        self.files.remove(ABORT)\n        self.files.sync_folder("")\n        self.index.settle()\n',
        '        self.index.settle()\n        self.files.remove(ABORT)\n        self.files.sync_folder("")\n',
        _CRASH),
    Bug("a default wins over a file", "writer::CommitLogWriter.open", "settings, found = settings_to_continue(settings, files)",
        "found = {}", "test_sizes.py -k not_given"),
    Bug("a size that is given wins over a file", "store_format/discover/sizes::_one_length", "if name in given and file.length !=",
        "if False and file.length !=", "test_sizes.py -k disagrees"),
    Bug("a fork may append", "usage_guard::UsageGuard.is_usable",
        "not self.closing and self._process == os.getpid()", "not self.closing", "test_fork.py -k nothing"),
    Bug("a fork may close", "writer::CommitLogWriter.close", "        self.guard.check_process()\n        with self.appender.lock:",
        "        with self.appender.lock:", "test_fork.py -k nothing"),
    Bug("a reopened store's checkpoint stays", "writer_store::OpenStore._note_opened", "        if self.last_timestamp:\n", "        if False:\n",
        "test_writer_store.py -k thirty"),
    Bug("callers are reported before the sync", "flush::GroupCommit._run",
        "            if written:\n                self._all_or_fail(requests, self._sync_all)\n"
        "            self._tell_before_me(requests)",
        "            self._tell_before_me(requests)\n            if written:\n"
        "                self._all_or_fail(requests, self._sync_all)",
        "test_flush.py -k reported"),
    Bug("late callers are shown by a sync that missed them", "flush::GroupCommit",
        "            self._tell_before_me(requests)\n\n    def",
        "            self._tell_before_me(requests + self._requests)\n\n    def",
        "test_flush.py -k too_late"),
    Bug("one who is reported tells nobody", "flush::GroupCommit._leave", "            if request.woken:", "            if False:",
        "test_flush.py -k behind"),
    Bug("one who waits no longer is reported, and nobody after him", "flush::_tell_next",
        "    while request is not None and request.left:", "    while False:",
        "test_flush.py -k behind"),
    Bug("the group commit thread does not wait for its turn", "flush::GroupCommit._tell_before_me",
        "        me.done.acquire(timeout=_TURN_SECONDS)\n", "", "test_flush.py -k turn"),
    Bug("the group commit thread waits for its turn for ever", "flush::GroupCommit._tell_before_me",
        "me.done.acquire(timeout=_TURN_SECONDS)", "me.done.acquire()", "test_flush.py -k keeps"),
    Bug("the group commit thread waits for one who is alone", "flush::GroupCommit._tell_before_me",
        "if len(requests) < 2 and not self._requests:", "if False:", "test_flush.py -k alone"),
    Bug("zeros are written over a record", "commit_log::CommitLog._write",
        "        if self._zeros:\n            self._write_zeros_after(self.end + len(data))\n"
        "        self._file.write_at(self.end - self._segment, data)\n",
        "        self._file.write_at(self.end - self._segment, data)\n"
        "        if self._zeros:\n            self._write_zeros_after(self.end + len(data) - 1)\n",
        _CRASH),
    Bug("zeros go past the segment's end", "commit_log::CommitLog._write_zeros_after",
        "self._zeros[: self._segment + self.segment_bytes - end]", "self._zeros", _CRASH),
    Bug("zeros that have no room are done without", "commit_log::CommitLog._write_zeros_after",
        "if error.errno not in (errno.ENOSPC, errno.EDQUOT):", "if True:",
        "test_flush.py -k no_room"),
    Bug("zeros are written before each record", "commit_log::CommitLog._write_zeros_after",
        "        if end <= self._zeroed:\n            return\n", "", "test_flush.py -k zeros"),
    Bug("a failed dispatch of one who appends is forgotten", "pace::DispatchPace.appended",
        "                self._fail(error)", "                pass", "test_pace.py -k fails"),
    Bug("the thread dispatches beside those who append", "pace::DispatchPace.look",
        "        if grown < _SLOW_BYTES or", "        if True or", "test_pace.py -k leaves"),
    Bug("dispatch reads past the log's end", "reput_service::Reput.run", "min(stop + _BEYOND_BYTES, end)",
        "(stop + _BEYOND_BYTES)", "test_pace.py -k past"),
    Bug("a failed sync is forgotten", "usage_guard::UsageGuard.fail", "        if self.error is None:\n            self.error = error",
        "        pass", "test_flush.py test_crash.py -k failed_or_fails"),
    Bug("a BLANK is forgotten", "commit_log::CommitLog.make_room", "size + BLANK_BYTES > self._segment",
        "size > self._segment", "message/test_message.py -k blank"),
    Bug("a lost sector's record CRC is not looked at", "log_recovery::LogRecovery._steps", "        if self._property_crc:",
        "        if False:", "test_writer_store.py -k record_crc"),
    Bug("further queues are forgotten", "store_format/message/encode::Encoder._draft", "        if number and self.numbering.is_on and",
        "        if False and", "message/test_message.py -k further_queues"),
    Bug("further queues do not go on", "appender::Appender._write", "                self._next.update(after)\n",
        "                pass\n", "message/test_message.py -k further_queues"),
    Bug("a light queue's id is 0", "store_format/message/multi_dispatch::Numbering._queues", "                yield name, 0\n",
        "                yield name, queue_id + 1\n", "message/test_message.py -k further_queues"),
    Bug("a late caller's record is left out", "flush::GroupCommit._write_late", "            self._write([request])\n",
        "            pass\n", "test_flush.py -k late"),
    Bug("a half message takes a queue position", "store_format/message/encode::Encoder._draft",
        "sys_flag & SYS_TRANSACTION_MASK in (0, SYS_TRANSACTION_COMMIT),", "True,",
        "test_golden_append.py -k mixed_5.3.3"),
    Bug("properties in the order given", "store_format/java/hash_map::hash_map_order", "key=lambda i: spreads[i] & (capacity - 1)",
        "key=lambda i: i", "test_half_messages.py -k brokers"),
    Bug("the lock is on another byte", "store_format/disk/local_files::DiskFiles.lock", "LOCK_NB, 1, 0)", "LOCK_NB, 1, 1)",
        "test_writer_store.py -k lock_is_held"),
    Bug("queue offsets begin anew where a queue's files are gone", "writer_store::OpenStore.learn_queues",
        "if self._known_from == self.log.start:", "if True:", "test_writer_store.py -k are_gone"),
    Bug("an 02 ends the last property of every release", "store_format/release/profiles::profile",
        'property_text_ends=not since("4.9.1") or since("5.2.0")', "property_text_ends=True",
        "release/test_profiles.py -k 02_ends"),
    Bug("bulk writes a last 02 that single appends leave out", "store_format/message/bulk_records::encode_rows",
        "                at -= 1\n", "                pass\n", "test_bulk.py -k single_appends"),
    Bug("a DELAY among the properties does not delay", "store_format/message/hooks::place_delayed",
        "level = delay_level(properties) if DELAY in properties else 0", "level = 0",
        "message/test_message.py -k delay"),
    Bug("timers are put into their own topic", "store_format/message/hooks::place_delayed",
        "        elif _TIMER_OUT not in properties:", "        elif False:",
        "message/test_hooks.py"),
    Bug("a negative queue is taken", "store_format/message/message::check_sendable", "if not 0 <= queue_id <= QUEUE_ID_MAX:",
        "if queue_id > QUEUE_ID_MAX:", "message/test_message.py -k refused"),
    Bug("a negative queue is taken in bulk", "bulk::_Bulk._sizes", "np.flatnonzero(c.queue_id < 0)",
        "np.flatnonzero(c.queue_id < -1)", "test_bulk.py -k bad_row"),
    Bug("a store takes no topics but those that a producer may name", "store_format/message/message::check_topic",
        '    raw = topic.encode("utf-8", "replace")\n',
        '    raw = topic.encode("utf-8", "replace")\n    _check_characters(topic)\n', "test_copies.py -k no_producer"),
    Bug("a producer may name any topic", "store_format/message/message::check_sendable",
        "    _check_characters(topic)\n", "", "message/test_message.py -k refused"),
    Bug("a topic that is no folder's name is taken", "store_format/message/message::check_topic",
        "        check_folder(topic)\n", "        pass\n", "test_copies.py -k no_folder"),
    Bug("a further queue that cannot be dispatched is taken", "store_format/message/encode::Encoder._to_be_numbered",
        "        self.numbering.check_folders(further)\n", "", "test_copies.py -k no_folder"),
    Bug("a further queue that no broker makes is refused", "store_format/message/multi_dispatch::Numbering.check_folders",
        "if queue is None or (self._profile.multi_dispatch_skips_slash and", "if queue is None or (False and",
        "message/test_multi_dispatch.py -k dispatched"),
    Bug("a refused row is counted from its chunk", "udfs/message_rows::append_arrow",
        "row {first_row + count + error.row}", "row {count + error.row}",
        "tests/jobs/test_append.py -k refused"),
    Bug("a column of nulls is a missing column", "udfs/message_rows::_append_batch",
        'batch["wait"].cast(pa.bool_())', 'batch["wait"]', "tests/udfs/test_message_rows.py -k nulls"),
    Bug("rows before a refused one are not counted", "udfs/message_rows::_append_singly",
        "        if done is not None:\n            done(1)\n", "", "tests/jobs/test_append.py -k refused"),
    Bug("skipped rows are counted by batch", "jobs/exporting/append_sources::_rows",
        "        first += len(batch)\n", "        first += 1\n", "tests/jobs/test_append.py -k refused"),
    Bug("a signal is only looked at after a batch", "jobs/append::Counted.add",
        "        self._stop.check()\n", "        pass\n", "tests/jobs/test_append.py -k within"),
    Bug("a signal does not end a wait for input", "jobs/spark/signals::StopSignals._note",
        "        if self._waiting:\n", "        if False:\n", "tests/jobs/test_append.py -k waits"),
    Bug("a crowded bucket does not make a table larger", "store_format/java/hash_map::hash_map_order",
        "            if sum(", "            if 0 * sum(", "message/test_message.py -k crowded"),
    Bug("a batch is parted by a segment's end", "appender::Appender._write",
        "if held + size > room:", "if held + first.size > room:", "message/test_message.py -k one_segment"),
)  # fmt: skip


def main(wanted: str = "") -> int:
    """Plant each bug whose name holds `wanted`; returns how many stayed undetected."""
    return planting.plant_all(BUGS, wanted)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
