"""File systems by URL: `storage_for` gives the `Storage` of a path or URL.

Each file system has a module here. Those that need a network are imported at their first use.
"""

import re
from typing import cast

from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Place
from reput.store_format.files.local import LocalStorage, VolumeStorage
from reput.store_format.files.protocol import Storage
from reput.store_format.files.queue_logs import queue_log

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_KNOWN = (
    "a path, file:, s3://, gs://, abfss://, webhdfs://, swebhdfs://, hdfs:// and dbfs:/ are known, "
    "and backup:, compacted: and tiered: before one"
)
_BY_ARROW = ("gs", "gcs", "abfs", "abfss", "hdfs")


def storage_for(url: str, shared: bool = False) -> Storage:
    """The storage that a path or URL is on. Raises StoreError for an unknown file system.

    shared: tasks on other machines write there, so each task makes its own files durable. The file
    system is not contacted yet. Each process takes endpoint and credentials from its own
    environment, so that no task's description and no log has them.
    """
    of_queue = queue_log(url, storage_for)
    if of_queue is not None:
        return cast(Storage, of_queue)  # it only reads, and nobody writes to such a log
    if url.startswith("backup:"):
        from reput.store_format.files.backups import BackedUp, parse_moment

        return cast(Storage, BackedUp(storage_for(parse_moment(url)[0].repo)))
    found = _SCHEME.match(url)
    scheme = found[1].lower() if found else "file"
    if scheme in ("s3", "s3a", "s3n"):
        from reput.store_format.files.s3 import S3Storage

        return S3Storage()
    if scheme in ("webhdfs", "swebhdfs"):
        from reput.store_format.files.webhdfs import WebHdfsStorage

        return WebHdfsStorage()
    if scheme == "dbfs" or (scheme == "file" and VolumeStorage.is_for(url)):
        return VolumeStorage()
    if scheme == "file":
        return LocalStorage(sync_files=shared)
    if scheme in _BY_ARROW:
        from reput.store_format.files.arrow import ArrowStorage

        return ArrowStorage()
    raise StoreError(f"{scheme}://: no such file system; {_KNOWN}")


def place_at(url: str, storage: Storage | None = None) -> Place:
    """What a path or URL names. storage: in place of the one that it is on. Raises StoreError."""
    storage = storage or storage_for(url)
    return Place(storage, storage.resolve(url))
