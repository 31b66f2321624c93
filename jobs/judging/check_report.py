"""The report of a check, for the console and --json."""

from dataclasses import dataclass, field
from typing import Any

from reput.jobs.judging.differences import Difference
from reput.jobs.opening.plan import Plan
from reput.jobs.salvaging.damage_map import DamageMap
from reput.store_format.log.rules import NO_HEADS
from reput.store_format.log.segments import Finding


@dataclass
class CheckReport:
    """The findings of a check. Offsets are physical, sizes in bytes, times in seconds."""

    store: str
    rocketmq: str
    log_start: int
    log_end: int  # end of the last live record
    segment_bytes: int
    segments: list[int]  # the physical offset of each segment's start
    messages: int
    damage: dict[str, Any]  # see reput.jobs.salvaging.damage_search.DamageMap.as_json
    findings: list[Finding] = field(default_factory=list)
    derived_files: int | None = None  # compared files; None: the store has no derived files at all
    in_rocksdb: list[str] = field(default_factory=list)  # compared rows, a line for each kind
    differences: list[Difference] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # remarks that are no faults
    behind: list[Difference] = field(default_factory=list)  # files that a broker will complete
    expired: list[str] = field(default_factory=list)  # files that RocketMQ's cleaning removes next
    looks_like: str = ""  # another release by whose rules the store is sound
    discovered: dict[str, Any] = field(default_factory=dict)  # what store_format/discover found
    releases: str = ""  # text that names the releases which write the same
    of_group: bool = False  # the log is that of a DLedger group, which no command changes
    seconds: float = 0.0

    @property
    def sound(self) -> bool:
        """Whether there is no damage, no finding, and no difference of a derived file."""
        return not (self.findings or self.differences or self.damage["range_count"])

    @property
    def only_derived_differ(self) -> bool:
        """Whether the log is sound but derived files are not as the release makes them."""
        return bool(self.differences) and not (self.findings or self.damage["range_count"])

    @property
    def assumed(self) -> bool:
        """Whether the release is assumed, as the store's files do not show it."""
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
