"""What a repair did, as the console shows it, --json prints it and the copy's manifest holds it."""

from dataclasses import asdict, dataclass, field
from typing import Any

from reput.jobs.outputs.count_text import counted
from reput.jobs.outputs.sets import REPAIR_FORMAT
from reput.jobs.outputs.summary import OutputFile, damage_line, found_lines, range_text, short_range
from reput.store_format.faults import REFUSE

DAMAGED = "damaged"  # the folder for the damaged bytes
_SHORT, _SHOWN = 2, 20  # without -v and with it


@dataclass
class RepairSummary:
    """What a repair did. Sizes in bytes, times in seconds, offsets physical."""

    store: str
    output: str
    rocketmq: str
    log_start: int
    log_end: int
    damage: dict[str, Any]  # see reput.jobs.salvaging.damage_search.DamageMap.as_json
    messages: int = 0  # in the repaired log, fillers that a queue takes included
    fillers: int = 0
    corrected: int = 0  # records that only failed a CRC and keep their place
    restored: list[dict[str, Any]] = field(default_factory=list)  # see restore.Patch.as_json
    filled: list[dict[str, Any]] = field(default_factory=list)  # lost positions that fillers keep
    not_filled: list[dict[str, Any]] = field(default_factory=list)  # for which there was no room
    segments: list[OutputFile] = field(default_factory=list)
    saved: list[OutputFile] = field(default_factory=list)  # damaged bytes, and where they are
    derived: list[OutputFile] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)  # the broker's configuration
    on_damage: str = REFUSE  # what the derived files need; `verify` of the copy reads it
    warnings: list[str] = field(default_factory=list)
    discovered: dict[str, Any] = field(default_factory=dict)  # by the store: store_format/discover
    releases: str = ""  # those that write the same, as a text
    seconds: float = 0.0

    def manifest(self) -> dict[str, Any]:
        """All of it, as manifest.json holds it; without the time it took."""
        whole = {"format": REPAIR_FORMAT, **asdict(self)}
        del whole["seconds"], whole["output"], whole["releases"]
        whole["repaired"] = whole.pop("damage")  # of the store that was read, not of this one
        return whole

    def as_json(self) -> dict[str, Any]:
        """What --json prints: counts instead of the lists of files."""
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
