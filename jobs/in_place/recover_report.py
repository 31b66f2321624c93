"""The report of a recovery, for the console and --json."""

from dataclasses import dataclass, field
from typing import Any

from reput.jobs.outputs.report import counted, found_lines


@dataclass
class Recovered:
    """What a recovery did or would do. Offsets are physical, sizes in bytes, times in seconds."""

    store: str
    rocketmq: str
    log_end: int
    end_reason: str
    done: bool = False
    crashed: bool = False  # whether the file `abort` was there
    cut_bytes: int = 0  # nonzero bytes after the log's end
    cut_kept: str = ""  # the folder that keeps the cut bytes
    written: list[str] = field(default_factory=list)  # derived files that were incomplete or wrong
    removed: list[str] = field(default_factory=list)  # derived files that the log does not give
    checkpoint: bool = False  # whether the checkpoint is written anew
    discovered: dict[str, Any] = field(default_factory=dict)  # what store_format/discover found
    releases: str = ""  # text that names the releases which write the same
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # remarks that are no faults
    expired: list[str] = field(default_factory=list)  # files that RocketMQ's cleaning removes next

    @property
    def needed(self) -> bool:
        return bool(
            self.crashed or self.cut_bytes or self.written or self.removed or self.checkpoint
        )

    def text(self) -> str:
        if not self.needed:
            return f"{self.store} was stopped cleanly and is undamaged: nothing to do"
        lines = [
            f"{'recovered' if self.done else 'would recover'} {self.store} "
            f"as RocketMQ {self.releases or self.rocketmq}",
            f"  log       ends at {self.log_end:,} ({self.end_reason})",
            f"  change    {self.steps() or 'none in the log and what is derived from it'}",
        ]
        if self.cut_bytes:
            lines.append(f"  kept      what is cut, in {self.cut_kept}")
        return "\n".join(lines + [f"  warning   {warning}" for warning in self.warnings])

    def steps(self) -> str:
        """The changes in their order, as a text; empty if there are none."""
        steps = (
            (self.cut_bytes, f"cut {counted(self.cut_bytes, 'byte')} after {self.log_end:,}"),
            (self.written, f"write {counted(len(self.written), 'derived file')}"),
            (self.removed, f"remove {counted(len(self.removed), 'derived file')}"),
            (self.checkpoint, "write checkpoint"),
            (self.crashed, "remove abort"),
        )
        return ", ".join(text for needed, text in steps if needed)

    def details(self) -> list[str]:
        return [
            *(f"  written   {path}" for path in self.written),
            *(f"  removed   {path}" for path in self.removed),
            *found_lines(self.discovered),
            *(f"  note      {note}" for note in self.notes),
        ]
