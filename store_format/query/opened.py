"""`OpenedStore`: the readers of one store, opened once for many questions."""

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import cast

from reput.store_format.derived.index_reader import BadIndex, IndexReader
from reput.store_format.derived.queue_files import queue_folder
from reput.store_format.derived.queue_reader import QueueReader
from reput.store_format.discover.file_sizes import FileSizes
from reput.store_format.discover.sizes import settings_to_read
from reput.store_format.log.one_record import Record
from reput.store_format.log.reader import LogReader
from reput.store_format.log.record_rules import record_rules
from reput.store_format.log.segments import commit_log_folders, list_segments
from reput.store_format.names import BATCH_CONSUME_QUEUE, CONSUME_QUEUE, UnsafeName, is_queue_id
from reput.store_format.notes import Notes
from reput.store_format.query.stored import StoredMessage
from reput.store_format.release.profiles import RELEASES, profile
from reput.store_format.storage.growing import LiveFiles
from reput.store_format.storage.listing import listed
from reput.store_format.storage.protocol import Storage

NEWEST = RELEASES[-1]


class OpenedStore:
    """A store's log, queues and index. Files are listed once, when they are first asked for.

    release: whose rules hold where releases differ; the newest one's read every older log.
    """

    def __init__(
        self, storage: Storage, path: str, release: str, given: Mapping[str, str], notes: Notes,
        end: int | None = None, derived: tuple[Storage, str] | None = None,
    ) -> None:  # fmt: skip
        """end: as for a LogReader; queues have no message from there on then. derived: where queues
        and index are, if not in the store: a rebuilt set.

        Raises StoreError where there is no log, SettingError, UnknownRelease.
        """
        self.storage = cast(
            Storage, LiveFiles(storage)
        )  # it reads only, which is all that is asked of it
        self.path, self.profile = path, profile(release)
        there, self.derived_path = derived or (storage, path)
        self.derived_storage = cast(Storage, LiveFiles(there))
        self.settings, self.no_index = settings_to_read(
            self.storage, path, given, self.profile.release,
            (self.derived_storage, self.derived_path),
        )  # fmt: skip
        folders = commit_log_folders(path, self.settings)
        size = self.settings.mapped_file_size_commit_log
        listing = list_segments(self.storage, folders, size)
        for finding in listing.findings:
            notes.note(f"{finding.path}: {finding.reason}")
        self.log = LogReader(self.storage, listing.segments, record_rules(self.profile), end=end)
        self._queues: dict[tuple[str, int, bool], QueueReader] = {}
        self._queue_bytes: dict[bool, int] = {}
        self._queues_of: dict[str, list[tuple[int, bool]]] = {}
        self._topics: list[str] | None = None
        self._index: IndexReader | None = None
        self.index_gaps: list[tuple[int, int]] | None = None  # once `gaps` has looked for them

    def __enter__(self) -> "OpenedStore":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.log.close()

    def message(self, record: Record | Callable[[], Record]) -> StoredMessage:
        return StoredMessage(record, self.profile.split_properties, self.log.body)

    def index(self) -> IndexReader:
        """Raises BadIndex where the folder has what is no index file, or their sizes are odd."""
        if self._index is None:
            if self.no_index is not None:
                raise BadIndex(f"{self.derived_path}/index", 0, "length", 0, self.no_index)
            self._index = IndexReader(self.derived_storage, self.derived_path, self.settings)
        return self._index

    def queue(self, topic: str, queue_id: int, batch: bool) -> QueueReader:
        """Raises BadQueue."""
        key = topic, queue_id, batch
        if key not in self._queues:
            folder = queue_folder(self.derived_path, topic, queue_id, batch)
            self._queues[key] = QueueReader(self.derived_storage, folder, batch)
        return self._queues[key]

    def queue_bytes(self, batch: bool) -> int:
        """The length of the store's queue files, which a file that was cut has not; 0: unknown."""
        if batch not in self._queue_bytes:
            there = self.derived_storage, self.derived_path
            size = FileSizes(self.storage, (), there).queue(batch)
            self._queue_bytes[batch] = 0 if size is None else size.value
        return self._queue_bytes[batch]

    def queues_of(self, topic: str) -> list[tuple[int, bool]]:
        """(queue id, whether it is a batch queue) of each queue that a topic has a folder of."""
        if topic not in self._queues_of:
            found = []
            for batch in (False, True):
                try:
                    names = self.folders(queue_folder("", topic, 0, batch).rpartition("/")[0])
                except UnsafeName:
                    return []
                found += [(int(name), batch) for name in names if is_queue_id(name)]
            self._queues_of[topic] = sorted(found)
        return self._queues_of[topic]

    def topics(self) -> list[str]:
        """The topics that have a folder of queues."""
        if self._topics is None:
            kinds = (CONSUME_QUEUE, BATCH_CONSUME_QUEUE)
            self._topics = sorted({name for kind in kinds for name in self.folders(f"/{kind}")})
        return self._topics

    def folders(self, below: str) -> list[str]:
        """The folders in a folder of queues, which begins with a slash."""
        there = listed(self.derived_storage, self.derived_path + below)
        return [name for name, state in there if state is None]
