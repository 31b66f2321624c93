"""The summary of a conversion, and what still waits of a store taken in part."""

from dataclasses import asdict, dataclass, field
from typing import Any

from reput.jobs.converting.ordered import Source
from reput.jobs.opening.plan import Plan
from reput.jobs.opening.questions import open_store
from reput.jobs.outputs.output import CONVERT_FORMAT
from reput.jobs.outputs.report import OutputFile, counted, files_text, found_lines, slash_in
from reput.store_format.fate.rows import ENDED
from reput.store_format.fate.transactions import TransactionState
from reput.store_format.faults import StoreError
from reput.store_format.message.message import ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC, TIMER_TOPIC
from reput.store_format.rewrite.changes import TRANSACTIONS, WHOLE, Changes, Fate

# ---
# The summary of a conversion: for the console, --json and the new store's manifest.

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
        if not seen.records:
            continue  # an LMQ: no records of its own
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
    in_flight: list[str] = field(default_factory=list)  # what becomes of it, in words
    waits: list[str] = field(default_factory=list)  # of timers and delay levels, in words
    segments: list[OutputFile] = field(default_factory=list)
    derived: list[OutputFile] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)  # the broker's configuration
    lacks: list[str] = field(default_factory=list)  # what is known to be missing in the old logs
    warnings: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  # messages that are in no queue
    discovered: dict[str, Any] = field(default_factory=dict)  # what store_format/discover found
    cleaned: list[str] = field(default_factory=list)  # leftovers of other runs, removed
    dry_run: bool = False
    seconds: float = 0.0

    @property
    def first(self) -> str:
        """What a person does before a broker starts; '' for nothing."""
        return slash_in(self.derived)

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
        lines += [f"  in flight {each}" for each in self.in_flight]
        lines += [f"  waits     {each}" for each in self.waits]
        lines += [f"  left out  {each}" for each in self.left_out]
        lines += [f"  missing   {each}" for each in self.lacks]
        lines += [f"  warning   {each}" for each in self.warnings]
        lines += [
            f"  cleaned   {folder}, left by a run that ended early" for folder in self.cleaned
        ]
        if self.dry_run:
            return "\n".join([*lines, "  next      the same without --dry-run writes it"])
        lines.append(
            f"  made      {counted(len(self.segments), 'segment')}, "
            f"{files_text(each.path for each in self.derived)}, {self.seconds:.1f} s"
        )
        return "\n".join(
            [*lines, f"  next      {self.first or f'start a broker on {self.output}'}"]
        )

    def details(self) -> list[str]:
        """Further lines, for -v."""
        return [
            *(f"  topic     {fate.line()}" for fate in self.topics[_SHOWN:]),
            *found_lines(self.discovered),
        ]


# ---
# The waiting half messages and timers of a store of which only some records are taken.


def refuse_places_in_bodies(plan: Plan, topics: set[str]) -> None:
    """Raise StoreError if op messages contain physical offsets (TransMessageRocksDBStore), which
    would change. topics: topics of which records are taken.
    """
    for topic in sorted(topics & {ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC}):
        raise StoreError(
            f"{plan.store}: has messages of {topic} (transRocksDBEnable): they tell of places in "
            f"the log, which would be others; with `--drop {topic}` no transactions are taken, "
            "and none may be pending"
        )


def waiting(plan: Plan, changes: Changes, topics: set[str]) -> tuple[int, ...]:
    """The physical offsets of pending half messages and of messages that wait for the timer, in
    order, of topics that are taken. A transaction gives the offset of its newest copy.

    No op message or file needs to name these messages: a broker checks back such a half message as
    if it were new, and puts such a timer into its wheel (TransactionalMessageServiceImpl.check,
    TimerMessageStore.recover). topics: topics of the store. Raises StoreError if transactions of
    transRocksDBEnable are pending.
    """
    topics = topics & WHOLE - set(changes.topics)
    if not changes.selects or not topics:
        return ()

    def taken(topic: str | None) -> bool:
        return topic is not None and changes.of_name(topic).fate == Fate.TAKEN

    places = set()
    with open_store(
        plan.store, rocketmq=plan.profile.release, settings=plan.discovered.settings,
        storage=plan.storage,
    ) as store:  # fmt: skip
        if topics & TRANSACTIONS:
            pending = [
                row for row in store.transactions()
                if row.state == TransactionState.PENDING and taken(row.topic)
            ]  # fmt: skip
            if pending and ROCKSDB_HALF_TOPIC in topics:
                raise StoreError(
                    f"{plan.store}: {counted(len(pending), 'pending transaction')} of topic "
                    f"{str(pending[0].topic)[:127]!r}: their messages in {ROCKSDB_HALF_TOPIC} "
                    "cannot be taken without those of all topics, from one store; only their "
                    "broker or producer can end them"
                )
            places |= {row.last_physical_offset for row in pending}
        if TIMER_TOPIC in topics:
            places |= {
                row.physical_offset for row in store.delayed()
                if row.by == "timer" and row.state not in ENDED and taken(row.topic)
            }  # fmt: skip
    return tuple(sorted(places))
