"""An export has the log's messages, is whole or not there, and can be appended again."""

import hashlib
import json
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyarrow import dataset

from reput.jobs.cli import main
from reput.jobs.export import export, verify_export
from reput.jobs.outputs.output import OutputInUse, OverlapsInput
from reput.jobs.pipeline.pipeline import Cut
from reput.store_format.faults import DamageFound, StoreError
from reput.store_format.release.settings import SettingError
from tests import golden_stores
from tests.built import Built
from tests.damaged import damaged, messages
from tests.in_process import Session
from tests.jobs.sources.exporting import SAME, topics
from tests.jobs.sources.reading import table, up_to, write
from tests.logs.encoder import Message, properties

SMALL = {"maxHashSlotNum": "100", "maxIndexNum": "400", "mappedFileSizeConsumeQueue": "2000"}


def run(store: Path, to: Path, **options: Any) -> Any:
    return export(Session(), str(store), str(to), **options)  # type: ignore[arg-type]


def check(store: Path, to: Path, **options: Any) -> Any:
    return verify_export(Session(), str(store), str(to), **options)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write(damaged(messages(60), 1 << 16).log, tmp_path / "store")


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_files_in_order_have_the_rows_of_the_source(kind: str, tmp_path: Path) -> None:
    store = golden_stores.unpack("mixed_5.3.3").input
    wanted = table(store, rocketmq="5.3.3")
    done = run(store, tmp_path / "out", format=kind, rocketmq="5.3.3", cut=Cut(100_000),
               system_topics=True)  # fmt: skip
    assert done.messages == wanted.num_rows
    assert len(done.files) > 2
    paths = [tmp_path / "out" / each["path"] for each in done.files]
    assert sorted(os.listdir(tmp_path / "out")) == ["data", "manifest.json"]
    assert sorted((tmp_path / "out" / "data").iterdir()) == paths
    if kind == "parquet":
        assert dataset.dataset(tmp_path / "out" / "data").count_rows() == wanted.num_rows
        assert pq.ParquetDataset(paths).read().to_pylist() == wanted.to_pylist()
    else:
        rows = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
        assert [row["physicalOffset"] for row in rows] == wanted["physicalOffset"].to_pylist()
        assert [row["properties"] for row in rows] == [
            dict(p) for p in wanted["properties"].to_pylist()
        ]
    assert check(store, tmp_path / "out", rocketmq="5.3.3").same


