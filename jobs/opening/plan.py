"""The plan of a store: its files, the rules that they follow, the splits of its log, the end of a
log that grows; and whether the log has changed since.
"""

import time
from collections.abc import Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from reput.store_format import names
from reput.store_format.derived.index_header import index_files
from reput.store_format.derived.index_names import BY_PROCESS, NameZone, name_zone, offset_text
from reput.store_format.derived.queues import FileQueues
from reput.store_format.discover import config
from reput.store_format.discover.committed import committed, emptied
from reput.store_format.discover.config_faults import config_faults, seal_faults
from reput.store_format.discover.delay_levels import assumed_delays
from reput.store_format.discover.purpose import Purpose
from reput.store_format.discover.store import Discovered, StoreAt
from reput.store_format.dispatch.scan import End, ScanRules, scan, scan_rules
from reput.store_format.faults import EmptyLog, Fault, StoreChanged, StoreError
from reput.store_format.files.folder import Folder, Place, read_part
from reput.store_format.files.protocol import ANY_TIME, FileState, InputStorage, Reader, Storage
from reput.store_format.files.queue_logs import COMPACTED
from reput.store_format.files.system import holder_text
from reput.store_format.layouts import BATCH_QUEUE_ENTRY_BYTES
from reput.store_format.log.groups import heads_from, log_folders
from reput.store_format.log.rules import RecordRules, record_rules
from reput.store_format.log.segments import (
    Finding,
    Listing,
    Segment,
    Splits,
    Stretch,
    find_segments,
    list_segments,
    may_grow,
)
from reput.store_format.log.there import of_strangers, strangers
from reput.store_format.log.walk import proven_names
from reput.store_format.notes import Notes
from reput.store_format.release.profiles import Era, Profile, profile
from reput.store_format.release.settings import (
    SettingError,
    Settings,
    refuse_unsupported,
    setting_warnings,
    settings_from,
)
from reput.store_format.rocksdb.database import RocksDBError, require_library
from reput.store_format.rocksdb.queues import RocksDBQueues, queues_folder

# ---
# The end of a log that a broker is writing to, at the time when a job began.
#
# RocketMQ only appends, so bytes before that end do not change. Only the segment with the end and
# those after it may change while the job runs.

_TRIES = 20
_PAUSE = 0.05  # seconds: a record is copied into the log in microseconds


class LiveEnd(NamedTuple):
    """The end of a growing log. sure: the bytes after it are no damage, but being written."""

    at: int  # physical offset
    sure: bool


def log_end_now(storage: InputStorage, segments: list[Segment], rules: ScanRules) -> LiveEnd:
    """Walk the last segment with data up to the log's end.

    A record that is being written looks damaged for a moment, and so do stale bytes that the next
    record will cover. So the walk is repeated; if the end moves, the log is growing there.
    """
    segment = _last_written(storage, segments)
    if segment is None:
        return LiveEnd(segments[0].start, True)
    first = end = _walk(storage, segment, segment.start, rules)
    for _ in range(_TRIES):
        if end.fault in (Fault.ZEROS, Fault.BLANK) or end.next > first.next:
            return LiveEnd(end.next, True)
        time.sleep(_PAUSE)
        end = _walk(storage, segment, end.next, rules)
    return LiveEnd(end.next, False)


def states_now(storage: InputStorage, segments: list[Segment]) -> list[Segment]:
    """The segments with their present states: the last listed segment may be full by now."""
    now = _states(storage, segments)
    return [s._replace(state=now.get(s.path) or s.state) for s in segments]


def _states(storage: InputStorage, segments: list[Segment]) -> dict[str, FileState | None]:
    """By path, with one listing a folder: such a request on a remote storage covers many files."""
    folders = dict.fromkeys(segment.path.rpartition("/")[0] for segment in segments)
    return {f"{folder}/{name}": state for folder in folders for name, state in storage.list(folder)}


def _open(storage: InputStorage, segment: Segment) -> Reader:
    return storage.open(segment.path, segment.state._replace(mtime=ANY_TIME))


def _last_written(storage: InputStorage, segments: list[Segment]) -> Segment | None:
    """The last segment with data; a segment that is only prepared is all zeros."""
    for segment in reversed(segments):
        if read_part(storage, segment.path, 0, 8, segment.state._replace(mtime=ANY_TIME)).any():
            return segment
    return None


