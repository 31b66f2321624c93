"""Delta tables and stores at URLs: moto's server, real requests."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from reput.jobs.export import export, verify_export
from reput.jobs.exporting.delta import export_delta
from reput.jobs.exporting.delta_writers import DeltaRs, _storage
from reput.jobs.exporting.files import Chosen
from reput.jobs.outputs.output import OutputInUse, OverlapsInput
from reput.jobs.outputs.publish import Temporary
from reput.store_format.files.s3 import S3Storage
from tests.damaged import damaged, messages
from tests.jobs.sources import delta_session
from tests.jobs.sources.dying import Dying, Killed
from tests.jobs.sources.reading import table, up_to, write
from tests.store_format.files import s3_server

_HADOOP_AWS = "REPUT_HADOOP_AWS"
SMALL = {"maxHashSlotNum": "100", "maxIndexNum": "400", "mappedFileSizeConsumeQueue": "2000"}
URL = f"s3://{s3_server.BUCKET}"


@pytest.fixture(scope="module", autouse=True)
def endpoint() -> Iterator[str]:
    with s3_server.served(apart=True) as endpoint:
        yield endpoint


def run(store: Path | str, to: str, kind: str, **options: Any) -> Any:
    return export(None, str(store), to, format=kind, rocketmq="5.3.3", settings=SMALL, **options)


@pytest.mark.long  # each commit is dozens of requests
def test_a_delta_table_grows_at_a_url(tmp_path: Path) -> None:
    log, out = damaged(messages(60)), f"{URL}/archive"
    store = write(up_to(log, 20), tmp_path / "store")
    assert run(store, out, "delta").messages == 20
    write(log.log, store)
    for late in (False, True):
        dying = Dying(DeltaRs(), 1, late)
        with pytest.raises(Killed):
            export_delta(dying, str(store), out, Chosen(system_topics=False), "5.3.3", {})
    run(store, out, "delta")
    assert run(store, out, "delta").messages == 0
    read = DeltaTable(f"{out}/messages", storage_options=_storage()).to_pyarrow_table()
    assert sorted(read["physicalOffset"].to_pylist()) == log.places
    assert verify_export(None, str(store), out, rocketmq="5.3.3").same
    S3Storage().create(f"{out}/mine").finish(0)
    with pytest.raises(OutputInUse, match="holds 'mine'"):
        run(store, out, "delta")


@pytest.mark.long
@pytest.mark.skipif(_HADOOP_AWS not in os.environ, reason=f"{_HADOOP_AWS} names no folder of jars")
def test_a_delta_table_grows_by_spark_at_a_url(endpoint: str, tmp_path: Path) -> None:
    """hadoop-aws and what it needs, as Maven copies it: 690 MB, so only where they are there."""
    log, out = damaged(messages(60)), f"{URL}/by-spark"
    store = write(up_to(log, 20), tmp_path / "store")
    jars = [*delta_session.jars(), *Path(os.environ[_HADOOP_AWS]).glob("*.jar")]
    with delta_session.delta_session(
        spark_jars=",".join(map(str, jars)),
        spark_hadoop_fs_s3_impl="org.apache.hadoop.fs.s3a.S3AFileSystem",
        spark_hadoop_fs_s3a_endpoint=endpoint,
        spark_hadoop_fs_s3a_path_style_access="true",
    ) as spark:

        def grown() -> int:
            done = export(spark, str(store), out, format="delta", delta_by="spark")
            return done.messages

        assert grown() == 20
        write(log.log, store)
        assert (grown(), grown()) == (40, 0)
        assert verify_export(spark, str(store), out, delta_by="spark").same
    read = DeltaTable(f"{out}/messages", storage_options=_storage()).to_pyarrow_table()
    assert sorted(read["physicalOffset"].to_pylist()) == log.places
    assert verify_export(None, str(store), out).same


def test_a_store_is_made_at_a_url(tmp_path: Path) -> None:
    store, out = write(damaged(messages(60)).log, tmp_path / "store"), f"{URL}/made"
    done = run(store, out, "rocketmq")
    wanted, made = table(store, rocketmq="5.3.3"), table(out, rocketmq="5.3.3")
    for name in ("topic", "body", "properties", "queueOffset"):
        assert made[name].to_pylist() == wanted[name].to_pylist()
    manifest = json.loads(S3Storage().read_bytes(f"{out}/manifest.json"))
    keys = {key.removeprefix("made/") for key in s3_server.object_keys("made/")}
    assert keys == {"manifest.json", *(each["path"] for each in manifest["files"])}
    assert {each["path"] for each in done.files} == keys - {"manifest.json"}
    with pytest.raises(OutputInUse):
        run(store, out, "rocketmq")
    with pytest.raises(OverlapsInput):
        run(out, f"{out}/commitlog/x", "rocketmq")


def test_one_that_fails_leaves_no_store_at_a_url(tmp_path, monkeypatch) -> None:
    store, out = write(damaged(messages(60)).log, tmp_path / "store"), f"{URL}/failed"
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    create, made = S3Storage.create, []

    def failing(self: S3Storage, path: str, digest: bool = False) -> Any:
        made.append(path)
        if len(made) > 3:
            raise OSError("no room")
        return create(self, path, digest)

    with monkeypatch.context() as patch:
        patch.setattr(S3Storage, "create", failing)
        with pytest.raises(OSError, match="no room"):
            run(store, out, "rocketmq")
    assert "manifest.json" not in str(s3_server.object_keys("failed/"))
    assert os.listdir(tmp_path / "temporary") == []
    run(store, out, "rocketmq")  # takes what the failed one left for what it is
    assert table(out, rocketmq="5.3.3").num_rows == 60
    assert Temporary.EXPORT_STORE not in str(os.listdir(tmp_path / "temporary"))
