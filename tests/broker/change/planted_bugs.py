# ruff: noqa: E501 - a line of source is quoted whole
"""One planted bug for each rule of catch-up, expiry and statistics (tests/mutants.py plants them)."""

from functools import partial

from tests.planting import Bug, only

_CATCH, _POSITION = "broker/change/catch_up.py", "broker/change/position.py"
_NEW = "broker/change/new_messages.py"
_QUEUES = "broker/writer/queue_writer.py"
_RATIOS = "store_format/release/expiry_settings.py"
_EXPIRE, _NEEDED = "broker/change/expire.py", "jobs/in_place/needed_messages.py"
_ENGINE, _COUNTS = "jobs/in_place/catch_up_store.py", "store_format/query/counts.py"

KILLS = ("tests/broker/change/test_catch_up.py", "-m", "not long", "-k", "kill")
INDEX = ("tests/broker/change/test_catch_up.py", "-k", "index or skipped")
REFUSED = ("tests/broker/change/test_catch_up.py", "-k", "refused")
GOLDEN = ("tests/jobs/test_catch_up.py", "-m", "not long", "-k", "golden")
LACKS = ("tests/jobs/test_catch_up.py", "-k", "lacks")
JOB = ("tests/jobs/test_catch_up.py", "-m", "not long", "-k", "not golden")


expiry = partial(only, "tests/broker/change/test_expire.py")


COUNTED = ("tests/store_format/query/test_counts.py",)

