"""What the manifest beside derived files says of them."""

import json
from typing import TYPE_CHECKING, Any

from reput.jobs.engine.differences import Difference
from reput.store_format.faults import StoreError
from reput.store_format.names import MANIFEST, UNFINISHED
from reput.store_format.storage.listing import listed
from reput.store_format.storage.protocol import Storage

if TYPE_CHECKING:
    from reput.jobs.engine.damage_map import DamageMap


def read_manifest(storage: Storage, folder: str) -> dict[str, Any]:
    """The manifest of a rebuilt set; empty where there is none."""
    try:
        manifest = json.loads(storage.read_bytes(f"{folder}/{MANIFEST}"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        raise StoreError(f"{folder}/{MANIFEST}: cannot be read: {error}") from None
    return manifest if isinstance(manifest, dict) else {}


def manifest_text(manifest: dict[str, Any]) -> bytes:
    """A manifest as JSON, a line for each name in it and for each file that it lists.

    json's own indentation is Python, item by item: seconds in a set of 200,000 files.
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


def manifest_differences(
    against: str, manifest: dict[str, Any], damage: "DamageMap | None"
) -> list[Difference]:
    """A difference where a salvaged set's manifest names other lost messages than the log shows.

    The set's queues keep positions for lost messages, so that the two must agree.
    """
    told = manifest.get("damage")
    if not told or damage is None:
        return []
    same = told["missing"] == damage.gaps and told["range_count"] == damage.count
    what = "the positions of missing messages are not those that the log gives"
    return [] if same else [Difference(f"{against}/{MANIFEST}", 0, what, None, None)]


def refuse_unfinished(storage: Storage, against: str) -> None:
    """Raise StoreError where a killed rebuild left files without their manifest."""
    names = dict(listed(storage, against))
    if UNFINISHED in names and MANIFEST not in names:
        raise StoreError(f"{against}: holds no whole set: a rebuild began to publish it, no more")
