"""Input and output on HDFS, over HTTP: Hadoop's own namenode and datanode."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from reput.jobs import cli
from reput.store_format.faults import StoreError
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.webhdfs import WebHdfsStorage
from tests.store_format.files import battery, hdfs_cluster

pytestmark = [pytest.mark.hadoop, pytest.mark.skipif(hdfs_cluster.missing() is not None,
    reason=str(hdfs_cluster.missing()))]  # fmt: skip


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hdfs_cluster.running(tmp_path_factory.mktemp("hdfs")) as cluster:
        yield f"webhdfs://{cluster.http}/data"


@pytest.fixture(scope="module")
def store(url: str) -> str:
    battery.upload(battery.golden().input, WebHdfsStorage(), f"{url}/store")
    return f"{url}/store"


def test_files_and_changes_are_seen_by_http(url, store, capsys) -> None:
    battery.check_files(WebHdfsStorage(), f"{url}/files")
    with pytest.raises(FileExistsError):
        battery.write(WebHdfsStorage(), f"{url}/files/c/y", b"")
    abandoned = WebHdfsStorage().create(f"{url}/files/c/z")
    abandoned.write(b"abc")
    abandoned.abandon()
    assert [name for name, _ in WebHdfsStorage().list(f"{url}/files/c")] == ["y"]
    battery.check_changes(WebHdfsStorage(), f"{url}/changes")
    (name, _), *_ = WebHdfsStorage().list(f"{store}/commitlog")
    assert cli.main(["dump", f"{store}/commitlog/{name}", "--rocketmq", "5.3.3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["kind"]


@pytest.mark.long
def test_from_hdfs_to_hdfs(store: str, url: str, tmp_path: Path) -> None:
    output = f"{url}/deep/er/out"
    battery.rebuild(store, output)
    battery.check_output(output, tmp_path)
    names = [name for name, _ in WebHdfsStorage().list(url)]
    assert not [name for name in names if name.startswith(".")]
    assert battery.look(store, output, staging_folder=url).same


@pytest.mark.long
def test_an_output_that_overlaps_the_store_is_refused(store: str, url: str) -> None:
    spellings = [store, f"{store}/", url, f"{store}/x", f"{store}/commitlog", f"{url}//store",
        f"{url}/x/../store", url.replace("webhdfs://", "webhdfs://root@") + "/store",
        url.replace("webhdfs:", "WEBHDFS:") + "/store", url.replace("/data", "/.reserved/raw/data"),
        url.replace("127.0.0.1", "localhost") + "/store/out",
        url.replace("localhost", "127.0.0.1") + "/store/out"]  # fmt: skip
    battery.check_overlaps(store, spellings)
    battery.rebuild(store, f"{url}/own")
    battery.rebuild(store, f"{url}/own", replace=True)
    battery.check_replaces_only_its_own(store, f"{url}/own")


def test_what_is_wrong_is_named(url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"^{url}/none/commitlog: no such folder"):
        battery.rebuild(f"{url}/none", str(tmp_path / "out"))
    nobody = url.replace("webhdfs://", "webhdfs://nobody@")
    with pytest.raises(PermissionError, match="nobody"):
        storage_for(nobody).make_folders(f"{nobody}/x")
    for wrong in ("webhdfs://user:secret@host/x", "webhdfs:///x"):
        with pytest.raises(StoreError) as raised:
            storage_for(wrong).resolve(wrong)
        assert "secret" not in str(raised.value)
    with pytest.raises(OSError, match="does not answer"):
        WebHdfsStorage().list("webhdfs://127.0.0.1:1/x")
