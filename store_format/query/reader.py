"""`OpenedStore`: the readers of a store's log, queues and index, opened once for many questions;
and `StoredMessage`, one message of an answer.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from reput.store_format.derived.index_reader import BadIndex, IndexReader
from reput.store_format.derived.queues import FileQueues, Queue, Queues
from reput.store_format.discover.committed import committed, emptied
from reput.store_format.discover.config import has_rows
from reput.store_format.discover.sizes import FileSizes, settings_to_read
from reput.store_format.faults import EmptyLog
from reput.store_format.files.adapters import LiveFiles
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import InputStorage
from reput.store_format.log.groups import heads_from, log_folders
from reput.store_format.log.reader import LiveBehind, LogReader, NoRecord
from reput.store_format.log.record import Record
from reput.store_format.log.rules import record_rules
from reput.store_format.log.segments import list_segments
from reput.store_format.message.message import host_text, parse_properties
from reput.store_format.names import INDEX, STORE_DB
from reput.store_format.notes import Notes
from reput.store_format.release.profiles import RELEASES, profile
from reput.store_format.rocksdb.database import RocksDBError, open_database
from reput.store_format.rocksdb.queues import RocksDBQueues, queues_folder
from reput.store_format.rocksdb.rows import RocksDBIndex

if TYPE_CHECKING:
    from reput.store_format.filter.filters import Filter

# ---
# `StoredMessage`: one message of a log, as the answer to a query.

UNIQUE_KEY, KEYS, TAGS = "UNIQ_KEY", "KEYS", "TAGS"
_KEY_SEPARATOR = " "  # MessageConst.KEY_SEPARATOR
TAGS_KEY = "T#"  # IndexService's prefix of tags, from 5.4.0 on


def key_words(properties: Mapping[str, str]) -> list[str]:
    """The words of KEYS, in order (IndexService.buildIndex)."""
    return [key for key in properties.get(KEYS, "").split(_KEY_SEPARATOR) if key]


def keys_of(properties: Mapping[str, str]) -> list[str]:
    """All keys under which any release indexes a message with these properties."""
    unique, tags = properties.get(UNIQUE_KEY), properties.get(TAGS)
    of_client = [] if unique is None else [unique]
    return [*of_client, *key_words(properties), *([f"{TAGS_KEY}{tags}"] if tags else [])]


class StoredMessage:
    """A record with its properties. Times in milliseconds, texts as Java decodes them.

    The body is only read when it is asked for, which must be while the store is open.
    """

    __slots__ = ("_properties", "_read_body", "_record", "_split")

    def __init__(
        self,
        record: Record | Callable[[], Record],
        split: bool,
        read_body: Callable[[Record], bytes],
    ) -> None:
        """record: the record, or a function that returns it; split: Profile.split_properties."""
        self._record = record
        self._split, self._read_body = split, read_body
        self._properties: dict[str, str] | None = None

    def __repr__(self) -> str:
        record = self.record
        return f"StoredMessage({record.topic!r}, {record.queue_id}, {record.queue_offset})"

    def __eq__(self, other: object) -> bool:
        """Whether both are the same record, from whatever file."""
        return isinstance(other, StoredMessage) and self.record == other.record

    def __hash__(self) -> int:
        return hash(self.record)

    @property
    def record(self) -> Record:
        if not isinstance(self._record, Record):
            self._record = self._record()
        return self._record

    @property
    def topic(self) -> str:
        return self.record.topic

    @property
    def physical_offset(self) -> int:
        return self.record.physical_offset

    @property
    def queue_id(self) -> int:
        return self.record.queue_id

    @property
    def queue_offset(self) -> int:
        return self.record.queue_offset

    @property
    def store_timestamp(self) -> int:
        return self.record.store_timestamp

    @property
    def properties(self) -> dict[str, str]:
        if self._properties is None:
            self._properties = parse_properties(self.record.properties, self._split)
        return self._properties

    @property
    def tags(self) -> str | None:
        return self.properties.get(TAGS)

    @property
    def keys(self) -> list[str]:
        return key_words(self.properties)

    @property
    def unique_key(self) -> str | None:
        return self.properties.get(UNIQUE_KEY)

    def has_key(self, key: str) -> bool:
        """Whether any release indexes this message under that key."""
        return key in keys_of(self.properties)

    def wanted_by(self, chosen: "Filter") -> bool:
        return chosen.matches(self.record, self.properties, self.body)

    def body(self) -> bytes:
        """The body as it is in the log: it may be compressed."""
        return self._read_body(self.record)

    def row(self) -> dict[str, Any]:
        """All but the body, by the names of the Spark source's columns."""
        record = self.record
        return {
            "topic": record.topic,
            "queueId": record.queue_id,
            "queueOffset": record.queue_offset,
            "physicalOffset": record.physical_offset,
            "storeTimestamp": record.store_timestamp,
            "bornTimestamp": record.born_timestamp,
            "storeHost": host_text(record.store_host),
            "bornHost": host_text(record.born_host),
            "tags": self.tags,
            "keys": self.keys,
            "uniqueKey": self.unique_key,
            "properties": self.properties,
            "flag": record.flag,
            "sysFlag": record.sys_flag,
            "reconsumeTimes": record.reconsume_times,
            "preparedTransactionOffset": record.prepared_offset,
            "bodyCRC": record.body_crc,
            "size": record.size,
        }


# ---
# `OpenedStore`: the readers of one store, opened once for many questions.

NEWEST = RELEASES[-1]


