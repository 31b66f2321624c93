"""The log that a replication master sends: of a store, or of a writer that is appending."""

import os
from typing import Protocol

import numpy as np

from reput.broker.wire.peers import MasterLog
from reput.broker.writer.writer import CommitLogWriter
from reput.jobs.in_place.catch_up import rules_of
from reput.jobs.opening.plan import make_plan
from reput.jobs.replicating.source import LogLimit, SourceLog, pieces
from reput.store_format.discover.store import StoreAt, discover
from reput.store_format.files.local import LocalStorage
from reput.store_format.log.groups import refuse_heads
from reput.store_format.log.rules import Checks
from reput.store_format.log.segments import commit_log_folders
from reput.store_format.names import COMMIT_LOG, segment_name


class SentLog(Protocol):
    """A log that slaves copy. Its methods are called by many threads."""

    def now(self) -> MasterLog:
        """The present start and end of the log."""

    def descriptor(self, segment: int) -> int | None:
        """The segment's file opened for reading, to be closed by the caller; None: use `read`."""

    def read(self, at: int, size: int) -> bytes:
        """`size` bytes from a physical offset on, all in one segment."""


class StoreLog:
    """The log of a store that is only read, up to its last whole record."""

    def __init__(self, at: StoreAt) -> None:
        """Raises StoreError, SettingError, UnknownRelease, OSError."""
        storage = at.storage
        plan = make_plan(at, discover(at), tolerant=True)
        refuse_heads(plan.segments, "replication to slaves")
        size = plan.settings.mapped_file_size_commit_log
        folders = commit_log_folders(at.path, plan.settings)
        self._place = storage, folders, size
        self._local = isinstance(storage, LocalStorage)
        self._rules = rules_of(plan).scan.records
        self._source = self._new()
        used = self._source.written()
        self._end = used[-1] if used else self._source.start
        self.refresh()

    def _new(self) -> SourceLog:
        return SourceLog(*self._place)

    def refresh(self) -> None:
        """Find the log's present end. Raises StoreError, OSError."""
        source, end = self._new(), self._end
        try:
            for piece in pieces(source, end, LogLimit(), self._rules, Checks(body=True)):
                end = max(end, piece.whole)
        finally:
            source.close()
        self._source.close()
        self._source, self._end = source, end

    def now(self) -> MasterLog:
        source = self._source
        return MasterLog(source.start, self._end, source.segment_bytes)

    def descriptor(self, segment: int) -> int | None:
        if not self._local:
            return None
        return _opened(self._source.segments[segment].path)

    def read(self, at: int, size: int) -> bytes:
        source = self._new()
        data = np.empty(size, np.uint8)
        try:
            source.read(at, data)
        finally:
            source.close()
        return data.tobytes()


class WriterLog:
    """The log of a writer of this process; slaves get what it has written to files."""

    def __init__(self, writer: CommitLogWriter, store: str) -> None:
        self._log, self._folder = writer.store.log, f"{store}/{COMMIT_LOG}"

    def now(self) -> MasterLog:
        log = self._log
        return MasterLog(log.start, log.committed, log.segment_bytes)

    def descriptor(self, segment: int) -> int | None:
        return _opened(f"{self._folder}/{segment_name(segment)}")

    def read(self, at: int, size: int) -> bytes:
        data = np.empty(size, np.uint8)
        self._log.read(at, data)
        return data.tobytes()


def _opened(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
