"""Stores on the file systems of pyarrow: by one of a folder, and by an emulator of Google's."""

import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from pyarrow import fs

from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files import arrow
from reput.store_format.files.arrow import ArrowStorage
from reput.store_format.files.by_url import storage_for
from reput.store_format.names import MANIFEST, UNFINISHED
from tests.store_format.files import battery

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


def test_files_and_changes_are_seen(folder: Path, tmp_path: Path) -> None:
    battery.check_all(ArrowStorage(), URL, tmp_path)
    assert (folder / "bucket/out" / MANIFEST).exists()
    assert not (folder / "bucket/out" / UNFINISHED).exists()


def test_a_file_that_changes_or_ends_early_while_it_is_read(folder: Path) -> None:
    battery.write(ArrowStorage(), f"{URL}/f/file", b"0123456789")
    (listed,) = ArrowStorage().list(f"{URL}/f")
    reader = ArrowStorage().open(f"{URL}/f/file", listed.state)
    (folder / "bucket/f/file").write_bytes(b"another on")
    with pytest.raises(StoreChanged):
        reader.close()
    battery.write(ArrowStorage(), f"{URL}/f/file", b"0123456789")
    reader = ArrowStorage().open(f"{URL}/f/file", ArrowStorage().list(f"{URL}/f")[0].state)
    (folder / "bucket/f/file").write_bytes(b"0123")
    with pytest.raises(StoreChanged, match="ends before offset 8"):
        reader.read_into(0, np.empty(8, np.uint8))
    ArrowStorage().remove_folder(f"{URL}/f")
    assert (folder / "bucket/f/file").exists()
    output = ArrowStorage().create(f"{URL}/half/file")
    output.write(bytes(1 << 20))
    output.abandon()
    assert not (folder / "bucket/half/file").exists()


def test_urls_and_what_is_none() -> None:
    for url, kind, path, resolved in [("gs://b/a/c/", "gs", "b/a/c", "gs://b/a/c"),
        ("GCS://b//a", "gs", "b/a", "gs://b/a"), ("abfs://c@acc.dfs.core.windows.net/a", "abfss",
        "c/a", "abfss://c@acc.dfs.core.windows.net/a"), ("hdfs://nn:8020/a/b", "hdfs", "/a/b",
        "hdfs://nn:8020/a/b")]:  # fmt: skip
        place = arrow._place(url)
        assert (place.kind, place.path) == (kind, path)
        assert storage_for(url).resolve(url) == resolved
    for url in ["gs://", "abfss://user:secret@acc/x", "gs:///x"]:
        with pytest.raises(StoreError) as refused:
            ArrowStorage().resolve(url)
        assert "secret@" not in str(refused.value)


def test_hdfs_without_its_library_and_a_wrong_connection_string_are_refused(monkeypatch) -> None:
    monkeypatch.setenv("ARROW_LIBHDFS_DIR", "/nowhere")
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    with pytest.raises(StoreError, match=r"hdfs://nn:8020: .*webhdfs://HOST:9870/PATH"):
        ArrowStorage().list("hdfs://nn:8020/a")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountName=mine;AccountKey=c2VjcmV0")
    with pytest.raises(StoreError, match="is for the account 'mine'") as refused:
        ArrowStorage().list("abfss://container@other.dfs.core.windows.net/a")
    assert "c2VjcmV0" not in str(refused.value)


def _program(name: str, brought_by: str) -> str:
    found = shutil.which(name, path=os.environ.get("REPUT_TEST_PATH"))
    if found is None:
        pytest.skip(f"there is no {name} ({brought_by}); REPUT_TEST_PATH names its folder")
    return found


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def _serving(words: list[str], folder: Path, address: str) -> Iterator[None]:
    """A server's process, from when it answers HTTP."""
    server = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(address, timeout=5).close()
                break
            except urllib.error.HTTPError:
                break  # it answers, and asks who we are
            except OSError:
                time.sleep(0.1)
        arrow._file_system.cache_clear()
        yield
    finally:
        server.terminate()
        server.wait()
        arrow._file_system.cache_clear()


@pytest.fixture
def emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    program = _program("gcp-storage-emulator", "pip install gcp-storage-emulator")
    port = _port()
    address = f"http://127.0.0.1:{port}"
    words = [program, "start", "--host", "127.0.0.1", "--port", str(port), "--in-memory",
             "--default-bucket", "bucket"]  # fmt: skip
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
    with _serving(words, tmp_path, f"{address}/storage/v1/b/bucket"):
        yield


AZURITE_ACCOUNT = "devstoreaccount1"  # it and its key stand in Azurite's documentation
AZURITE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
AZURE_URL = f"abfss://container@{AZURITE_ACCOUNT}.dfs.core.windows.net"


@pytest.fixture
def azurite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Azure's storage as Azurite has it: an account without folders of their own."""
    program = _program("azurite-blob", "npm install azurite")
    port = _port()
    address = f"http://127.0.0.1:{port}/{AZURITE_ACCOUNT}"
    words = [program, "--silent", "--disableTelemetry", "--skipApiVersionCheck",
             "--inMemoryPersistence", "--blobPort", str(port)]  # fmt: skip
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING",
        f"DefaultEndpointsProtocol=http;AccountName={AZURITE_ACCOUNT};AccountKey={AZURITE_KEY};"
        f"BlobEndpoint={address};")  # fmt: skip
    with _serving(words, tmp_path, address):
        arrow._of(arrow._place(AZURE_URL)).create_dir("container")
        yield


@pytest.mark.long
@pytest.mark.timeout(300)
def test_azure(azurite: None, tmp_path: Path) -> None:
    battery.check_all(ArrowStorage(), AZURE_URL, tmp_path, tick=1.1)  # its times are whole seconds


@pytest.mark.long
@pytest.mark.timeout(120)
def test_small_files_on_google_cloud_storage(emulator: None) -> None:
    """Large ones are untried: the emulator never answers a read that lets go of the rest."""
    storage = ArrowStorage()
    battery.write(storage, f"{URL}/f/a/ü %+?#.txt", b"0123456789")
    battery.write(storage, f"{URL}/f/a/b/empty", b"")
    assert [(name, state and state.size) for name, state in storage.list(f"{URL}/f/a")] == [
        ("b", None), ("ü %+?#.txt", 10)]  # fmt: skip
    assert battery.read(storage, f"{URL}/f/a/ü %+?#.txt", 3, 4) == b"3456"
    with pytest.raises(FileNotFoundError):
        storage.list(f"{URL}/f/none")
    battery.check_changes(storage, f"{URL}/changes")
    storage.move_all([(f"{URL}/f/a/ü %+?#.txt", f"{URL}/f/c/x")])
    assert storage.read_bytes(f"{URL}/f/c/x") == b"0123456789"
    storage.remove_tree(f"{URL}/f/a")
    assert list(battery.walk(storage, f"{URL}/f")) == ["c/x"]
