"""A store of a backup repository as it was at a moment, read as if it were a store.

`backup:REPO/STORE@LOG.STATE:END` has the log of run LOG up to the physical offset END, and the
files that the log does not decide as run STATE found them; without `.STATE` as LOG did. REPO is a
path or URL. A command sees `commitlog/` with whole segments, zeros behind END, and config/ and
what else the run has. Nothing can be written there.

The log begins with the first whole segment after the last gap, and after what was forgotten: a
broker starts on a log without holes.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.catalogue import Catalogue, Part
from reput.store_format.files.frames import PackedFiles
from reput.store_format.files.overlap import Whereabouts
from reput.store_format.files.protocol import Bytes, FileState, Listed, Reader, Storage, walk_lists
from reput.store_format.files.queue_logs import ReadOnly
from reput.store_format.files.runs import Run
from reput.store_format.names import COMMIT_LOG, parse_segment_name, segment_name

BACKUP = "backup"
SEGMENT_SETTING = "mappedFileSizeCommitLog"
_SEGMENT_BYTES = 1 << 30  # MessageStoreConfig's default
_SEGMENTS_MOST = 1 << 20
_PATH = re.compile(
    r"backup:(.+?)/([A-Za-z0-9_-][A-Za-z0-9._-]*)@(\d{1,8})(?:\.(\d{1,8}))?:(\d{1,18})(?:/(.*))?",
    re.ASCII | re.DOTALL,
)


class Moment(NamedTuple):
    """A store of a repository as it was."""

    repo: str
    store: str
    log: int  # the run that has the log
    state: int  # the run that has what the log does not decide
    end: int  # physical offset

    def __str__(self) -> str:
        return f"{BACKUP}:{self.repo}/{self.store}@{self.log}.{self.state}:{self.end}"


def parse_moment(path: str) -> tuple[Moment, str]:
    """(the moment, the path below it) of a `backup:` path. Raises StoreError."""
    found = _PATH.fullmatch(path)
    if found is None:
        raise StoreError(
            f"{path[:200]}: expected backup:REPO/STORE@RUN:END, END a physical offset of that run"
        )
    repo, store, log, state, end, below = found.groups()
    moment = Moment(repo.rstrip("/"), store, int(log), int(state or log), int(end))
    return moment, (below or "").strip("/")


class _Stored(NamedTuple):
    """A packed file, and where its plain bytes begin and end in what is read. length, stored: of
    the file, plain and as it is.
    """

    path: str
    length: int
    stored: int | None
    begin: int
    end: int


class _Opened(NamedTuple):
    """The files of a moment. folders: by path the names in each, None for a folder. is_later: what
    the log does not decide is of a later moment, as none before has it.
    """

    log: list[_Stored]
    folders: dict[str, dict[str, FileState | None]]
    files: dict[str, _Stored]
    is_later: bool


class BackedUp(ReadOnly):
    """The moments of repositories on another storage, each as a store."""

    scheme = BACKUP

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.window_bytes, self.reads_ahead = storage.window_bytes, storage.reads_ahead
        self.packed = PackedFiles(storage)
        self.opened: dict[Moment, _Opened] = {}

    def resolve(self, path: str) -> str:
        moment, below = parse_moment(path)
        root = str(moment._replace(repo=self.storage.resolve(moment.repo).rstrip("/")))
        return f"{root}/{below}" if below else root

    def list(self, folder: str) -> list[Listed]:
        opened, below = self._at(folder)
        if below in opened.folders:
            return sorted(Listed(*each) for each in opened.folders[below].items())
        above, _, name = below.rpartition("/")
        there = opened.folders.get(above, {}).get(name) is not None
        raise (NotADirectoryError if there else FileNotFoundError)(folder)

    def open(self, path: str, state: FileState | None = None) -> Reader:
        opened, below = self._at(path)
        above, _, name = below.rpartition("/")
        there = opened.folders.get(above, {}).get(name)
        if there is None:
            raise FileNotFoundError(path)
        if state is not None and not state.admits(there):
            raise StoreChanged(f"{path}: is not what was listed: {state} is now {there}")
        if above == COMMIT_LOG:
            return _Reader(self.packed, opened.log, parse_segment_name(name), path, there)
        return _Reader(self.packed, [opened.files[below]], 0, path, there)

    def walk(self, folder: str) -> Iterator[Listed]:
        return walk_lists(self, folder)

    def whereabouts(self, path: str) -> Whereabouts:
        """The whereabouts of the repository, for any path in it."""
        return self.storage.whereabouts(parse_moment(path)[0].repo)

    def lock_holder(self, store: str) -> int | None:
        """Nobody: a backup does not change."""
        return None

    def has_later_state(self, path: str) -> bool:
        """Whether config and offsets are of a moment after the log's end: a restore cuts them."""
        return self._at(path)[0].is_later

    def _at(self, path: str) -> tuple[_Opened, str]:
        moment, below = parse_moment(path)
        if moment not in self.opened:
            self.opened[moment] = _open(self.storage, moment)
        return self.opened[moment], below


