"""Verify: derive a store's files again and compare them with those that are there."""

import json
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from jobs.collect import collect, run_in_tasks
from jobs.damage import DamageMap
from jobs.link import Linked
from jobs.outputs import inputs_of
from jobs.pipeline import Cut, Pipeline, spark_cores
from jobs.plan import make_plan
from jobs.progress import Progress
from jobs.publish import Built, name_files
from jobs.rebuild import REFUSE, SALVAGE, check_unchanged, read_log
from jobs.staging import temporary_folder
from store_format.faults import StoreError
from store_format.names import BATCH_CONSUME_QUEUE, CONSUME_QUEUE, INDEX, MANIFEST, UNFINISHED
from store_format.storage import storage_for
from store_format.store_files import Storage
from udfs.compare import DIFFERENCE, PAIR, CompareFiles
from udfs.staging import Staging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_SUCH_FILE = "the log gives no such file"
_SHOWN = 20


@dataclass
class Difference:
    """The first difference of one file: where, which field, what is there and should be."""

    path: str
    offset: int
    field: str
    there: int | None
    wanted: int | None

    def text(self) -> str:
        if self.there is None or self.wanted is None:
            return f"{self.path}: {self.field}"
        return (
            f"{self.path}: offset {self.offset}: {self.field}: "
            f"is {self.there}, should be {self.wanted}"
        )


@dataclass
class Report:
    """What a verify found; `same` where there is no difference."""

    store: str
    against: str
    rocketmq: str
    log_end: int
    end_reason: str
    files: int = 0
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    @property
    def same(self) -> bool:
        return not self.differences

    def as_json(self) -> dict[str, Any]:
        return {"same": self.same, **asdict(self)}

    def text(self) -> str:
        count = len(self.differences)
        verdict = "the same, byte for byte" if self.same else f"{count:,} differ"
        lines = [
            f"verified {self.against} against the log of {self.store} (RocketMQ {self.rocketmq})",
            f"  {self.files:,} files derived: {verdict} ({self.seconds:.1f} s)",
        ]
        lines += [f"  differs   {difference.text()}" for difference in self.differences[:_SHOWN]]
        if count > _SHOWN:
            lines.append(f"  ... and {count - _SHOWN:,} more (--json has all)")
        lines += [f"  warning   {warning}" for warning in self.warnings]
        return "\n".join(lines)


def verify(
    spark: "SparkSession",
    store: str,
    *,
    rocketmq: str,
    against: str | None = None,
    settings: Mapping[str, str] | None = None,
    on_damage: str | None = None,
    cut: Cut | None = None,
    staging_folder: str | None = None,
    storage: Storage | None = None,
    progress: Progress | None = None,
) -> Report:
    """Compare the derived files in `against` (default: the store) with what its log gives.

    The unused tails of files, and a segment of zeros only, do not count; index files are
    compared in the order of their names. staging_folder: where the files are derived, by
    default a temporary folder; on a cluster it must be one that all machines see. All three are
    paths or URLs, each of a file system of its own; `storage` stands for that of all three.
    on_damage: as for rebuild; None: as the manifest in `against` says, else refuse.
    Raises as rebuild does.
    """
    started = time.monotonic()
    base = staging_folder or tempfile.gettempdir()
    there = storage or storage_for(against or store)
    staging_storage = storage or storage_for(base)
    storage = storage or storage_for(store)
    cut, store = cut or Cut(), storage.resolve(store)
    against = there.resolve(against) if against else store
    _check_finished(there, against)
    cores = spark_cores(spark)
    manifest = read_manifest(there, against)
    on_damage = on_damage or manifest.get("on_damage", REFUSE)
    salvage = on_damage == SALVAGE
    plan = make_plan(storage, store, rocketmq, settings or {}, cores, cut.split_bytes, salvage)
    inputs = [*inputs_of(storage, store, settings or {}), *inputs_of(there, against, {})]
    with temporary_folder(staging_storage, base, "reput-verify", inputs) as staging:
        job = Pipeline(spark, plan, staging, cores, cut, progress or Progress())
        linked, reason, warnings, damage = read_log(job, on_damage)
        report = Report(store, against, plan.profile.release, linked.end, reason)
        report.warnings = plan.warnings + warnings
        report.differences = _manifest_differences(against, manifest, damage)
        report.files, differences = compare_derived(spark, job, linked, there, against)
        report.differences += differences
        report.differences.sort(key=lambda difference: difference.path)
        check_unchanged(plan)
        report.seconds = time.monotonic() - started
        return report


