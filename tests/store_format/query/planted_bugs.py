# ruff: noqa: E501 - a line of source is quoted whole
"""One planted bug for each rule of a query (tests/mutants.py plants them)."""

from functools import partial

from tests.planting import Bug, only

_KEY, _QUEUE = "store_format/query/by_key.py", "store_format/query/by_queue.py"
_GAPS, _OPEN = "store_format/query/gaps.py", "jobs/opening/open_store.py"


messages = partial(only, "tests/jobs/opening/test_open_store.py")
bad = partial(only, "tests/store_format/query/test_bad_files.py")
many = partial(only, "tests/store_format/query/test_by_keys.py")


_SWEEP, _WANTED = "store_format/derived/index_sweep.py", "store_format/query/wanted_keys.py"

BUGS = (
    Bug("a hit's key is compared as text", _OPEN + "::Store.query",
        "each.topic == topic and each.has_key(key) and (", "(", bad("point_elsewhere")),
    Bug("times of a key query are exact, both ends within", _KEY + "::within",
        "(begin is None or time >= begin)", "(begin is None or time > begin)", messages("times_of_a_key")),
    Bug("messages come in the log's order", _KEY + "::by_key",
        "places = sorted(place for place in found", "places = list(place for place in found",
        messages("logs_order")),
    Bug("a cut answer is reported", _KEY + "::newest",
        '        notes.note(f"cut: the newest {most} of {many}")', "        pass", messages("limit")),
    Bug("of a key the newest are kept", _KEY + "::newest", "deque[StoredMessage](maxlen=most)",
        "deque[StoredMessage]()", messages("limit")),
    Bug("the log behind the index is read", _GAPS + "::_index_gaps",
        "return gaps if start is None else [*gaps, (start, log.end)]", "return gaps", messages("index_behind")),
    Bug("a full index file may lack keys of its last message", _GAPS + "::_index_gaps",
        "        covered = max(last, log.start)", "        pass", messages("index_behind")),
    Bug("a queue file that was cut is reported", "store_format/derived/queue_reader.py::QueueReader.refuse_cut",
        "if size % self._files.entry_bytes or size < usual:", "if False:", messages("cut_short")),
    Bug("a queue without entries may have lost them", "store_format/derived/queue_reader.py::QueueReader.may_be_cut",
        "        if not self.files:\n            return True", "        if not self.files:\n            return False",
        messages("cut_short")),
    Bug("an entry's message is one of its queue", _QUEUE + "::_entries",
        "if (message.topic, message.queue_id) == (topic, queue_id) or _dispatched(message, topic):", "if True:",
        bad("queue_entries")),
    Bug("a broker's id names its host", "store_format/query/by_id.py::_at",
        "return record if record.store_host == wanted.store_host else None", "return record",
        messages("by_its_ids")),
    Bug("a broken index is not all there is", _KEY + "::by_key",
        "gaps, places = [(store.log.start, store.log.end)], []", "gaps, places = [], []", bad("chain")),
    Bug("damage in the log is reported", "store_format/query/log_scan.py::scan",
        'notes.note(\n                    f"{error}', 'str(\n                    f"{error}', bad("damage_in_the_log")),
    Bug("a topic's name is text that a terminal can take", "jobs/query.py::_table_shown",
        'where = safe(f"{message.topic}/{message.queue_id}")', 'where = f"{message.topic}/{message.queue_id}"',
        bad("control")),
    Bug("a body with a wrong CRC is reported", "jobs/console/body_text.py::body_of",
        "if body and zlib.crc32(body) & 0x7FFFFFFF != record.body_crc:", "if False:", bad("decompressed")),
    Bug("rows that hold a text are found after each other", "store_format/query/log_scan.py::_rows_with",
        "found = raw.find(needle, int(starts[number + 1]))", "found = -1", messages("logs_order")),
    Bug("a fastjson file may have keys without quotes", "store_format/discover/config_folder.py::config_table",
        "json.loads(quoted_keys(raw))", "json.loads(raw)", ("tests/store_format/query/test_inventory.py", "-k", "lag")),
    Bug("numbers of a single record are signed", "store_format/log/record_rules.py::get_i16",
        'return int.from_bytes(buf[at : at + 2], "big", signed=True)', 'return int.from_bytes(buf[at : at + 2], "big")',
        ("tests/store_format/log/test_one_record.py",)),
    Bug("an index entry for a message without the key is reported", _KEY + "::note_if_wrong",
        "    if not any(key_hash(", "    if False and any(key_hash(", bad("point_elsewhere")),
    Bug("of millions of skipped places only the first are reported", "store_format/notes.py::Notes.skip",
        "if self._skipped < _SKIPPED_MOST:", "if True:", bad("very_many")),
    Bug("an option that is not obeyed is refused", "jobs/console/query_words.py::refuse_words",
        "    if unheeded:", "    if False:", bad("wrong_usage")),
    Bug("queue 0 is a queue", "jobs/console/query_words.py::refuse_words",
        "if value is not None and value is not False}", "if value}", bad("wrong_usage")),
    Bug("a rolled back message has no keys", _KEY + "::by_key", "if indexed and within(", "if within(", messages("rolled_back")),
    Bug("nor has it one of many keys", _WANTED + "::_judge", "if not _reaches_index(row.sysFlag):", "if False:",
        messages("rolled_back")),
    Bug("a window that is judged meanwhile is not written over", "store_format/log/reader.py::LogReader.steps",
        "                        walk.use(buffers)", "                        pass", ("tests/store_format/query/test_all_cores.py",)),
    Bug("what is raised while windows are judged comes behind them", "store_format/query/all_cores.py::judged_steps",
        "                    raise judged", "                    return", ("tests/store_format/query/test_all_cores.py",)),
    Bug("a chain that leaves a block waits at the block it leads to", _SWEEP + "::_follow",
        "waiting[number // size] = chain", "waiting[here - 1] = chain", many("small_blocks")),
    Bug("hits that do not fit are handed over, and the chain goes on", _SWEEP + "::_follow",
        "heads[chain] = number\n                    return _FULL, count", "return _FULL, count",
        many("small_blocks")),
    Bug("a chain that leads forward is reported", _SWEEP + "::_follow", "if not 0 <= previous < number:\n                return _BAD, chain",
        "if not 0 <= previous < number:\n                previous = 0", many("chains_of_any")),
    Bug("of many keys too a hit's key is compared as text", _WANTED + "::_one_of",
        "length == end - at and same_bytes(buf, at, tables.keys, start + skipped, length)", "True",
        many("strange_bytes")),
    Bug("a message of another topic does not have the key", _WANTED + "::_judge",
        "if row.topicLength != len(topic) or not same_bytes(\n            window, row.topicAt, topic, 0, len(topic)\n        ):",
        "if False:", many("strange_bytes or finds_alone")),
    Bug("a message's tags are one of many keys only behind T#", _WANTED + "::_one_of",
        "if skipped and not tables.tagged[number]:", "if False:", many("strange_bytes")),
    Bug("bytes that are not UTF-8 are left to Java's decoder", _WANTED + "::_one_of", "verdict = _ASK", "pass", many("strange_bytes")),
    Bug("records longer than what is read of them are read alone", "store_format/log/many_records.py::records_at",
        "others = np.concatenate([places[some][~inside[some]], asked[~whole]])",
        "others = places[some][~inside[some]]", many("strange_bytes")),
    Bug("of many keys those without a message are named", "jobs/query.py::_by_keys", "    if found.missing:", "    if False:",
        many("file_of_keys")),
    Bug("a scan finds tags that are asked for as the index has them", _KEY + "::by_key",
        "key.removeprefix(TAGS_KEY)", "key", many("strange_bytes")),
)  # fmt: skip
