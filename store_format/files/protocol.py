"""`Storage` and `Files`: what jobs, and what the writer and changes in place, need of any file
system.

Each file system is a subclass of `Storage` in a module of its own in this folder, which by_url.py
chooses.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.overlap import Whereabouts

if TYPE_CHECKING:
    import numpy.typing as npt

Bytes: TypeAlias = "npt.NDArray[np.uint8]"  # a string: numpy is not imported for it
# What can be written: bytes, bytearray, memoryview, or a contiguous array of uint8.
Data = Any

# Called with a folder. Returns what is in it (paths below it, folders with a slash at the end) if
# all of that may be removed; raises StoreError if any of it must stay.
MayGo = Callable[[str], list[str]]

ANY_TIME = -1  # as a FileState's mtime: the file may be written to, but not replaced


class FileState(NamedTuple):
    """A file's state, by which to see whether it changed. mtime: in nanoseconds.

    tag: the file system's own mark of a file or of its version, such as an inode or an ETag.
    """

    size: int
    mtime: int
    tag: int | str

    def __str__(self) -> str:
        when = "" if self.mtime == ANY_TIME else f" of {self.mtime / 1e9:.3f} s after 1970"
        return f"{self.size} bytes{when} ({self.tag})"

    def admits(self, now: "FileState") -> bool:
        """Whether a file in the state `now` is still the same file."""
        return self == (now._replace(mtime=ANY_TIME) if self.mtime == ANY_TIME else now)


class Listed(NamedTuple):
    """One name in a folder; its state is None if it is no regular file."""

    name: str
    state: FileState | None


class Written(NamedTuple):
    """A file: its length, the SHA-256 in hex, if asked for, of `used` bytes before its zeros."""

    length: int
    sha256: str
    used: int


class Reader(Protocol):
    """An open input file."""

    @property
    def state(self) -> FileState:
        """The file's state. Raises FileNotFoundError if `open` did not."""

    def read_into(self, offset: int, buffer: Bytes) -> None:
        """Fill the buffer from `offset`. Raises StoreChanged if the file is too short."""

    def close(self) -> None:
        """Close the file. Raises StoreChanged if it has changed since it was opened."""


class Writer(Protocol):
    """A new file, written from start to end."""

    def write(self, data: Any) -> None:
        """Append bytes (any contiguous buffer)."""

    def finish(self, length: int) -> Written:
        """Fill up with zeros to `length`, and close the file."""

    def abandon(self) -> None:
        """Close and remove the file."""


class InputStorage(Protocol):
    """Files to list and read, such as those of a store. Paths are joined with '/'."""

    window_bytes: int = 8 << 20  # best size of a scan's reads; by default each read is a request
    reads_ahead: int = 0  # best number of reads under way at once; 0: one, when needed
    asks_locks: bool = False  # `lock_holder` can tell that nobody holds a lock, as on a local disk
    # a log's segments have any sizes and no BLANK at their end, as in a tiered queue
    back_to_back: bool = False

    def list(self, folder: str) -> list[Listed]:
        """The names in a folder, sorted. Raises FileNotFoundError, NotADirectoryError."""

    def open(self, path: str, state: FileState | None = None) -> Reader:
        """Open for reading. state: from an earlier listing. Raises StoreError."""

    def read_bytes(self, path: str) -> bytes:
        """A small file, whole, also while it is written to. Raises as `open` does."""
        reader = self.open(path)
        try:
            raw = np.empty(reader.state.size, np.uint8)
            reader.read_into(0, raw)
        finally:
            with suppress(StoreChanged):  # it has changed since: these are its bytes as read
                reader.close()
        return raw.tobytes()

    def follow(self, path: str) -> tuple[str, FileState | None]:
        """The regular file that a link leads to, and its state; else the path, and None."""
        return path, None


