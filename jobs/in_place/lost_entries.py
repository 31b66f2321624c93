"""What a recovery takes away beside derived files: entries and rows of databases that name messages
which the log does not have, or has elsewhere.
"""

import os
import re
from collections.abc import Collection, Iterator
from contextlib import closing, suppress

from reput.jobs.judging.verdict import Verdict
from reput.jobs.opening.held import HeldStore
from reput.jobs.opening.plan import Plan
from reput.jobs.pipeline.link import Linked
from reput.jobs.pipeline.pipeline import Pipeline
from reput.store_format.faults import StoreError
from reput.store_format.log.reader import LogReader
from reput.store_format.names import CUT, STORE_DB
from reput.store_format.notes import Notes
from reput.store_format.query.compacted import compacted_topics, compaction_faults
from reput.store_format.query.pop_leftovers import POP_STATE, end_of_popped, kept_rows
from reput.store_format.query.reader import OpenedStore
from reput.store_format.rocksdb.database import copy_changed, open_database
from reput.store_format.rocksdb.rows import TIMERS

_ENTRY = re.compile(r"entry (\d+) physicalOffset")  # of a Difference


def displaced(plan: Plan, end: int, verdict: Verdict, paths: Collection[str]) -> Iterator[str]:
    """Lines about written queue files (`paths`, below the store) whose old entry names a sound
    record, and the log another.

    No crash does that: the record's head may be what is wrong (no checksum covers it).
    """
    written = {f"{plan.store}/{path}" for path in paths}
    said = set[str]()  # queues, of which the first such entry is enough
    with LogReader(plan.storage, plan.segments, plan.record_rules) as log:
        for each in verdict.differences:
            entry, queue = _ENTRY.fullmatch(each.field), each.path.rpartition("/")[0]
            if not entry or each.path not in written or queue in said:
                continue
            if not each.wanted or not each.there or each.there >= end:
                continue
            with suppress(StoreError):
                log.record_at(each.there)
                said.add(queue)
                yield (
                    f"{each.path}: entry {entry[1]} named the record at {each.there:,}, which the "
                    f"log has, and names {each.wanted:,} by the log: see `reput check` first"
                )


def wrong_compaction(plan: Plan, held: HeldStore, log_end: int) -> list[str]:
    """What is wrong in `compaction/`, by the queues as they are now."""
    given, release = plan.discovered.settings, plan.profile.release
    topics = compacted_topics(held.folder, plan.settings, release)
    if not topics:
        return []
    with OpenedStore(held.folder, release, given, Notes(), log_end) as opened:
        return [each.text for each in compaction_faults(opened, topics)]


def lost_pops(job: Pipeline, linked: Linked, held: HeldStore, warnings: list[str]) -> set[bytes]:
    """The keys of rows in POP_DB whose messages the log does not have: a broker would give a new
    message in such a place twice (PopConsumerService.revive).
    """
    notes = Notes()
    rows = list(kept_rows(held.folder, notes))
    warnings += notes.lines
    if not rows:
        return set()
    start = job.plan.segments[0].start
    ends = job.queue_ends(linked, tuple({pop.topic for _, pop in rows}))
    found = set()
    for key, pop in rows:
        end = end_of_popped((pop.topic, pop.queue_id), ends, start)
        if end is not None and max(pop.offsets) >= end:
            found.add(key)
    return found


def without_rows(held: HeldStore, name: str, left_out: Collection[bytes], staging: str) -> None:
    """Replace a database of the store, POP_DB or STORE_DB, by one without some rows of pops, or
    without those of timers, in one step; the old one is kept in CUT.

    staging: a folder in the store. Raises StoreError, OSError.
    """
    files, kept, made = held.files, f"{CUT}/{name}", f"{held.path}/{staging}/{name}"
    os.mkdir(made)
    with closing(open_database(held.folder / name)) as database:
        if name == STORE_DB:
            copy_changed(
                database, made, {TIMERS: dict.fromkeys(key for key, _ in database.rows(TIMERS))}
            )
        else:
            copy_changed(database, made, {POP_STATE: dict.fromkeys(left_out)})
    for each in ("", *(f"/{file}" for file in os.listdir(made))):
        files.give(f"{staging}/{name}{each}")
    files.sync_all(staging)
    files.make_folder(CUT)
    number = 0
    while files.exists(to := f"{kept}.{number}"):  # of earlier times
        number += 1
    files.rename(f"{staging}/{name}", to)
    files.sync_folder(CUT)
    files.exchange(to, name)
    files.sync_folder("")
    files.sync_folder(CUT)
