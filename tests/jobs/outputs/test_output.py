"""Where a command may write: never into an input, and only over a set or a file of its own."""

import hashlib
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.outputs import output
from reput.jobs.outputs.report import OutputFile, Summary
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder, Place
from reput.store_format.files.local import LocalStorage
from tests import built
from tests.memory_storage import MemoryStorage

EMPTY_SET = json.dumps({"format": "reput-manifest-1", "files": []})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    return tmp_path / "store"


def inputs(store: Path, **settings: str) -> tuple[Place, ...]:
    return tuple(output.inputs_of(Place(LocalStorage(), str(store)), settings))


def test_the_paths_of_settings_and_of_a_group_are_inputs(store: Path) -> None:
    (store / "dledger-n0").mkdir()
    there = inputs(store, storePathCommitLog="/a, /b", readOnlyCommitLogStorePaths="/c",
                   brokerName="/d")  # fmt: skip
    paths = {each.path for each in there}
    assert {"/a", "/b", "/c", f"{store}/dledger-n0/data", str(store)} <= paths
    assert not {"/d", ""} & paths


def test_nothing_is_written_to_around_or_into_an_input(store) -> None:
    (store.parent / "link").symlink_to(store / "commitlog")
    for path, refused in [
        ("store", True), ("store/commitlog/new", True), (".", True), ("link", True),
        ("store2", False), ("other/set", False),
    ]:  # fmt: skip
        asked = Place(LocalStorage(), str(store.parent / path))
        why = "nothing is written there"
        with pytest.raises(output.OverlapsInput, match=why) if refused else nullcontext():
            output.refuse_overlap(asked, inputs(store))


@pytest.mark.parametrize(("files", "replace", "wrong"), [
    ({}, False, None), ({"manifest.json": EMPTY_SET}, True, None),
    ({"manifest.json": EMPTY_SET}, False, "--replace puts the new set"),
    ({"notes.txt": ""}, False, "give another folder"),
    ({"notes.txt": ""}, True, "is not empty, and has no manifest.json"),
    ({"manifest.json": EMPTY_SET, "notes.txt": ""}, True, "is not in its manifest"),
    (None, True, "is not a folder"),
])  # fmt: skip
def test_only_a_set_is_replaced_and_only_where_it_is_asked_for(
    tmp_path: Path, store: Path, files: dict[str, str] | None, replace: bool, wrong: str | None
) -> None:
    folder = tmp_path / "out"
    if files is None:
        folder.write_text("")
    else:
        folder.mkdir()
        built.write(folder, {name: text.encode() for name, text in files.items()})
    out = output.Output(LocalStorage(), str(folder), output.REBUILT, replace, inputs(store))
    with pytest.raises(StoreError, match=wrong) if wrong else nullcontext():
        out.check()


