"""The steps by which `recover` brings a store into the state of a clean stop.

Each can be repeated. The file `abort` is there from before the first change until after the last
one. A broker that finds it recovers as after any crash, and so does the next run of `recover`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from reput.broker.writer.log_recovery import LogEnd, LogRecovery
from reput.store_format.disk.files import Files
from reput.store_format.disk.small_files import add_folders, replace_small, write_small
from reput.store_format.names import ABORT, CHECKPOINT

CUT = "reput-cut"


class StagedFile(NamedTuple):
    """A derived file that is ready, and the name that it will get; both are paths in the store."""

    staged: str
    path: str


def apply(
    files: Files, log: LogRecovery, end: LogEnd, placed: Sequence[StagedFile],
    removed: Sequence[str], checkpoint: bytes, abort: bytes,
) -> None:  # fmt: skip
    """Cut the log at `end`, put derived files in their places, and note a clean stop.

    What is cut is kept in the folder CUT. removed: derived files that the log gives none of.
    abort: what the file of that name holds, where there is none yet. Raises OSError: run again.
    """
    if not files.exists(ABORT):
        write_small(files, ABORT, abort)
        files.sync_folder("")
    log.cut(end, CUT)
    if placed:
        files.sync_all("")  # what the files hold, before they have their names
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
