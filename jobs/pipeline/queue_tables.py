"""Builds the tables of queues in RocksDB: counts the scanned entries, and cuts keys into ranges."""

from typing import Any

from reput.jobs.pipeline.link import Linked
from reput.jobs.pipeline.pipeline import Pipeline
from reput.store_format.faults import SALVAGE, StoreError
from reput.udfs.rebuild.queues import refuse_first
from reput.udfs.rebuild.rocksdb_queues import (
    COUNTED,
    SHARED,
    TABLE,
    BuildTables,
    CountRuns,
    ShareRuns,
    cuts_of,
    merged,
)
from reput.udfs.rebuild.runs import LOG_ORDER, QUEUE_KEY, Row, key_of

# The entries that a task holds, of 28 bytes and a key; their table has about 30 MB.
_ENTRIES_OF_A_TABLE = 1 << 20
_ENTRIES_WORTH_A_TASK = 1 << 16
_RANGES_A_CORE = 2


def queue_tables(job: Pipeline, linked: Linked) -> list[Row]:
    """Build the tables of all queues in staging: TABLE rows. Raises StoreError, DamageFound."""
    files = job.staged_runs(linked)
    runs = job.runs_rows(linked)
    messages = sum(row["records"] for row in linked.accepted)
    with job.stages.by_tasks("counted", messages, "messages"):
        counted = runs.run(CountRuns(files), COUNTED).collect()
    queues: dict[tuple[Any, ...], Row] = {}
    for row in counted:
        key = key_of(QUEUE_KEY)(row)
        queues[key] = merged(queues[key], row) if key in queues else row
    for _, row in sorted(queues.items()):
        if row["batch"]:
            raise StoreError(
                f"topic {row['topic']!r}, queue {row['queue_id']}: is a batch queue "
                "(queue.type=BatchCQ), and RocksDB has no place for these: --queues files"
            )
        refuse_first(files, row)
    total = sum(row["entries"] for row in queues.values())
    worth = -(-total // _ENTRIES_WORTH_A_TASK)
    ranges = job.cut.partitions or min(job.cores * _RANGES_A_CORE, max(worth, 1))
    whole = files.firsts == SALVAGE
    cuts = cuts_of(queues.values(), ranges, _ENTRIES_OF_A_TABLE, whole)
    shared = job.runs_rows(linked).run(ShareRuns(files, cuts), SHARED)
    parts = min(len(cuts) + 1, 4 * job.cores * _RANGES_A_CORE)
    tables = shared.by_key(parts, ("range",), LOG_ORDER)
    rows = tables.run(BuildTables(files, cuts, linked.lost), TABLE)
    with job.stages.by_tasks("built", messages, "messages"):
        return rows.collect()
