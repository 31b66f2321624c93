"""Verify: derive a store's files again and compare them with those that are there."""

import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from reput.jobs.engine.damage import DamageMap
from reput.jobs.engine.outputs import inputs_of
from reput.jobs.engine.pipeline import Cut, Pipeline, spark_cores
from reput.jobs.engine.plan import make_plan, names_in
from reput.jobs.engine.progress import Progress
from reput.jobs.engine.staging import temporary_folder
from reput.jobs.engine.verdict import Difference, judge
from reput.jobs.rebuild import REFUSE, SALVAGE, check_unchanged, read_log
from reput.store_format.faults import StoreError
from reput.store_format.names import MANIFEST, UNFINISHED
from reput.store_format.storage import storage_for
from reput.store_format.storage.protocol import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHOWN = 20


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
    notes: list[str] = field(default_factory=list)  # what is no fault
    behind: list[Difference] = field(default_factory=list)  # files that their broker goes on with
    expired: list[str] = field(default_factory=list)  # what RocketMQ's cleaning removes next

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
        lines += [f"  note      {note}" for note in self.notes]
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
        verdict = judge(spark, job, linked, there, against)
        report.files, report.notes = len(verdict.named), plan.notes + verdict.notes()
        report.behind, report.expired = verdict.behind, verdict.expired
        report.differences += verdict.differences
        report.differences.sort(key=lambda difference: difference.path)
        check_unchanged(plan)
        report.seconds = time.monotonic() - started
        return report


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
    names = names_in(storage, against)
    if UNFINISHED in names and MANIFEST not in names:
        raise StoreError(f"{against}: holds no whole set: a rebuild began to publish it, no more")
