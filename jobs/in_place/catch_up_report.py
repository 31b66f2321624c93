"""The report of a catch-up."""

from dataclasses import dataclass, field
from typing import Any

from reput.jobs.outputs.report import counted, found_lines


@dataclass
class CaughtUp:
    """The messages that the derived files lacked, and whether they were added. Physical offsets."""

    store: str
    output: str  # the set that was written; '' if the store's own files were extended
    rocketmq: str
    start: int  # offset from which the log was read
    log_end: int
    end_reason: str
    messages: int = 0  # messages read; the queues may have had the first of them
    entries: int = 0  # new queue entries
    queues: int = 0  # queues with new entries
    index_keys: int = 0
    needed: bool = False
    done: bool = False
    resumed: bool = False  # whether this run finished an earlier catch-up that was killed
    left_out: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)  # queues that lack older messages of the log
    warnings: list[str] = field(default_factory=list)
    discovered: dict[str, dict[str, Any]] = field(default_factory=dict)
    releases: str = ""  # text that names the releases which write the same
    seconds: float = 0.0

    def text(self) -> str:
        if not self.needed:
            head = f"nothing new in {self.store}: "
            head += (
                "but queues have lost what they had" if self.lacking
                else f"the derived files hold all up to {self.log_end:,}"
            )  # fmt: skip
        else:
            verb = "caught up" if self.done else "would catch up"
            where = f"{self.store} -> {self.output}" if self.output else self.store
            head = f"{verb} {where} as RocketMQ {self.releases or self.rocketmq} would"
        lines = [
            head,
            f"  log       {self.start:,} to {self.log_end:,} ({self.end_reason})",
            f"  new       {counted(self.entries, 'entry')} in {counted(self.queues, 'queue')}, "
            f"{counted(self.index_keys, 'key')}",
            f"  time      {self.seconds:.1f} s",
        ]
        if self.resumed:
            lines.append("  resumed   an earlier catch-up, which was killed")
        lines += [f"  lacks     {line}" for line in self.lacking]
        lines += [f"  left out  {line}" for line in self.left_out]
        lines += [f"  warning   {line}" for line in self.warnings]
        return "\n".join(lines)

    def details(self) -> list[str]:
        return found_lines(self.discovered)
