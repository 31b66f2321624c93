"""The report of a verify, for the console and --json."""

from dataclasses import asdict, dataclass, field
from typing import Any

from reput.jobs.judging.differences import Difference, compared_text
from reput.jobs.outputs.report import counted, era_lines, found_lines
from reput.jobs.salvaging.damage_map import DamageMap
from reput.store_format.names import MANIFEST

_SHOWN = 3


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
        lines += [f"  differs   {difference.text()}" for difference in self.differences[:_SHOWN]]
        if count > _SHOWN:
            lines.append(f"  ... and {count - _SHOWN:,} more (-v and --json have all)")
        return "\n".join([*lines, *(f"  warning   {warning}" for warning in self.warnings)])

    def details(self) -> list[str]:
        return [
            *(f"  differs   {difference.text()}" for difference in self.differences[_SHOWN:]),
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