def test_json_has_one_name_for_a_time(store: Path, tmp_path, capsys) -> None:
    """That of `query --json` and of `dump`; what was exported by the older name is read too."""
    out = tmp_path / "out"
    run(store, out, format="jsonl")
    part = out / "data" / "part-00000000.jsonl"
    row = json.loads(part.read_text().splitlines()[0])
    words = ["--offset", str(row["physicalOffset"]), "--json", "--rocketmq", "5.3.3"]
    assert main(["query", str(store), *words]) == 0
    asked = json.loads(capsys.readouterr().out.splitlines()[0])
    names = {name for name in {*row, *asked} if "Timestamp" in name}
    assert names == {"storeTimestamp", "bornTimestamp"}
    assert all(row[name] == asked[name] for name in names)
    older = part.read_text()
    for name in names:
        older = older.replace(f'"{name}":', f'"{name}Millis":')
    part.write_text(older)
    manifest = json.loads((out / "manifest.json").read_text())
    raw = part.read_bytes()
    manifest["files"][0] |= {"length": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    (out / "manifest.json").write_text(json.dumps(manifest))
    assert check(store, out).same
    words = ["append", str(tmp_path / "made"), "--from", str(out), "--rocketmq", "5.3.3"]
    assert main(words) == 0


def test_verify_names_what_differs(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(store, out)
    assert check(store, out).same
    part = out / "data" / "part-00000000.parquet"
    whole = pq.read_table(part)
    body = whole.schema.get_field_index("body")
    wrong = whole.set_column(body, whole.schema.field(body), [[b"x"] * len(whole)])
    pq.write_table(wrong, part)
    assert any("bodyCRC does not match" in each for each in check(store, out).differences)
    pq.write_table(whole.slice(1), part)
    found = check(store, out)
    assert "messages: 59, the log has 60" in found.differences
    part.write_bytes(b"PAR1")
    assert any("cannot be read" in each for each in check(store, out).differences)


def test_an_export_of_0_1_has_its_files_beside_the_manifest(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(store, out, format="jsonl")
    for part in (out / "data").iterdir():
        part.rename(out / part.name)
    (out / "data").rmdir()
    manifest = out / "manifest.json"
    manifest.write_text(manifest.read_text().replace("data/part-", "part-"))
    assert check(store, out).same
    words = ["append", str(tmp_path / "made"), "--from", str(out), "--rocketmq", "5.3.3"]
    assert main(words) == 0
    assert run(store, out, replace=True).messages == 60


def test_verify_without_a_store_compares_the_files_with_their_manifest(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """#57: a part cut, a changed topic, an added property: all were taken, by append too."""
    out = tmp_path / "out"
    run(store, out, format="jsonl")
    verify = ["export", "--output", str(out), "--verify"]
    assert main(verify) == 0
    assert "60 messages, as its manifest has them" in capsys.readouterr().out
    part = out / "data" / "part-00000000.jsonl"
    whole = part.read_text()
    lines = whole.splitlines(keepends=True)
    for wrong, said in (
        ("".join(lines[:20]), "has 20 messages, its manifest says 60"),
        (whole.replace('"topic":"T"', '"topic":"S"', 1), "has the SHA-256"),
        (whole.replace('"properties":{', '"properties":{"a":"b"', 1), "bytes, its manifest"),
    ):
        assert wrong != whole
        part.write_text(wrong)
        assert main(verify) == 1
        assert said in capsys.readouterr().out
        assert not check(store, out).same
        words = ["append", str(tmp_path / "copy"), "--from", str(out), "--rocketmq", "5.3.3"]
        assert main(words) == 1
        assert "the export is not as it was written" in capsys.readouterr().err
        assert not (tmp_path / "copy").exists()
    part.write_text(whole)
    (out / "data" / "part-00000001.jsonl").write_text(whole)
    assert main(verify) == 1
    assert "data/part-00000001.jsonl: is not in the manifest" in capsys.readouterr().out
    part.unlink()
    assert main(verify) == 1
    assert "data/part-00000000.jsonl: is missing" in capsys.readouterr().out
    assert main(["export", "--output", str(tmp_path / "other")]) == 2
    assert "only --verify works without it" in capsys.readouterr().err


def test_an_export_is_appended_in_part_and_as_the_source_has_its_files(tmp_path, capsys) -> None:
    made = [Message(topic=topic, queue_id=n % 3, store_timestamp=1000 + n, body=b"b%d" % n)
            for n, topic in enumerate("ABAAC" + "B" * 4)]  # fmt: skip
    store, out, copy = (
        write(damaged(made).log, tmp_path / "store"), tmp_path / "out", tmp_path / "c")  # fmt: skip
    (store / "config").mkdir(exist_ok=True)
    known = {"topicName": "A", "readQueueNums": 2, "writeQueueNums": 2, "perm": 4, "x": "kept"}
    (store / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": {"A": known}}))
    run(store, out)
    words = ["append", str(copy), "--rocketmq", "5.3.3"]
    chosen = [*words, "--from", str(out), "--topic", "A", "--since", "1001", "--until", "1004"]
    assert main([*chosen, "--dry-run"]) == 1
    assert "would append 2 messages" in capsys.readouterr().out
    assert not copy.exists()
    assert main(chosen) == 0
    assert table(copy)["body"].to_pylist() == [b"b2", b"b3"]
    (segment,) = (copy / "commitlog").iterdir()
    assert segment.stat().st_size == next((store / "commitlog").iterdir()).stat().st_size
    capsys.readouterr()
    again = [*words, "--from-store", str(store)]
    assert main(again) == 2
    assert "nothing was done, as there is no terminal to ask at; --yes" in capsys.readouterr().err
    assert main([*again, "--dry-run"]) == 1
    assert "would append 9 messages" in capsys.readouterr().out
    assert main([*again, "--yes"]) == 0
    assert "B, C: added to config/topics.json" in capsys.readouterr().out
    topics = json.loads((copy / "config" / "topics.json").read_text())
    assert topics["dataVersion"]["counter"] == 2
    counts = {name: each["readQueueNums"] for name, each in topics["topicConfigTable"].items()}
    assert counts == {"A": 3, "B": 3, "C": 2}
    assert topics["topicConfigTable"]["B"]["perm"] == 6
    assert main([*words, "--yes", "--from", str(out / "data" / "part-00000000.parquet")]) == 0
    assert main([*words, "--yes", "--from", "-", "--topic", "A"]) == 2
    assert "of --from-store, or of a folder" in capsys.readouterr().err


def test_exported_lines_are_messages_again(store: Path, tmp_path, capsys) -> None:
    run(store, tmp_path / "out", format="jsonl")
    lines = (
        (tmp_path / "out" / "data" / "part-00000000.jsonl").read_text().splitlines(keepends=True)
    )
    some = tmp_path / "some.jsonl"
    some.write_text("".join(lines[3:5]) + '{"topic": "T", "body": "plain"}\n')
    assert main(["append", str(tmp_path / "c"), "--from", str(some), "--rocketmq", "5.3.3"]) == 0
    assert table(tmp_path / "c")["body"].to_pylist() == [b"body 003", b"body 004", b"plain"]
    run(store, tmp_path / "no", format="jsonl", bodies=False)
    bare = ["append", str(tmp_path / "d"), "--from",
            str(tmp_path / "no" / "data" / "part-00000000.jsonl")]  # fmt: skip
    assert main([*bare, "--rocketmq", "5.3.3"]) == 2
    assert "line 1: was exported with --no-bodies" in capsys.readouterr().err


def test_messages_are_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = [Message(topic=topic, store_timestamp=1000 + n, body=b"b%d" % n,
                    properties=properties(("TAGS", tag), ("price", str(n))))
            for n, (topic, tag) in enumerate(zip("ABAAC", "xxyxz", strict=True))]  # fmt: skip
    store = write(damaged(made).log, tmp_path / "store")

    def bodies(name: str, **options: Any) -> list[bytes]:
        done = run(store, tmp_path / name, **options)
        assert check(store, tmp_path / name).same
        paths = [tmp_path / name / each["path"] for each in done.files]
        return [body for path in paths for body in pq.read_table(path)["body"].to_pylist()]

    assert bodies("topics", topics=["A", "C"]) == [b"b0", b"b2", b"b3", b"b4"]
    assert bodies("tags", tags="x || z") == [b"b0", b"b1", b"b3", b"b4"]
    assert bodies("sql", sql="price >= 1 AND price < 4", topics=["A"]) == [b"b2", b"b3"]
    assert bodies("time", since=1001, until=1003) == [b"b1", b"b2"]
    assert bodies("none", topics=["D"]) == []
    words = ["export", str(store), "--rocketmq", "5.3.3", "--output"]
    assert main([*words, str(tmp_path / "d"), "--topic", "D"]) == 1
    assert "the log has no such message of topic 'D'" in capsys.readouterr().out
    assert main([*words, str(tmp_path / "e"), "--since", "9999"]) == 0  # no topic is named


def test_an_export_ends_where_the_log_did_and_stays_right_as_it_grows(tmp_path: Path) -> None:
    log = damaged(messages(60))
    store = write(up_to(log, 10), tmp_path / "store")
    done = run(store, tmp_path / "out", topics=["none"])
    assert done.log_end == log.places[10]
    assert f"0 to {log.places[10]:,}" in done.text()
    done = run(store, tmp_path / "all")
    assert (done.messages, done.log_end) == (10, log.places[10])
    write(log.log, store)
    assert check(store, tmp_path / "all").same
    assert run(store, tmp_path / "later").log_end == log.places[-1] + log.size(59)


def test_without_bodies_none_is_there_and_it_is_not_appended(store: Path, tmp_path, capsys) -> None:
    done = run(store, tmp_path / "out", bodies=False)
    assert "body" not in pq.read_schema(tmp_path / "out" / done.files[0]["path"]).names
    assert check(store, tmp_path / "out").same
    assert main(["append", str(tmp_path / "copy"), "--from", str(tmp_path / "out")]) == 2
    assert "was exported with --no-bodies" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()


def test_bodies_are_decompressed_and_say_so(tmp_path: Path) -> None:
    packed = zlib.compress(b"hello " * 50)
    made = [Message(body=packed, sys_flag=1), Message(body=b"plain"),
            Message(body=b"no", sys_flag=1)]  # fmt: skip
    store = write(damaged(made).log, tmp_path / "store")
    run(store, tmp_path / "out", decompress=True)
    rows = pq.read_table(tmp_path / "out" / "data" / "part-00000000.parquet").to_pylist()
    assert [row["body"] for row in rows] == [b"hello " * 50, b"plain", b"no"]
    assert [row["sysFlag"] for row in rows] == [0, 0, 1]
    assert rows[0]["bodyCRC"] == zlib.crc32(b"hello " * 50) & 0x7FFFFFFF
    assert check(store, tmp_path / "out").same


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_appended_again_they_are_the_same_messages(kind: str, tmp_path, capsys) -> None:
    store = golden_stores.unpack("small_odd_5.5.0").input
    run(store, tmp_path / "out", format=kind, rocketmq="5.5.0", topics=topics(store))
    words = ["append", str(tmp_path / "copy"), "--from", str(tmp_path / "out"),
             "--rocketmq", "5.5.0", "--set", "mappedFileSizeCommitLog=65536"]  # fmt: skip
    assert main(words) == 0, capsys.readouterr().err
    wanted = table(store, rocketmq="5.5.0", subscribe=",".join(topics(store)))
    copied = table(tmp_path / "copy", rocketmq="5.5.0")
    assert copied.num_rows == wanted.num_rows > 10
    for name in SAME:
        assert copied[name].to_pylist() == wanted[name].to_pylist(), name


def test_messages_with_further_queues_are_appended_again(tmp_path, capsys) -> None:
    """235 of 3,000 were, then one was refused."""
    store = golden_stores.unpack("lmq_batch_5.3.3").input
    done = run(store, tmp_path / "out", rocketmq="5.3.3")
    words = ["append", str(tmp_path / "copy"), "--from", str(tmp_path / "out"), "--rocketmq",
             "5.3.3", "--set", "enableLmq=true", "--set", "enableMultiDispatch=true",
             *(word for pair in SMALL.items() for word in ("--set", "=".join(pair)))]  # fmt: skip
    assert main(words) == 0, capsys.readouterr().err
    rows = table(tmp_path / "copy", rocketmq="5.3.3").to_pylist()
    assert len(rows) == done.messages > 100
    following: dict[str, int] = {}
    for row in rows:
        pairs = dict(row["properties"])
        if "INNER_MULTI_DISPATCH" not in pairs or row["topic"].startswith("%RETRY%"):
            continue
        names = pairs["INNER_MULTI_DISPATCH"].split(",")
        wanted = ",".join(str(following.get(name, 0)) for name in names)
        assert pairs["INNER_MULTI_QUEUE_OFFSET"] == wanted
        for name in names:  # one that is named twice goes on by two
            following[name] = following.get(name, 0) + 1
    assert len(following) > 2
    assert min(following.values()) > 10


@pytest.mark.parametrize("kind", ["parquet", "delta", "rocketmq"])
def test_what_waits_in_a_brokers_topics_stays_out_unless_it_is_asked_for(kind, tmp_path) -> None:
    """Appended elsewhere, a delayed or a half message that was delivered already comes again."""
    waits = ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_wheel_timer",
             "RMQ_SYS_TRANS_OP_HALF_TOPIC"]  # fmt: skip
    made = [Message(topic=topic, body=b"b") for topic in ["A", *waits, "%RETRY%g", "A"]]
    store = write(damaged(made).log, tmp_path / "store")

    def done(name: str, **options: Any) -> Any:
        return run(store, tmp_path / name, format=kind, rocketmq="5.3.3", settings=SMALL, **options)

    default = done("default")
    assert (default.messages, default.system) == (3, 4)
    instead = "`reput convert` takes them" if kind == "rocketmq" else "--system-topics"
    assert f"  system    4 messages of system topics left out: {instead}" in default.text()
    if kind == "rocketmq":
        with pytest.raises(SettingError, match="--system-topics: not for a store of messages"):
            done("all", system_topics=True)
        return
    every = done("all", system_topics=True)
    assert (every.messages, every.system) == (7, 0)
    assert "--system-topics" not in every.text()
    named = done("named", topics=["SCHEDULE_TOPIC_XXXX"])
    assert (named.messages, named.system) == (1, 0)
    assert all(check(store, tmp_path / n, rocketmq="5.3.3").same for n in ("default", "all"))


def test_skip_goes_on_behind_what_was_appended(store: Path, tmp_path, capsys) -> None:
    run(store, tmp_path / "out")
    words = ["append", str(tmp_path / "copy"), "--from", str(tmp_path / "out"), "--skip", "57"]
    assert main([*words, "--rocketmq", "5.3.3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["messages"] == 3
    bodies = table(tmp_path / "copy", columns="body")["body"].to_pylist()
    assert bodies == [b"body 057", b"body 058", b"body 059"]


def test_damage_fails_or_is_reported(tmp_path: Path) -> None:
    log = damaged(messages(60))
    log.flip(5, 0)
    store = write(log.log, tmp_path / "store")
    with pytest.raises(DamageFound, match=f"offset {log.places[5]}"):
        run(store, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert os.listdir(tmp_path) == ["store"]
    done = run(store, tmp_path / "salvaged", on_damage="salvage")
    assert (done.messages, done.left_out) == (59, 1)
    assert f"physical {log.places[5]}" in done.notes[0]
    done = run(store, tmp_path / "skipped", on_damage="skip")
    assert "bytes up to the segment's end are left out" in done.notes[0]
    assert check(store, tmp_path / "salvaged").same


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "rocketmq", "delta"])
def test_what_the_log_has_lost_at_its_end_is_said(kind: str, tmp_path, capsys) -> None:
    """By the queues of what is exported, or where none says it by the index."""
    built = Built().put("A", count=40, keys="k").derive()
    store = built.write(tmp_path / "store")
    sizes = [word for each in built.given().items() for word in ("--set", "=".join(each))]
    words = ["export", str(store), "--rocketmq", "5.3.3", "--as", kind, *sizes, "--output"]
    assert main([*words, str(tmp_path / "whole")]) == 0
    max((store / "commitlog").iterdir()).unlink()
    left = sum(at >= 4096 for at in built.places())
    capsys.readouterr()
    assert main([*words, str(tmp_path / "out")]) == 1
    assert f"queues name {left} messages of 1 queue" in capsys.readouterr().out
    shutil.rmtree(store / "consumequeue")
    assert main([*words, str(tmp_path / "more"), "--topic", "A"]) == 1
    assert "messages up to 4," in capsys.readouterr().out


def test_the_lost_end_of_other_topics_is_nothing_left_out(tmp_path: Path) -> None:
    built = Built().put("A", count=20).put("B", count=20).derive()
    store = built.write(tmp_path / "store")
    max((store / "commitlog").iterdir()).unlink()
    done = run(store, tmp_path / "out", topics=["A"], rocketmq="5.3.3", settings=built.given())
    assert done.complete
    assert (done.messages, done.left_out) == (sum(at < 2048 for at in built.places()[:20]), 0)


def test_only_an_export_is_replaced(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(store, out)
    with pytest.raises(OutputInUse):
        run(store, out)
    assert run(store, out, replace=True, format="jsonl").messages == 60
    assert sorted(os.listdir(out)) == ["data", "manifest.json"]
    assert os.listdir(out / "data") == ["part-00000000.jsonl"]
    (out / "mine").write_text("!")
    with pytest.raises(StoreError, match="mine"):
        run(store, out, replace=True)
    with pytest.raises(OverlapsInput):
        run(store, store / "commitlog" / "out", replace=True)
    with pytest.raises(OverlapsInput):
        run(store, store, replace=True)


def test_words_that_do_not_go_together(store: Path, tmp_path: Path) -> None:
    with pytest.raises(
        SettingError, match="format 'csv': expected one of parquet, jsonl, delta, rocketmq"
    ):
        run(store, tmp_path / "out", format="csv")
    with pytest.raises(SettingError, match="nothing to decompress"):
        run(store, tmp_path / "out", bodies=False, decompress=True)
    with pytest.raises(StoreError, match="is not an export"):
        check(store, tmp_path)


def test_what_a_group_has_not_consumed_is_exported(tmp_path: Path) -> None:
    """The manifest keeps the offsets, so that the export can be compared when they have moved."""
    built = Built().put("T", 0, 3).put("T", 1, 2).put("U", 0, 2).derive()
    built.file("config/consumerOffset.json", '{"offsetTable":{"T@g":{"0":2}}}')
    store = built.write(tmp_path / "store")
    given: dict[str, Any] = {"rocketmq": "5.3.3", "settings": built.given()}
    done = run(store, tmp_path / "out", unconsumed_by="g", **given)
    assert done.messages == 3
    (store / "config/consumerOffset.json").write_text('{"offsetTable":{"T@g":{"0":3}}}')
    assert check(store, tmp_path / "out", **given).same
    with pytest.raises(StoreError, match="has no offsets of group 'h'"):
        run(store, tmp_path / "other", unconsumed_by="h", **given)
    with pytest.raises(SettingError, match="not for a Delta table"):
        run(store, tmp_path / "other", unconsumed_by="g", format="delta", **given)
