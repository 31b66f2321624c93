"""Parts of files read at once: opened, read, closed."""

from contextlib import closing

import numpy as np

from reput.store_format.storage.protocol import Bytes, FileState, InputStorage


def read_part(
    storage: InputStorage, path: str, at: int, length: int, state: FileState | None = None
) -> Bytes:
    """`length` bytes of a file, from byte `at` on.

    state: from an earlier listing. Raises as `open`, `read_into` and `close` do.
    """
    raw = np.empty(length, np.uint8)
    with closing(storage.open(path, state)) as reader:
        reader.read_into(at, raw)
    return raw


def read_head(storage: InputStorage, path: str, most: int) -> bytes | None:
    """A file's first bytes, at most `most`; None if there is no file."""
    try:
        with closing(storage.open(path)) as reader:
            raw = np.empty(min(reader.state.size, most), np.uint8)
            if len(raw):
                reader.read_into(0, raw)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return raw.tobytes()