def compare_derived(
    spark: "SparkSession", job: Pipeline, linked: Linked, there: Storage, against: str,
    past: bool = False,
) -> tuple[int, list[Difference]]:  # fmt: skip
    """Derive all files from the log and compare them with those in the folder `against`.

    there: the storage that it is on. past: as for compare_named. Returns how many files there
    are, and what differs.
    """
    named = name_files(job.build(linked), job.queue_bytes, None)
    return len(named), compare_named(spark, job, named, linked.end, there, against, past=past)


def compare_named(
    spark: "SparkSession", job: Pipeline, named: list[Built], log_end: int, there: Storage,
    against: str, exact: bool = False, past: bool = False,
) -> list[Difference]:  # fmt: skip
    """Compare derived files that are in staging with those in `against`; see CompareFiles.

    Raises StoreError.
    """
    pairs, differences = _pair(there, against, job.staging, named)
    if pairs:
        slots, log_start = job.plan.settings.max_hash_slot_num, job.plan.segments[0].start
        task = CompareFiles(
            there, job.staging.storage, slots, log_end, exact, log_start, past
        )  # fmt: skip
        frame = spark.createDataFrame(pa.Table.from_pylist(pairs, PAIR))
        rows = collect(run_in_tasks(frame.repartition(job.cores * 4), task, DIFFERENCE))
        differences += [Difference(**row) for row in rows]
    return differences


def read_manifest(storage: Storage, folder: str) -> dict[str, Any]:
    """The manifest of a rebuilt set; empty where there is none."""
    try:
        manifest = json.loads(storage.read_bytes(f"{folder}/{MANIFEST}"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        raise StoreError(f"{folder}/{MANIFEST}: cannot be read: {error}") from None
    return manifest if isinstance(manifest, dict) else {}


def _manifest_differences(
    against: str, manifest: dict[str, Any], damage: DamageMap | None
) -> list[Difference]:
    """Which positions a salvage filled is part of the set: the manifest must say the same."""
    told = manifest.get("damage")
    if not told or damage is None:
        return []
    same = told["missing"] == damage.gaps and told["range_count"] == damage.count
    what = "the positions of missing messages are not those that the log gives"
    return [] if same else [Difference(f"{against}/{MANIFEST}", 0, what, None, None)]


def _check_finished(storage: Storage, against: str) -> None:
    names = _names(storage, against)
    if UNFINISHED in names and MANIFEST not in names:
        raise StoreError(f"{against}: holds no whole set: a rebuild began to publish it, no more")


def _pair(
    storage: Storage, against: str, staging: Staging, named: list[Built]
) -> tuple[list[dict[str, Any]], list[Difference]]:
    """Each derived file with the one that is there; what has no partner is a difference."""
    there = set(files_there(storage, against))
    index_there = sorted(path for path in there if path.startswith(INDEX + "/"))
    index_wanted = [row for row in named if row["folder"] == INDEX]
    partner = dict(zip((row["path"] for row in index_wanted), index_there, strict=False))
    pairs, differences = [], []
    for row in named:
        path = partner.get(row["path"]) if row["folder"] == INDEX else row["path"]
        if path is None or path not in there:
            differences.append(
                Difference(f"{against}/{row['path']}", 0, "the file is missing", None, None)
            )
            continue
        there.discard(path)
        pairs.append(
            {
                "folder": row["folder"],
                "there": f"{against}/{path}",
                "derived": staging.path(row["name"]),
                "used": row["used"],
            }
        )
    for path in sorted(there):
        if not _is_zero(storage, f"{against}/{path}"):
            differences.append(Difference(f"{against}/{path}", 0, NO_SUCH_FILE, None, None))
    return pairs, differences


def files_there(storage: Storage, root: str) -> Iterable[str]:
    for kind in (CONSUME_QUEUE, BATCH_CONSUME_QUEUE):
        for topic in _names(storage, f"{root}/{kind}"):
            for queue in _names(storage, f"{root}/{kind}/{topic}"):
                for name in _names(storage, f"{root}/{kind}/{topic}/{queue}"):
                    yield f"{kind}/{topic}/{queue}/{name}"
    for name in _names(storage, f"{root}/{INDEX}"):
        yield f"{INDEX}/{name}"


def _names(storage: Storage, folder: str) -> list[str]:
    try:
        return [listed.name for listed in storage.list(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_zero(storage: Storage, path: str) -> bool:
    """Nothing but zeros, as in a segment that was preallocated and never written to."""
    file = storage.open(path)
    buffer = np.empty(min(file.state.size, 1 << 20), np.uint8)
    zero = True
    for at in range(0, file.state.size, max(len(buffer), 1)):
        part = buffer[: file.state.size - at]
        file.read_into(at, part)
        zero = zero and not part.any()
    file.close()
    return zero
