"""IndexFiles as they grow (IndexService.buildIndex, retryGetAndCreateIndexFile).

The file that grows (`GrowingIndex`) is in a folder beside `index/` (see index_folder). It is moved
into `index/`, with all files that have become full, when a file becomes full, after a recovery, and
when the store is closed. So all files in `index/` are always complete.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from reput.broker.writer.index_folder import GrowingIndex, Header, IndexFolder
from reput.store_format.derived.index_file import NO_MESSAGE, IndexedMessage
from reput.store_format.derived.index_names import names_in_order
from reput.store_format.files.protocol import Files
from reput.store_format.names import INDEX, index_name, next_index_time, parse_index_name
from reput.store_format.release.profiles import Profile
from reput.store_format.release.settings import Settings

# After this much log files are published though none is full, as a recovery reads the log from the
# last time on. Each time the growing file is written anew.
PUBLISH_LOG_BYTES = 1 << 30


class IndexWriter:
    """All index files of a store; only the last one grows."""

    def __init__(
        self, files: Files, profile: Profile, settings: Settings, clock: Callable[[], int],
        vouch: Callable[[int], None],
    ) -> None:  # fmt: skip
        """clock: local time in milliseconds, which names the files (`NameZone.local`).

        vouch: makes indexed messages durable, then raises indexMsgTimestamp to its argument.
        """
        self.files, self.clock, self._vouch = files, clock, vouch
        self.folder = IndexFolder(files, settings.max_hash_slot_num)
        self._growing = GrowingIndex(self.folder, profile, settings)
        self.indexed_to = -1  # the physical offset of the last message with a key
        # whether `index/` has the mark: it holds all keys of messages up to `indexed_to`, no others
        self.whole = False
        self._held: int | None = 0  # how many keys of message `indexed_to` are held; None: all
        self._highest = 0  # the greatest endTimestamp
        self._covered = NO_MESSAGE  # the last message of which `index/` holds all keys
        self._unpublished = False  # there are entries, or a file, that `index/` lacks
        self._kept: list[str] = []  # full files in `index/`, before the one that grows
        self._full: list[str] = []  # full files that are not in `index/` yet
        self._names: list[str] = []  # of all files in `index/` when it was loaded
        self._doomed: list[str] = []  # files in `index/` that RocketMQ would delete on load

    # --- as the store is opened -----------------------------------------------------------

    def load(self, safe_timestamp: int | None, log_end: int) -> None:
        """Find the last file that can be trusted, to go on with it. Changes nothing on disk.

        safe_timestamp: after a crash the checkpoint's indexMsgTimestamp. A file with a later
        endTimestamp is not trusted, as RocketMQ deletes it (IndexService.load). Nor is a last file
        that is neither full nor marked, nor a file of messages that the log does not have.
        Raises StoreError where `index/` is a link.
        """
        self.folder.refuse_link()
        headers = self.folder.headers()
        self._names, before = [each.name for each in headers], len(headers)
        while headers and (
            headers[-1].end.physical_offset >= log_end > 0
            or (
                safe_timestamp is not None
                and (
                    headers[-1].end.timestamp > safe_timestamp
                    or (headers[-1].next_entry <= self._growing.capacity and not headers[-1].marked)
                )
            )
        ):
            last = headers.pop()
            if safe_timestamp is not None and last.end.timestamp > safe_timestamp:
                self._doomed.insert(0, last.name)
        self._unpublished = len(headers) < before
        self._highest = max((h.end.timestamp for h in headers), default=0)
        if headers:
            self._kept = [h.name for h in headers[:-1]]
            self._take_up(headers)

    def _take_up(self, headers: list[Header]) -> None:
        last = headers[-1]
        self._growing.take_up(last, headers[-2].end if len(headers) > 1 else NO_MESSAGE)
        self._covered = self._growing.ended
        if self._covered != NO_MESSAGE:
            self.indexed_to = self._covered.physical_offset
        self.whole = last.marked and not self._unpublished
        self._held = None if last.marked else self.folder.count_held(headers, self.indexed_to)

    def sort_names(self) -> None:
        """Rename files of another time zone that sort after later ones; called before `load`.

        A broker orders the files by name as it starts, and puts keys to the last one: its recovery
        indexes again what that file does not have. Each rename makes the order better.
        """
        self.folder.refuse_link()
        names = [each.name for each in self.folder.headers()]
        moved = names_in_order(names)
        for name, wanted in zip(reversed(names), reversed(moved), strict=True):
            if name != wanted:
                self.files.rename(f"{INDEX}/{name}", f"{INDEX}/{wanted}")
        if moved != names:
            self.files.sync_folder(INDEX)

    def protect(self) -> None:
        """Put the mark on the last file; called before `abort` is written.

        As soon as `abort` is there, RocketMQ's recovery deals with these files if the writer is
        killed. The store was closed cleanly, so the files have all keys and may be marked. If the
        last file is full, a further file is made to hold the mark.
        """
        self.folder.remove_staged()
        if self._unpublished or self._growing.name is None:
            return
        if self.is_full:
            self.publish()
            return
        self._vouch(self._highest)
        if self.indexed_to >= 0:
            self.folder.write_header(self._growing.name, self._growing.header(marked=True))
            self.whole = True

    # --- as records are dispatched ---------------------------------------------------------

    def append_new(self, puts: Any) -> None:
        """Append the INDEX_PUT rows that the files do not hold yet; a replay adds nothing twice."""
        offsets = puts["physicalOffset"]
        wanted = offsets > self.indexed_to
        if self._held is not None:
            wanted[np.flatnonzero(offsets == self.indexed_to)[self._held :]] = True
        self.append(puts[wanted])

    @property
    def needs_file(self) -> bool:
        """Whether the next message that is dispatched opens a file."""
        return self._growing.name is None or self.is_full

    @property
    def is_full(self) -> bool:
        return self._growing.room <= 0

    def covered(self, dispatched: IndexedMessage) -> IndexedMessage:
        """The message up to which RocketMQ's recovery need not index again.

        dispatched: the last dispatched record's storeTimestamp, and the physical offset after it.
        """
        if not self._unpublished:
            return dispatched
        return IndexedMessage(*map(min, self._covered, dispatched))

    def open_for_message(self) -> None:
        """Open a new file if there is none or the last one is full. Called for each message that
        is dispatched, with or without keys (IndexService.retryGetAndCreateIndexFile).
        """
        if self.needs_file:
            self._open_next()
        if not self._growing.wanted:
            self._growing.wanted = self._unpublished = True

    def append(self, puts: Any) -> None:
        """Append INDEX_PUT rows of whole messages, in order. A new file is opened whenever one is
        full, also between two keys of a message. If a file has become full, or PUBLISH_LOG_BYTES
        of log were indexed since the last time, all files are published at the end.
        """
        while len(puts):
            self.open_for_message()
            some = puts[: self._growing.room]
            puts = puts[len(some) :]
            self._unpublished = True
            self._growing.append(some)
            last = self._growing.ended
            self._highest = max(self._highest, last.timestamp)
            self.indexed_to, self._held = last.physical_offset, None
        full = self._full or (self.is_full and self._unpublished and self._growing.is_staged)
        if full or self.indexed_to - self._covered.physical_offset >= PUBLISH_LOG_BYTES:
            self.publish()

    def _open_next(self) -> None:
        name = self._growing.name
        there = [parse_index_name(each) for each in (*self._names, *self._full)]
        if name is not None:
            there.append(parse_index_name(name))
            if self._growing.is_staged:
                self._growing.finish(marked=False)
                self._full.append(name)
            else:
                self._kept.append(name)
        # above all others, also those that a broker of another zone named: it goes on with the last
        self._growing.begin(index_name(next_index_time(self.clock(), max(there, default=None))))
        self._unpublished = True

    # --- publishing ------------------------------------------------------------------------

    def publish(self) -> None:
        """Give `index/` all keys so far, and its last file the mark. Only between two messages."""
        if self.is_full:
            self._open_next()
            self._growing.wanted = False
        self._unpublished = True
        self._growing.finish(marked=True)
        assert self._growing.name is not None
        kept, staged = self._kept, [*self._full, self._growing.name]

        def before() -> None:
            # These files must be gone before indexMsgTimestamp is raised, after which RocketMQ
            # would keep them.
            self.folder.remove(self._doomed)
            self._doomed = []
            self._vouch(self._highest)

        self.folder.publish(kept, staged, before)
        self._kept, self._full = [*kept, *self._full], []
        self._covered = self._growing.ended
        self._unpublished, self.whole, self._held = False, True, None

    def publish_changes(self) -> None:
        """Call `publish` if `index/` lacks anything."""
        if self._growing.name is None:
            self.folder.remove(self.folder.names())  # their messages are not in the log
            self._unpublished = False
        elif self._unpublished or not self.whole:
            self.publish()

    def settle(self) -> None:
        """Remove the mark; called after `abort` has been removed."""
        self.folder.remove_staged()
        name = self._growing.name
        if name is None or self._unpublished or not self.whole:
            return
        if self._growing.wanted:
            self.folder.write_header(name, self._growing.header(marked=False))
        else:
            self.folder.remove([name])

    def close(self) -> None:
        self._growing.close()
