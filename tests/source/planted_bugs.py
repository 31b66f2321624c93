# ruff: noqa: E501 - a line of source is quoted whole
"""One planted bug for each rule of the source and of exports (tests/mutants.py plants them)."""

from tests.planting import Bug

_COLUMNS, _PARTS, _LOG = (
    "store_format/log/columns.py",
    "udfs/log_parts.py",
    "jobs/engine/source_log.py",
)
_STREAM = "jobs/engine/log_stream.py"


def rows(part: str) -> tuple[str, ...]:
    return ("tests/source/test_rows.py", "-k", part)


def stream(part: str) -> tuple[str, ...]:
    return ("tests/source/test_stream.py", "-k", part)


def export(part: str) -> tuple[str, ...]:
    return ("tests/source/test_export.py", "-k", part)


BUGS = (
    Bug("a table's part begins by the walk, not by a magic number", _PARTS,
        "return new_walk(self.read, self.segment, self.log.rules, checks)",
        "from reput.store_format.damage.resync import Prover\n        walk = new_walk(self.read, self.segment, self.log.rules, checks)\n        steps = walk.steps\n        walk.steps = lambda at, stop: iter([]) if stop == self.part.start else steps(at, stop)\n        walk_marked = walk.marked\n        walk.marked = lambda at, stop: walk_marked(max(Prover(self.read, self.part.start, self.segment.end, self.log.rules.records).next_sound(self.part.start, False), at), stop)\n        return walk",
        rows("record_in_a_body")),
    Bug("of two properties of one name the last one counts in a table", _COLUMNS,
        "                        hard[i] = 1\n                if pairs", "                        pass\n                if pairs", rows("odd_records")),
    Bug("a property without a value is none in a table", _COLUMNS,
        "            if pair.counts:", "            if True:", rows("odd_records")),
    Bug("properties are split as the release splits them", "udfs/log_batches.py",
        "    rules, split = log.rules.records, log.rules.dispatch.split_properties\n    for step",
        "    rules, split = log.rules.records, False\n    for step", rows("up_to_490")),
    Bug("a time that no calendar has is null", "udfs/log_columns.py",
        "wrong = (millis < TIME_LEAST) | (millis > TIME_MOST)", "wrong = millis < TIME_LEAST", rows("odd_records")),
    Bug("a long body is read whole", "udfs/log_columns.py",
        'if len(self) == 1 and self.rows["bodyElided"][0]:', "if False:", rows("longer_than_a_window")),
    Bug("damage with live records behind it fails a query", _PARTS,
        "            if live == NOT_FOUND and not self.log", "            if not self.log", rows("flipped_bit_in_a_body or damage_that_live")),
    Bug("zeros in the midst of a segment are damage", _PARTS,
        "if fault == Fault.ZEROS and not self._is_written(at):\n            if not self.log", "if fault == Fault.ZEROS:\n            if not self.log", rows("lost_page")),
    Bug("a segment behind zeros is told", _PARTS,
        "            if not self.log.is_written_from(self.part.segment + 1):\n                return\n            what = \"but",
        "            return\n            what = \"but", rows("later_segment_behind_zeros")),
    Bug("salvage leaves out the damaged record alone", _PARTS,
        "            at = max(at, stop)\n", "            at = self.segment.end\n", rows("damage_that_live")),
    Bug("whether a segment is sound does not depend on the cuts", _PARTS,
        "        if fault == Fault.ZEROS:\n            return not self._is_written(at)", "        if fault == Fault.ZEROS:\n            return part.stop == segment.end and not self._is_written(at)", rows("clock_set_back")),
    Bug("a record whose CRC alone is wrong stays where damage is salvaged", _PARTS,
        "self.checks = Checks(body=log.check_body and not passes)", "self.checks = Checks(body=log.check_body)", rows("flipped_bit_in_a_body")),
    Bug("startingOffsets is within, endingOffsets is not", _LOG,
        "for n, segment in enumerate(log.segments) if segment.start < stop and segment.end > start",
        "for n, segment in enumerate(log.segments) if segment.start < stop and segment.end > start + 4096", rows("chosen_by_topic")),
    Bug("what is being written waits for the next batch", _PARTS,
        "return at if last is None else last", "return at", stream("not_written_yet")),
    Bug("a limit is counted in records", _LOG,
        "            rows -= len(step.rows)\n", "", stream("limit_parts")),
    Bug("AvailableNow ends where the log ended", _STREAM,
        "            end = min(end, self.target)", "            pass", stream("available_now")),
    Bug("bytes deleted before they were read are told", _LOG,
        "    if not log.may_miss:\n        raise", "    if False:\n        raise", stream("cleaned_under")),
    Bug("a checkpoint of another log is told", _LOG,
        "    if first.start <= start <= last.end:", "    if first.start <= start:", stream("another_log")),
    Bug("an export is compared by its sums", "jobs/engine/exporting.py",
        "        if told != value and not", "        if told == 0 and not", export("verify_names")),
    Bug("an export's bodies are compared with their CRCs", "udfs/export.py",
        "& _CRC_MASK != crc:", "& 0 != 0:", export("verify_names")),
    Bug("a decompressed body has its own flags", "udfs/export.py",
        "        flags[number] &= ~(SYS_COMPRESSED | SYS_COMPRESSION_MASK)\n", "", export("decompressed")),
    Bug("--skip leaves out what was appended of an export", "jobs/engine/append_exported.py",
        "                skip -= left_out\n", "                skip = 0\n                left_out = 0\n", export("skip_goes_on")),
    Bug("nothing but an export is replaced by one", "jobs/export.py",
        "target = found.output(to, EXPORTED, replace,", "target = found.output(to, EXPORTED, True,", export("only_an_export")),
    Bug("what fills a queue's first file is no entry", "udfs/derived_batches.py",
        "if not queue.batch:\n                        kept", "if False:\n                        kept", ("tests/source/test_derived.py",)),
    Bug("an index file's last entry is a row", "jobs/engine/derived_sources.py",
        "stop = min(file.header.entries + 1, file.most)", "stop = min(file.header.entries, file.most)", ("tests/source/test_derived.py",)),
    Bug("a Delta table gets each range once", "jobs/engine/delta_table.py",
        "for end in (committed, self._noted()) if end is not None)", "for end in ())", ("tests/source/test_delta.py", "-k", "grown_log")),
    Bug("a range that a kill came right behind is noted", "jobs/engine/delta_table.py",
        "        self._complete_runs()\n", "", ("tests/source/test_delta.py", "-k", "killed_at_each")),
    Bug("a Delta table is of one set of options", "jobs/engine/delta_table.py",
        "if there != self.chosen:", "if False:", ("tests/source/test_delta.py", "-k", "not_mixed")),
    Bug("a Delta table is of one log", "jobs/engine/export_delta.py",
        "    _refuse_other_log(job, table)\n", "", ("tests/source/test_delta.py", "-k", "not_mixed")),
    Bug("bytes that a Delta table never gets are told", "jobs/engine/export_delta.py",
        "lost, start = max(begin - start, 0), max(start, begin)", "lost, start = 0, max(start, begin)", ("tests/source/test_delta.py", "-k", "deleted_before")),
    Bug("a segment that filled up while the log's end was looked for stays as it is then", "jobs/engine/plan.py",
        "may_grow(states_now(storage, segments), end.at)", "may_grow(segments, end.at)", ("tests/jobs/engine/test_live_store.py", "-k", "full_by")),
    Bug("a queue's entry points to the record of its position", "udfs/queue_parts.py",
        "if not bool(same.all()):", "if False:", ("tests/source/test_queues.py", "-k", "changes_no_row")),
    Bug("queues are used up to the least of their ends", "jobs/engine/queue_choice.py",
        "return parts, min(_end(", "return parts, max(_end(", ("tests/source/test_queues.py", "-k", "changes_no_row")),
    Bug("a queue's deleted first file is told", "jobs/engine/queue_choice.py",
        "if first >= log_start:", "if False:", ("tests/source/test_queues.py", "-k", "changes_no_row")),
    Bug("entries around a part are what they say", "udfs/queue_parts.py",
        "if 0 <= number < used and not", "if False and not", ("tests/source/test_queues.py", "-k", "changes_no_row")),
    Bug("after a doubt the walk goes on behind the last row", "udfs/queue_parts.py",
        "known, start = int(step.rows[\"physicalOffset\"][-1]), step.next", "pass", ("tests/source/test_queues.py", "-k", "changes_no_row")),
    Bug("a host's text is taken again for the same host alone", _COLUMNS,
        "elif length > 0 and get_i64(window, at) == before:", "elif length > 0:", rows("golden or odd_records")),
    Bug("a redacted property is in no file", "jobs/engine/export_store.py",
        "if p[0] not in self.properties]", "if p[0] in row]", ("tests/source/test_export_store.py", "-k", "redacted_is")),
    Bug("a redacted body is no packed one", "jobs/engine/export_store.py",
        '            row["sysFlag"] &= ~_PACKED\n', "", ("tests/source/test_export_store.py", "-k", "redacted_is")),
)  # fmt: skip
