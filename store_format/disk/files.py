"""`Files`: the operations on files that the writer, recovery, install and publishing use.

They are passed a `Files` (`local_files.py` has this machine's), so that tests can pass one in which
an operation fails, or which shows what a crash would have left.

What they assume of a disk (docs/writer.md has more):

- Of bytes that were written and not synced, any part may be on the disk after a power cut, in any
  order. A write within one aligned sector of 512 bytes is there as a whole or not at all. What was
  never written reads as zeros.
- `OpenFile.sync` makes a file's bytes and length durable, but not its name.
- `sync_folder` makes names durable: those created, renamed and removed in that folder.
- A killed process loses nothing that was written.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from reput.store_format.faults import StoreError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Bytes: TypeAlias = "npt.NDArray[np.uint8]"  # a string: numpy is not imported for it
# What can be written: bytes, bytearray, memoryview, or a contiguous array of uint8.
Data = Any

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

    def create(self, path: str) -> OpenFile:
        """A new, empty file. Raises FileExistsError."""

    def create_zeros(self, path: str, length: int) -> OpenFile:
        """A new file of zeros. Raises FileExistsError.

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

    def add_folder(self, path: str, like: str | None = None) -> None:
        """Make a folder with mode and owner of `like`, not durable yet. Raises FileExistsError."""

    def add_own_folder(self, path: str) -> None:
        """Make a folder that is this user's alone (`is_ours`). Raises FileExistsError."""

    def create_own(self, path: str) -> OpenFile:
        """A new, empty file that is this user's alone. Raises FileExistsError."""

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
