"""What a recovery did, as the console shows it and --json prints it."""

from dataclasses import dataclass, field
from typing import Any

from reput.store_format.discover.store import discovered_lines


@dataclass
class Recovered:
    """What a recovery did, or would do. Offsets are physical, sizes in bytes, times in seconds."""

    store: str
    rocketmq: str
    log_end: int
    end_reason: str
    done: bool = False
    crashed: bool = False  # abort was there
    cut_bytes: int = 0  # bytes after the end that were not zero
    cut_kept: str = ""  # the folder where they are kept
    written: list[str] = field(default_factory=list)  # derived files that were behind or wrong
    removed: list[str] = field(default_factory=list)  # derived files that the log gives none of
    checkpoint: bool = False  # it is written anew
    discovered: dict[str, Any] = field(default_factory=dict)  # by the store: store_format/discover
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what is no fault
    expired: list[str] = field(default_factory=list)  # what RocketMQ's cleaning removes next

    @property
    def needed(self) -> bool:
        """Whether there is anything to do."""
        return bool(
            self.crashed or self.cut_bytes or self.written or self.removed or self.checkpoint
        )

    def text(self) -> str:
        """What a person reads at the end."""
        if not self.needed:
            return f"{self.store} was stopped cleanly and is undamaged: nothing to do"
        lines = [
            f"{'recovered' if self.done else 'would recover'} {self.store} "
            f"as RocketMQ {self.rocketmq}",
            f"  log       ends at {self.log_end:,} ({self.end_reason})",
            f"  cut       {self.cut_bytes:,} bytes that were not zero"
            + (f", kept in {self.cut_kept}" if self.cut_bytes else ""),
            f"  written   {len(self.written):,} derived files",
            f"  removed   {len(self.removed):,} derived files",
            f"  abort     {'removed' if self.crashed else 'was not there'}",
        ]
        lines += [f"  found     {line}" for line in discovered_lines(self.discovered)]
        lines += [f"  note      {note}" for note in self.notes]
        return "\n".join(lines + [f"  warning   {warning}" for warning in self.warnings])
