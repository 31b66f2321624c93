"""Small files read and written as a whole."""

import numpy as np

from reput.store_format.disk.files import Files
from reput.store_format.faults import StoreError

PART = ".part"  # what a new file's name ends in until it is whole


def read_small(files: Files, path: str, most: int) -> bytes:
    """A file's bytes, or its first `most`. Raises FileNotFoundError, OSError."""
    file = files.open_read(path)
    try:
        raw = np.empty(min(file.length(), most), np.uint8)
        file.read_at(0, raw)
    finally:
        file.close()
    return raw.tobytes()


def check_small(files: Files, path: str) -> None:
    """Raise StoreError where `replace_small` would find something else than a file of this name."""
    if files.exists(path) and files.is_folder(path):  # it raises for a link
        raise StoreError(f"{path}: is a folder; it is left as it is")


def replace_small(
    files: Files, path: str, content: bytes, *, own: bool = False, length: int | None = None,
    beside: str = PART,
) -> None:  # fmt: skip
    """Give a file this content in one step: a crash leaves the old one or the new one.

    The content is durable then; the name is once its folder is synced. own: nobody else may read
    it. length: bytes of the file, zeros after the content; by default it ends there. beside: what
    the name ends in until then; a file of that name is removed. Raises OSError.
    """
    new = path + beside
    if files.exists(new):
        files.remove(new)
    file = files.create_own(new) if own else files.create(new)
    try:
        file.write_at(0, content)
        if length is not None:
            file.set_length(length)
        file.sync()
    finally:
        file.close()
    files.rename(new, path)
