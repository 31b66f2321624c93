"""One atomic step from the old derived files to the new: what stays, and what stops it."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from reput.broker.change.install import (
    NOTE,
    Apart,
    SetFile,
    check_can_change,
    clean_up,
    expired_queues,
    install,
    kept_name,
    read_note,
    staging_prefix,
    undo,
)
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.layouts import QUEUE_ENTRY
from tests.faults.memory_files import MemoryFiles

OLD = {"commitlog/0": b"log", "index/20260101000000001": b"old", "config/a": b"A", "config/b": b"B"}
NEW = {"index/20260101000000002": b"new"}
KEPT = kept_name("store")


def files_of(content: dict[str, bytes], root: str = "") -> MemoryFiles:
    files = MemoryFiles()
    for path, raw in content.items():
        whole = f"{root}/{path}".strip("/")
        files.make_folder(whole.rpartition("/")[0])
        files.create(whole).write_at(0, raw)
    return files


def below(files: MemoryFiles, root: str) -> dict[str, bytes]:
    tree = files.tree().items()
    return {path[len(root) + 1 :]: raw for path, raw in tree if path.startswith(f"{root}/")}


def named(content: dict[str, bytes]) -> list[SetFile]:
    return [SetFile(p, len(raw), hashlib.sha256(raw).hexdigest()) for p, raw in content.items()]


def put(files: MemoryFiles, new: dict[str, bytes] = NEW, apart: Apart | None = None) -> None:
    install(files, "store", "1", {"by": "test"}, files_of(new), named(new), 100, apart)


def test_all_that_is_derived_is_replaced_and_a_file_of_config_apart() -> None:
    files = files_of({**OLD, "checkpoint": b"then"}, "store")
    log = files.inode("store/commitlog/0")
    put(files, {**NEW, "other/x": b"of no set"})
    config = {"config/a": b"A", "config/b": b"B"}
    assert below(files, "store") == {"commitlog/0": b"log", **NEW, **config}
    assert files.inode("store/commitlog/0") == log
    kept = below(files, KEPT)
    assert json.loads(kept.pop(NOTE))["by"] == "test"
    assert kept == {"index/20260101000000001": b"old", "checkpoint": b"then"}
    files, changed = files_of(OLD, "store"), {"config/a": b"new A"}
    put(files, NEW, Apart(files_of(changed), named(changed), ("config/a",)))
    assert below(files, "store") == {"commitlog/0": b"log", "config/b": b"B", **NEW, **changed}
    note = read_note(files, f"{KEPT}/{NOTE}")
    assert note is not None
    undo(files, "store", "2", note)
    assert below(files, "store") == OLD
    assert below(files, KEPT).items() >= {**NEW, **changed}.items()


def test_the_rest_of_what_was_written_is_zeros_and_all_is_the_manifests() -> None:
    for written in [None, 3, 4, 5]:
        files, content = files_of(OLD, "store"), {"index/20260101000000002": b"abc\0\0"}
        digest = hashlib.sha256(b"abc\0\0"[:written]).hexdigest()
        [wanted] = named(content)
        source = files_of(content)
        install(files, "store", "1", {}, source, [wanted._replace(sha256=digest, written=written)],
                0)  # fmt: skip
        assert below(files, "store").items() >= content.items()
    for change in [{"length": 4}, {"sha256": "0" * 64}, {
        "written": 0, "sha256": hashlib.sha256().hexdigest()}]:  # fmt: skip
        files, [wanted] = files_of(OLD, "store"), named(NEW)
        with pytest.raises(
            StoreChanged,
            match="index/20260101000000002: is not the file that the manifest names"):  # fmt: skip
            install(files, "store", "1", {}, files_of(NEW), [wanted._replace(**change)], 0)
        assert (below(files, "store"), files.names("")) == (OLD, ["store"])


@pytest.mark.parametrize(("kept", "why"), [
    ({KEPT: b""}, "is not a folder"),
    ({f"{KEPT}/mine": b"", f"{KEPT}/{NOTE}": b"{}"}, "mine: is of no set"),
    ({f"{KEPT}/index/20260101000000001": b""}, f"has no {NOTE}"),
    ({f"{KEPT}/index/20260101000000001": b"", f"{KEPT}/{NOTE}": b"{}"}, None)])  # fmt: skip
def test_what_has_the_kept_sets_name_and_is_none_is_not_removed(kept, why: str | None) -> None:
    files = files_of({**{f"store/{path}": raw for path, raw in OLD.items()}, **kept})
    if why is None:
        put(files)
        assert set(below(files, KEPT)) == {"index/20260101000000001", NOTE}
        return
    with pytest.raises(StoreError, match=why):
        put(files)
    assert files.tree().items() >= kept.items()
    assert below(files, "store") == OLD


def test_a_link_anywhere_in_the_store_stops_it_before_it_begins(tmp_path: Path) -> None:
    (tmp_path / "store/consumequeue/T").mkdir(parents=True)
    check_can_change(DiskFiles(str(tmp_path)), "store")
    (tmp_path / "store/consumequeue/T/0").symlink_to(tmp_path)
    with pytest.raises(StoreError, match="consumequeue/T/0"):
        check_can_change(DiskFiles(str(tmp_path)), "store")


def test_a_queue_has_expired_where_its_last_message_lies_before_the_log() -> None:
    """Without it a broker would number its next messages from 0."""
    for last, expired in [(99, True), (100, False)]:
        entries = np.array([(10, 5, 0), (last, 5, 0), (0, 0, 0)], QUEUE_ENTRY).tobytes()
        queue = {"consumequeue/T/0/00000000000000000000": entries,
                 "consumequeue/T/0/00000000000000000060": bytes(20)}  # fmt: skip
        files = files_of({**OLD, **queue, "consumequeue/README": b"somebody's"}, "store")
        assert expired_queues(files, "store", set(), 100) == ["consumequeue/T/0"] * expired
        assert expired_queues(files, "store", {"consumequeue/T/0"}, 100) == []
        put(files)
        found = {path for path in below(files, "store") if path.startswith("consumequeue/")}
        assert found == {"consumequeue/README", *(queue if expired else ())}
    old = {"consumequeue/T/0/00000000000000000000": np.array([(10, 5, 0)], QUEUE_ENTRY).tobytes()}
    files, new = files_of({**OLD, **old}, "store"), {"consumequeue/CURRENT": b"MANIFEST-1\n"}
    put(files, new)
    assert "consumequeue/T/0/00000000000000000000" not in below(files, "store")


def test_what_a_killed_install_left_is_removed_and_a_cut_note_is_none() -> None:
    left = f"{staging_prefix('store')}7"
    other = f"{staging_prefix('stores')}7"  # another store's
    files = files_of({f"{left}/root/index/20260101000000002": b"", f"{other}/a": b"",
                      "store/a": b"A"})  # fmt: skip
    assert clean_up(files, "store") == [left]
    assert set(files.tree()) == {f"{other}/a", "store/a"}
    for raw in [b"", b"{", b"[1]", b"null", b"[" * 100_000, b"\xff"]:
        assert read_note(files_of({"note": raw}), "note") is None
        assert read_note(MemoryFiles(), "note") is None
