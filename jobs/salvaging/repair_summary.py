"""The summary of a repair: for the console, --json and the copy's manifest."""

from dataclasses import asdict, dataclass, field
from typing import Any

from reput.jobs.outputs.output import REPAIR_FORMAT
from reput.jobs.outputs.report import (
    OutputFile,
    counted,
    damage_line,
    found_lines,
    range_text,
    short_range,
)
from reput.store_format.faults import REFUSE

DAMAGED = "damaged"  # the folder for the damaged bytes
_SHORT, _SHOWN = 2, 20  # without -v and with it


@dataclass
class RepairSummary:
    """The result of a repair. Sizes in bytes, times in seconds, offsets physical."""

    store: str
    output: str
    rocketmq: str
    log_start: int
    log_end: int
    damage: dict[str, Any]  # see reput.jobs.salvaging.damage_search.DamageMap.as_json
    messages: int = 0  # in the repaired log, with the fillers that have a queue entry
    fillers: int = 0
    corrected: int = 0  # records with only a wrong CRC, which stay where they are
    restored: list[dict[str, Any]] = field(default_factory=list)  # see restore.Patch.as_json
    filled: list[dict[str, Any]] = field(default_factory=list)  # lost positions with a filler
    not_filled: list[dict[str, Any]] = field(default_factory=list)  # gaps without room for fillers
    segments: list[OutputFile] = field(default_factory=list)
    saved: list[OutputFile] = field(default_factory=list)  # files with the damaged bytes
    derived: list[OutputFile] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)  # the broker's configuration
    on_damage: str = REFUSE  # by which the files were derived; `verify` of the copy needs it
    warnings: list[str] = field(default_factory=list)
    discovered: dict[str, Any] = field(default_factory=dict)  # what store_format/discover found
    releases: str = ""  # text that names the releases which write the same
    seconds: float = 0.0

    def manifest(self) -> dict[str, Any]:
        """The content of manifest.json: all fields but the time, the output and `releases`."""
        whole = {"format": REPAIR_FORMAT, **asdict(self)}
        del whole["seconds"], whole["output"], whole["releases"]
        whole["repaired"] = whole.pop("damage")  # damage of the store that was read, not the copy
        return whole

    def as_json(self) -> dict[str, Any]:
        """The content of --json: counts instead of the lists of files."""
        whole = asdict(self)
        for name in ("segments", "saved", "derived"):
            whole[name] = len(whole[name])
        return whole

    def text(self) -> str:
        kept = sum(each["many"] for each in self.filled)
        lines = [
            f"repaired {self.store} -> {self.output} (RocketMQ {self.releases or self.rocketmq})",
            f"  log       {self.log_start:,} to {self.log_end:,}, "
            f"{counted(self.messages, 'message')}, {counted(len(self.derived), 'derived file')}",
            f"  damage    {damage_line(self.damage)}",
            *(f"  range     {short_range(each)}" for each in self.damage["ranges"][:_SHORT]),
        ]
        if self.fillers:
            lines.append(
                f"  fillers   {counted(self.fillers, 'record')}, of which {kept:,} "
                f"{'keeps' if kept == 1 else 'keep'} a lost message's position"
            )
        if self.corrected:
            lines.append(
                f"  kept      {counted(self.corrected, 'record')} whose checksum is wrong: the "
                "copy's is made anew"
            )
        if self.saved:
            saved = sum(file.length for file in self.saved)
            lines.append(f"  saved     {counted(saved, 'damaged byte')} in {DAMAGED}/")
        lines += [
            f"  restored  {each['field']} of the record at {each['record']}: "
            f"{', '.join(each['bits'])}; by {each['by']}"
            for each in self.restored[:_SHOWN]
        ]
        ranges = {range_text(each) for each in self.damage["ranges"]}  # -v shows these
        lines += [f"  warning   {each}" for each in self.warnings if each not in ranges]
        return "\n".join([*lines, f"  next      start a broker on {self.output}"])

    def details(self) -> list[str]:
        return [
            *(f"  range     {range_text(each)}" for each in self.damage["ranges"][:_SHOWN]),
            *found_lines(self.discovered),
        ]
