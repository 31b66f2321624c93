"""The plan of a store: its files, the rules that they follow, and the splits of its log."""

from dataclasses import dataclass, field

from reput.jobs.opening.live_end import log_end_now, states_now
from reput.store_format.discover.committed import committed
from reput.store_format.discover.config import not_derived, topic_attributes
from reput.store_format.discover.store import Discovered, StoreAt
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.files.protocol import Storage, listed
from reput.store_format.files.queue_logs import COMPACTED
from reput.store_format.files.system import holder_text
from reput.store_format.layouts import BATCH_QUEUE_ENTRY_BYTES
from reput.store_format.log.groups import heads_from, log_folders
from reput.store_format.log.rules import RecordRules, record_rules
from reput.store_format.log.segments import (
    Finding,
    Segment,
    Splits,
    find_segments,
    list_segments,
    may_grow,
)
from reput.store_format.log.walk import proven_names
from reput.store_format.names import (
    COMPACTION,
    COMPACTION_LOG,
    CONSUME_QUEUE,
    IN_ROCKSDB,
    INDEX,
    refuse_foreign,
)
from reput.store_format.notes import Notes
from reput.store_format.release.profiles import Era, Profile, profile
from reput.store_format.release.settings import (
    SettingError,
    Settings,
    refuse_unsupported,
    setting_warnings,
    settings_from,
)

SPLIT_BYTES = 256 << 20
_SPLIT_BYTES_LEAST = 16 << 20
_SPLITS_A_CORE = 2  # a store of many queues has a row for each queue of each split


@dataclass(frozen=True)
class Plan:
    """A store as found, before its log is read."""

    store: str
    storage: Storage  # the storage of the store
    discovered: Discovered
    profile: Profile  # of the release that wrote to the store last
    settings: Settings
    segments: list[Segment]
    splits: Splits
    batch_topics: tuple[str, ...]
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what a rebuild leaves out without a fault
    in_use: bool = False  # a broker holds the store's lock
    odd: frozenset[int] = frozenset()  # numbers of segments of a wrong size, if `tolerant`
    findings: list[Finding] = field(default_factory=list)
    ends_by: str = ""  # why the log ends at the limit of the splits, if they have one

    @property
    def eras(self) -> tuple[Era, ...]:
        """The successive releases of the store's broker; the last is that of the profile."""
        return self.discovered.eras or (Era(0, self.profile.release, (self.profile.release,)),)

    @property
    def has_queues(self) -> bool:
        """Whether the store has queue files, and no broker is writing to them."""
        return not self.in_use and bool(listed(self.storage, f"{self.store}/{CONSUME_QUEUE}"))

    @property
    def has_index(self) -> bool:
        """Whether the store has index files, and no broker is writing to them."""
        return not self.in_use and bool(listed(self.storage, f"{self.store}/{INDEX}"))

    @property
    def heads_from(self) -> int:
        """The physical offset from which records have DLedger's heads (RecordRules.heads_from)."""
        return heads_from(self.segments)

    @property
    def record_rules(self) -> RecordRules:
        """The format of this log's records."""
        return record_rules(self.profile, self.heads_from)

    @property
    def log_bytes(self) -> int:
        return self.segments[-1].end - self.segments[0].start


