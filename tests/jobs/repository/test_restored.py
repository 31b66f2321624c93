"""What a restored store has besides its log: offsets with their queues' ends, topics, queues."""

import json
import struct
from pathlib import Path

import pytest
import rocksdict

from reput import restore
from reput.jobs.repository.restored import cut_offsets
from reput.store_format.discover.config import live_offsets
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.notes import Notes
from tests.backed_up import log_of, made, messages, state
from tests.built import SIZES, T0, Built
from tests.in_process import Session
from tests.reference.repository import Repository, records

__all__ = ["made"]  # a fixture


def test_offsets_past_the_end_are_cut_each_at_its_own(made: Repository, tmp_path: Path) -> None:
    whole = {"offsetTable": {"T@g": {"0": 9, "1": 2, "x": 9}, "U@h": {"0": 7}, "V@h": [1]},
             "lmqOffsetTable": {"%LMQ%a@%LMQ%a": 8}}  # fmt: skip
    ends = {("T", 0): 5, ("T", 1): 5, ("%LMQ%a", 0): 1}
    assert cut_offsets(whole, lambda topic, queue: ends.get((topic, queue))) == 2
    assert whole["offsetTable"] == {"T@g": {"0": 5, "1": 2, "x": 9}, "U@h": {"0": 7}, "V@h": [1]}
    assert whole["lmqOffsetTable"] == {"%LMQ%a@%LMQ%a": 1}
    assert cut_offsets([], lambda *_: 0) == 0
    first = records(log_of(Built().put(count=3, keys="k")), 0, 2048)[2]
    about = restore(Session(), str(made.root), str(tmp_path / "out"), to_offset=sum(first[:2]))
    assert "1 offset past the end" in about.stores[0].text()
    whole = json.loads((tmp_path / "out/config/consumerOffset.json").read_text())
    assert whole == {"offsetTable": {"T@g": {"0": 3}}}


@pytest.mark.parametrize("kept", [state(0)["config/topics.json"], b"", b"{}"])
def test_a_topic_made_after_the_state_s_run_is_configured(tmp_path: Path, kept: bytes) -> None:
    made = Repository(tmp_path / "repo", settings=SIZES)
    built = Built().put(count=9)
    made.run(log_of(built), T0 + 9_000, state={**state(0), "config/topics.json": kept})
    later = json.loads(state(0)["config/topics.json"])
    later["topicConfigTable"]["U"] = {"topicName": "U", "perm": 6}
    later["topicConfigTable"]["unused"] = {"topicName": "unused"}
    made.run(log_of(built.put("U", count=9)), T0 + 20_000,
             state={"config/topics.json": json.dumps(later).encode()})  # fmt: skip
    about = restore(Session(), str(made.root), str(tmp_path / "out"), at=T0 + 12_000)
    table = json.loads((tmp_path / "out/config/topics.json").read_text())["topicConfigTable"]
    assert sorted(table) == ["T", "U"]
    assert "made after run 1" in about.stores[0].text()


def test_a_queue_whose_messages_had_all_expired_goes_on(tmp_path: Path) -> None:
    start = 4 * 2048
    made = Repository(tmp_path / "repo", settings=SIZES)
    late = Built(start=start).put("T", count=9, queue_offset=0)
    made.run(log_of(late), T0 + 9_000, first=start, state=state(0),
             expired=[[name, 0, 100, 41, 91, 0, 0, 0] for name in ("gone", "T")])  # fmt: skip
    restore(Session(), str(made.root), str(tmp_path / "out"))
    (file,) = (tmp_path / "out/consumequeue/gone/0").iterdir()
    assert file.name == f"{41 * 20 // 200 * 200:020d}"
    assert any((tmp_path / "out/consumequeue/T/0").iterdir())


def in_rocksdb(folder: Path, table: dict[str, dict[str, int]]) -> Path:
    """Groups' offsets in a RocksDB as a broker's ConfigManagers (v1, v2) have them."""
    folder.parent.mkdir()
    opened = rocksdict.Rdict(str(folder), rocksdict.Options(raw_mode=True))
    for name, queues in table.items():
        topic, _, group = name.partition("@")
        key, value = name.encode(), json.dumps({"offsetTable": queues}).encode()
        if folder.name == "rdb":
            texts = (
                struct.pack(">h", len(each)) + each.encode() + b"\1" for each in (group, topic)
            )
            key = struct.pack(">bhb", 1, 1, 2) + b"".join(texts) + bytes(4)
            value = struct.pack(">q", queues["0"])
        opened[key] = value
    opened.close()
    return folder


@pytest.mark.parametrize("database", ["", "consumerOffsets", "rdb"])
def test_what_a_later_run_says_is_worked_off_is_looked_at_again(tmp_path, database: str) -> None:
    """A run's files know of half messages that were ended after the moment."""
    made = Repository(tmp_path / "repo", settings=SIZES)
    half, popped = "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_REVIVE_LOG_DefaultCluster"
    table = {"T@g": {"0": 1}, f"{half}@CID_RMQ_SYS_TRANS": {"0": 1},
             f"{popped}@CID_RMQ_SYS_REVIVE_GROUP": {"0": 1}, f"{half}@mine": {"0": 0}}  # fmt: skip
    raw = json.dumps({"offsetTable": table}).encode()
    files = {"config/consumerOffset.json": raw}
    if database:
        folder = tmp_path / "made" / database
        files = {f"config/{database}/{path.name}": path.read_bytes()
                 for path in in_rocksdb(folder, table).iterdir()}  # fmt: skip
    built = messages(5).put(half)
    made.run(log_of(built.put("T")), T0 + 9_000, state=files)
    end = built.places()[-1]
    for offset, wanted in ((end, {"T@g", f"{half}@mine"}), (made.runs[1]["end"], set(table))):
        out = tmp_path / f"out{offset}"
        (about,) = restore(Session(), str(made.root), str(out), to_offset=offset).stores
        said = [line for line in about.warnings if line.startswith("what was popped between")]
        assert len(said) == (offset == end)
        live = live_offsets(Folder(LocalStorage(), str(out)), Notes(), {})
        assert live.in_rocksdb == bool(database)
        assert {f"{topic}@{group}" for group, topic in live.offsets} == wanted
        listed = json.loads((out / "manifest.json").read_text())["copied"]
        there = {str(path.relative_to(out)) for path in (out / "config").glob("**/*.*")}
        assert there == {each for each in listed if each.startswith("config/") and "." in each}