def test_a_new_file_takes_nobody_s_place_and_goes_if_its_writing_fails(tmp_path, store) -> None:
    new = output.NewFile(str(tmp_path / "new"), inputs(store))
    with pytest.raises(ZeroDivisionError), new.writing() as file:
        file.write(bytes(1 // 0))
    assert not (tmp_path / "new").exists()
    new.write(b"text")
    with pytest.raises(StoreError, match="is there already, and stays"):
        new.write(b"other")
    assert (tmp_path / "new").read_bytes() == b"text"
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for path, why in (("dangling", "is there already"), ("no/new", "no such folder")):
        with pytest.raises(StoreError, match=why):
            output.NewFile(str(tmp_path / path), ()).check()


@pytest.mark.parametrize(("there", "replace", "wrong"), [
    (b"%PDF old", True, None), (b"%PDF old", False, "is there already"),
    (b"%PD", True, "none that this command wrote"), (None, True, "is a link"),
])  # fmt: skip
def test_a_whole_file_takes_the_place_of_one_of_its_kind(tmp_path, there, replace, wrong) -> None:
    path = tmp_path / "page"
    if there is None:
        path.symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").write_bytes(b"%PDF")
    else:
        path.write_bytes(there)
    whole = output.WholeFile(str(path), (), b"%PDF", replace)
    if wrong is None:
        with pytest.raises(ZeroDivisionError), whole.writing() as file:
            file.write(bytes(1 // 0))
        assert path.read_bytes() == there
        whole.write(b"%PDF new")
        assert path.read_bytes() == b"%PDF new"
    else:
        with pytest.raises(StoreError, match=wrong):
            whole.write(b"%PDF new")
        assert path.read_bytes() == (there or b"%PDF")
    assert not list(tmp_path.glob(".*.part"))


# --- The manifest beside derived files, as text.
def test_a_line_for_each_name_and_each_file() -> None:
    summary = Summary("s", "o", "5.3.3", {"release": "5.3.3"}, {}, 0, 1, "ends")
    summary.files = [OutputFile("consumequeue/ü\n/0", 20, "00", 1), OutputFile("index/1", 40, "01")]
    text = output.manifest_text(summary.manifest())
    whole = json.loads(text)
    assert [each["path"] for each in whole["files"]] == ["consumequeue/ü\n/0", "index/1"]
    assert (whole["rocketmq"], whole["warnings"], whole["damage"]) == ("5.3.3", [], None)
    assert "seconds" not in whole
    lines = text.decode().splitlines()
    assert len(lines) == 2 + len(whole) + 3  # braces, names, and two files in brackets
    assert [line for line in lines if "index/1" in line] == [
        '  {"entries": 0, "length": 40, "path": "index/1", "sha256": "01", "written": null}'
    ]
    assert summary.as_json()["output_files"] == 2


# --- A folder is a set only with a manifest of its kind, and with no file that it does not list.
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
        (output.REBUILT, QUEUE, True),
        (output.REBUILT, f"batchconsumequeue/T/-1/{0:020d}", True),
        (output.REBUILT, "index/20240101000000000", True),
        (output.REBUILT, "consumequeue/MANIFEST-000005", True),
        (output.REBUILT, f"consumequeue/T/0/{0:019d}", False),
        (output.REBUILT, f"commitlog/{0:020d}", False),
        (output.REPAIRED, f"commitlog/{0:020d}", True),
        (output.REPAIRED, f"damaged/{0:020d}", True),
        (output.CONVERTED, "timerwheel.7", True),
        (output.CONVERTED, f"damaged/{0:020d}", False),
        (output.EXPORTED, "data/part-00000000.parquet", True),
        (output.EXPORTED, "part-00000000.parquet", True),  # as 0.1 wrote it
        (output.EXPORTED, "data/data/part-00000000.parquet", False),
        (output.EXPORTED, "part-00000000.parquet\n", False),
        (output.EXPORTED, "part-٠٠٠٠٠٠٠٠.jsonl", False),
        (output.REBUILT, f"consumequeue/../0/{0:020d}", False),
        (output.REPAIRED, "config/..", False),
        (output.REPAIRED, "config/a\0", False),
    ],
)
def test_a_manifest_lists_files_of_its_kind_alone(kind, path, of_it) -> None:
    manifest: dict[str, Any] = {name: [] for name in kind.lists} | {kind.lists[0]: [entry(path)]}
    manifest["format"] = kind.format
    raw = json.dumps(manifest).encode()
    why = "names a file outside the set"
    with nullcontext() if of_it else pytest.raises(StoreError, match=why):
        found = output.files_of(
            Folder(MemoryStorage(), "m"), output.parse_manifest(raw, "m", kind), kind
        )
        assert [each[:2] for each in found] == [(path, 3)]


@pytest.mark.parametrize("raw", [
    b"", b"[]", b"[" * 100_000, b"{", b'{"a":' * 50_000,
    b'{"format": "reput-export-1", "files": []}',
    b'{"format": "reput-manifest-1"}', b'{"format": "reput-manifest-1", "files": [7]}',
    b'{"format": "reput-manifest-1", "files": [{"path": "checkpoint", "length": true}]}',
])  # fmt: skip
def test_other_json_is_no_manifest(raw: bytes) -> None:
    with pytest.raises(StoreError, match=r"^set/manifest\.json: "):
        output.parse_manifest(raw, "set/manifest.json", output.REBUILT)
    if raw[:1] in (b"[", b"{") and len(raw) % 10_000 in (0, 1):
        with pytest.raises(StoreError, match=r"s/manifest\.json: cannot be read"):
            output.read_manifest(Folder(MemoryStorage({"s/manifest.json": raw}), "s"))


@pytest.mark.parametrize(("shard", "why"), [
    (json.dumps(entry(QUEUE)).encode(), None), (b"[" * 100_000, "is not a list of files"),
    (b"{", "is not a list of files"),
    (json.dumps(entry("../x")).encode(), "files: names a file outside the set"),
    (None, "has no list 'shards'"),
])  # fmt: skip
def test_a_large_set_lists_files_in_shards_too(shard: bytes | None, why: str | None) -> None:
    name, manifest = f"manifest/{0:08d}.jsonl", {"format": "reput-manifest-2", "files": []}
    if shard is not None:
        about = {"length": len(shard), "sha256": hashlib.sha256(shard).hexdigest()}
        manifest |= {"shards": [{"path": name, **about}]}
    there = a_set(**{"manifest.json": json.dumps(manifest).encode(), name: shard})
    if why is None:
        assert {QUEUE, name, "manifest/"} < set(
            output.what_may_go(Place(there, "set"), output.REBUILT, False)
        )
    else:
        with pytest.raises(StoreError, match=why):
            output.what_may_go(Place(there, "set"), output.REBUILT, False)


def test_a_set_may_go_with_its_folders_and_one_with_anything_else_stays() -> None:
    going = output.what_may_go(Place(a_set(), "set"), output.REBUILT, unfinished=False)
    folders = ["consumequeue/", "consumequeue/T/", "consumequeue/T/0/"]
    assert sorted(going) == sorted([*folders, QUEUE, "manifest.json"])
    strange: list[tuple[dict[str, bytes | None], str]] = [
        ({"notes.txt": b""}, "set/notes.txt: is not in its manifest"),
        ({"index/20240101000000000": b""}, "set/index/: is not in its manifest"),
        ({QUEUE: b"abcd"}, "has not the length that its manifest says"),
        ({"manifest.json": None}, "has no manifest.json"),
        ({"manifest.json": None, ".reput-unfinished": b""}, "has no manifest.json"),
    ]
    for more, why in strange:
        with pytest.raises(StoreError, match=why):
            output.what_may_go(Place(a_set(**more), "set"), output.REBUILT, unfinished=False)


def test_what_a_killed_publication_left_goes_without_a_manifest() -> None:
    staged = b"/tmp/.set.reput-0123456789abcdef0123456789abcdef/set"
    for mark, more, goes in [
        (b"", {}, True), (staged, {}, True), (b"/tmp/.set.reput-0123/set", {}, False),
        (b"", {"notes.txt": b""}, False), (b"", {f"commitlog/{0:020d}": b""}, False),
    ]:  # fmt: skip
        left = a_set(**{"manifest.json": None, ".reput-unfinished": mark, **more})
        with nullcontext() if goes else pytest.raises(StoreError, match="and stays"):
            assert QUEUE in output.what_may_go(Place(left, "set"), output.REBUILT, unfinished=True)