def make_plan(
    at: StoreAt,
    discovered: Discovered,
    cores: int = 1,
    split_bytes: int | None = None,
    tolerant: bool = False,
    assume_names: bool = False,
    even_rocksdb: bool = False,
) -> Plan:
    """List and check a store. Raises StoreError, SettingError.

    discovered: release and settings of the store.
    tolerant: faults of segments become the plan's `findings` and are not refused.
    assume_names: with tolerant, the names of segments are those that their records show.
    even_rocksdb: queues in RocksDB are not refused, as the caller reads or builds them, or writes
    nothing.
    """
    storage, store = at.storage, at.path
    rules = profile(discovered.release)
    parsed = settings_from(discovered.settings, release=rules.release)
    refuse_unsupported(parsed, IN_ROCKSDB if even_rocksdb else ())
    segment_bytes = parsed.mapped_file_size_commit_log
    folders = discovered.log_folders or log_folders(storage, store, parsed)
    holder = storage.lock_holder(store)
    if tolerant:
        segments, odd, findings = list_segments(storage, folders, segment_bytes)
        if holder is not None:
            segments = may_grow(segments, -1)  # until the log's end is known
        wrong = {segments[n].path for n in odd}
        segments, misnamed = proven_names(storage, segments, segment_bytes, assume_names)
        odd = frozenset(n for n, each in enumerate(segments) if each.path in wrong)
        findings = findings + misnamed
    else:
        segments, odd, findings = find_segments(storage, folders, segment_bytes), frozenset(), []
    refuse_foreign_store(storage, store, even_rocksdb)
    warnings = [
        *discovered.warnings,
        *setting_warnings(discovered.settings, rules.release, "derive"),
    ]
    of_config = Notes()
    topics = topic_attributes(storage, store, of_config)
    warnings += of_config.lines
    notes = [
        f"topic {name!r} is compacted: what its compaction kept is not derived anew; `reput query "
        f"{COMPACTED}:STORE/{COMPACTION}/{COMPACTION_LOG}/{name}/0` reads that of queue 0"
        for name, about in topics.items()
        if about.get("cleanup.policy") == "COMPACTION"
    ]
    notes += not_derived(storage, store)
    batch_topics = tuple(
        name for name, about in topics.items() if about.get("queue.type") == "BatchCQ"
    )
    if batch_topics and parsed.mapper_file_size_batch_consume_queue % BATCH_QUEUE_ENTRY_BYTES:
        raise SettingError(
            f"mapperFileSizeBatchConsumeQueue={parsed.mapper_file_size_batch_consume_queue} is no "
            f"multiple of {BATCH_QUEUE_ENTRY_BYTES}: RocketMQ does not round it, and its batch "
            f"queues fail at the end of their first file"
        )
    if split_bytes is None:
        split_bytes = _split_bytes(segments, cores)
    limit = None
    if holder is not None and len(odd) < len(segments):
        whole = [each for n, each in enumerate(segments) if n not in odd]
        of_log = scan_rules(rules, parsed, batch_topics, heads_from=heads_from(whole))
        end = log_end_now(storage, whole, of_log)
        segments = may_grow(states_now(storage, segments), end.at)
        limit = end.at if end.sure else None
        notes.insert(
            0,
            f"{store}: is in use, {holder_text(holder)} holds its lock; its log is read up to "
            f"{end.at}, where it ended when this began",
        )
    ends_by = "where a log in use ended when this began" if limit is not None else ""
    agreed = None
    if not parsed.read_uncommitted:
        agreed = committed(storage, store, segments, (storage, store))
    if agreed is not None and (limit is None or agreed.end < limit):
        limit, ends_by = agreed.end, "the committed index of the DLedger group"
        if agreed.behind:
            notes.append(f"{store}: {agreed.text}")
    return Plan(
        store=store,
        storage=storage,
        discovered=discovered,
        profile=rules,
        settings=parsed,
        segments=segments,
        splits=Splits(segments, min(split_bytes, segment_bytes), segment_bytes, limit),
        batch_topics=batch_topics,
        warnings=warnings,
        notes=notes,
        in_use=holder is not None,
        odd=odd,
        findings=findings,
        ends_by=ends_by,
    )


def refuse_foreign_store(storage: Storage, store: str, even_rocksdb: bool = False) -> None:
    """Raise StoreError for queues that reput does not build. even_rocksdb: RocksDB is allowed."""
    refuse_foreign(
        store, lambda name: [n for n, _ in listed(storage, f"{store}/{name}")], even_rocksdb
    )


def _split_bytes(segments: list[Segment], cores: int) -> int:
    """Bytes of a split: large ones cost least, but every core of a small log must have work."""
    total = segments[-1].end - segments[0].start
    wanted = total // (cores * _SPLITS_A_CORE)
    return max(_SPLIT_BYTES_LEAST, min(SPLIT_BYTES, wanted))
