"""Stores on the file systems of pyarrow: by one of a folder, and by an emulator of Google's."""

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import fs

from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.names import MANIFEST, UNFINISHED
from reput.store_format.storage import arrow, storage_for
from reput.store_format.storage.arrow import ArrowStorage
from tests.storage import battery

URL = "gs://bucket"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for Google's storage: folders there come with their files."""
    root = tmp_path / "storage"
    (root / "bucket").mkdir(parents=True)
    here = fs.SubTreeFileSystem(str(root), fs.LocalFileSystem())

    class Flat:
        """Makes folders as files come, as object stores do."""

        def __getattr__(self, name: str) -> object:
            return getattr(here, name)

        def open_output_stream(self, path: str, **words: object) -> object:
            here.create_dir(path.rpartition("/")[0])
            return here.open_output_stream(path, **words)

        def move(self, path: str, to: str) -> None:
            here.create_dir(to.rpartition("/")[0])
            here.move(path, to)

    monkeypatch.setattr(arrow, "_file_system", lambda *_: Flat())
    return root


def test_files(folder: Path) -> None:
    battery.check_files(ArrowStorage(), f"{URL}/files")


def test_changes_are_seen(folder: Path) -> None:
    battery.check_changes(ArrowStorage(), f"{URL}/changes")


def test_a_file_that_changes_while_it_is_read(folder: Path) -> None:
    battery.write(ArrowStorage(), f"{URL}/f/file", b"0123456789")
    (listed,) = ArrowStorage().list(f"{URL}/f")
    reader = ArrowStorage().open(f"{URL}/f/file", listed.state)
    (folder / "bucket/f/file").write_bytes(b"another on")
    with pytest.raises(StoreChanged):
        reader.close()


def test_an_abandoned_file_is_gone(folder: Path) -> None:
    output = ArrowStorage().create(f"{URL}/half/file")
    output.write(bytes(1 << 20))
    output.abandon()
    assert not (folder / "bucket/half/file").exists()


def test_rebuilt_there_and_replaced(folder: Path, tmp_path: Path) -> None:
    battery.upload(battery.golden().input, ArrowStorage(), f"{URL}/store")
    battery.rebuild(f"{URL}/store", f"{URL}/out")
    battery.check_output(f"{URL}/out", tmp_path)
    battery.rebuild(f"{URL}/store", f"{URL}/out", replace=True)
    assert (folder / "bucket/out" / MANIFEST).exists()
    assert not (folder / "bucket/out" / UNFINISHED).exists()
    assert battery.look(f"{URL}/store", f"{URL}/out").same


@pytest.mark.parametrize(
    ("url", "kind", "path", "resolved"),
    [("gs://b/a/c/", "gs", "b/a/c", "gs://b/a/c"), ("GCS://b//a", "gs", "b/a", "gs://b/a"),
     ("abfs://c@acc.dfs.core.windows.net/a", "abfss", "c/a",
      "abfss://c@acc.dfs.core.windows.net/a"),
     ("hdfs://nn:8020/a/b", "hdfs", "/a/b", "hdfs://nn:8020/a/b")],
)  # fmt: skip
def test_urls(url: str, kind: str, path: str, resolved: str) -> None:
    place = arrow._place(url)
    assert (place.kind, place.path) == (kind, path)
    assert storage_for(url).resolve(url) == resolved


@pytest.mark.parametrize("url", ["gs://", "abfss://user:secret@acc/x", "gs:///x"])
def test_a_url_that_is_none_is_refused_and_a_password_not_repeated(url: str) -> None:
    with pytest.raises(StoreError) as refused:
        ArrowStorage().resolve(url)
    assert "secret@" not in str(refused.value)


def test_hdfs_without_its_library_names_the_other_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARROW_LIBHDFS_DIR", "/nowhere")
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    with pytest.raises(StoreError, match=r"hdfs://nn:8020: .*webhdfs://HOST:9870/PATH"):
        ArrowStorage().list("hdfs://nn:8020/a")


@pytest.fixture
def emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`pip install gcp-storage-emulator` has it; skips where it is not on PATH."""
    program = shutil.which("gcp-storage-emulator", path=os.environ.get("REPUT_TEST_PATH"))
    if program is None:
        pytest.skip("there is no gcp-storage-emulator; REPUT_TEST_PATH names its folder")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    words = [program, "start", "--host", "127.0.0.1", "--port", str(port), "--in-memory",
             "--default-bucket", "bucket"]  # fmt: skip
    server = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{address}/storage/v1/b/bucket", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        arrow._file_system.cache_clear()
        yield
    finally:
        server.terminate()
        server.wait()
        arrow._file_system.cache_clear()


@pytest.mark.long
@pytest.mark.timeout(120)
def test_small_files_on_google_cloud_storage(emulator: None) -> None:
    """Large ones are untried: the emulator never answers a read that lets go of the rest."""
    storage = ArrowStorage()
    battery.write(storage, f"{URL}/f/a/ü %+?#.txt", b"0123456789")
    battery.write(storage, f"{URL}/f/a/b/empty", b"")
    assert [(name, state and state.size) for name, state in storage.list(f"{URL}/f/a")] == [
        ("b", None),
        ("ü %+?#.txt", 10),
    ]
    assert battery.read(storage, f"{URL}/f/a/ü %+?#.txt", 3, 4) == b"3456"
    with pytest.raises(FileNotFoundError):
        storage.list(f"{URL}/f/none")
    battery.check_changes(storage, f"{URL}/changes")
    storage.move_all([(f"{URL}/f/a/ü %+?#.txt", f"{URL}/f/c/x")])
    assert storage.read_bytes(f"{URL}/f/c/x") == b"0123456789"
    storage.remove_tree(f"{URL}/f/a")
    assert list(battery.walk(storage, f"{URL}/f")) == ["c/x"]
