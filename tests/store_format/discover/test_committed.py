"""How far a DLedger group has agreed: by a member's checkpoint, its index files, its queues."""

import shutil
from pathlib import Path

import pytest

from reput.store_format.discover.committed import Committed, committed
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from tests.store_format.log.dledger_stores import heads, segments_of, unpack

LOCAL = LocalStorage()


def asked(store: Path, about: dict[str, object]) -> Committed | None:
    at = Folder(LOCAL, str(store))
    return committed(at, segments_of(store, about), at)


def known(store: Path, about: dict[str, object]) -> Committed:
    found = asked(store, about)
    assert found is not None
    return found


def member(store: Path) -> Path:
    return next(store.glob("dledger-*"))


@pytest.mark.parametrize("name", ["clean", "mixed", "rejoined"])
def test_of_a_store_that_was_stopped_all_is_agreed(name: str, tmp_path: Path) -> None:
    store, about = unpack(name, tmp_path)
    last = heads(store, about)[-1][2]
    assert asked(store, about) == Committed(last["pos"] + last["size"], last["index"], 0)


def test_what_no_majority_had_is_behind_the_queues_or_the_checkpoint(tmp_path) -> None:
    """A leader without a majority wrote six more entries and was killed."""
    store, about = unpack("killed", tmp_path)
    found = heads(store, about)
    agreed = known(store, about)
    assert agreed.behind > 0
    assert agreed.noted == found[-1][2]["index"] - agreed.behind
    assert agreed.end == found[-1 - agreed.behind][2]["pos"] + found[-1 - agreed.behind][2]["size"]
    assert "readUnCommitted=true" in agreed.text
    store, about = unpack("killed", tmp_path / "1")
    wanted = known(store, about)
    (member(store) / "checkpoint").write_text("endIndex=9\ncommittedIndex=9\n")
    found = known(store, about)
    assert (found.noted, found.end) == (9, wanted.end)
    (store / "abort").unlink()
    assert known(store, about).end < wanted.end
    store, about = unpack("clean", tmp_path / "2")
    (member(store) / "checkpoint").write_text("endIndex=50\ncommittedIndex=-1\n")
    found = known(store, about)
    assert (found.end, found.noted) == (heads(store, about)[0][2]["pos"], -1)
    assert found.behind == len(heads(store, about))


@pytest.mark.parametrize("lost", ["all", "units"])
def test_without_index_files_the_log_is_walked(lost: str, tmp_path: Path) -> None:
    store, about = unpack("killed", tmp_path)
    wanted = asked(store, about)
    index = member(store) / "index"
    if lost == "all":
        shutil.rmtree(index)
    else:
        for path in index.iterdir():
            path.write_bytes(bytes(path.stat().st_size))
    assert asked(store, about) == wanted


@pytest.mark.parametrize("text", [None, "", "committedIndex=x\n", "endIndex=3\n"])
def test_without_a_readable_checkpoint_nothing_is_known(text: str | None, tmp_path: Path) -> None:
    store, about = unpack("clean", tmp_path)
    path = member(store) / "checkpoint"
    path.unlink() if text is None else path.write_text(text)
    assert asked(store, about) is None


@pytest.mark.parametrize("name", ["clean", "mixed", "rejoined"])
@pytest.mark.parametrize("lost", [1, 12])
def test_a_log_that_ends_before_the_committed_index_lacks_entries(name, lost, tmp_path) -> None:
    """dledger #316: the log's last entries are gone; other members have them."""
    store, about = unpack(name, tmp_path)
    found = heads(store, about)
    path, at, head = found[-lost]
    last = found[-1][2]["index"]
    for later, place, _ in found[-lost:]:
        raw = bytearray(later.read_bytes())
        raw[place:] = bytes(len(raw) - place)
        later.write_bytes(raw)
    assert asked(store, about) == Committed(head["pos"], last, 0, lost)
    text = Committed(head["pos"], last, 0, lost).text
    assert f"{lost} committed" in text
    assert "other members" in text
    for file in (member(store) / "index").iterdir():
        file.unlink()
    assert asked(store, about) == Committed(head["pos"], last, 0, lost)
    raw = bytearray(path.read_bytes())
    raw[at : at + 4] = (7).to_bytes(4, "big")  # no entry, and not the log's end
    path.write_bytes(raw)
    assert asked(store, about) is None
