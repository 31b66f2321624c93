"""Small files read and written as a whole."""

from contextlib import closing

import numpy as np

from reput.store_format.disk.files import Files
from reput.store_format.faults import StoreError

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
    it.
    length: bytes of the file, with zeros after the content; by default the content's.
    beside: the end of the new file's name until then; an older file of that name is removed.
    Raises OSError.
    """
    new = path + beside
    if files.exists(new):
        files.remove(new)
    with closing(files.create_own(new) if own else files.create(new)) as file:
        file.write_at(0, content)
        if length is not None:
            file.set_length(length)
        file.sync()
    files.rename(new, path)