def _walk(storage: InputStorage, segment: Segment, at: int, rules: ScanRules) -> End:
    end = End()
    reader = _open(storage, segment)
    stretch = Stretch(segment.start, segment.end, at, segment.end, at)
    for part in scan(segment.read_by(reader), stretch, rules):
        if isinstance(part, End):
            end = part
    reader.close()
    return end


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
    odd: frozenset[int] = frozenset()  # segments of a wrong size, where faults are mapped
    findings: list[Finding] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)  # what is known to be missing at the log's end
    in_the_way: list[str] = field(default_factory=list)  # what to do before a broker starts
    of_config: list[str] = field(default_factory=list)  # the same, of its configuration
    ends_by: str = ""  # why the log ends at the limit of the splits, if they have one
    remade: str = ""  # Lives.remade
    queues_of: Folder | None = None  # a store whose queues these were, if another

    @property
    def folder(self) -> Place:
        return Place(self.storage, self.store)

    @property
    def queues_at(self) -> Folder:
        """Where the queue files are that show which life of a topic they have (Lives.queues)."""
        return self.queues_of or self.folder

    @property
    def eras(self) -> tuple[Era, ...]:
        """The successive releases of the store's broker; the last is that of the profile."""
        return self.discovered.eras or (Era(0, self.profile.release, (self.profile.release,)),)

    @property
    def has_queues(self) -> bool:
        """Whether the store has queue files, and no broker is writing to them."""
        return not self.in_use and bool(self.folder.listed(names.CONSUME_QUEUE))

    @property
    def has_index(self) -> bool:
        """Whether the store has index files, and no broker is writing to them."""
        return not self.in_use and bool(self.folder.listed(names.INDEX))

    def assumed_delays(self, levels: Set[int]) -> list[str]:
        """What is assumed of the levels of messages that are dispatched (`assumed_delays`)."""
        return assumed_delays(self.discovered.delays_shown, self.settings.delays, levels)

    @cached_property
    def index_zone(self) -> NameZone:
        """The time zone in which index files are named that are made for the store."""
        return index_zone(self.folder, self.settings)

    @property
    def heads_from(self) -> int:
        """The physical offset from which records have DLedger's heads (RecordRules.heads_from)."""
        return heads_from(self.segments)

    @property
    def record_rules(self) -> RecordRules:
        return record_rules(self.profile, self.heads_from)

    @property
    def log_bytes(self) -> int:
        return self.segments[-1].end - self.segments[0].start


