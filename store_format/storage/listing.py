"""Listing a folder that may be missing."""

from reput.store_format.storage.protocol import Listed, Storage


def listed(storage: Storage, folder: str) -> list[Listed]:
    """What is in a folder; nothing where there is none, or it may not be listed."""
    try:
        return storage.list(folder)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
