"""The reports of check and verify, as --json has them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from reput.jobs.opening.plan import Plan
from reput.jobs.outputs.report import counted, era_lines, found_lines
from reput.jobs.salvaging.damage_map import DamageMap
from reput.store_format.log.rules import NO_HEADS
from reput.store_format.log.segments import Finding
from reput.store_format.names import CONFIG, MANIFEST, TIMER_CHECK_FILE, TIMER_LOG, TIMER_WHEEL

# ---
# How a derived file differs from the file that the log gives.

NO_SUCH_FILE = "the log gives no such file"
MISSING = "the file is missing"
FILE_LENGTH = "file length"
MISSING_AT_END = "entries are missing at its end"
ONE_TOO_MANY = "one entry too many"


@dataclass
class Difference:
    """The first difference of one file.

    offset: bytes in the file; there, wanted: the field's value in the file, and by the log.
    """

    path: str
    offset: int
    field: str
    there: int | None
    wanted: int | None

    def text(self) -> str:
        if self.there is None or self.wanted is None:
            return f"{self.path}: {self.field}"
        at = f"{self.path}: offset {self.offset}: {self.field}"
        return f"{at}: is {self.there}, should be {self.wanted}"


def compared_text(files: int, shown: str, in_rocksdb: Sequence[str]) -> str:
    """What was compared: `shown`, of so many files, but for rows of RocksDB alone; then those."""
    rows = f"{', '.join(in_rocksdb)} in RocksDB" if in_rocksdb else ""
    return ", ".join(filter(None, (shown if files or not rows else "", rows)))


# ---
# The report of a check, for the console and --json.

TAIL_LOST = "segments, or the end of the last one, may be missing"  # ends such findings
LEFT = " (reput recover leaves it)"  # then follows, where that changes nothing


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
    two_kinds: bool = False  # of queues: in files, and in RocksDB too
    differences: list[Difference] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # remarks that are no faults
    index_of_older_log: bool = False  # the log that it is of was removed
    fall_of_time: str = ""  # the log's greatest fall of storeTimestamp, which may be no fault
    behind: list[Difference] = field(default_factory=list)  # files that a broker will complete
    expired: list[str] = field(default_factory=list)  # files that RocketMQ's cleaning removes next
    looks_like: str = ""  # another release by whose rules the store is sound
    discovered: dict[str, Any] = field(default_factory=dict)  # what store_format/discover found
    releases: str = ""  # text that names the releases which write the same
    of_group: bool = False  # the log is that of a DLedger group, which no command changes
    crashed: bool = False  # the file `abort` is there, and no broker is known to run
    lock_unknown: bool = False  # crashed, or a broker runs: its lock cannot be asked
    seconds: float = 0.0

    @property
    def undamaged(self) -> bool:
        """Whether there is no damage, no finding, and no difference of a derived file."""
        return not (self.findings or self.differences or self.damage["range_count"])

    @property
    def sound(self) -> bool:
        """Whether a broker starts on it as on a store that was stopped, and all is there."""
        return self.undamaged and not self.crashed

    @property
    def state(self) -> str:
        """`sound`, `NOT sound`, or `needs recovery` where a crash is all that is wrong."""
        if self.undamaged:
            return "needs recovery" if self.crashed else "sound"
        return "NOT sound"

    @property
    def of_timers(self) -> bool:
        """Whether the timer's files, which a rebuild derives, are not what a broker needs."""
        mine = (TIMER_LOG, TIMER_WHEEL, f"{CONFIG}/{TIMER_CHECK_FILE}")
        return any(each.path == f"{self.store}/{name}" for each in self.findings for name in mine)

    @property
    def ends_torn(self) -> bool:
        """Whether all that is damaged is what a crash leaves at a log's end, and recovery cuts."""
        if not self.crashed or len(self.damage["ranges"]) < self.damage["range_count"]:
            return False
        follows = {each["follows"] for each in self.damage["ranges"]}
        return follows <= {"nothing live", "the log's end"}

    @property
    def only_derived_differ(self) -> bool:
        """Whether the log is sound but derived files are not as the release makes them."""
        return bool(self.differences) and not (self.findings or self.damage["range_count"])

    @property
    def assumed(self) -> bool:
        """Whether the release is assumed, as the store's files do not show it."""
        return "assumed" in self.releases

    def as_json(self) -> dict[str, Any]:
        own = ("segments", "two_kinds")
        whole = {name: value for name, value in vars(self).items() if name not in own}
        whole["findings"] = [each._asdict() for each in self.findings]
        for name in ("differences", "behind"):
            whole[name] = [vars(each) for each in whole[name]]
        segments = len(self.segments)
        return {"sound": self.sound, "state": self.state, **whole, "segment_files": segments}


