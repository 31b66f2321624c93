"""The steps by which `recover` brings a store into the state of a clean stop.

Each step can be repeated. The file `abort` is there from before the first change until after the
last. A broker that finds `abort` recovers as after any crash, and so does the next `recover`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from reput.broker.writer.recovery import LogEnd, LogRecovery
from reput.store_format.files.protocol import Files, add_folders, replace_small, write_small
from reput.store_format.names import ABORT, CHECKPOINT

CUT = "reput-cut"


class StagedFile(NamedTuple):
    """A finished derived file, and the name that it will get; both are paths in the store."""

    staged: str
    path: str


def apply(
    files: Files, log: LogRecovery, end: LogEnd, placed: Sequence[StagedFile],
    removed: Sequence[str], checkpoint: bytes, abort: bytes,
) -> None:  # fmt: skip
    """Cut the log at `end`, put derived files in their places, and note a clean stop.

    What is cut is kept in the folder CUT. removed: old derived files without a new one.
    abort: content of the file `abort`, if it must be made. Raises OSError: run again.
    """
    if not files.exists(ABORT):
        write_small(files, ABORT, abort)
        files.sync_folder("")
    log.cut(end, CUT)
    if placed:
        files.sync_all("")  # what the files hold is durable before they get their names
    for file in placed:
        add_folders(files, "", file.path.rpartition("/")[0])
        files.rename(file.staged, file.path)
    for path in removed:
        files.remove(path)
    if placed or removed:
        files.sync_all("")
    replace_small(files, CHECKPOINT, checkpoint)
    files.sync_folder("")
    files.remove(ABORT)
    files.sync_folder("")
