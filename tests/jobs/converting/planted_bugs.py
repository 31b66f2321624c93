# ruff: noqa: E501 - a line of source is quoted whole
"""One planted bug for each rule of a conversion, above all where a wrong one would lose messages."""

from tests.planting import Bug

_CONVERT = ("tests/jobs/test_convert.py",)
_MERGE = ("tests/jobs/converting/test_merge.py",)
_SHARED = ("tests/jobs/converting/test_shared.py",)
_WAITS = ("tests/jobs/converting/test_what_waits.py",)
_HEADS = ("tests/store_format/log/test_dledger.py",)

BUGS = (
    Bug("what points to a half message points to its new place", "udfs/convert/write_segments.py::_Stream._put",
        "            prepared = self._records.links(prepared)", "            pass",
        (*_CONVERT, "-k", "half")),
    Bug("a moved record's __CRC32# is made anew", "store_format/convert/moved.py::stamp",
        "        if ends_in_crc(out, end - row.propertiesLength, end):", "        if False:",
        (*_CONVERT, "-k", "drawn")),
    Bug("a new log has room for a BLANK behind each record", "store_format/convert/places.py::place",
        "        if size + BLANK_BYTES > left:", "        if size > left:",
        (*_CONVERT, "-k", "drawn")),
    Bug("of equal store times the first store comes first", "store_format/convert/interleave.py::interleave",
        "times[cursors[log]] < times", "times[cursors[log]] <= times",
        (*_MERGE, "-k", "order")),
    Bug("a merge delivers nothing again", "store_format/convert/looked.py::_look",
        "            fate = _LEFT_OUT\n        grown", "            pass\n        grown",
        (*_MERGE, "-k", "delivered")),
    Bug("of a level that one store tells nothing of all is still to be delivered", "jobs/converting/carried_config.py::_joined_tables",
        "min(ours.get(level, 0), theirs.get(level, 0))", "min(each[level] for each in (ours, theirs) if level in each)",
        ("tests/jobs/converting/test_carried_config.py", "-k", "delay_level")),
    Bug("a file without its table is one with an empty table", "jobs/converting/carried_config.py::merged_config",
        "ours, theirs = whole.get(table, {}), other.get(table, {})", "ours, theirs = whole.get(table), other.get(table)",
        ("tests/jobs/converting/test_carried_config.py", "-k", "without_a_table")),
    Bug("positions move up with a queue's records", "jobs/converting/ordered_records.py::_Feed.finish_split",
        "if len(behind):", "if False:",
        ("tests/jobs/converting/test_topics.py", "-k", "takes_along")),
    Bug("what a stale tail of an earlier store has is taken from a later one", "store_format/convert/shared_records.py::SharedRecords.of",
        "(ends <= min(segment.end, log.end))", "(ends <= segment.end)",
        ("tests/store_format/convert/test_shared_records.py",)),
    Bug("a record is shared by its bytes, not by its place", "store_format/convert/shared_records.py::_mark_alike",
        "marks[i] |= same_bytes(buf, row.at, other, row.physicalOffset - base, row.size)", "marks[i] = True", (*_SHARED,)),
    Bug("a shared record is left out of the later store", "udfs/convert/measure_splits.py::_Choice.leave_out",
        "        looked.sizes[shared] = 0\n", "", (*_SHARED,)),
    Bug("a group that one of a pair knows has read nothing that only the other has", "jobs/converting/shared_log.py::_complete",
        "min(own.get(queue_id, end), offset, end)", "min(own.get(queue_id, offset), offset)", (*_SHARED, "-k", "group")),
    Bug("a position is that of the first record behind it", "jobs/converting/ordered_records.py::_Feed.finish_split",
        "numbers[offsets >= name[2]]", "numbers[offsets > name[2]]", (*_MERGE, "-k", "anew")),
    Bug("of chosen topics only what waits is taken of shared queues", "udfs/convert/measure_splits.py::_Choice.leave_out",
        "            looked.sizes[whole & ~np.isin(rows[\"physicalOffset\"], self._waiting)] = 0\n", "            pass\n", (*_WAITS, "-k", "chosen")),
    Bug("a pending transaction is taken by its newest copy", "jobs/converting/what_waits.py::waiting",
        "places |= {row.last_physical_offset for row in pending}", "places |= set()", (*_WAITS, "-k", "chosen")),
    Bug("a waiting timer is taken", "jobs/converting/what_waits.py::waiting",
        'if row.by == "timer" and row.state not in ENDED', 'if row.by == "level" and row.state not in ENDED', (*_WAITS, "-k", "one_topic")),
    Bug("a new segment that is full goes on in the next one", "udfs/convert/new_records.py::NewRecords.finish",
        "                end.next = self._segment_end\n", "                pass\n", (*_CONVERT,)),
    Bug("a new log's records are dispatched at their places", "udfs/convert/write_segments.py::WriteSegments._copy",
        "records.put(made, at)", "records.put(made, at - at % self.segment_bytes)", (*_CONVERT, "-k", "pieces")),
    # of a DLedger group's log, which a conversion makes a plain one
    Bug("an entry that goes on from none before is refused", "store_format/log/record_rules.py::goes_on",
        "    elif index != sequence[2] + 1:\n", "    elif False:\n", _HEADS),
    Bug("a term that goes back is refused", "store_format/log/record_rules.py::goes_on",
        "    elif term < sequence[3]:\n", "    elif False:\n", _HEADS),
    Bug("a segment of another group is told at its first entry", "jobs/pipeline/link.py::_out_of_sequence",
        "if before and first != before[0] + 1:", "if False:", _HEADS),
    Bug("what lies behind the committed index is left out", "jobs/opening/plan.py::make_plan",
        "    if agreed is not None and (limit is None or agreed.end < limit):\n", "    if False:\n",
        ("tests/jobs/test_convert_dledger.py",)),
    Bug("after a kill the queues know how far a group has come", "store_format/discover/committed.py::committed",
        "            end = max([end, *(tail.end for tail in queue_tails(*derived))])\n", "            pass\n",
        ("tests/store_format/log/test_dledger.py", "tests/jobs/test_convert_dledger.py")),
    Bug("all bytes of a record are copied", "store_format/kernels/blocks.py::copy_bytes",
        "        _copy_block(out, at + length - BLOCK, source, start + length - BLOCK)\n", "",
        ("tests/store_format/kernels/test_blocks.py",)),
)  # fmt: skip