def _open(storage: Storage, moment: Moment) -> _Opened:
    """The files of a moment. Raises StoreError where the repository has no such moment, OSError."""
    catalogue = Catalogue(storage, moment.repo, moment.store)
    catalogue.read_all()
    log, state = catalogue.run(moment.log), catalogue.run(moment.state)
    parts, start = whole_log(catalogue, log, moment.end)
    size, path = segment_bytes(log, catalogue), catalogue.path_of(log.run)
    if not start <= moment.end <= log.end or (moment.end - start) // size > _SEGMENTS_MOST:
        raise StoreError(f"{path}: its log is from {start} to {log.end}, not to {moment.end}")
    tag = f"{moment.store}@{moment.log}:{moment.end}"
    segment = FileState(size, 0, tag)
    starts = range(start, max(moment.end, start + 1), size)
    folders: dict[str, dict[str, FileState | None]] = {
        "": {COMMIT_LOG: None}, COMMIT_LOG: {segment_name(at): segment for at in starts}
    }  # fmt: skip
    files = {}
    for entry in state.state:
        above, _, name = entry.path.rpartition("/")
        if above == COMMIT_LOG:
            raise StoreError(f"{catalogue.path_of(state.run)}: state: {entry.path} is of the log")
        found = FileState(entry.length, state.ended * 1_000_000, entry.sha256)
        folders.setdefault(above, {})[name] = found
        length, stored = entry.length, catalogue.state_path(entry)
        files[entry.path] = _Stored(stored, length, None, 0, length)
        while above:
            above, _, name = above.rpartition("/")
            folders.setdefault(above, {}).setdefault(name, None)
    pieces = [
        _Stored(catalogue.piece_path(piece), piece.length, piece.stored, piece.offset,
                min(piece.offset + used, moment.end))
        for piece, used in parts
    ]  # fmt: skip
    return _Opened(pieces, folders, files, state.end > moment.end)


def segment_bytes(run: Run, catalogue: Catalogue) -> int:
    """The bytes of a segment of a run's log. Raises StoreError."""
    text = run.settings.get(SEGMENT_SETTING, str(_SEGMENT_BYTES))
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 31):
        path = catalogue.path_of(run.run)
        raise StoreError(f"{path}: settings.{SEGMENT_SETTING}: {text[:80]!r} is no segment's size")
    return int(text)


def whole_log(catalogue: Catalogue, run: Run, end: int) -> tuple[list[Part], int]:
    """(the pieces of a run's log up to `end` that nothing is missing between, where the first
    whole segment of that begins). Raises StoreError.
    """
    parts: list[Part] = []
    for part in catalogue.chain(run):
        if part.piece.offset >= end:
            break
        if parts and parts[-1].end != part.piece.offset:
            parts.clear()
        parts.append(part)
    size = segment_bytes(run, catalogue)
    first = parts[0].piece.offset if parts else run.first
    return parts, -(-first // size) * size


class _Reader:
    """The plain bytes of packed files from `start` on, with zeros after them."""

    def __init__(
        self, packed: PackedFiles, files: list[_Stored], start: int, path: str, state: FileState
    ) -> None:
        self._packed, self._files, self._start, self._path = packed, files, start, path
        self.state = state

    def read_into(self, offset: int, buffer: Bytes) -> None:
        view, at = memoryview(buffer).cast("B"), self._start + offset
        if offset + len(view) > self.state.size:
            raise StoreChanged(f"{self._path}: ends before offset {offset + len(view)}")
        while len(view):
            number = bisect_right(self._files, at, key=lambda each: each.begin) - 1
            file = self._files[number] if number >= 0 else None
            if file is None or file.end <= at:
                view[:] = bytes(len(view))
                return
            some = view[: file.end - at]
            self._packed.read(file.path, file.length, file.stored, at - file.begin, some)
            view, at = view[len(some) :], file.end

    def close(self) -> None:
        """There is nothing to close: each read opens a file."""
