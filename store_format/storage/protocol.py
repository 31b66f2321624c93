"""`Storage`: what jobs need of any file system, in three parts: to read, to stage, to publish.

Each file system has its own module in `reput.store_format.storage`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from reput.store_format.storage.overlap import Whereabouts

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Bytes: TypeAlias = "npt.NDArray[np.uint8]"  # text: numpy itself is not imported for it

# Given a folder, says what is in it where all of it may go (paths below it, those of folders with
# a slash at the end); raises StoreError where any of it must stay.
MayGo = Callable[[str], list[str]]

ANY_TIME = -1  # as a FileState's mtime: the file may be written to, but not be another


class FileState(NamedTuple):
    """What tells whether a file changed. Times in nanoseconds.

    tag: what the file system gives to each file or to each of its versions, as an inode or ETag.
    """

    size: int
    mtime: int
    tag: int | str

    def admits(self, now: "FileState") -> bool:
        """Whether a file in the state `now` is still the one that was meant."""
        return self == (now._replace(mtime=ANY_TIME) if self.mtime == ANY_TIME else now)


class Listed(NamedTuple):
    """One name in a folder; state is None for what is no regular file."""

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
        """What it is. Raises FileNotFoundError, where opening it has not."""

    def read_into(self, offset: int, buffer: Bytes) -> None:
        """Fill the buffer from `offset`. Raises StoreChanged where the file is too short."""

    def close(self) -> None:
        """Let go of it. Raises StoreChanged if the file is not what it was when opened."""


class Writer(Protocol):
    """A new file, written from start to end."""

    def write(self, data: Any) -> None:
        """Append bytes (any contiguous buffer)."""

    def finish(self, length: int) -> Written:
        """Fill up with zeros to `length`, close, and say what was written."""

    def abandon(self) -> None:
        """Close and remove it."""


class InputStorage(Protocol):
    """Files that are listed and read, as those of a store. Paths are joined with '/'."""

    window_bytes: int  # how much of a file a scan best reads at a time
    reads_ahead: int  # how many reads of a file best are on their way at once; 0: one, when wanted

    def list(self, folder: str) -> list[Listed]: ...

    def open(self, path: str, state: FileState | None = None) -> Reader: ...

    def read_bytes(self, path: str) -> bytes: ...


class StagingStorage(InputStorage, Protocol):
    """Files that a job makes, reads again, and moves or removes."""

    def create(self, path: str, digest: bool = False, published: bool = False) -> Writer:
        """A new file. digest: its SHA-256 is wanted, as it will be published; published: it will
        be, though nobody wants that. What is published is not read again before.
        """

    def place(self, folder: str, path: str, content: bytes, length: int) -> bool:
        """Make a file, whole, at `path` below a folder that is there, with the folders between.

        content: what it begins with, zeros follow. False where that file is there already, or no
        folder can be moved to its place on this file system: then nothing was done.
        """

    def has_folder(self, path: str) -> bool:
        """Whether files can be made there without `make_folders`."""

    def make_folders(self, path: str) -> None: ...

    def claim(self, folder: str) -> Callable[[], None] | None:
        """Make a folder that is ours as long as this process lives; returns what lets go of it.

        None where another job took it for a leftover and removes it: another name is wanted.
        """

    def is_abandoned(self, folder: str) -> bool | None:
        """Whether the process that claimed it is gone. None where that is not known: then one
        job at a time may work for an output.
        """

    def move_all(self, moves: Iterable[tuple[str, str]]) -> None:
        """Give files other names on this file system; the folders are there."""

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""

    def remove_tree(self, folder: str) -> None:
        """Remove a folder and all in it, as far as that can be done."""


class OutputStorage(Protocol):
    """Folders where a set of files is published, whole or not at all."""

    def walk(self, folder: str) -> Iterator[Listed]:
        """All that is below a folder, by paths from there: files with their states, and without
        a state folders, with a slash at the end, and what is neither. No link is followed. Raises
        FileNotFoundError, NotADirectoryError, and StoreError where the folder is a link.
        """

    def whereabouts(self, path: str) -> Whereabouts:
        """What tells whether two paths lead to one place, or one into the other."""

    def begin_set(self, folder: str, to: str, may_go: MayGo) -> str:
        """Where to put the files of the set that `publish` will make of it at `to`.

        folder: a name for it in the job's own staging, given to both. may_go: asked for what is
        there before any of it goes. Raises as that does; OSError.
        """

    def publish(self, folder: str, to: str, may_go: MayGo, manifest: tuple[str, bytes]) -> None:
        """Write the manifest (name, content), the set's last file, and make it the set at `to`."""


class Storage(StagingStorage, OutputStorage, Protocol):
    """A whole file system, as `storage_for` gives it: a store's files, staging and outputs."""

    def resolve(self, path: str) -> str:
        """The path as every machine and working folder understands it."""

    def lock_holder(self, store: str) -> int | None:
        """Who holds a store's lock, a broker say: a process of this machine, 0 for one of
        another, None for nobody, or where it is not known.
        """


def is_back_to_back(storage: InputStorage) -> bool:
    """Whether a log's segments there may have any sizes and end with their last record, as those of
    a tiered queue do; all other segments are of one size, and end in a BLANK.
    """
    return bool(getattr(storage, "back_to_back", False))


def walk_lists(storage: InputStorage, folder: str, below: str = "") -> Iterator[Listed]:
    """`OutputStorage.walk` by listing folder after folder."""
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