def index_zone(store: Folder, settings: Settings) -> NameZone:
    """The zone in which index files are named: as given, as files show it, or this process's."""
    named = [(about.name, head) for about, head in index_files(store)]
    own = _offset_here(time.time_ns() // 1_000_000)
    here = NameZone(offset_text(own), BY_PROCESS, _offset_here)
    return name_zone(named, settings.time_zone, here)


def _offset_here(at: int) -> int:
    return time.localtime(at // 1000).tm_gmtoff * 1000


def make_plan(
    at: StoreAt,
    discovered: Discovered,
    purpose: Purpose,
    cores: int = 1,
    split_bytes: int | None = None,
    assume_names: bool = False,
) -> Plan:
    """List and check a store. Raises StoreError, SettingError.

    discovered: release and settings of the store, found for the same purpose.
    assume_names: where faults are mapped, the names of segments are those that their records show.
    """
    storage, store = at.storage, at.folder
    rules = profile(discovered.release)
    parsed = settings_from(discovered.settings, release=rules.release)
    refuse_unsupported(parsed, names.IN_ROCKSDB if purpose.rocksdb else ())
    segment_bytes = parsed.mapped_file_size_commit_log
    folders = discovered.log_folders or log_folders(store, parsed)
    holder = storage.lock_holder(at.path)
    listed_by = list_segments if purpose.maps else find_segments
    try:
        there = listed_by(storage, folders, segment_bytes)
    except EmptyLog as error:
        raise emptied(store, error) from None
    if isinstance(there, Listing):
        segments, odd, findings = there
        if holder is not None:
            segments = may_grow(segments, -1)  # until the log's end is known
        wrong = {segments[n].path for n in odd}
        if purpose.names:
            segments, misnamed = proven_names(storage, segments, segment_bytes, assume_names)
            findings = findings + misnamed
        odd = frozenset(n for n, each in enumerate(segments) if each.path in wrong)
    else:
        segments, odd, findings = there, frozenset(), []
    said, in_the_way = of_strangers(strangers(store, folders), rules)
    findings += in_the_way if purpose.maps else []
    refuse_foreign_store(store, purpose.rocksdb)
    warnings = [
        *discovered.warnings,
        *said,
        *([] if purpose.maps else [f"{each.path}: {each.reason}" for each in in_the_way]),
        *setting_warnings(discovered.settings, rules.release, "derive"),
    ]
    unread = _unread_rows(store, discovered.settings)
    findings += unread if purpose.maps else []
    warnings += [] if purpose.maps else [f"{each.path}: {each.reason}" for each in unread]
    said_of_config = Notes()
    topics = config.topic_attributes(store, said_of_config)
    faults = config_faults(store, holder is not None)
    faults += seal_faults(storage, segments, discovered.found)
    paths = tuple(fault.path for fault in faults)
    warnings += [line for line in said_of_config.lines if not line.startswith(paths or "\0")]
    for fault in faults:
        if purpose.maps and fault.todo:
            findings.append(Finding(fault.path, fault.reason, todo=fault.todo))
        else:
            warnings.append(str(fault))
    notes = [
        f"topic {name!r} is compacted: install, recover and repair bring {names.COMPACTION}/ "
        f"to the log; `reput query {COMPACTED}:STORE/{names.COMPACTION}/{names.COMPACTION_LOG}/"
        f"{name}/0` reads queue 0"
        for name, about in topics.items()
        if about.get("cleanup.policy") == "COMPACTION"
    ]
    notes += config.not_derived(store, discovered.settings)
    notes += _followed(segments, folders)
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
    lacks = []
    if not parsed.read_uncommitted:
        agreed = committed(store, segments, store)
    if agreed is not None and agreed.missing:
        lacks = [agreed.text]
        findings = [*findings, Finding(at.path, agreed.text)] if purpose.maps else findings
    elif agreed is not None and (limit is None or agreed.end < limit):
        limit, ends_by = agreed.end, "the committed index of the DLedger group"
        if agreed.behind:
            notes.append(f"{store}: {agreed.text}")
    return Plan(
        store=at.path,
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
        lacks=lacks,
        in_the_way=[each.todo for each in in_the_way],
        of_config=[fault.todo for fault in faults if fault.todo],
    )


_APART = "useSeparateStorePathForRocksdbCQ"
_SELECTIVE = "rocksdbCQSelectiveDoubleWriteEnable"
_PREFERRED, _ASSIGNS = "combineCQPreferCQType", "combineAssignOffsetCQType"


def _unread_rows(store: Folder, given: Mapping[str, str]) -> list[Finding]:
    """Queues in RocksDB that a broker with these settings refuses, or does not read."""
    folder = queues_folder(store)
    kind, apart = given.get("storeType"), given.get(_APART)
    for name in (_PREFERRED, _ASSIGNS) if given.get(_SELECTIVE) == "true" else ():
        if given.get(name, "default") != "default":  # CombineConsumeQueueStore's constructor
            reason = f"with {_SELECTIVE}=true and {name}={given[name]} no broker starts"
            return [Finding(f"{store}/{names.CONSUME_QUEUE}", reason, todo=f"set {name}=default")]
    if folder is None or any(name.startswith(("combineCQ", "rocksdbCQ")) for name in given):
        return []
    if kind == "defaultRocksDB" and apart in ("true", "false"):
        if folder == store / names.ROCKSDB_QUEUES[apart == "true"]:
            return []
        other = "false" if apart == "true" else "true"  # RocksDBConsumeQueueStore's constructor
        reason = f"the queues' RocksDB is here, so that with {_APART}={apart} no broker starts"
        return [Finding(f"{folder}/{names.CURRENT}", reason, todo=f"set {_APART}={other}")]
    alone = kind == "default" and not FileQueues(store, lambda batch: 0).topics()
    if alone and config.has_rows(folder):
        reason = "the queues are here alone, and a broker with storeType=default reads none of them"
        return [Finding(folder.path, reason, todo="set storeType=defaultRocksDB")]
    return []


def _followed(segments: list[Segment], folders: Sequence[str]) -> list[str]:
    """A note of the segments that are links to files elsewhere (segments._in_folders)."""
    there = [each.path for each in segments if each.path.rpartition("/")[0] not in folders]
    if not there:
        return []
    return [
        f"{len(there)} of {len(segments)} segments are links, to {there[0]}"
        f"{' and others' if there[1:] else ''}: read as a broker reads them; a command that "
        f"would change or delete one refuses"
    ]


def refuse_foreign_store(store: Folder, even_rocksdb: bool = False) -> None:
    """Raise StoreError for queues that reput does not build. even_rocksdb: RocksDB is allowed."""
    names.refuse_foreign(store.path, lambda name: [n for n, _ in store.listed(name)], even_rocksdb)


def _split_bytes(segments: list[Segment], cores: int) -> int:
    """Bytes of a split: large ones cost least, but every core of a small log must have work."""
    total = segments[-1].end - segments[0].start
    wanted = total // (cores * _SPLITS_A_CORE)
    return max(_SPLIT_BYTES_LEAST, min(SPLIT_BYTES, wanted))


# ---
# Checks that the log has not changed since the plan was made.


def check_unchanged(plan: Plan) -> None:
    """Raise StoreChanged if a segment has changed since the plan was made."""
    now = _states(plan.storage, plan.segments)
    for segment in plan.segments:
        state = now.get(segment.path)
        if state is None or not segment.state.admits(state):
            raise StoreChanged(
                f"{segment.path}: changed during the rebuild: {segment.state} is now {state}"
            )


# ---
# Whether the queues and the index of a store are derived as files or as a RocksDB.

FILES, ROCKSDB = "files", "rocksdb"
KINDS = (FILES, ROCKSDB)
INDEX_SETTING = "indexRocksDBEnable"
_STORE_TYPES = {"default": FILES, "defaultRocksDB": ROCKSDB}  # StoreType


def kind_of_queues(
    plan: Plan, asked: str | None, output: str, of_both: str | None = None
) -> str:  # fmt: skip
    """FILES or ROCKSDB. asked: the user's choice, None: as in the store; output: path of the set;
    of_both: the kind if the store has both, and neither reaches further in the log.

    Raises SettingError if the store has both and of_both is None, or `asked` is neither;
    RocksDBMissing.
    """
    return _checked("queues", asked or _kind_there(plan, of_both), output)


def kind_of_index(plan: Plan, asked: str | None, output: str) -> str:
    """FILES or ROCKSDB, which the index is derived as; asked=None: by `index_kind`."""
    return _checked("index", asked or index_kind(plan), output)


def index_kind(plan: Plan) -> str:
    """ROCKSDB if indexRocksDBEnable=true and indexFileWriteEnable=false, else FILES."""
    given = plan.discovered.settings
    alone = given.get(INDEX_SETTING) == "true" and not plan.settings.index_file_write_enable
    return ROCKSDB if alone else FILES


def _checked(what: str, kind: str, output: str) -> str:
    if kind not in KINDS:
        raise SettingError(f"{what}={kind}: there are {' and '.join(KINDS)}")
    if kind == ROCKSDB:
        require_library(output)
    return kind


def _kind_there(plan: Plan, of_both: str | None) -> str:
    store_type = plan.settings.store_type
    if store_type not in _STORE_TYPES:
        raise SettingError(f"storeType={store_type}: there are {' and '.join(_STORE_TYPES)}")
    folder = queues_folder(plan.folder)
    if folder is None or _STORE_TYPES[store_type] == ROCKSDB:
        return _STORE_TYPES[store_type]
    if FileQueues(plan.folder, lambda batch: 0).topics():
        in_files = config.files_are_live(plan.folder)
        if in_files is not None:
            return FILES if in_files else ROCKSDB
        if of_both is not None:
            return of_both
        raise SettingError(
            f"{plan.store}: has queues in files and in RocksDB ({folder}): say which are to be "
            f"built: --queues files, or --queues rocksdb"
        )
    return ROCKSDB


def refuse_rocksdb(store: Folder) -> None:
    """Raise StoreError if a store's queues are in RocksDB; it has the offset up to which they go.

    A RocksDB that cannot be read is refused with the plan.
    """
    folder = queues_folder(store)
    if folder is None:
        return
    try:
        with closing(RocksDBQueues(store.path, folder)) as queues:
            end = queues.dispatched_to()
    except RocksDBError:
        return
    raise StoreError(
        f"{folder}: its queues hold the log up to {end:,}; a broker goes on there as it starts. "
        f"This command changes no RocksDB: reput rebuild builds them (docs/rocksdb.md)"
    )
