"""One planted bug for each rule by which a damaged record is judged, restored or put in its place;
`tests/mutants.py` plants them.
"""

from tests.planting import Bug

_TEST = "tests/damage/test_one_field.py"
_CHAIN, _EVIDENCE = "store_format/damage/chain.py", "store_format/damage/evidence.py"
_NAMES, _NAMES_TEST = "store_format/log/proven_names.py", "tests/jobs/test_assume_names.py"
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
    Bug("a record is compared with those around it", "jobs/engine/pipeline.py",
        "check_neighbours=True", "check_neighbours=False", (_TEST, "-k", "around_contradict")),
    Bug("a lost __CRC32# is told by those around it", "store_format/log/neighbours.py",
        "            fault = _UNSEALED", "            fault = 0", (_TEST, "-k", "lost_crc")),
    Bug("the store's own queue files are witnesses", "jobs/engine/pipeline.py",
        "if self.plan.has_queues else None", "if False else None", (_TEST, "-k", "queue_files")),
    Bug("a record's end is looked at behind ordinary ranges", "store_format/damage/tolerant.py",
        "_ASKED_FOR_THEIR_END = 2", "_ASKED_FOR_THEIR_END = 0", (_TEST, "-k", "ordinary")),
    Bug("a report says who spoke", "store_format/damage/witnesses.py",
        "return tuple(name for witness, name in _NAMES.items() if witness & witnesses)",
        "return ()", (_TEST, "-k", "test_3_a_stale")),
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
