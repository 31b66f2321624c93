"""Listing a folder that may be missing."""

from reput.store_format.storage.protocol import InputStorage, Listed


def listed(storage: InputStorage, folder: str) -> list[Listed]:
    """What is in a folder; nothing where there is none. Raises OSError where it cannot be listed:
    what is in it is not known then, and an empty folder means something.
    """
    try:
        return storage.list(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
