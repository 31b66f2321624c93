"""The report of a replication."""

from dataclasses import asdict, dataclass, field
from typing import Any

from reput.jobs.outputs.report import counted, time_text


@dataclass
class Replicated:
    """What `reput replicate` did or would do. Offsets are physical, times milliseconds."""

    source: str
    target: str
    start: int = 0  # start of the target's log
    resumed_at: int = 0  # end of the target's log before
    end: int = 0  # end of the target's log now, or after the replication
    records: int = 0  # copied records
    entries: int = 0  # derived queue entries
    last_timestamp: int = 0  # storeTimestamp of the last copied record
    behind: int = 0  # bytes that the source has and the target lacks
    end_reason: str = ""
    config: list[str] = field(default_factory=list)  # names of the copied files of config/
    dry_run: bool = False
    reconnects: int = 0
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        copied = self.end - self.resumed_at
        verb = "would copy" if self.dry_run else "copied"
        speed = f", {copied / self.seconds / 1e6:,.0f} MB/s" if self.seconds > 0.1 else ""
        lines = [
            f"{verb} {self.source} to {self.target}",
            f"  log       {self.resumed_at:,} to {self.end:,} ({self.end_reason})",
        ]
        if not self.dry_run:
            entries = counted(self.entries, "queue entry")
            lines.append(f"  new       {counted(self.records, 'record')}, {entries}")
            lines.append(f"  time      {self.seconds:.1f} s{speed}")
        if self.last_timestamp:
            lines.append(f"  last      stored {time_text(self.last_timestamp)}")
        if self.behind:
            lines.append(f"  behind    {self.behind:,} bytes")
        if self.reconnects:
            lines.append(f"  again     connected {counted(self.reconnects, 'time')}")
        lines += [f"  warning   {line}" for line in self.warnings]
        return "\n".join(lines)


def behind_text(behind: int, last: int, now: int) -> str:
    """A text of how far a replica is behind, in bytes and time."""
    late = f", {max(now - last, 0) // 1000:,} s old" if last and behind else ""
    return f"{behind:,} bytes behind{late}" if behind else "up to date"
