"""Local scratch folders of a process, for libraries that read or write local files only.

The process holds its folder (`claim_folder`) until it ends in whatever way. A folder that nobody
holds is a leftover, which `reput clean` removes.
"""

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from reput.store_format.disk.locks import claim_folder


class Scratch(StrEnum):
    """The names' beginnings of scratch folders in the temporary folder."""

    DEMO = "reput-demo"
    ROCKSDB = "reput-rocksdb"
    TABLE = "reput-table"


@contextmanager
def scratch_folder(prefix: Scratch) -> Iterator[str]:
    """Make a folder (mode 0700) in the temporary folder, and remove it afterwards.

    Yields its absolute path. Raises OSError.
    """
    release = None
    while release is None:
        folder = os.path.abspath(f"{tempfile.gettempdir()}/{prefix}-{uuid.uuid4().hex}")
        release = claim_folder(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        release()
