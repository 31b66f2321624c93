"""What a check found, as the console shows it and --json prints it."""

from dataclasses import dataclass, field
from typing import Any

from reput.jobs.judging.differences import Difference
from reput.jobs.opening.plan import Plan
from reput.jobs.salvaging.damage_map import DamageMap
from reput.store_format.log.record_rules import NO_HEADS
from reput.store_format.log.segments import Finding


@dataclass
class CheckReport:
    """What a check found. Offsets are physical, sizes in bytes, times in seconds."""

    store: str
    rocketmq: str
    log_start: int
    log_end: int  # where the last live record ends
    segment_bytes: int
    segments: list[int]  # first offsets
    messages: int
    damage: dict[str, Any]  # see reput.jobs.salvaging.damage_search.DamageMap.as_json
    findings: list[Finding] = field(default_factory=list)
    derived_files: int | None = None  # compared; None: the store has none, nor a RocksDB of queues
    in_rocksdb: list[str] = field(default_factory=list)  # what was compared there
    differences: list[Difference] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what is no fault
    behind: list[Difference] = field(default_factory=list)  # files that their broker goes on with
    expired: list[str] = field(default_factory=list)  # what RocketMQ's cleaning removes next
    looks_like: str = ""  # another release, by whose rules the store is sound
    discovered: dict[str, Any] = field(default_factory=dict)  # by the store: store_format/discover
    releases: str = ""  # those that write the same, as a text
    of_group: bool = False  # the log is a DLedger group's, which no command changes
    seconds: float = 0.0

    @property
    def sound(self) -> bool:
        """No damage, nothing wrong with a file, and derived files as the log gives them."""
        return not (self.findings or self.differences or self.damage["range_count"])

    @property
    def only_derived_differ(self) -> bool:
        """Whether nothing is wrong but that derived files are not as the release makes them."""
        return bool(self.differences) and not (self.findings or self.damage["range_count"])

    @property
    def assumed(self) -> bool:
        """Whether the store's files do not show the release."""
        return self.releases.endswith("assumed")

    def as_json(self) -> dict[str, Any]:
        whole = {name: value for name, value in vars(self).items() if name != "segments"}
        whole["findings"] = [each._asdict() for each in self.findings]
        for name in ("differences", "behind"):
            whole[name] = [vars(each) for each in whole[name]]
        return {"sound": self.sound, **whole, "segment_files": len(self.segments)}


def report_of(plan: Plan, found: DamageMap) -> CheckReport:
    """The report of the log alone."""
    return CheckReport(
        store=plan.store,
        rocketmq=plan.profile.release,
        releases=plan.discovered.releases,
        log_start=plan.segments[0].start,
        log_end=found.linked.end,
        segment_bytes=found.segment_bytes,
        segments=[segment.start for segment in plan.segments],
        messages=sum(row["records"] for row in found.linked.accepted),
        damage=found.as_json(),
        findings=list(found.findings),
        warnings=plan.warnings + found.warnings,
        notes=list(plan.notes),
        discovered=plan.discovered.as_json(),
        of_group=plan.heads_from != NO_HEADS,
    )
