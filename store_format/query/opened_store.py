"""`OpenedStore`: the readers of one store, opened once for many questions."""

from collections.abc import Callable, Mapping
from typing import cast

from reput.store_format.derived.index_reader import BadIndex, IndexReader
from reput.store_format.derived.queues import FileQueues, Queue, Queues
from reput.store_format.discover.committed import committed
from reput.store_format.discover.config import has_rows
from reput.store_format.discover.sizes import FileSizes, settings_to_read
from reput.store_format.files.adapters import LiveFiles
from reput.store_format.files.protocol import InputStorage, listed
from reput.store_format.log.groups import heads_from, log_folders
from reput.store_format.log.reader import LogReader
from reput.store_format.log.record import Record
from reput.store_format.log.rules import record_rules
from reput.store_format.log.segments import list_segments
from reput.store_format.names import INDEX, STORE_DB
from reput.store_format.notes import Notes
from reput.store_format.query.stored_message import StoredMessage
from reput.store_format.release.profiles import RELEASES, profile
from reput.store_format.rocksdb.database import RocksDBError, open_database
from reput.store_format.rocksdb.queues import RocksDBQueues, queues_folder
from reput.store_format.rocksdb.rows import RocksDBIndex

NEWEST = RELEASES[-1]


def _prefers_rocksdb(given: Mapping[str, str]) -> bool:
    """Whether by the settings queues are read from RocksDB, and not from files if there are any
    (DefaultMessageStore, CombineConsumeQueueStore).
    """
    rocksdb = "defaultRocksDB"
    return rocksdb in (given.get("storeType"), given.get("combineCQPreferCQType"))


class OpenedStore:
    """A store's log, queues and index. Files are listed once, when they are first needed.

    release: whose rules hold where releases differ. Those of the newest read every older log.
    """

    def __init__(
        self, storage: InputStorage, path: str, release: str, given: Mapping[str, str],
        notes: Notes, end: int | None = None, derived: tuple[InputStorage, str] | None = None,
    ) -> None:  # fmt: skip
        """end: as for a LogReader; queues, too, end there.
        derived: where queues and index are, if not in the store: a rebuilt set.

        Raises StoreError if there is no log, SettingError, UnknownRelease.
        """
        self.storage = cast(
            InputStorage, LiveFiles(storage)
        )  # it only reads, and no more is needed
        self.path, self.profile = path, profile(release)
        there, self.derived_path = derived or (storage, path)
        self.derived_storage = LiveFiles(there)
        self.settings, self.no_index = settings_to_read(
            self.storage, path, given, self.profile.release,
            (self.derived_storage, self.derived_path),
        )  # fmt: skip
        folders = log_folders(self.storage, path, self.settings)
        size = self.settings.mapped_file_size_commit_log
        listing = list_segments(self.storage, folders, size)
        for finding in listing.findings:
            notes.note(f"{finding.path}: {finding.reason}")
        if not self.settings.read_uncommitted:
            there_now = self.derived_storage, self.derived_path
            agreed = committed(self.storage, path, listing.segments, there_now)
            if agreed is not None and (end is None or agreed.end < end):
                end = agreed.end
                if agreed.behind:
                    notes.note(f"{path}: {agreed.text}")
        rules = record_rules(self.profile, heads_from(listing.segments))
        self.log = LogReader(self.storage, listing.segments, rules, end=end)
        self._notes, self._given, self._all_queues = notes, given, list[Queues]()
        self._queues: dict[tuple[str, int, bool], Queue] = {}
        self._index: IndexReader | None = None
        self._rocksdb_index: RocksDBIndex | None = None
        self._looked_for_it = False
        self.index_gaps: list[tuple[int, int]] | None = None  # once `gaps` has looked for them

    def __enter__(self) -> "OpenedStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.log.close()
        for queues in self._all_queues:
            queues.close()
        if self._rocksdb_index is not None:
            self._rocksdb_index.database.close()

    @property
    def queues(self) -> Queues:
        """The store's queues, from files or RocksDB as a broker would read them.

        A RocksDB that cannot be read is noted, and counts as missing.
        """
        if not self._all_queues:
            there, store, folder = self.derived_storage, self.derived_path, None
            queues: Queues = FileQueues(there, store, self._queue_bytes)
            if _prefers_rocksdb(self._given) or not queues.topics():
                folder = queues_folder(there, store)
            if folder is not None:
                try:
                    queues = RocksDBQueues(there, store, folder)
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
                raise BadIndex(f"{self.derived_path}/index", 0, "length", 0, self.no_index)
            self._index = IndexReader(self.derived_storage, self.derived_path, self.settings)
        return self._index

    def rocksdb_index(self) -> RocksDBIndex | None:
        """The index in RocksDB, if there are no index files; None if there is no such index.

        A RocksDB that cannot be read is noted, and counts as missing.
        """
        there, folder = self.derived_storage, f"{self.derived_path}/{STORE_DB}"
        if not self._looked_for_it:
            self._looked_for_it = True
            files = listed(there, f"{self.derived_path}/{INDEX}")
            if not any(state for _, state in files) and has_rows(there, folder):
                try:
                    found = RocksDBIndex(open_database(there, folder))
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
        there = self.derived_storage, self.derived_path
        size = FileSizes(self.storage, (), there).queue(batch)
        return 0 if size is None else size.value

    def folders(self, below: str) -> list[str]:
        """The names of the folders in `below` the derived files' root; it begins with a slash."""
        there = listed(self.derived_storage, self.derived_path + below)
        return [name for name, state in there if state is None]