class OpenedStore:
    """A store's log, queues and index. Files are listed once, when they are first needed.

    release: whose rules hold where releases differ. Those of the newest read every older log.
    """

    def __init__(
        self, store: Folder, release: str, given: Mapping[str, str],
        notes: Notes, end: int | None = None, derived: Folder | None = None,
    ) -> None:  # fmt: skip
        """end: as for a LogReader; queues, too, end there.
        derived: where queues and index are, if not in the store: a rebuilt set.

        Raises StoreError if there is no log, SettingError, UnknownRelease.
        """
        self.storage: InputStorage = LiveFiles(store.storage)
        self.path, self.profile, self.given = store.path, profile(release), given
        self.folder = Folder(self.storage, self.path)
        there = derived or store
        self.derived = Folder(LiveFiles(there.storage), there.path)
        self.settings, self.no_index = settings_to_read(
            self.folder, given, self.profile.release, self.derived
        )
        folders = log_folders(self.folder, self.settings)
        size = self.settings.mapped_file_size_commit_log
        try:
            listing = list_segments(self.storage, folders, size)
        except EmptyLog as error:
            raise emptied(self.derived, error) from None
        for finding in listing.findings:
            read = finding.todo and not finding.left_out  # all that it holds
            (notes.note if read else notes.lacks)(f"{finding.path}: {finding.reason}")
        if not self.settings.read_uncommitted:
            agreed = committed(self.folder, listing.segments, self.derived)
            if agreed is not None and (end is None or agreed.end < end):
                end = agreed.end
                if agreed.behind or agreed.missing:
                    notes.note(f"{store}: {agreed.text}")
        rules = record_rules(self.profile, heads_from(listing.segments))
        self.behind: LiveBehind | None = None  # gives live records after damage, if it is set
        self.log = LogReader(self.storage, listing.segments, rules, end=end)
        self._notes, self._given, self._all_queues = notes, given, list[Queues]()
        self._queues: dict[tuple[str, int, bool], Queue] = {}
        self._index: IndexReader | None = None
        self._rocksdb_index: RocksDBIndex | None = None
        self._looked_for_it = False
        self.index_gaps: list[tuple[int, int]] | None = None  # once log_scan.py has looked for them

    def note_break(self, notes: Notes, error: NoRecord) -> None:
        """Note where records break off. An answer lacks nothing where none follow: that is what a
        crash tore, and any recovery cuts.
        """
        then = "live records behind it are read" if self.behind else (
            "what follows in this segment is not read: `reput check` shows it"
        )  # fmt: skip
        is_tail = self.behind is not None and self.log.is_zero_from(
            self.log.next_start(error.place)
        ) and not any(len(step.rows) for step in self.behind(error.place))  # fmt: skip
        (notes.note if is_tail else notes.lacks)(f"{error}; {then}")

    def __enter__(self) -> "OpenedStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.log.close()
        for queue in self._queues.values():
            queue.close()
        self._queues.clear()
        for queues in self._all_queues:
            queues.close()
        # both name this store, which would wait for Python's collector, with a name a segment
        self._all_queues.clear()
        self.behind = None
        if self._rocksdb_index is not None:
            self._rocksdb_index.database.close()

    @property
    def queues(self) -> Queues:
        """The store's queues, from files or RocksDB as a broker would read them.

        A RocksDB that cannot be read is noted, and counts as missing.
        """
        if not self._all_queues:
            queues: Queues = FileQueues(self.derived, self._queue_bytes)
            folder = None
            # settings may prefer RocksDB (DefaultMessageStore, CombineConsumeQueueStore)
            kinds = (self._given.get(n) for n in ("storeType", "combineCQPreferCQType"))
            if "defaultRocksDB" in kinds or not queues.topics():
                folder = queues_folder(self.derived)
            if folder is not None:
                try:
                    queues = RocksDBQueues(self.derived.path, folder)
                except RocksDBError as error:
                    self._notes.note(str(error))
            self._all_queues.append(queues)
        return self._all_queues[0]

    def message(self, record: Record | Callable[[], Record]) -> StoredMessage:
        return StoredMessage(record, self.profile.split_properties, self.log.body)

    def index(self) -> IndexReader:
        """Raises BadIndex if the folder has other files, or index files of odd sizes."""
        if self._index is None:
            if self.no_index is not None:
                raise BadIndex(f"{self.derived}/index", 0, "length", 0, self.no_index)
            self._index = IndexReader(self.derived, self.settings)
        return self._index

    def rocksdb_index(self) -> RocksDBIndex | None:
        """The index in RocksDB, if there are no index files; None if there is no such index.

        A RocksDB that cannot be read is noted, and counts as missing.
        """
        folder = self.derived / STORE_DB
        if not self._looked_for_it:
            self._looked_for_it = True
            files = self.derived.listed(INDEX)
            if not any(state for _, state in files) and has_rows(folder):
                try:
                    found = RocksDBIndex(open_database(folder))
                    self._rocksdb_index = found if found.has_rows else None
                except RocksDBError as error:
                    self._notes.note(str(error))
        return self._rocksdb_index

    def queue(self, topic: str, queue_id: int, batch: bool) -> Queue:
        """Raises BadQueue."""
        key = topic, queue_id, batch
        if key not in self._queues:
            self._queues[key] = self.queues.open(*key)
        return self._queues[key]

    def _queue_bytes(self, batch: bool) -> int:
        """The full length of the store's queue files; 0: unknown. A shorter file was cut."""
        size = FileSizes(self.storage, (), self.derived).queue(batch)
        return 0 if size is None else size.value

    def folders(self, below: str) -> list[str]:
        """The names of the folders in a folder of the derived files."""
        return [name for name, state in self.derived.listed(below) if state is None]
