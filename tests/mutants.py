# ruff: noqa: E501 - a line of source is quoted whole
"""One planted bug for each rule that the builders follow, and the tests that must turn red.

`make mutants`, or `python -m tests.mutants [PART OF A NAME]`, plants one after the other in a
copy of the tree. The names are the rules, in the words of the formats' pages. The judge of most
is RocketMQ: golden stores that it wrote and derived (tests/test_golden_in_process.py).
"""

import sys

from tests.planting import Bug, plant_all
from tests.writer import planted_bugs

_RECORDS = "store_format/records.py"
_PROPERTIES = "store_format/properties.py"
_DISPATCH = "store_format/dispatch.py"
_RUNS = "store_format/queue_runs.py"
_INDEX = "store_format/index_file.py"
_PROFILES = "store_format/profiles.py"


def golden(*names: str) -> tuple[str, ...]:
    return ("tests/test_golden_in_process.py", "-k", " or ".join(names))


BUGS = (
    # CommitLog
    Bug("a negative topicLength fails the record", _RECORDS,
        "if topic_length < 0 or topic_length > left:", "if topic_length > left:",
        ("tests/test_records.py",)),
    Bug("a negative bodyLength counts as 0", _RECORDS,
        "body_length = max(get_i32(buf, middle + MIDDLE_AT.bodyLength), 0)",
        "body_length = get_i32(buf, middle + MIDDLE_AT.bodyLength)", ("tests/test_records.py",)),
    Bug("hosts are 20 bytes with sysFlag 0x10", _RECORDS,
        "born = IPV6_HOST if rules.ipv6_hosts and sys_flag & SYS_BORN_HOST_V6 else IPV4_HOST",
        "born = IPV4_HOST", golden("mixed_5.3.3")),
    Bug("V2 records have two bytes of topic length", _RECORDS,
        "topic_length_bytes = TOPIC_LENGTH_V2 if two else TOPIC_LENGTH_V1",
        "topic_length_bytes = TOPIC_LENGTH_V1", ("tests/test_records.py",)),
    Bug("a BLANK ends the segment", _RECORDS, "if magic == MAGIC_BLANK:",
        "if magic == MAGIC_BLANK + 1:", golden("mixed_5.3.3")),
    Bug("bodies are checked by CRC", _RECORDS, "if crc != row.bodyCRC:", "if crc == -1:",
        golden("middle_crc")),
    Bug("the parts add up to totalSize", _RECORDS, "if properties_length != left:",
        "if properties_length > left:", ("tests/test_records.py",)),
    Bug("a record stands in its own place", _RECORDS,
        "if get_i64(buf, at + RECORD_AT.physicalOffset) != place:", "if place < 0:",
        ("tests/test_records.py",)),
    Bug("a size past the end of the file is damage", _RECORDS,
        "        return _SIZE_PAST_END, size", "        return _BLANK, size",
        golden("middle_size", "garbage")),
    # properties and text
    Bug("from 4.9.1 pairs split at the first 01", _PROFILES,
        'split_properties=not since("4.9.1")', 'split_properties=since("4.9.1")',
        golden("odd_5.3.3", "odd_4.1.0")),
    Bug("an empty value does not count", _PROPERTIES, "at < middle < end - 1", "at < middle < end",
        ("tests/test_properties.py",)),
    Bug("of duplicate properties the last counts", _PROPERTIES,
        "                if number >= 0:", "                if number >= 0 and places[number, 0] < 0:",
        ("tests/test_properties.py",)),
    Bug("the last 02 may be missing", _PROPERTIES, "        if stop - at >= 3:",
        "        if stop - at >= 3 and stop < end:", ("tests/test_properties.py",)),
    Bug("an encoded surrogate is one U+FFFD", "store_format/javatext.py",
        "if b1 == 0xED and b2 >= 0xA0:", "if b1 == 0xED and b2 >= 0xC0:", golden("odd_5.3.3")),
    Bug("String.hashCode goes over UTF-16 units", "store_format/javatext.py",
        "if point >= 0x10000:", "if point >= 0x110000:", golden("mixed_5.3.3")),
    # ConsumeQueue
    Bug("rolled back messages have no queue entry", _DISPATCH,
        "if transaction == 0 or transaction == SYS_TRANSACTION_COMMIT:", "if True:",
        golden("mixed_5.3.3")),
    Bug("committed messages have a queue entry", _DISPATCH,
        "if transaction == 0 or transaction == SYS_TRANSACTION_COMMIT:", "if transaction == 0:",
        golden("mixed_5.3.3")),
    Bug("levels above the highest are clamped", _DISPATCH, "level = min(level, len(delays))",
        "level = level if level <= len(delays) else 0", ("tests/test_against_reference.py",)),
    Bug("on the schedule topic tagsCode is the time of delivery", _DISPATCH,
        "code = row.storeTimestamp + delays[level - 1]", "code = row.storeTimestamp",
        golden("mixed_5.3.3")),
    Bug("a DELAY that is no number fails the record", _DISPATCH,
        "            return _DELAY_LEVEL, 0", "            return _NONE, code",
        ("tests/test_kinds_of_log.py",)),
    Bug("the first file is blank before its first entry", "udfs/queues.py",
        "output.write(pre_blank(blank))", "output.write(bytes(20 * blank))", golden("expired")),
    Bug("from 4.2.0 a lower queueOffset is skipped", _PROFILES,
        'skip_lower_offsets=since("4.2.0")', 'skip_lower_offsets=since("6.0.0")',
        golden("odd_5.3.3")),
    Bug("4.1.0 appends a lower queueOffset", _PROFILES,
        'skip_lower_offsets=since("4.2.0")', 'skip_lower_offsets=since("4.1.0")',
        golden("odd_4.1.0")),
    Bug("queueOffset 0 is always appended", _RUNS, "rules.skip_lower_offsets and offset != 0",
        "rules.skip_lower_offsets", golden("odd_5.3.3")),
    Bug("after a gap the next position is taken", _RUNS, "            position += 1",
        "            position = max(position, offset) + 1", golden("odd_5.3.3")),
    Bug("a message is in a queue once", _RUNS, "taken = end > greatest_end", "taken = True",
        ("tests/test_queue_runs.py",)),
    Bug("a queue file's size is rounded up to entries", "store_format/consume_queue.py",
        "return -(-configured // size) * size", "return configured // size * size",
        ("tests/test_against_reference.py",)),
    Bug("an entry skipped behind a full file creates the next", "udfs/queues.py",
        "if after % in_file == 0 and len(positions) and _skips_at_end(positions):", "if False:",
        ("tests/test_against_reference.py",)),
    # multi-dispatch and batch queues
    Bug("%LMQ% queues have id 0", _DISPATCH, "                queue_id = 0", "                pass",
        golden("lmq")),
    Bug("lists of unequal length are dropped", _DISPATCH,
        "    if count != _parts(buf, offset_at, offset_end):\n        return",
        "    if count != _parts(buf, offset_at, offset_end):\n        pass",
        ("tests/test_multi_dispatch.py", "tests/test_against_reference.py")),
    Bug("from 5.1.1 not for %RETRY% topics", _PROFILES,
        'multi_dispatch_skips_retry=since("5.1.1")', 'multi_dispatch_skips_retry=since("6.0.0")',
        ("tests/test_multi_dispatch.py",)),
    Bug("from 5.1.2 not to names with a slash", _PROFILES,
        'multi_dispatch_skips_slash=since("5.1.2")', 'multi_dispatch_skips_slash=since("6.0.0")',
        ("tests/test_multi_dispatch.py", "tests/test_profiles.py")),
    Bug("from 5.2.0 not for rmq_sys_ topics", _PROFILES,
        'multi_dispatch_skips_system=since("5.2.0")', 'multi_dispatch_skips_system=since("6.0.0")',
        ("tests/test_multi_dispatch.py",)),
    Bug("BatchCQ topics have entries of 46 bytes of their own", _DISPATCH,
        "            if flags & BATCH_TOPIC:", "            if flags & (BATCH_TOPIC << 4):",
        golden("lmq")),
    Bug("a batch's base and size come from INNER_BASE and INNER_NUM", _DISPATCH,
        "rules.batch_queues and _has(places, INNER_NUM) and _has(places, INNER_BASE)", "False",
        golden("lmq")),
    # IndexFile
    Bug("rolled back messages are not indexed", _DISPATCH,
        "if rules.index and transaction != SYS_TRANSACTION_ROLLBACK:", "if rules.index:",
        golden("mixed_5.3.3")),
    Bug("prepared messages are indexed", _DISPATCH,
        "if rules.index and transaction != SYS_TRANSACTION_ROLLBACK:",
        "if rules.index and transaction in (0, SYS_TRANSACTION_COMMIT):", golden("mixed_5.3.3")),
    Bug("empty tokens of KEYS are dropped", _DISPATCH, "            if stop > at:",
        "            if True:", golden("mixed_5.3.3")),
    Bug("from 5.4.0 the tags are a key", _PROFILES, 'index_tags=since("5.4.0")',
        'index_tags=since("6.0.0")', golden("mixed_5.4.0")),
    Bug("before 5.4.0 they are not", _PROFILES, 'index_tags=since("5.4.0")',
        'index_tags=since("5.3.0")', golden("mixed_5.3.3")),
    Bug("a keyHash of MIN_VALUE counts as 0", _DISPATCH,
        "0 if hashed == -(1 << 31) else abs(hashed)", "np.int32(abs(hashed))",
        ("tests/test_against_reference.py",)),
    Bug("an entry knows the one before it in its slot", _INDEX,
        "            newest[slot - low] = first_entry + i", "            newest[slot - low] = first_entry",
        golden("mixed_5.3.3")),
    Bug("timeDiff is in seconds", _INDEX, "// 1000", "// 1024", golden("mixed_5.3.3")),
    Bug("timeDiff is not negative", _INDEX, "min(max(seconds, 0), 0x7FFFFFFF)",
        "min(seconds, 0x7FFFFFFF)", golden("mixed_5.3.3")),
    Bug("timeDiff is 0 while begin is not positive", _INDEX, "    if begin_timestamp <= 0:",
        "    if begin_timestamp < -1:", golden("mixed_5.3.3", "tiny")),
    Bug("a file's first entry is measured against the file before", "udfs/index.py",
        "begin, at = before.timestamp, 0", "begin, at = first.timestamp if first else 0, 0",
        golden("mixed_5.3.3")),
    Bug("up to 4.7.0 hashSlotCount counts puts", _PROFILES, 'count_every_put=not since("4.7.1")',
        "count_every_put=False", golden("mixed_4.1.0")),
    Bug("from 4.7.1 it counts slots in use", _PROFILES, 'count_every_put=not since("4.7.1")',
        "count_every_put=True", golden("mixed_4.9.7")),
    Bug("entry 0 is never used", _INDEX, "return max_index_num - 1", "return max_index_num",
        golden("mixed_5.3.3")),
    Bug("a message without keys opens the next file", "jobs/pipeline.py",
        "files + 1 if last_is_full and last_record > last_put else files", "files",
        ("tests/test_against_reference.py",)),
    Bug("a file without entries has indexCount 1 after a clean stop", _PROFILES,
        'empty_index_count=1 if since("5.0.0") else 0', "empty_index_count=0",
        ("tests/test_against_reference.py",)),
    # the parallel walk, and what follows a break
    Bug("a split's first record is the one that the split before says", "jobs/link.py",
        'if row["first"] != expected:', "if False:", ("tests/test_cuts.py",)),
    Bug("stale records after a break are not lost data", "store_format/scan.py",
        'puts = puts[puts["storeTimestamp"] >= self.rules.not_before]', "pass",
        ("tests/test_golden_in_process.py", "tests/test_against_reference.py", "tests/test_golden.py", "-k", "continued or any_log or refused")),
)  # fmt: skip


def main(wanted: str = "") -> int:
    return plant_all((*BUGS, *planted_bugs.BUGS), wanted)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