class Storage(InputStorage, Protocol):
    """A whole file system, as `storage_for` gives it: a store's files, those that a job makes and
    moves (staging), and folders where a set of files is published, whole or not at all.

    A file system is a subclass. The methods with a body here are for one without locks, and hold
    for any; it has its own where it can do better.
    """

    moves_by_copies: bool = False  # so a move can be repeated

    def resolve(self, path: str) -> str:
        """The path in a form that holds for every machine and working folder."""

    def whereabouts(self, path: str) -> Whereabouts:
        """The names by which to see whether two paths overlap (overlap.relation)."""

    def walk(self, folder: str) -> Iterator[Listed]:
        """All that is below a folder, by paths relative to it; no link is followed. Files have a
        state; folders (with a slash at the end) and other kinds have None. Raises
        FileNotFoundError, NotADirectoryError, and StoreError if the folder is a link.
        """
        return walk_lists(self, folder)

    def create(self, path: str, digest: bool = False, published: bool = False) -> Writer:
        """A new file. digest: wanted if it will be published, and its SHA-256. published: it will
        be published without a digest. Until then, nobody reads it.
        """

    def place(self, folder: str, path: str, content: bytes, length: int) -> bool:
        """Make a whole file at `path` below an existing folder, with the folders between.

        content: its first bytes, zeros follow up to `length`. Returns False, with nothing done, if
        that file exists already or this file system cannot move a folder to its place.
        """
        return False

    puts_once: bool = False  # of several machines that `put_new` a file, one is told True

    def put_new(self, path: str, content: Data) -> bool:
        """Make a whole, durable file in an existing folder; nobody sees a part of it. Returns
        False, with nothing done, if there is one of that name.
        """
        try:
            reader = self.open(path)
            _ = reader.state
            reader.close()
            return False
        except FileNotFoundError:
            pass
        return put_as(self, path, content)

    def has_folder(self, path: str) -> bool:
        """Whether files can be made in this folder without `make_folders`."""
        return is_folder(self, path)

    def make_folders(self, path: str) -> None: ...

    def claim(self, folder: str) -> Callable[[], None] | None:
        """Make a folder that this process holds while it lives; returns what releases it.

        None if another job takes the folder for a leftover and removes it: then use another name.
        """
        self.make_folders(folder)
        return lambda: None

    def names(self, folder: str) -> list[str]:
        """The names in a folder alone, in any order; raises as `list` does."""
        return [listed.name for listed in self.list(folder)]

    def is_abandoned(self, folder: str) -> bool | None:
        """Whether the process that claimed the folder is gone. None if that is unknown: then only
        one job at a time may work for an output.
        """
        return None

    def lock_holder(self, store: str) -> int | None:
        """Who holds a lock: a process id, 0 on another machine, None: nobody, or unknown."""
        return None

    def move_all(self, moves: Iterable[tuple[str, str]]) -> None:
        """Rename files to names in existing folders on this file system."""

    def remove(self, path: str) -> None:
        """Remove a file if it exists."""

    def remove_tree(self, folder: str) -> None:
        """Remove a folder and all in it, as far as possible."""

    def begin_set(self, folder: str, to: str, may_go: MayGo) -> str:
        """Begin a set of files that `publish` will put at `to`; returns the folder for its files.

        folder: the set's name in the job's own staging; `publish` gets the same.
        may_go: asked about what is at `to` before any of it is removed. Raises OSError,
        and as may_go does.
        """

    def publish(self, folder: str, to: str, may_go: MayGo, manifest: tuple[str, bytes]) -> None:
        """Write the manifest (name, content), the set's last file, and put the set at `to`."""


def put_as(storage: Storage, path: str, content: Data) -> bool:
    """Write a new file, or nothing; False if there is one already."""
    try:
        output = storage.create(path)
    except FileExistsError:
        return False
    try:
        output.write(content)
        output.finish(memoryview(content).nbytes)
    except BaseException:
        output.abandon()
        raise
    return True


def open_followed(storage: InputStorage, path: str) -> Reader:
    """A file's reader; of the file that it leads to where it is a link."""
    return storage.open(storage.follow(path)[0])


