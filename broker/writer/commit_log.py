"""The log that a writer appends to: it writes records, opens new segments, and syncs.

All offsets are physical. `end` is where the next record goes. The bytes up to `committed` are in
the files, and those up to `flushed` are durable: flushed <= committed <= end. The flush mode
decides how far the three are apart (see flush).
"""

import errno
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np

from reput.store_format.files.protocol import Bytes, Data, Files, OpenFile
from reput.store_format.layouts import BLANK_BYTES
from reput.store_format.message.encode import blank
from reput.store_format.message.refusals import CreateFileFailed
from reput.store_format.names import COMMIT_LOG, segment_name
from reput.store_format.release.settings import WriterSettings

# Runs a function in the background; returns a function that waits for it.
Spawn = Callable[[Callable[[], None]], Callable[[], None]]

ZEROS_AHEAD_BYTES = 256 << 10
_WARM_BYTES = 1 << 20
_WARM_SYNC_BYTES = 16 << 20  # flushLeastPagesWhenWarmMapedFile: 4,096 pages


class _Waiting:
    __slots__ = ("buffer", "counts", "file", "segment")

    def __init__(self, segment: int, file: OpenFile) -> None:
        self.segment, self.file = segment, file
        self.buffer = bytearray()
        self.counts = 0  # how far they move the log's end: a BLANK counts as its segment's rest


