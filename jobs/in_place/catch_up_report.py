"""What a catch-up found and did, as values."""

from dataclasses import dataclass, field
from typing import Any

from reput.jobs.outputs.count_text import counted
from reput.jobs.outputs.summary import found_lines


@dataclass
class CaughtUp:
    """What the log had that the derived files lacked. Offsets are physical."""

    store: str
    output: str  # the set that was written, '' where the store's own files went on
    rocketmq: str
    start: int  # from where on the log was read
    log_end: int
    end_reason: str
    messages: int = 0  # read; those at the start the queues may have had
    entries: int = 0  # queue entries that were new
    queues: int = 0  # queues that got any
    index_keys: int = 0
    needed: bool = False
    done: bool = False
    resumed: bool = False  # an earlier catch-up was killed, and this one went on
    left_out: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)  # queues without messages that the log has
    warnings: list[str] = field(default_factory=list)
    discovered: dict[str, dict[str, Any]] = field(default_factory=dict)
    releases: str = ""  # those that write the same, as a text
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
