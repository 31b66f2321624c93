"""A folder gets its final name in one step, and what was there is given back whole."""

from pathlib import Path

import pytest

from reput.store_format.faults import StoreChanged
from reput.store_format.files.disk import DiskFiles, NotDurable, put_in_place


class Recording(DiskFiles):
    """Notes what makes something durable; syncs nothing, as that takes the whole disk's time."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.synced: list[str] = []
        self.refuses = False

    def sync_all(self, path: str) -> None:
        self.synced.append(f"all {path}")

    def sync_folder(self, path: str) -> None:
        if self.refuses:
            raise OSError(5, "Input/output error")
        self.synced.append(f"names {path}: {','.join(self.names(path))}")


class Racing(Recording):
    """Another folder takes the name just before the exchange."""

    def exchange(self, path: str, to: str) -> None:
        if not self.exists("above/meanwhile"):
            self.rename(to, "above/meanwhile")
            self.add_folder(to)
            self.create(f"{to}/theirs").close()
        super().exchange(path, to)


@pytest.fixture
def files(tmp_path: Path) -> Recording:
    made = Recording(str(tmp_path))
    for folder in ("above/new", "above/to"):
        made.make_folder(folder)
        made.create(f"{folder}/{folder[-3:].strip('/')}").close()
    made.synced.clear()
    return made


def tree(files: DiskFiles) -> dict[str, list[str]]:
    return {name: files.names(f"above/{name}") for name in files.names("above")}


OLD = {"new": ["new"], "to": ["to"]}
SWAPPED = {"new": ["to"], "to": ["new"]}


def test_bytes_are_durable_before_the_name_is_and_the_name_after(files: Recording) -> None:
    put_in_place(files, "above/new", "above/at", replace=False)
    assert tree(files) == {"at": ["new"], "to": ["to"]}
    assert files.synced == ["all above/new", "names above: at,to"]


def test_without_replace_only_what_is_empty_goes(files: Recording) -> None:
    with pytest.raises(OSError, match="not empty"):
        put_in_place(files, "above/new", "above/to", replace=False)
    assert tree(files) == OLD
    files.remove("above/to/to")
    put_in_place(files, "above/new", "above/to", replace=False)
    assert tree(files) == {"to": ["new"]}


def test_with_replace_the_two_change_names_and_both_looks_approve(files: Recording) -> None:
    seen: list[tuple[str, list[str]]] = []
    put_in_place(
        files, "above/new", "above/to", True, lambda path: seen.append((path, files.names(path)))
    )
    assert tree(files) == SWAPPED
    assert seen == [("above/to", ["to"]), ("above/new", ["to"])]


@pytest.mark.parametrize("refused", ["above/to", "above/new"])
def test_what_is_not_approved_stays(files: Recording, refused: str) -> None:
    def approve(path: str) -> None:
        if path == refused:
            raise KeyError(path)

    with pytest.raises(KeyError):
        put_in_place(files, "above/new", "above/to", True, approve)
    assert tree(files) == OLD


def test_a_folder_that_came_meanwhile_is_put_back(files: Recording) -> None:
    with pytest.raises(StoreChanged, match="above/to: another folder came there meanwhile"):
        put_in_place(Racing(files.root), "above/new", "above/to", True)
    assert tree(files) == {"meanwhile": ["to"], "new": ["new"], "to": ["theirs"]}


def test_a_name_that_may_not_last_is_told_and_nothing_is_undone(files: Recording) -> None:
    files.refuses = True
    with pytest.raises(NotDurable, match="may not outlast a power cut") as caught:
        put_in_place(files, "above/new", "above/to", True)
    assert (caught.value.errno, caught.value.filename) == (5, "above/to")
    assert tree(files) == SWAPPED
