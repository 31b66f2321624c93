"""One planted bug for each rule by which a damaged record is judged, restored or put in its place;
`tests/mutants.py` plants them.
"""

from tests.planting import Bug

_TEST = "tests/damage/test_one_field.py"
_QUIET = "tests/quiet/test_witnesses.py"
_TOLERANT = "store_format/damage/tolerant.py"
_NEIGHBOURS = "store_format/damage/neighbours.py"
_CHAIN, _EVIDENCE = "store_format/damage/chain.py", "store_format/damage/evidence.py"
_NAMES, _NAMES_TEST = "store_format/log/proven_names.py", "tests/jobs/test_assume_names.py"
_OLD_INDEX = "store_format/damage/old_index.py"
_INDEX_TEST = ("tests/damage/test_old_index.py",)
_RESTORE, _RESTORE_TEST = "store_format/damage/restore.py", "tests/jobs/test_restore.py"

BUGS = (
    Bug("of all readings the one with the fewest faults is believed", _CHAIN,
        "_LEAP, _MISSING, _MOST_MISSING = 3, 1, 2", "_LEAP, _MISSING, _MOST_MISSING = 0, 1, 2",
        (_TEST, "-k", "fewest")),
    Bug("one flipped bit is the likelier fault", _CHAIN, "_WRONG, _ONE_BIT = 2, 1",
        "_WRONG, _ONE_BIT = 2, 2", (_TEST, "-k", "fewest")),
    Bug("what was not scanned before a segment may have been lost", _EVIDENCE,
        "if room < gap <= (lost + had.lost) // RECORD_FIXED_BYTES:", "if False:",
        (_TEST, "-k", "took_is_no_reason")),
    Bug("records stored between their neighbours are rather live", _EVIDENCE,
        "    if facts.in_order:", "    if False:", (_TEST, "-k", "took_is_no_reason")),
    Bug("a stretch's last queueOffset counts if another goes on from it", _EVIDENCE,
        "if offset == self.last + 1 or", "if True or", (_TEST, "-k", "test_2")),
    Bug("a transaction type that keeps a message out of its queue is found", "udfs/kept_out.py",
        "(kind != 0) & (kind != SYS_TRANSACTION_COMMIT)", "(kind == 0)",
        (_TEST, "-k", "transaction")),
    Bug("a topic that is no UTF-8 any more differs in one bit", "jobs/engine/other_queues.py",
        "bits += 1 if unread else", "bits += 8 if unread else", (_TEST, "-k", "lost_its_way")),
    Bug("records of a damaged segment are compared with those around", _TOLERANT,
        "doubted = self._neighbours.unlike(window, rows)", "doubted = None",
        (_TEST, "-k", "two_witnesses")),
    Bug("the times around are one witness, and one alone says nothing", _NEIGHBOURS,
        "if odd_time and (beside or", "if odd_time and (True or", (_TEST, "-k", "birth")),
    Bug("of several hosts none is wrong", _NEIGHBOURS,
        "if (odd_time or beside) and _is_odd_host(noted, i):", "if _is_odd_host(noted, i):",
        (_TEST, "-k", "two_witnesses")),
    Bug("a lost __CRC32# is told by those around it", _NEIGHBOURS,
        "            return _UNSEALED", "            return 0", (_TEST, "-k", "lost_crc")),
    Bug("the store's own queue files are witnesses", "jobs/engine/pipeline.py",
        "if ask_queues else None", "if False else None", (_TEST, "-k", "queue_files")),
    Bug("a queue file alone says nothing of a tag", "jobs/engine/damage.py",
        'if row["what"] == TAGGED and found.count:', 'if row["what"] == TAGGED:',
        (_QUIET, "-k", "queue_file")),
    Bug("a queue that often does not go on keeps nobody out", "jobs/engine/damage.py",
        'found.count or row["value"] >= ENTRIES_A_BREAK', "True", (_QUIET, "-k", "keeps")),
    Bug("what its queue may have lost is no reason against a record", "udfs/believed.py",
        "return 0 <= piece.first <= lost // RECORD_FIXED_BYTES", "return False",
        (_QUIET, "-k", "survivor")),
    Bug("a record's end is looked at behind ordinary ranges", _TOLERANT,
        "_ASKED_FOR_THEIR_END = 2", "_ASKED_FOR_THEIR_END = 0", (_TEST, "-k", "ordinary")),
    Bug("a report says who spoke", "store_format/damage/witnesses.py",
        "return tuple(name for witness, name in _NAMES.items() if witness & witnesses)",
        "return ()", (_TEST, "-k", "test_3_a_stale")),
    Bug("an index entry's key is the record's", _OLD_INDEX,
        "known = puts[at].keyHash == entry.keyHash", "known = True", _INDEX_TEST),
    Bug("and its time", _OLD_INDEX, "            faults[i] = _STORED", "            faults[i] = 0",
        _INDEX_TEST),
    Bug("a file's first entry counts from the file before", _OLD_INDEX, "elif numbers[i] > 1 and",
        "elif numbers[i] > 0 and", _INDEX_TEST),
    Bug("what a header counts is not all written", _OLD_INDEX, "if entry.keyHash == 0 and",
        "if entry.keyHash == -1 and", _INDEX_TEST),
    Bug("an index file that disagrees often says nothing", "udfs/old_index.py",
        "if len(found) <= _MOST_UNLIKE +", "if True or len(found) <= _MOST_UNLIKE +", _INDEX_TEST),
    Bug("a piece of puts has all of a record", "udfs/old_index.py",
        "puts[:last], puts[last:]", "puts, None", _INDEX_TEST),
    Bug("index files are asked only of a damaged log", "jobs/engine/damage.py",
        "    if found.count:  # of a sound", "    if True:  # of a sound", _INDEX_TEST),
    Bug("a range that is named is not named again", "jobs/engine/unlike_index.py",
        "unlike.pop(damage.offset, None)", "pass", _INDEX_TEST),
    Bug("--assume-names reads a segment where its records say", _NAMES,
        "by_start[start] = each._replace(start=start)", "by_start[start] = each",
        (_NAMES_TEST, "-k", "offers")),
    Bug("of two files that say the same place none moves", _NAMES, " and wanted[start] == 1", "",
        (_NAMES_TEST, "-k", "neither")),
    Bug("--restore puts back what witnesses tell", "jobs/repair.py",
        "job.plan = restored(job.plan, damage, patches)", "pass",
        (_RESTORE_TEST, "-k", "put_back")),
    Bug("a checksum finds a bit behind the body too", _RESTORE,
        "(*range(body_at), *range(body_at + body_bytes, end))", "range(body_at)",
        (_RESTORE_TEST, "-k", "property")),
    Bug("of lost positions those that end first are kept first", "jobs/engine/lost_places.py",
        'sorted(found.gaps, key=lambda gap: int(gap["before"]))', "found.gaps",
        (_RESTORE_TEST, "-k", "everywhere")),
)  # fmt: skip
