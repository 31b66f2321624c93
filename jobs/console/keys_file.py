"""Reads the file of --keys-file: one key a line."""

import sys
from pathlib import Path

from reput.store_format.faults import StoreError


def read_keys(path: str) -> list[str]:
    """The lines of a file that are not empty; path `-` is standard input.

    Raises StoreError if the file cannot be read, or a line is no UTF-8.
    """
    try:
        raw = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise StoreError(f"--keys-file {path}: {error.strerror}") from None
    keys = []
    for number, line in enumerate(raw.split(b"\n"), 1):
        try:
            key = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            raise StoreError(f"--keys-file {path}: line {number} is no UTF-8") from None
        if key:
            keys.append(key)
    return keys
