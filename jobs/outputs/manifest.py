"""Reads and writes the manifest of a set of derived files."""

import json
from typing import Any

from reput.store_format.faults import StoreError
from reput.store_format.files.protocol import InputStorage, listed
from reput.store_format.names import MANIFEST, UNFINISHED


def read_manifest(storage: InputStorage, folder: str) -> dict[str, Any]:
    """The manifest of a set; empty if there is none. Raises StoreError for a malformed one."""
    try:
        manifest = json.loads(storage.read_bytes(f"{folder}/{MANIFEST}"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        raise StoreError(f"{folder}/{MANIFEST}: cannot be read: {error}") from None
    return manifest if isinstance(manifest, dict) else {}


def manifest_text(manifest: dict[str, Any]) -> bytes:
    """A manifest as JSON, with a line for each name and each listed file.

    The json module indents in Python, item by item, which takes seconds for 200,000 files.
    """
    text_of = json.JSONEncoder(sort_keys=True).encode
    whole = []
    for name in sorted(manifest):
        value = manifest[name]
        if value and isinstance(value, list):
            items = ",\n  ".join(map(text_of, value))
            text = f"[\n  {items}\n ]"
        else:
            text = text_of(value)
        whole.append(f" {text_of(name)}: {text}")
    return ("{\n" + ",\n".join(whole) + "\n}\n").encode()


def refuse_unfinished(storage: InputStorage, against: str) -> None:
    """Raise StoreError if a killed rebuild left files without their manifest."""
    names = dict(listed(storage, against))
    if UNFINISHED in names and MANIFEST not in names:
        raise StoreError(f"{against}: holds no whole set: a rebuild began to publish it, no more")
