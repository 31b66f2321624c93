"""Publishing without renames: the manifest is written last, so where it is the set is whole."""

from collections.abc import Iterable
from typing import Any

import pytest

from reput.store_format.faults import StoreError
from reput.store_format.files.manifest_last import ManifestLast, SequentialWriter, for_all
from reput.store_format.names import MANIFEST, UNFINISHED
from tests.memory_storage import MemoryStorage


class Remote(ManifestLast, MemoryStorage):
    """Files in memory, published as on S3; notes what is written and removed, in order."""

    def __init__(self, files: dict[str, bytes]) -> None:
        MemoryStorage.__init__(self, files)
        self.done: list[str] = []

    def create(self, path: str, digest: bool = False, published: bool = False) -> Any:
        self.done.append(f"+{path}")
        return MemoryStorage.create(self, path, digest, published)

    def remove(self, path: str) -> None:
        if path in self.files:
            self.done.append(f"-{path}")
        self.folders.discard(path)
        MemoryStorage.remove(self, path)


def going(*paths: str) -> Any:
    return lambda folder: list(paths)


def test_an_old_set_goes_manifest_first_and_only_the_job_that_is_named_publishes() -> None:
    storage = Remote({"out/a/b": b"old", f"out/{MANIFEST}": b"old"})
    storage.make_folders("out/a")
    assert storage.begin_set("job", "out", going("a/", "a/b", MANIFEST)) == "out"
    assert storage.done == [f"+out/{UNFINISHED}", f"-out/{MANIFEST}", "-out/a/b"]
    assert storage.files == {f"out/{UNFINISHED}": b"job"}
    assert "out/a" not in storage.folders
    storage = Remote({"out/a": b"old", "out/theirs": b"x"})
    with pytest.raises(FileExistsError, match="of no set") as caught:
        storage.begin_set("job", "out", going("a"))
    assert caught.value.filename == "out/theirs"
    assert storage.files["out/theirs"] == b"x"

    def refuse(folder: str) -> list[str]:
        raise StoreError(f"{folder}: holds something else")

    storage = Remote({"out/a": b"old"})
    with pytest.raises(StoreError, match="out: holds"):
        storage.begin_set("job", "out", refuse)
    assert storage.done == []
    storage = Remote({})
    storage.begin_set("job", "out", going())
    storage.done.clear()
    storage.publish("job", "out", going(), (MANIFEST, b"{}"))
    assert storage.done == [f"+out/{MANIFEST}", f"-out/{UNFINISHED}"]
    assert storage.files == {f"out/{MANIFEST}": b"{}"}
    for mark in [None, b"other job"]:
        storage = Remote({} if mark is None else {f"out/{UNFINISHED}": mark})
        with pytest.raises(StoreError, match="another job"):
            storage.publish("job", "out", going(), (MANIFEST, b"{}"))
        assert f"out/{MANIFEST}" not in storage.files


class Sent(SequentialWriter):
    def __init__(self, digest: bool = False) -> None:
        super().__init__("path", digest)
        self.sent: list[bytes] = []

    def _send(self, view: memoryview) -> None:
        self.sent.append(bytes(view))

    def _close(self) -> None:
        self.sent.append(b"closed")


def test_a_digest_leaves_zeros_out_and_the_first_error_of_many_calls_is_raised() -> None:
    writer = Sent(digest=True)
    writer.write(b"ab")
    written = writer.finish(3)
    assert b"".join(writer.sent) == b"ab\0closed"
    # by sha256sum
    assert written == (3, "fb8e20fc2e4c3f248c60c39bd652f3c1347298bb977b8b4d5903b85055620603", 2)
    with pytest.raises(AssertionError):
        Sent().finish(-1)
    seen: list[int] = []
    for_all(seen.append, range(100))
    assert sorted(seen) == list(range(100))

    def fail(item: int) -> None:
        raise KeyError(item)

    items: Iterable[int] = range(3)
    with pytest.raises(KeyError):
        for_all(fail, items)
