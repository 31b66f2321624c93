"""Builds the tables of an index in RocksDB: sorts each split's rows, then merges ranges of keys."""

from typing import Any, NamedTuple

from reput.jobs.pipeline.link import Linked
from reput.jobs.pipeline.pipeline import Pipeline
from reput.udfs.table.rocksdb_index import (
    INDEX_TABLE,
    RUN_OF_ROWS,
    BuildIndexTables,
    ListIndexRows,
    index_cuts,
)

_ROWS_OF_A_TABLE = 1 << 20
_RANGES_A_CORE = 2


class IndexTables(NamedTuple):
    """The tables of an index, in staging."""

    names: list[str]
    rows: int  # number of rows in all tables
    last_offset: int  # physical offset of the last message with a row; -1: no row
    last_time: int  # storeTimestamp of that message; -1: no row


def index_runs(job: Pipeline, linked: Linked) -> list[dict[str, Any]]:
    """Sort the index rows of each accepted split into files; RUN_OF_ROWS rows."""
    plan = job.plan
    accepted = [row for row in linked.accepted if row["records"]]
    stretches = tuple((row["split"], row["first"], row["next"]) for row in accepted)
    if not stretches:
        return []
    task = ListIndexRows(
        plan.storage, job.staging, plan.splits, plan.record_rules,
        plan.profile.split_properties, stretches,
    )  # fmt: skip
    with job.stages.by_tasks("indexed", sum(row["records"] for row in accepted), "messages"):
        return job.ids(len(stretches)).run(task, RUN_OF_ROWS).collect()


def index_tables(job: Pipeline, linked: Linked) -> IndexTables:
    """Build the tables of an index from the accepted splits."""
    runs = index_runs(job, linked)
    if not runs:
        return IndexTables([], 0, -1, -1)
    cuts = index_cuts(runs, job.cut.index_ranges or job.cores * _RANGES_A_CORE, _ROWS_OF_A_TABLE)
    task = BuildIndexTables(job.staging, tuple(runs), cuts)
    with job.stages.by_tasks("built", sum(run["rows"] for run in runs), "index rows"):
        tables = job.ids(len(cuts) + 1).run(task, INDEX_TABLE).collect()
    return IndexTables(
        [row["name"] for row in tables], sum(row["rows"] for row in tables),
        max(run["last_offset"] for run in runs), max(run["last_time"] for run in runs),
    )  # fmt: skip
