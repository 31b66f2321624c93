"""The summary of a conversion: for the console, --json and the new store's manifest."""

from dataclasses import asdict, dataclass, field
from typing import Any

from reput.jobs.converting.ordered_records import Source
from reput.jobs.outputs.output import CONVERT_FORMAT
from reput.jobs.outputs.report import OutputFile, counted, found_lines

_SHOWN = 40


@dataclass
class TopicFate:
    """What becomes of a topic. least, greatest: queueOffsets in the old log; bytes: total size of
    the taken records in the new log.
    """

    store: str
    topic: str
    becomes: str  # its new name; '' if no record of it is taken
    queues: int
    messages: int
    taken: int
    bytes: int
    least: int
    greatest: int

    def line(self) -> str:
        """For people."""
        if not self.taken:
            return f"{self.topic}: left out, {counted(self.messages, 'record')}"
        name = self.topic if self.becomes == self.topic else f"{self.topic} -> {self.becomes}"
        some = "" if self.taken == self.messages else f" of {self.messages:,}"
        offsets = ""
        if self.least <= self.greatest:
            offsets = f", queueOffsets {self.least:,} to {self.greatest:,}"
        records = counted(self.taken, "record")
        return f"{name}: {records}{some} in {counted(self.queues, 'queue')}{offsets}"


def topic_fates(source: Source) -> list[TopicFate]:
    """The TopicFate of each topic of a store, in the order of names."""
    found: dict[str, TopicFate] = {}
    store = source.job.plan.store
    for key, seen in source.measured.queues.items():
        fate = found.setdefault(
            key.topic, TopicFate(store, key.topic, "", 0, 0, 0, 0, seen.least, -1)
        )
        fate.queues += 1
        fate.messages += seen.records
        fate.taken += seen.taken
        fate.bytes += seen.bytes
        fate.least, fate.greatest = min(fate.least, seen.least), max(fate.greatest, seen.greatest)
    for fate in found.values():
        if fate.taken:
            fate.becomes = source.changes.renamed(fate.topic)
    return [found[topic] for topic in sorted(found)]


@dataclass
class ConvertSummary:
    """What a conversion did or would do. Sizes in bytes, times in seconds, offsets physical."""

    stores: list[str]
    output: str  # '' in a dry run
    rocketmq: str  # the release of the new store
    read_as: str  # the release by whose rules the first old store was read
    settings: dict[str, str]  # of the new store, by RocketMQ's names
    old_starts: list[int]  # of each store
    old_ends: list[int]
    log_start: int
    log_end: int
    # for each store, the number of records that an earlier store has too, at the same offset
    shared: list[int] = field(default_factory=list)
    messages: int = 0
    topics: list[TopicFate] = field(default_factory=list)
    segments: list[OutputFile] = field(default_factory=list)
    derived: list[OutputFile] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)  # the broker's configuration
    warnings: list[str] = field(default_factory=list)
    discovered: dict[str, Any] = field(default_factory=dict)  # what store_format/discover found
    cleaned: list[str] = field(default_factory=list)  # leftovers of other runs, removed
    dry_run: bool = False
    seconds: float = 0.0

    def manifest(self) -> dict[str, Any]:
        """The content of manifest.json: all fields but those that differ from run to run."""
        whole = {"format": CONVERT_FORMAT, **asdict(self)}
        del whole["seconds"], whole["output"], whole["cleaned"], whole["dry_run"]
        return whole

    def as_json(self) -> dict[str, Any]:
        """The content of --json: counts instead of the lists of files."""
        whole = asdict(self)
        for name in ("segments", "derived"):
            whole[name] = len(whole[name])
        return whole

    def text(self) -> str:
        """The summary for people."""
        stores = ", ".join(self.stores)
        begins = (
            f"would convert {stores}" if self.dry_run else f"converted {stores} -> {self.output}"
        )
        lines = [
            f"{begins} (RocketMQ {self.rocketmq})",
            *(
                f"  log       {start:,} to {end:,}"
                for start, end in zip(self.old_starts, self.old_ends, strict=True)
            ),
            f"  becomes   {self.log_start:,} to {self.log_end:,}, "
            f"{counted(self.messages, 'record')}",
            *(
                f"  shared    {counted(count, 'record')} of {store} are in a store before it too: "
                "taken once"
                for store, count in zip(self.stores, self.shared, strict=True) if count
            ),
            *(f"  topic     {fate.line()}" for fate in self.topics[:_SHOWN]),
        ]  # fmt: skip
        if len(self.topics) > _SHOWN:
            lines.append(f"  topic     ... and {len(self.topics) - _SHOWN:,} more; --json has all")
        lines += [f"  warning   {each}" for each in self.warnings]
        lines += [
            f"  cleaned   {folder}, left by a run that ended early" for folder in self.cleaned
        ]
        if self.dry_run:
            return "\n".join([*lines, "  next      the same without --dry-run writes it"])
        lines.append(
            f"  made      {counted(len(self.segments), 'segment')}, "
            f"{counted(len(self.derived), 'derived file')}, {self.seconds:.1f} s"
        )
        return "\n".join([*lines, f"  next      start a broker on {self.output}"])

    def details(self) -> list[str]:
        """Further lines, for -v."""
        return [
            *(f"  topic     {fate.line()}" for fate in self.topics[_SHOWN:]),
            *found_lines(self.discovered),
        ]
