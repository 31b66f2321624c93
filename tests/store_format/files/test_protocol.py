"""When a file is still the same, and how folders are walked that can only be listed."""

import pytest

from reput.store_format.files.protocol import ANY_TIME, FileState, Listed, walk_lists
from tests.memory_storage import MemoryStorage

STATE = FileState(10, 5, "tag")


@pytest.mark.parametrize(
    ("now", "at_a_time", "at_any_time"),
    [
        (STATE, True, True),
        (STATE._replace(mtime=6), False, True),
        (STATE._replace(size=11), False, False),
        (STATE._replace(tag="other"), False, False),
    ],
)
def test_a_file_is_the_same_by_size_time_and_tag(
    now: FileState, at_a_time: bool, at_any_time: bool
) -> None:
    assert STATE.admits(now) == at_a_time
    assert STATE._replace(mtime=ANY_TIME).admits(now) == at_any_time


def names(listed: list[Listed]) -> list[tuple[str, bool]]:
    return [(name, state is not None) for name, state in listed]


def test_a_walk_gives_folders_before_what_is_in_them() -> None:
    storage = MemoryStorage({"s/a": b"", "s/b/c/d": b"", "s/b/e": b"", "other": b""})
    storage.make_folders("s/empty")
    assert names(list(walk_lists(storage, "s"))) == [
        ("a", True), ("b/", False), ("b/c/", False), ("b/c/d", True), ("b/e", True),
        ("empty/", False),
    ]  # fmt: skip
    assert list(walk_lists(storage, "s/empty")) == []


def test_a_name_that_cannot_be_listed_is_no_folder() -> None:
    class WithLink(MemoryStorage):
        def list(self, folder: str) -> list[Listed]:
            return [*super().list(folder), *([Listed("link", None)] if folder == "s" else [])]

    assert names(list(walk_lists(WithLink({"s/a": b""}), "s"))) == [("a", True), ("link", False)]


@pytest.mark.parametrize(
    ("folder", "error"), [("none", FileNotFoundError), ("s/a", NotADirectoryError)]
)
def test_what_is_no_folder_is_not_walked(folder: str, error: type[OSError]) -> None:
    with pytest.raises(error):
        list(walk_lists(MemoryStorage({"s/a": b""}), folder))


def test_segments_are_back_to_back_only_where_a_storage_says_so() -> None:
    storage = MemoryStorage()
    assert not storage.back_to_back
    storage.back_to_back = True  # type: ignore[attr-defined]
    assert storage.back_to_back
