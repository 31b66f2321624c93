"""Judges by the log what a store has beside its queues and index, for `check` and `report`."""

from collections.abc import Iterator

from reput.store_format.files.protocol import InputStorage, listed
from reput.store_format.names import (
    BATCH_CONSUME_QUEUE,
    COMMIT_LOG,
    CONSUME_QUEUE,
    CUT,
    DLEDGER,
    MANIFEST,
    QUEUE_EXT,
)
from reput.store_format.state_table import FILES, row_of

# ---
# Files that the table of a store's state does not have: a newer release's, or an operator's.

# The walk of queues and of the log names what is wrong there; what begins so is of reput.
_NOT_HERE = {COMMIT_LOG, CONSUME_QUEUE, BATCH_CONSUME_QUEUE, QUEUE_EXT, CUT, MANIFEST}
_OURS = (".reput-", "reput-", DLEDGER)


def unknown_files(storage: InputStorage, store: str) -> list[str]:
    """The paths, below a store, of files and folders (with a slash) that the table lacks. Each
    command keeps them as they are.
    """
    return sorted(_unknown(storage, store, ""))


def _unknown(storage: InputStorage, store: str, below: str) -> Iterator[str]:
    for name, state in listed(storage, f"{store}/{below}".rstrip("/")):
        path = f"{below}{name}"
        if not below and (name in _NOT_HERE or name.startswith(_OURS)):
            continue
        if state is None and f"{path}/" in _FOLDERS:
            yield from _unknown(storage, store, f"{path}/")
        elif not (state is None and below in _OF_TOPICS) and row_of(path) is None:
            yield f"{path}/" if state is None else path


def _folders() -> Iterator[tuple[str, bool]]:
    """Each folder of the table, with a slash, and whether folders of topics are in it."""
    for row in FILES:
        parts = row.path.split("/")[:-1]
        for number, part in enumerate(parts):
            if "<" in part:
                break
            topics = number + 1 < len(parts) and "<" in parts[number + 1]
            yield "/".join((*parts[: number + 1], "")), topics


_FOLDERS = {folder for folder, _ in _folders()}
_OF_TOPICS = {folder for folder, topics in _folders() if topics}
