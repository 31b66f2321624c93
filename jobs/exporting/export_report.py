"""The reports of an export, and of the comparison of an export with its log."""

from dataclasses import asdict, dataclass, field
from typing import Any

from reput.jobs.outputs.output import EXPORT_FORMAT
from reput.jobs.outputs.report import counted
from reput.udfs.table.export import MessageSums

_SHOWN = 20


@dataclass
class Exported:
    """The result of an export. Offsets are physical; seconds: time of the whole job."""

    store: str
    output: str
    kind: str
    release: str
    log_start: int
    log_end: int  # offset up to which the log was read
    chosen: dict[str, Any]  # the options that choose messages and columns
    sums: MessageSums
    files: list[dict[str, Any]] = field(default_factory=list)  # path, length, sha256, messages
    left_out: int = 0
    system: int | None = 0  # messages of system topics left out; None: not counted
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    cleaned: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def messages(self) -> int:
        """The number of exported messages."""
        return self.sums.messages

    def manifest(self) -> dict[str, Any]:
        """The content of the set's manifest."""
        whole = asdict(self)
        del whole["seconds"], whole["cleaned"], whole["output"]
        return {"format": EXPORT_FORMAT, **whole}

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "messages": self.messages}

    def text(self) -> str:
        length = sum(each["length"] for each in self.files)
        files = f" in {counted(len(self.files), 'file')}, {length:,} bytes"
        lines = [
            f"exported {self.store} -> {self.output}",
            f"  log       {self.log_start:,} to {self.log_end:,}",
            f"  messages  {self.messages:,}{'' if self.kind == 'delta' else files}",
            f"  time      {self.seconds:.1f} s",
        ]
        if self.system != 0:
            many = "not counted" if self.system is None else counted(self.system, "message")
            lines.append(f"  system    {many} of system topics left out: --system-topics")
        if self.left_out:
            lines.append(f"  left out  at {counted(self.left_out, 'place')}:")
            lines += [f"    {note}" for note in self.notes[:_SHOWN]]
        return "\n".join(lines + [f"  warning   {each}" for each in self.warnings])


@dataclass
class ComparedExport:
    """An export compared with its log. differences: empty if both have the same messages."""

    store: str
    output: str
    messages: int
    differences: list[str]

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.differences

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "same": self.same}

    def text(self) -> str:
        if self.same:
            many = counted(self.messages, "message")
            return f"{self.output}: {many}, as the log of {self.store} has them"
        return "\n".join([f"{self.output}: differs from the log of {self.store}", *(
            f"  {each}" for each in self.differences)])  # fmt: skip