def report_of(plan: Plan, found: DamageMap) -> CheckReport:
    """The report of the log alone."""
    return CheckReport(
        plan.store, plan.profile.release, plan.segments[0].start, found.linked.end,
        found.segment_bytes, [segment.start for segment in plan.segments],
        sum(row["records"] for row in found.linked.accepted), found.as_json(),
        list(found.findings), warnings=plan.warnings + found.warnings, notes=list(plan.notes),
        releases=plan.discovered.releases, discovered=plan.discovered.as_json(),
        of_group=plan.heads_from != NO_HEADS,
    )  # fmt: skip


# ---
# The report of a verify, for the console and --json.

_SHOWN_DIFFERENCES = 3


@dataclass
class Report:
    """The result of a verify. log_end: a physical offset; seconds: the time it took."""

    store: str
    against: str
    rocketmq: str
    log_end: int
    end_reason: str
    files: int = 0  # number of compared files
    in_rocksdb: list[str] = field(default_factory=list)  # compared rows, a line for each kind
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # remarks that are no faults
    behind: list[Difference] = field(default_factory=list)  # files that a broker will complete
    expired: list[str] = field(default_factory=list)  # files that RocketMQ's cleaning removes next
    discovered: dict[str, Any] = field(default_factory=dict)  # what store_format/discover found
    releases: str = ""  # text that names the releases which write the same

    @property
    def same(self) -> bool:
        return not self.differences

    def as_json(self) -> dict[str, Any]:
        return {"same": self.same, **asdict(self)}

    def text(self) -> str:
        count = len(self.differences)
        same = "the same" if self.in_rocksdb else "the same, byte for byte"
        files = f"{counted(self.files, 'file')} derived"
        compared = compared_text(self.files, files, self.in_rocksdb)
        lines = [
            f"verified {self.against} against the log of {self.store} "
            f"(RocketMQ {self.releases or self.rocketmq})",
            *era_lines(self.discovered),
            f"  {compared}: {same if self.same else f'{count:,} differ'} ({self.seconds:.1f} s)",
        ]
        lines += [f"  differs   {each.text()}" for each in self.differences[:_SHOWN_DIFFERENCES]]
        if count > _SHOWN_DIFFERENCES:
            lines.append(f"  ... and {count - _SHOWN_DIFFERENCES:,} more (-v and --json have all)")
        return "\n".join([*lines, *(f"  warning   {warning}" for warning in self.warnings)])

    def details(self) -> list[str]:
        return [
            *(f"  differs   {each.text()}" for each in self.differences[_SHOWN_DIFFERENCES:]),
            *found_lines(self.discovered),
            *(f"  note      {note}" for note in self.notes),
        ]


def manifest_differences(
    against: str, manifest: dict[str, Any], damage: DamageMap | None
) -> list[Difference]:
    """A difference if a salvaged set's manifest names other lost messages than the log shows.

    The set's queues keep the positions of lost messages, so manifest and log must agree.
    """
    known = manifest.get("damage")
    if not known or damage is None:
        return []
    missing = [vars(gap) for gap in damage.gaps]
    same = known["missing"] == missing and known["range_count"] == damage.count
    what = "the positions of missing messages are not those that the log gives"
    return [] if same else [Difference(f"{against}/{MANIFEST}", 0, what, None, None)]
