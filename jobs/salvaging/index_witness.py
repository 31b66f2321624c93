"""Records of a damaged log that contradict the store's own index files."""

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from reput.jobs.pipeline.link import Linked
from reput.jobs.pipeline.pipeline import index_files
from reput.jobs.salvaging.damage_map import DamageMap, all_ranges, read_places
from reput.store_format.damage.ranges import Damage, DamageKind
from reput.store_format.derived.index_reader import BadIndex, IndexReader
from reput.store_format.faults import Fault
from reput.udfs.damage.witnesses import CONTRADICTED, CompareIndex

if TYPE_CHECKING:
    from reput.jobs.pipeline.pipeline import Pipeline


def index_contradictions(job: "Pipeline", found: DamageMap) -> list[Damage]:
    """A range of kind CONTENT for each contradicted record, in the log's order."""
    if not job.plan.settings.builds_index or not job.plan.has_index:
        return []
    try:
        rows = _ask(job, found.linked)
    except BadIndex:
        return []  # a foreign file is among them; the comparison of index files reports it
    unlike = {row["place"]: row["fault"] for row in rows}
    for damage in all_ranges(job.staging, found) if unlike else ():
        unlike.pop(damage.offset, None)  # its range is known already
    return list(_ranges(job, found, unlike))


def _ask(job: "Pipeline", linked: Linked) -> list[dict[str, Any]]:
    """CONTRADICTED rows: the records that contradict the store's own index files."""
    plan = job.plan
    files = len(IndexReader(plan.storage, plan.store, plan.settings).files)
    puts = index_files(plan, job.staging, linked, 1)
    # A run without records gets the first offset of the run before it.
    firsts = accumulate((row["first"] for row in linked.accepted), max, initial=-1)
    task = CompareIndex(plan.storage, plan.store, plan.settings, puts, tuple(firsts))
    with job.stages.by_tasks("asked what is missing", files, "index files"):
        return job.ids(files).run(task, CONTRADICTED).collect()


def _ranges(job: "Pipeline", found: DamageMap, unlike: dict[int, int]) -> Iterator[Damage]:
    raw = np.empty(4, np.uint8)
    for place, _, read in read_places(job.plan.storage, found, sorted(unlike)):
        read(place, raw)
        size, fault = int.from_bytes(raw.tobytes(), "big"), Fault(unlike[place])
        yield Damage(place, place + size, DamageKind.CONTENT, fault, size, None, "record")