def is_folder(storage: InputStorage, path: str) -> bool:
    """Whether what is no regular file is a folder."""
    try:
        storage.list(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def walk_lists(storage: InputStorage, folder: str, below: str = "") -> Iterator[Listed]:
    """`Storage.walk` that lists folder after folder."""
    for name, state in storage.list(folder):
        if state is not None:
            yield Listed(f"{below}{name}", state)
            continue
        try:
            inside = list(walk_lists(storage, f"{folder}/{name}", f"{below}{name}/"))
        except (FileNotFoundError, NotADirectoryError):
            yield Listed(f"{below}{name}", None)
            continue
        yield Listed(f"{below}{name}/", None)
        yield from inside


# ---
# `Files`: the operations on files that the writer, recovery, install and publishing use. They are
# passed one (`disk.py` has this machine's), so that tests can pass one in which an operation fails,
# or which shows what a crash would have left. Of a disk they assume (docs/writer.md has more):
# - Of bytes not synced any part may be there after a power cut, in any order, but one aligned
#   sector of 512 bytes is as one of the writes to it left it. Never written: it reads as zeros.
# - `OpenFile.sync` makes a file's bytes and length durable, but not its name; `sync_folder` names:
#   those created, renamed and removed in that folder. A killed process loses nothing written.

SECTOR_BYTES = 512


class StoreInUse(StoreError):
    """Another process (or another writer in this one) holds the store's lock."""


class OpenFile(Protocol):
    """An open file; places and lengths in bytes. Methods raise OSError if the disk refuses."""

    def write_at(self, at: int, data: Data) -> None:
        """Write all of data at a place."""

    def read_at(self, at: int, buffer: Bytes) -> None:
        """Fill the buffer from a place. Raises StoreChanged if the file is too short."""

    def sync(self) -> None:
        """Return when all bytes written, and the length, are durable."""

    def set_length(self, length: int) -> None:
        """Cut, or extend with zeros."""

    def length(self) -> int: ...

    def lock_pages(self, length: int) -> Callable[[], None]:
        """Keep the first `length` bytes in memory, if allowed. Returns a function that ends it."""

    def close(self) -> None: ...


class Files(Protocol):
    """A folder tree. Paths are below its root, joined with '/'; '' is the root."""

    def open(self, path: str) -> OpenFile:
        """Open for reading and writing. Raises FileNotFoundError; StoreError for another kind."""

    def open_read(self, path: str) -> OpenFile:
        """Open for reading only. Raises FileNotFoundError; StoreError for another kind of file."""

    def create(self, path: str, length: int = 0, own: bool = False) -> OpenFile:
        """A new file of zeros; own: this user's alone (`is_ours`). Raises FileExistsError.

        A killed process leaves it with its length or not at all, if the file system can do that;
        else it may leave an empty file, which RocketMQ before 5.1.3 refuses.
        """

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of that name."""

    def is_folder(self, path: str) -> bool:
        """True for a folder, False for a regular file. Raises StoreError for anything else: a link,
        a device, or a folder on which another file system is mounted.
        """

    def is_ours(self, path: str) -> bool:
        """Whether a file (no link) belongs to this user, and nobody else may write to it."""

    def inode(self, path: str) -> int:
        """The inode number, by which one sees whether another file has taken the name."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; empty if there is no such folder."""

    def make_folder(self, path: str) -> None:
        """Make a folder and the missing ones above it; their names are made durable."""

    def add_folder(self, path: str, like: str | None = None, own: bool = False) -> None:
        """Make a folder with mode and owner of `like`, or this user's alone (`is_ours`); it is not
        durable yet. Raises FileExistsError.
        """

    def rename(self, path: str, to: str) -> None:
        """Rename a file or folder; replaces a file or empty folder of the new name."""

    def exchange(self, path: str, to: str) -> None:
        """Swap two names in one atomic step."""

    def link(self, path: str, to: str) -> None:
        """Give a file a second name."""

    def remove(self, path: str) -> None:
        """Remove a file, or an empty folder."""

    def sync_folder(self, path: str) -> None: ...

    def used_share(self) -> float:
        """The used share of the disk: 0 to 1; 0 if unknown."""

    def sync_all(self, path: str) -> None:
        """Return when all bytes and names of the file system that holds `path` are durable."""

    def lock(self, path: str) -> Callable[[], None]:
        """Lock as RocketMQ does; returns a function that unlocks. Raises StoreInUse."""


# ---
# Small files read and written as a whole.

PART = ".part"  # the end of a new file's name until the file is complete


def read_small(files: Files, path: str, most: int) -> bytes:
    """A file's bytes, or its first `most`. Raises FileNotFoundError, OSError."""
    with closing(files.open_read(path)) as file:
        raw = np.empty(min(file.length(), most), np.uint8)
        file.read_at(0, raw)
    return raw.tobytes()


def write_small(files: Files, path: str, content: bytes) -> None:
    """Make a file; its content is durable, its name not yet. Raises FileExistsError, OSError."""
    with closing(files.create(path)) as file:
        if content:
            file.write_at(0, content)
        file.sync()


def add_folders(files: Files, root: str, folder: str) -> None:
    """Make a folder below `root`, and the missing ones between. No name is durable yet."""
    parts = folder.split("/") if folder else []
    for depth in range(1, len(parts) + 1):
        path = "/".join([*([root] if root else []), *parts[:depth]])
        if not files.exists(path):
            files.add_folder(path)


def check_small(files: Files, path: str) -> None:
    """Raise StoreError if `replace_small` would find something other than a file of this name."""
    if files.exists(path) and files.is_folder(path):  # is_folder raises for a link
        raise StoreError(f"{path}: is a folder; it is left as it is")


def replace_small(
    files: Files, path: str, content: bytes, *, own: bool = False, length: int | None = None,
    beside: str = PART,
) -> None:  # fmt: skip
    """Give a file this content in one step: a crash leaves the old content or the new.

    The content is durable then; the name is once its folder is synced. own: nobody else may read
    it. length: bytes of the file, with zeros after the content; by default the content's.
    beside: the end of the new file's name until then; an older file of that name is removed.
    Raises OSError.
    """
    new = path + beside
    if files.exists(new):
        files.remove(new)
    with closing(files.create(new, own=own)) as file:
        file.write_at(0, content)
        if length is not None:
            file.set_length(length)
        file.sync()
    files.rename(new, path)
