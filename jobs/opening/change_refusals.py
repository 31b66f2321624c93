"""Refuses folders in which append, recover and other commands must not change files in place.

These commands write to `lock`, `checkpoint`, `abort` and segments. In a folder that is no store,
files of these names may be somebody's own; and a hard link of a segment may be another store's.
"""

import os
import re
import stat
from collections.abc import Iterable

from reput.store_format.faults import StoreError
from reput.store_format.layouts import CHECKPOINT_FILE_BYTES
from reput.store_format.log.groups import refuse_dledger
from reput.store_format.log.segments import Segment
from reput.store_format.names import (
    ABORT,
    BATCH_CONSUME_QUEUE,
    CHECKPOINT,
    COMMIT_LOG,
    CONSUME_QUEUE,
    INDEX,
    LOCK,
    STAGED_INDEX,
    parse_index_name,
)

_LOCK = re.compile(rb"(lock)?")  # DefaultMessageStore.start writes it
_PROCESS_ID = re.compile(rb"\d{0,20}\s?")  # in abort, since 5.0.0; empty before
_READ_MOST = 64
_STAYS = "the folder is taken for no store, and nothing in it is changed"


def refuse_what_is_no_store(store: str) -> None:
    """Raise StoreError if a file has a name of a store's file but was not written by a broker.

    store: a local path. A folder with a segment is a store, whatever a crash left of other files.
    """
    for name in _names(f"{store}/{INDEX}"):
        try:
            parse_index_name(name)
        except ValueError as error:
            raise StoreError(f"{store}/{INDEX}: {error}; {_STAYS}") from None
    refuse_group_log(store)
    if _names(f"{store}/{COMMIT_LOG}"):
        return
    for name, wanted in ((LOCK, _LOCK), (ABORT, _PROCESS_ID)):
        content = _beginning(f"{store}/{name}")
        if content is not None and not wanted.fullmatch(content):
            raise StoreError(f"{store}/{name}: was not written by a broker; {_STAYS}")
    path = f"{store}/{CHECKPOINT}"
    if os.path.isfile(path) and os.path.getsize(path) not in (0, CHECKPOINT_FILE_BYTES):
        raise StoreError(f"{path}: has not the length of a checkpoint; {_STAYS}")


def refuse_group_log(store: str) -> None:
    """Raise StoreError if the log is that of a DLedger group, which no command changes."""
    refuse_dledger(store, lambda name: _names(f"{store}/{name}"))


def refuse_shared_segments(store: str) -> None:
    """Raise StoreError if a segment has a second name (a hard link), as `cp -al` makes.

    A change would also change the other file, in a backup or another store.
    """
    for name in _names(f"{store}/{COMMIT_LOG}"):
        refuse_second_name(f"{store}/{COMMIT_LOG}/{name}")


def refuse_shared_files(store: str) -> None:
    """Raise StoreError if any file that a writer writes to has a second name."""
    refuse_shared_segments(store)
    refuse_shared_derived(store)


def refuse_shared_derived(store: str) -> None:
    """As `refuse_shared_segments`, for the derived files that a writer changes in place: the
    checkpoint, each queue's last file, and the last index file.
    """
    shared = [f"{store}/{CHECKPOINT}"]
    for kind in (CONSUME_QUEUE, BATCH_CONSUME_QUEUE):
        for topic in _names(f"{store}/{kind}"):
            for queue in _names(f"{store}/{kind}/{topic}"):
                folder = f"{store}/{kind}/{topic}/{queue}"
                shared += [f"{folder}/{name}" for name in _names(folder)[-1:]]
    if not os.path.lexists(f"{store}/{STAGED_INDEX}"):  # a killed writer leaves hard links there
        shared += [f"{store}/{INDEX}/{name}" for name in _names(f"{store}/{INDEX}")[-1:]]
    for path in shared:
        refuse_second_name(path)


def refuse_second_name(path: str) -> None:
    """Raise StoreError if a file to be written to has a second name (a hard link)."""
    try:
        about = os.lstat(path)
    except FileNotFoundError:
        return
    if stat.S_ISREG(about.st_mode) and about.st_nlink > 1:
        raise StoreError(
            f"{path}: has a second name elsewhere (a hard link), which would be changed too; "
            f"give this store files of its own (cp -a), or after a killed install: reput clean"
        )


def refuse_log_elsewhere(store: str, segments: Iterable[Segment], command: str) -> None:
    """Raise StoreError if the settings put the log elsewhere than in STORE/commitlog."""
    own = f"{store}/{COMMIT_LOG}"
    for segment in segments:
        if os.path.dirname(segment.path) != own:
            raise StoreError(f"{segment.path}: {command} works on a log in {own} only")


def _beginning(path: str) -> bytes | None:
    """The first bytes of a regular file; None for anything else."""
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return file.read(_READ_MOST)


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