BUGS = (
    # catch-up: the bytes
    Bug("keys of the last message may lie in two index files", "broker/writer/index_folder.py::IndexFolder.count_held",
        "                    held += 1", "                    held += about is headers[-1]", GOLDEN),
    Bug("a queue goes on at its next place in the files", "store_format/derived/queue_reader.py::QueueReader.entries_end",
        "return self._files.position(file, used)", "return self._files.position(file, used - 1)", GOLDEN),
    Bug("a skipped entry opens the file after a full one", _QUEUES + "::QueueWriter._append_run",
        "        if skipped_last and self.writes:", "        if False:", INDEX),
    Bug("the index goes on from its own end, if it is before the queues'", _CATCH + "::CatchUp._dispatch",
        "        if position.index_from < position.queues:", "        if False:", INDEX),
    Bug("a queue that is gone stays gone", _CATCH + "::CatchUp._dispatch",
        "rules, None, index, position.index_from).run(", "rules, self.queues, index, position.index_from).run(", INDEX),
    # catch-up: that it belongs to this log
    Bug("the record of a queue's last entry stands in this log", _POSITION + "::_check_queue",
        '        raise bad("physicalOffset", queue.greatest_offset, "no sound record stands there")',
        "        return 0", REFUSED),
    Bug("the index ends at the time of its last message", _POSITION + "::_check_index",
        "    if header.end_timestamp != record.timestamp:", "    if False:", REFUSED),
    Bug("live records behind a fault are refused before a change", _NEW + "::find_new",
        "    if not growing and not _ends_in_zeros(log, new.ahead):", "    if False:", REFUSED),
    Bug("segments behind zeros are looked at", _NEW + "::_ends_in_zeros",
        "        if head.any():\n            return False", "        if False:\n            return False", REFUSED),
    Bug("a queue that has lost its last file is named", _NEW + "::_Sorting.__call__",
        "                if end is not None and int(out.runs.first[number]) > end.entries:", "                if False:", JOB),
    Bug("a queue that has lost its folder is named", _NEW + "::_find_lost",
        "for key, first in sorting.firsts.items() if first > 0}", "for key in ()}", LACKS),
    Bug("a queue whose file is zeroed is named", "store_format/derived/queue_reader.py::QueueReader.may_be_cut",
        "return entries.used() in (0, ", "return entries.used() in (-1, ", only("tests/store_format/derived/test_queue_reader.py", "may_have_had")),
    Bug("what a topic had before it was deleted is not lost", _NEW + "::_find_lost",
        " & (offsets < before)]", "]", only("tests/broker/change/test_new_messages.py", "not_reached_yet")),
    Bug("a folder that is no writer's is not emptied", "broker/writer/index_folder.py::IndexFolder.remove_staged",
        "                parse_index_name(name)\n            except ValueError as error:\n                raise StoreError(f\"{STAGED", "                pass\n            except ValueError as error:\n                raise StoreError(f\"{STAGED", JOB),
    Bug("a killed catch-up goes on only with consent", _ENGINE + "::_noted",
        "    refuse_shared_derived(held.path)\n    confirm(", "    refuse_shared_derived(held.path)\n    str(", JOB),
    # catch-up: killed
    Bug("a note says where the queues ended", _CATCH + "::CatchUp._write_note",
        '            "queues": new.position.queues,', '            "queues": new.ahead.end,', KILLS),
    Bug("the index has its mark before abort is there", _CATCH + "::CatchUp.guard",
        "            self.index.protect()", "            pass", KILLS),
    Bug("a catch-up removes its note last", _CATCH + "::CatchUp._finish",
        '        self.files.remove(ABORT)\n        self.files.sync_folder("")\n        if self._indexes:',
        "        if self._indexes:", KILLS),
    Bug("a killed catch-up is known by both checkpoints", _CATCH + "::CatchUp._write_note",
        "for known in (now, after)", "for known in (now, now)", KILLS),
    # catch-up: in a store
    Bug("a queue file with a second name is not written to", _ENGINE + "::_refuse_links",
        "            refuse_second_name(f\"{store}/{path}\")", "            pass", JOB),
    Bug("what a killed run prepared is no second name", _ENGINE + "::catch_up_in_place",
        "        catching.index.folder.remove_staged()", "        pass", JOB),
    Bug("no queue is written through a link", _ENGINE + "::_refuse_links",
        "        if files.exists(folder) and not files.is_folder(folder):", "        if False:", JOB),
    Bug("a record that is copied in part waits", _NEW + "::find_new",
        "    if not settled and ahead.fault", "    if False and ahead.fault", JOB),
    # expiry
    Bug("the last segment never expires", _EXPIRE + "::expired_segments",
        "    for segment in segments[:-1]:", "    for segment in segments:", expiry("ten_segments")),
    Bug("ten segments a run", _EXPIRE + "::expired_segments",
        "        if len(going) == settings.delete_file_batch_max or not", "        if not", expiry("ten_segments")),
    Bug("over 85% segments of any age go", _EXPIRE + "::expired_segments",
        "not (expired or at.of_any_age)", "not expired", expiry("ten_segments")),
    Bug("the queues' disk counts too", _EXPIRE + "::occasion",
        "        for share in used:\n            if share > forced / 100:",
        "        for share in used[:1]:\n            if share > forced / 100:", expiry("either_disk")),
    Bug("before 5.0.0 a full disk alone deletes nothing", _EXPIRE + "::occasion",
        "    if profile.full_disk_deletes:", "    if True:", expiry("before_5_0_0")),
    Bug("a broker keeps its ratios in bounds", _RATIOS + "::_within",
        "min(max(ratio, least), most)", "ratio", expiry("any_age")),
    Bug("what stops messages deletes files of any age too", _RATIOS + "::ExpirySettings.forced",
        "_within(self.disk_space_warning_level_ratio, _WARNING)", "_WARNING[1]", expiry("any_age")),
    Bug("what a group has not read stays", _NEEDED + "::_unread",
        "            if first is not None:", "            if False:", expiry("not_read")),
    Bug("a queue without an offset was not read", _NEEDED + "::_unread",
        "read.get(queue_id, 0)", "read.get(queue_id, 1 << 60)", expiry("no_offset")),
    Bug("what the queues do not have yet was not read", _NEEDED + "::_not_in_queues",
        "    if first is not None:", "    if False:", expiry("no_offset")),
    Bug("an unread message behind expired ones stays", _NEEDED + "::_first_there",
        '        live = np.flatnonzero(entries["physicalOffset"] >= log_start)', "        live = [0]", expiry("behind_expired")),
    Bug("offsets in a RocksDB that cannot be read are not known", "store_format/discover/config_folder.py::config_table",
        'notes.note(f"{error}; a broker reads it in place of {file}")', "pass", expiry("offsets_that_are_none")),
    Bug("what pop consumers hold in RocksDB is not known", _NEEDED + "::_unread",
        "    if has_rows(opened.storage, folder):", "    if False:", ("tests/store_format/discover/test_databases.py",)),
    Bug("a RocksDB that was only opened is quiet", "store_format/release/foreign_files.py::holds_rows",
        'name.endswith(".log") and length > 0', 'name.endswith(".log")', ("tests/store_format/discover/test_databases.py",)),
    Bug("timers that RocksDB may hold are not delivered", "jobs/deliver_delayed.py::deliver_delayed",
        "        if any(each.level == 0 for each in planned.due) and has_rows(", "        if False and has_rows(",
        ("tests/store_format/discover/test_databases.py",)),
    Bug("who knows not what is unread deletes nothing", _NEEDED + "::needed",
        "        if notes.lines:", "        if False:", expiry("not_read")),
    Bug("what a group is to get again stays", _NEEDED + "::_unread",
        '        asked.setdefault((group, f"{RETRY_PREFIX}{group}"), {})', "        pass", expiry("get_again")),
    Bug("pending half messages stay", _NEEDED + "::_waiting", "        if halves:", "        if False:", expiry("waits_stays")),
    Bug("delayed messages stay", _NEEDED + "::_waiting", "        if rows:", "        if False:", expiry("delayed")),
    Bug("what is needed since the question stays", "jobs/in_place/expire_store.py::expire_store",
        "    if held.lock_at_last():", "    if held.lock_at_last() and False:",
        ("tests/jobs/in_place/test_expire_store.py", "-k", "since_the_question")),
    Bug("a queue file goes only with its last message", _EXPIRE + "::_of_queue",
        "        if last >= log_start:", "        if False:", expiry("not_before")),
    Bug("what is no queue file is named", _EXPIRE + "::_of_queue",
        "            parse_segment_name(name)", "            pass", expiry("no_queue_file")),
    Bug("a queue file has the settings' length", _EXPIRE + "::_last_place",
        "        if file.length() != usual:", "        if False:", expiry("another_length")),
    Bug("an archive's folders do not lead back into the store", "jobs/in_place/archive.py::Archive.check",
        "for each in folders)):", "for each in ())):", expiry("link_into")),
    Bug("a copy is compared before anything goes", "jobs/in_place/archive.py::Archive.keep",
        "            if there != wanted:\n                raise StoreChanged", "            if False:\n                raise StoreChanged",
        expiry("wrong_copy")),
    # statistics
    Bug("a record of several messages counts as so many", _COUNTS + "::_count_rows",
        "                messages = number", "                messages = 1", COUNTED),
    Bug("a retried message counts for its consumers", _COUNTS + "::_count_rows",
        "for begin, stop in ((at, end), (real, real_end)):", "for begin, stop in ((real, real_end),):", COUNTED),
    Bug("an hour begins on the hour", _COUNTS + "::CountSums.add",
        "hours = times // self.span * self.span", "hours = times", COUNTED),
)  # fmt: skip
