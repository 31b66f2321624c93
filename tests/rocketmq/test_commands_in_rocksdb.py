"""Every command that reads a store, on those of brokers that keep queues, index or config in
RocksDB: while the broker runs, and when it has stopped. Nothing in the store is changed."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from reput import verify
from reput.jobs.cli import main
from reput.store_format.release.setting_table import SettingError
from tests import golden_stores
from tests.in_process import Session, as_text
from tests.rocketmq.driver import Driver
from tests.rocketmq.judge import copy, difference
from tests.rocketmq.live import SETTINGS, TOPICS, Client, living, messages
from tests.rocketmq.rocksdb_stores import KINDS
from tests.rocketmq.served import Made, by_reput

pytestmark = [pytest.mark.rocketmq, pytest.mark.long,
              pytest.mark.usefixtures("commands_in_process")]  # fmt: skip

APART = {"rocksdbCQDoubleWriteEnable": True, "useSeparateStorePathForRocksdbCQ": True}
SENT = 60


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("alone", "5.2.0"), ("index", "5.5.1"), ("apart", "5.5.0"), ("v2", "5.4.0"),
        ("single", "5.5.1"),
    ],
)  # fmt: skip
def test_every_reading_command(kind: str, version: str, tmp_path, capsys) -> None:
    store = tmp_path / "store"
    given = APART if kind == "apart" else KINDS[kind]
    if given.get("rocksdbCQDoubleWriteEnable") and version >= "5.5":
        given = {**given, "combineCQUseRocksdbForLmq": True}  # else the broker does not start
    with Driver(version) as driver:
        with living(version, store, **given, driver=driver) as (broker, client):
            sent = client.send(messages(SENT), send_timeout_ms=60_000)
            client.read(group="reading", save=True, **{"from": "saved"})
            broker.catch_up()
            asked = _Asked(store, version, given, capsys)
            asked.await_offsets()
            asked.all(sent, tmp_path / "live")
            asked.refuses("install", tmp_path / "live" / "set", store, "--yes")
            asked.refuses("install", "--undo", store, "--yes")
            asked.refuses("expire", store, "--yes")
            sent += client.send(messages(1, SENT), send_timeout_ms=60_000)  # it goes on
        assert asked.said("check", store, *asked.given)["sound"]
        before = _files(store)
        asked.all(sent, tmp_path / "stopped")
        assert _files(store) == before
        made = Made(version, store, broker.port, sent, [], 0)
        with by_reput(made, *asked.given) as namesrv:
            served = Client(driver, namesrv)
            found = served.read(group="new")
            assert sorted(m[7] for m in found) == sorted(m["p"]["KEYS"]
                                                         for m in messages(SENT + 1))  # fmt: skip


def _files(store: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns)
            for path in store.rglob("*") if path.is_file()}  # fmt: skip


class _Asked:
    """The commands on one store."""

    def __init__(
        self, store: Path, version: str, given: dict[str, Any], capsys: pytest.CaptureFixture[str],
    ) -> None:  # fmt: skip
        self.store, self.capsys = store, capsys
        self.given = ["--rocketmq", version]
        for name, value in as_text({**SETTINGS, **given}).items():
            self.given += ["--set", f"{name}={value}"]

    def run(self, *words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        out, err = self.capsys.readouterr()
        return code, out, err

    def said(self, *words: object) -> Any:
        """What a command prints as JSON: a value, or one a line."""
        code, out, err = self.run(*words, "--json")
        assert code == 0, (words, out[:5000], err[-2000:])
        assert "cannot be read" not in out + err, (words, err)
        lines = out.splitlines()
        return (json.loads(out) if len(lines) == 1
                or lines[0] == "{" else list(map(json.loads, lines)))  # fmt: skip

    def await_offsets(self) -> None:
        """Until the broker has persisted them: the first time 10 s after its start."""
        for _ in range(30):
            code, out, _ = self.run("groups", self.store, "--group", "reading", *self.given,
                                    "--json")  # fmt: skip
            rows = map(json.loads, out.splitlines()) if code == 0 else ()
            if sum(row["consumerOffset"] for row in rows if row["topic"] in TOPICS) == SENT:
                return
            time.sleep(1)
        raise AssertionError("the group's offsets were not persisted within 30 s")

    def refuses(self, *words: object) -> None:
        code, out, err = self.run(*words)
        assert code == 2, (words, out)
        assert len(err) < 300, err
        assert "holds its lock" in err or "has the RocksDB open" in err, err

    def keys_of(self, topic: str) -> list[list[Any]]:
        rows = self.said("query", self.store, "--topic", topic, "--all", *self.given)
        return [[topic, r["queueId"], r["queueOffset"], r["uniqueKey"]] for r in rows]

    def all(self, sent: list[list[Any]], folder: Path) -> None:
        store, given = self.store, self.given
        folder.mkdir()
        for topic in TOPICS:
            wanted = sorted(message[:4] for message in sent if message[0] == topic)
            assert sorted(self.keys_of(topic)) == wanted
        topic, _queue, position, key, *_ = sent[7]
        found = self.said("query", store, "--topic", topic, "--key", "key7", *given)
        assert key in str(found)
        trace = self.said("trace", store, "--message-id", key, *given)
        assert str(position) in str(trace)
        counted = {row["topic"]: row["messages"] for row in self.said("topics", store, *given)}
        assert sum(counted[each] for each in TOPICS) == len(sent)
        of_queues = self.said("queues", store, *given)
        assert sum(r["messages"] for r in of_queues if r["topic"] in TOPICS) == len(sent)
        groups = self.said("groups", store, "--group", "reading", *given)
        assert sum(row["consumerOffset"] for row in groups if row["topic"] in TOPICS) == SENT
        stats = self.said("stats", store, *given)
        assert "Live0" in str(stats)
        for command in ("delayed", "transactions"):
            self.run(command, store, *given)
        report = self.said("check", store, *given)
        assert report["sound"], report
        verified = self.said("verify", store, *given)
        assert verified["same"]
        assert verified["in_rocksdb"]
        exported = ("export", store, "--output", folder / "rows", "--as", "jsonl", *given)
        assert self.said(*exported)["sums"]["messages"] == len(sent)
        code, out, err = self.run("report", store, "--output", folder / "page.html", *given)
        assert (code, "ound" in out) == (0, True), (out, err)
        place = "consumequeue_rocksdb" if "apart" in str(given) else "consumequeue"
        if (store / place / "CURRENT").exists():
            self.run("dump", store / place, "--rocketmq", given[1])
        kind = "rocksdb"
        made = self.said("rebuild", store, "--output", folder / "set", "--queues", kind, *given)
        assert made["messages"] == len(sent)
        code, out, err = self.run("catch-up", store, "--dry-run", *given)
        assert code == 2, (out, err)
        assert len(err) < 300


# --- LMQ queues of double writing stores (combineCQUseRocksdbForLmq, 5.5.0 on): not in files.
IN_ROCKSDB = {"rocksdbCQDoubleWriteEnable": True, "combineCQUseRocksdbForLmq": True}
APART_LMQ = {"useSeparateStorePathForRocksdbCQ": True}


@pytest.mark.parametrize(("reput", "version"), [("local", "5.5.1")], indirect=["reput"])
def test_files_have_no_entries_of_lmq(version, folder, drivers, reput) -> None:
    golden = golden_stores.unpack("small_lmq_batch_5.5.0")
    assert any(path.name.startswith("%LMQ%") for path in (golden.expect / "consumequeue").iterdir())
    given = {**golden.settings, **IN_ROCKSDB}
    store, theirs, ours = folder / "store", folder / "theirs", folder / "ours"
    copy(golden.input, store)
    shutil.rmtree(store / "config")  # RocketMQ fails with batch queues and RocksDB at once
    copy(store, theirs)
    drivers.get(version).derive(theirs, {**given, **APART_LMQ}, pace=20)
    assert (theirs / "consumequeue_rocksdb" / "CURRENT").exists()
    reput.rebuild(version, given, store, ours)
    assert not any(path.name.startswith("%LMQ%") for path in (ours / "consumequeue").iterdir())
    assert difference(ours, theirs) is None
    report = verify(Session(), str(theirs), rocketmq=version, settings=as_text(given))
    # inner batches have no place in RocksDB: RocketMQ leaves rows there that it does not read
    assert all("/BatchTopic/" in each.path for each in report.differences), report.text()
    assert report.in_rocksdb
    with pytest.raises(SettingError, match=r"has queues in files and in RocksDB .* --queues files"):
        reput.rebuild(version, given, theirs, folder / "again")
