"""Listing a folder that may be missing."""

from reput.store_format.storage.protocol import InputStorage, Listed


def listed(storage: InputStorage, folder: str) -> list[Listed]:
    """What is in a folder; nothing if there is no folder. Raises OSError if it cannot be listed: an
    empty list would tell the caller that it is empty.
    """
    try:
        return storage.list(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
