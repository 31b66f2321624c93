"""The keys of a file that a user names: one a line."""

import sys

from reput.store_format.faults import StoreError


def read_keys(path: str) -> list[str]:
    """Its lines that are not empty, as they stand; `-` is standard input.

    Raises StoreError where a line is no UTF-8, OSError.
    """
    if path == "-":
        raw = sys.stdin.buffer.read()
    else:
        with open(path, "rb") as file:
            raw = file.read()
    keys = []
    for number, line in enumerate(raw.split(b"\n"), 1):
        try:
            key = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            raise StoreError(f"{path}: line {number} is no UTF-8") from None
        if key:
            keys.append(key)
    return keys
