"""A folder is a set only with a manifest of its kind, and with no file that it does not list."""

import hashlib
import json
from typing import Any

import pytest

from reput.jobs.outputs.output import (
    CONVERTED,
    EXPORTED,
    REBUILT,
    REPAIRED,
    SetKind,
    files_of,
    parse_manifest,
    what_may_go,
)
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder, Place
from tests.memory_storage import MemoryStorage

QUEUE = f"consumequeue/T/0/{0:020d}"


def entry(path: str, length: int = 3) -> dict[str, Any]:
    return {"path": path, "length": length, "sha256": "00"}


def a_set(**more: bytes | None) -> MemoryStorage:
    """A rebuilt set of one file of 3 bytes, in `set`."""
    manifest = {"format": "reput-manifest-1", "files": [entry(QUEUE)]}
    files = {"manifest.json": json.dumps(manifest).encode(), QUEUE: b"abc"} | more
    return MemoryStorage({f"set/{name}": raw for name, raw in files.items() if raw is not None})


@pytest.mark.parametrize(
    ("kind", "path", "of_it"),
    [
        (REBUILT, QUEUE, True),
        (REBUILT, f"batchconsumequeue/T/-1/{0:020d}", True),
        (REBUILT, "index/20240101000000000", True),
        (REBUILT, "consumequeue/MANIFEST-000005", True),
        (REBUILT, f"consumequeue/T/0/{0:019d}", False),
        (REBUILT, f"commitlog/{0:020d}", False),
        (REPAIRED, f"commitlog/{0:020d}", True),
        (REPAIRED, f"damaged/{0:020d}", True),
        (CONVERTED, "timerwheel.7", True),
        (CONVERTED, f"damaged/{0:020d}", False),
        (EXPORTED, "data/part-00000000.parquet", True),
        (EXPORTED, "part-00000000.parquet", True),  # as 0.1 wrote it
        (EXPORTED, "data/data/part-00000000.parquet", False),
        (EXPORTED, "part-00000000.parquet\n", False),
        (EXPORTED, "part-٠٠٠٠٠٠٠٠.jsonl", False),
        (REBUILT, f"consumequeue/../0/{0:020d}", False),
        (REPAIRED, "config/..", False),
        (REPAIRED, "config/a\0", False),
    ],
)
def test_a_manifest_lists_files_of_its_kind_alone(kind: SetKind, path: str, of_it: bool) -> None:
    manifest: dict[str, Any] = {name: [] for name in kind.lists} | {kind.lists[0]: [entry(path)]}
    manifest["format"] = kind.format
    raw = json.dumps(manifest).encode()
    if of_it:
        found = files_of(Folder(MemoryStorage(), "m"), parse_manifest(raw, "m", kind), kind)
        assert [each[:2] for each in found] == [(path, 3)]
    else:
        with pytest.raises(StoreError, match="names a file outside the set"):
            parse_manifest(raw, "m", kind)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"[]", b"[" * 100_000, b'{"format": "reput-export-1", "files": []}',
        b'{"format": "reput-manifest-1"}', b'{"format": "reput-manifest-1", "files": [7]}',
        b'{"format": "reput-manifest-1", "files": [{"path": "checkpoint", "length": true}]}',
    ],
)  # fmt: skip
def test_other_json_is_no_manifest(raw: bytes) -> None:
    with pytest.raises(StoreError, match=r"^set/manifest\.json: "):
        parse_manifest(raw, "set/manifest.json", REBUILT)


@pytest.mark.parametrize(
    ("shard", "why"),
    [
        (json.dumps(entry(QUEUE)).encode(), None),
        (b"[" * 100_000, "is not a list of files"),
        (b"{", "is not a list of files"),
        (json.dumps(entry("../x")).encode(), "files: names a file outside the set"),
        (None, "has no list 'shards'"),
    ],
)
def test_a_large_set_lists_files_in_shards_too(shard: bytes | None, why: str | None) -> None:
    name, manifest = f"manifest/{0:08d}.jsonl", {"format": "reput-manifest-2", "files": []}
    if shard is not None:
        about = {"length": len(shard), "sha256": hashlib.sha256(shard).hexdigest()}
        manifest |= {"shards": [{"path": name, **about}]}
    there = a_set(**{"manifest.json": json.dumps(manifest).encode(), name: shard})
    if why is None:
        assert {QUEUE, name, "manifest/"} < set(what_may_go(Place(there, "set"), REBUILT, False))
    else:
        with pytest.raises(StoreError, match=why):
            what_may_go(Place(there, "set"), REBUILT, False)


def test_a_set_may_go_with_its_folders() -> None:
    going = what_may_go(Place(a_set(), "set"), REBUILT, unfinished=False)
    folders = ["consumequeue/", "consumequeue/T/", "consumequeue/T/0/"]
    assert sorted(going) == sorted([*folders, QUEUE, "manifest.json"])


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"notes.txt": b""}, "set/notes.txt: is not in its manifest"),
        ({"index/20240101000000000": b""}, "set/index/: is not in its manifest"),
        ({QUEUE: b"abcd"}, "has not the length that its manifest says"),
        ({"manifest.json": None}, "has no manifest.json"),
        ({"manifest.json": None, ".reput-unfinished": b""}, "has no manifest.json"),
    ],
)
def test_a_folder_with_anything_else_stays(more: dict[str, bytes | None], why: str) -> None:
    with pytest.raises(StoreError, match=why):
        what_may_go(Place(a_set(**more), "set"), REBUILT, unfinished=False)


@pytest.mark.parametrize(
    ("mark", "more", "goes"),
    [
        (b"", {}, True),
        (b"/tmp/.set.reput-0123456789abcdef0123456789abcdef/set", {}, True),
        (b"/tmp/.set.reput-0123/set", {}, False),
        (b"", {"notes.txt": b""}, False),
        (b"", {f"commitlog/{0:020d}": b""}, False),
    ],
)
def test_what_a_killed_publication_left_goes_without_a_manifest(
    mark: bytes, more: dict[str, bytes | None], goes: bool
) -> None:
    left = a_set(**{"manifest.json": None, ".reput-unfinished": mark, **more})
    if goes:
        assert QUEUE in what_may_go(Place(left, "set"), REBUILT, unfinished=True)
    else:
        with pytest.raises(StoreError, match="and stays"):
            what_may_go(Place(left, "set"), REBUILT, unfinished=True)
