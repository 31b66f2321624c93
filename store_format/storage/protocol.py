"""`Storage`: what jobs need of any file system, in three parts: to read, to stage, to publish.

Each file system has its own module in `reput.store_format.storage`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from reput.store_format.storage.overlap import Whereabouts

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Bytes: TypeAlias = "npt.NDArray[np.uint8]"  # a string: numpy is not imported for it

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

    def admits(self, now: "FileState") -> bool:
        """Whether a file in the state `now` is still the same file."""
        return self == (now._replace(mtime=ANY_TIME) if self.mtime == ANY_TIME else now)


class Listed(NamedTuple):
    """One name in a folder; its state is None if it is no regular file."""

    name: str
    state: FileState | None


class Written(NamedTuple):
    """A finished file: its length in bytes and, if asked for, its SHA-256 in hex."""

    length: int
    sha256: str


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

    window_bytes: int  # best size of a scan's reads
    reads_ahead: int  # best number of reads under way at once; 0: one, when needed

    def list(self, folder: str) -> list[Listed]: ...

    def open(self, path: str, state: FileState | None = None) -> Reader: ...

    def read_bytes(self, path: str) -> bytes: ...


class StagingStorage(InputStorage, Protocol):
    """Files that a job makes, reads again, and moves or removes."""

    def create(self, path: str, digest: bool = False, published: bool = False) -> Writer:
        """A new file. digest: it will be published, and its SHA-256 is wanted. published: it will
        be published without a digest. Until then, nobody reads it.
        """

    def place(self, folder: str, path: str, content: bytes, length: int) -> bool:
        """Make a whole file at `path` below an existing folder, with the folders between.

        content: its first bytes, zeros follow up to `length`. Returns False, with nothing done, if
        that file exists already or this file system cannot move a folder to its place.
        """

    def has_folder(self, path: str) -> bool:
        """Whether files can be made in this folder without `make_folders`."""

    def make_folders(self, path: str) -> None: ...

    def claim(self, folder: str) -> Callable[[], None] | None:
        """Make a folder that this process holds while it lives; returns what releases it.

        None if another job takes the folder for a leftover and removes it: then use another name.
        """

    def is_abandoned(self, folder: str) -> bool | None:
        """Whether the process that claimed the folder is gone. None if that is unknown: then only
        one job at a time may work for an output.
        """

    def move_all(self, moves: Iterable[tuple[str, str]]) -> None:
        """Rename files to names in existing folders on this file system."""

    def remove(self, path: str) -> None:
        """Remove a file if it exists."""

    def remove_tree(self, folder: str) -> None:
        """Remove a folder and all in it, as far as possible."""


class OutputStorage(Protocol):
    """Folders where a set of files is published, whole or not at all."""

    def walk(self, folder: str) -> Iterator[Listed]:
        """All that is below a folder, by paths relative to it; no link is followed. Files have a
        state; folders (with a slash at the end) and other kinds have None. Raises
        FileNotFoundError, NotADirectoryError, and StoreError if the folder is a link.
        """

    def whereabouts(self, path: str) -> Whereabouts:
        """The names by which to see whether two paths overlap (overlap.relation)."""

    def begin_set(self, folder: str, to: str, may_go: MayGo) -> str:
        """Begin a set of files that `publish` will put at `to`; returns the folder for its files.

        folder: the set's name in the job's own staging; `publish` gets the same.
        may_go: asked about what is at `to` before any of it is removed. Raises OSError,
        and as may_go does.
        """

    def publish(self, folder: str, to: str, may_go: MayGo, manifest: tuple[str, bytes]) -> None:
        """Write the manifest (name, content), the set's last file, and put the set at `to`."""


class Storage(StagingStorage, OutputStorage, Protocol):
    """A whole file system, as `storage_for` gives it: a store's files, staging and outputs."""

    def resolve(self, path: str) -> str:
        """The path in a form that holds for every machine and working folder."""

    def lock_holder(self, store: str) -> int | None:
        """The id of the process that holds a store's lock, such as a broker; 0 if it runs on
        another machine, None if there is none or it is unknown.
        """


def is_back_to_back(storage: InputStorage) -> bool:
    """Whether a log's segments may have any sizes and end with their last record, as in a tiered
    queue. All other segments have one size and end in a BLANK.
    """
    return bool(getattr(storage, "back_to_back", False))


def walk_lists(storage: InputStorage, folder: str, below: str = "") -> Iterator[Listed]:
    """`OutputStorage.walk` that lists folder after folder."""
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