class CommitLog:
    """Appends under the caller's lock; `sync` may run in another thread at the same time."""

    def __init__(
        self, files: Files, settings: WriterSettings, start: int, end: int,
        prepare_ahead: bool = False, spawn: Spawn | None = None,
    ) -> None:  # fmt: skip
        """A log from `start` to `end`, which recovery has found; all of it is durable.

        prepare_ahead: the next segment is made while this one is filled, by `spawn` if it is given.
        """
        self.files, self.segment_bytes = files, settings.mapped_file_size_commit_log
        self.start = start
        self.end = self.committed = self.flushed = end
        self._prepare_ahead, self._spawn = prepare_ahead, spawn
        self._warm = settings.warm_mapped_file_enable
        # Zeros written at once ahead of the records: the file system has then allocated the blocks
        # before records are written, and a sync of records writes no metadata.
        ahead = settings.sync_flush and not self._warm
        self._zeros = bytes(ZEROS_AHEAD_BYTES if ahead else 0)
        self._zeroed = end  # up to here the file has been written to, with records or zeros
        pooled = settings.transient_store_pool_enable
        self._buffers = settings.transient_store_pool_size if pooled else 0
        self._fast_fail = settings.fast_fail_if_no_buffer_in_store_pool
        self._waiting: deque[_Waiting] = deque()  # the segments that have a buffer, oldest first
        # `committed` and `_dirty` change together under this lock, so that a sync which sees a new
        # `committed` also knows which files it has to sync.
        self._guard = threading.Lock()
        # One sync at a time: a second one would find nothing dirty, and return that all is durable
        # while the first is still at work.
        self._syncing = threading.Lock()
        self._sync_error: OSError | None = None
        self._dirty: dict[int, OpenFile] = {}
        self._open_guard = threading.Lock()  # keeps a file from being closed while it is read
        self._open: dict[int, OpenFile] = {}
        # by warmed segment: the function that unlocks its pages, which the kernel keeps in memory
        self._locked: dict[int, Callable[[], None]] = {}
        self.needed_from = 1 << 63  # segments below this offset will not be read again soon
        self._segment = end - end % self.segment_bytes
        self._file: OpenFile | None = None
        self._ahead: Callable[[], None] | None = None
        self.syncs = 0

    @property
    def room(self) -> int:
        """Bytes left in the current segment; 0 where there is no segment yet."""
        return self._segment + self.segment_bytes - self.end if self._file else 0

    def make_room(self, size: int) -> None:
        """Open the segment for a record of `size` bytes: the next one if this one lacks the room.

        A segment that lacks the room is ended with a BLANK, unless it is full
        (CommitLog.DefaultAppendMessageCallback.doAppend).
        """
        if self._file is None:
            self._begin_segment()
        if size + BLANK_BYTES > self._segment + self.segment_bytes - self.end:
            left = self._segment + self.segment_bytes - self.end
            if left > 0:
                self._write(blank(left), left)
            self._segment, self._file = self.end, None
            self._begin_segment()

    def _begin_segment(self) -> None:
        """Open the segment at the log's end, with a buffer if the pool is on.

        AllocateMappedFileService.putRequestAndReturnMappedFile: a buffer is free again once its
        whole segment is in the file. Raises CreateFileFailed.
        """
        if self._buffers and len(self._waiting) >= self._buffers:
            if self._fast_fail:
                raise CreateFileFailed(
                    f"{COMMIT_LOG}/{segment_name(self._segment)}: all {self._buffers} buffers "
                    "of transientStorePoolSize wait to be written"
                )
            self.commit()
        self._file = self._segment_file(self._segment)
        if self._buffers:
            self._waiting.append(_Waiting(self._segment, self._file))

    def write(self, data: Data) -> None:
        """Append bytes for which `make_room` was called."""
        self._write(data, len(data))

    def _write(self, data: Data, counts: int) -> None:
        """Write data, and move the log's end by `counts` (for a BLANK, the segment's rest)."""
        assert self._file is not None
        if self._buffers:
            last = self._waiting[-1]
            last.buffer += data
            last.counts += counts
            self.end += counts
            return
        if self._zeros:
            self._write_zeros_after(self.end + len(data))
        self._file.write_at(self.end - self._segment, data)
        with self._guard:
            self._dirty[self._segment] = self._file
            self.end = self.committed = self.end + counts

    def _write_zeros_after(self, end: int) -> None:
        """Write zeros after `end`, unless zeros or records were already written there."""
        if end <= self._zeroed:
            return
        assert self._file is not None
        zeros = self._zeros[: self._segment + self.segment_bytes - end]
        try:
            if zeros:
                self._file.write_at(end - self._segment, zeros)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._zeros = b""  # the disk may still have room for the record, if not for the zeros
        self._zeroed = end + len(zeros)

    def commit(self) -> bool:
        """Write the buffered bytes (MappedFile.commit). Returns whether there were any."""
        any_bytes = False
        while self._waiting:
            first = self._waiting[0]
            if first.counts:
                first.file.write_at(self.committed - first.segment, first.buffer)
                with self._guard:
                    self._dirty[first.segment] = first.file
                    self.committed += first.counts
                first.buffer.clear()
                first.counts, any_bytes = 0, True
            if first.segment + self.segment_bytes > self.committed:
                break  # this segment is not full, and keeps its buffer
            self._waiting.popleft()
        return any_bytes

    def sync(self) -> int:
        """Make durable what is in the files by now; returns the offset up to which they are.

        Raises OSError. After a failed sync nobody knows what is durable, so each later call raises
        the same error.
        """
        with self._syncing:
            if self._sync_error is not None:
                raise self._sync_error
            with self._guard:
                target = self.committed
                dirty, self._dirty = self._dirty, {}
            try:
                for file in dirty.values():
                    file.sync()
                    self.syncs += 1
            except OSError as error:
                self._sync_error = error
                raise
            self.flushed = target
            self._close_old(min(target, self.needed_from))
            return target

    def read(self, at: int, buffer: Bytes) -> None:
        """Fill a buffer from the files; the bytes to read lie within one segment."""
        segment = at - at % self.segment_bytes
        with self._open_guard:
            file = self._open.get(segment)
            if file is not None:
                file.read_at(at - segment, buffer)
                return
        with closing(self.files.open(_path(segment))) as file:
            file.read_at(at - segment, buffer)

    def _close_old(self, below: int) -> None:
        """Close the segments that end at or before an offset."""
        with self._open_guard:
            for segment in [s for s in self._open if s + self.segment_bytes <= below]:
                if segment != self._segment and segment not in self._dirty:
                    self._let_go(segment)

    def _let_go(self, segment: int) -> None:
        self._locked.pop(segment, lambda: None)()
        self._open.pop(segment).close()

    def close(self) -> None:
        """Close the files; nothing is synced."""
        self._wait_for_ahead()
        for segment in list(self._open):
            self._let_go(segment)
        self._file = None

    def _segment_file(self, segment: int) -> OpenFile:
        self._wait_for_ahead()
        if not self.files.exists(_path(segment)):
            self._create(segment)
        file = self.files.open(_path(segment))
        with self._open_guard:
            self._open[segment] = file
            if self._warm:
                self._locked[segment] = file.lock_pages(self.segment_bytes)
        if self._prepare_ahead:
            following = segment + self.segment_bytes
            if not self.files.exists(_path(following)):
                if self._spawn is None:
                    self._create(following)
                else:
                    self._ahead = self._spawn(lambda: self._create(following))
        return file

    def _wait_for_ahead(self) -> None:
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            ahead()

    def _create(self, segment: int) -> None:
        """Create a segment. Its full length and its name are durable before a record is written."""
        with closing(self.files.create(_path(segment), self.segment_bytes)) as file:
            if self._warm:
                self._write_zeros(file)
            file.sync()
        self.files.sync_folder(COMMIT_LOG)

    def _write_zeros(self, file: OpenFile) -> None:
        """Write zeros to every page, so that the disk has it (DefaultMappedFile.warmMappedFile)."""
        zeros = np.zeros(_WARM_BYTES, np.uint8)
        for at in range(0, self.segment_bytes, _WARM_BYTES):
            file.write_at(at, zeros[: self.segment_bytes - at])
            if at % _WARM_SYNC_BYTES == 0 and at:
                file.sync()


def _path(segment: int) -> str:
    return f"{COMMIT_LOG}/{segment_name(segment)}"


def in_background(work: Callable[[], None]) -> Callable[[], None]:
    """Run `work` in a thread. Returns a function that waits for it and raises what it raised."""
    pool = ThreadPoolExecutor(1, "AllocateMappedFile")
    done = pool.submit(work)
    pool.shutdown(wait=False)
    return done.result
