"""Counts and times as a person reads them; and what of a store a copy leaves behind."""

from typing import Any

import pytest

from reput.jobs.console.voice import time_text
from reput.jobs.outputs import report
from reput.store_format.files.folder import Folder
from tests.memory_storage import MemoryStorage


def test_counts_times_releases_and_damage_as_a_person_reads_them() -> None:
    texts = [report.counted(n, what) for n, what in ((1, "file"), (0, "file"), (7525, "index key"),
                                              (2, "entry"), (1, "queue entry"))]  # fmt: skip
    assert texts == ["1 file", "0 files", "7,525 index keys", "2 entries", "1 queue entry"]
    assert time_text(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert time_text(-1) == "1969-12-31T23:59:59.999Z"
    assert time_text(1 << 62) == str(1 << 62)  # that no calendar has
    assert report.era_lines({}) == []
    (told,) = report.era_lines({"eras": {"value": "4.9.4, then 5.3.3"}})
    assert told.endswith("4.9.4, then 5.3.3")
    for ranges, lost, missing, line in [
        (0, 0, 0, "none"),
        (1, 0, 0, "1 range, nothing is known to be lost"),
        (2, 1, 0, "2 ranges, 1 byte lost; 0 messages known to be missing"),
        (2, 0, 1, "2 ranges, 0 bytes lost; 1 message known to be missing"),
    ]:
        damage = {"range_count": ranges, "bytes_lost": lost, "messages_missing": missing}
        assert report.damage_line(damage) == line


def test_the_state_that_a_copy_leaves_behind_is_named() -> None:
    names = (
        "commitlog/x", "checkpoint", "timerwheel", "lock", "notes.txt", "epochFileCheckpoint",
        "epochFileCheckpoint.bak", "compaction/position-checkpoint", "config/topics.json",
        "config/consumerOffset.json", "config/consumerOrderInfo.json", "config/users/CURRENT",
        "config/timercheck", "kvStore/CURRENT",
    )  # fmt: skip
    storage = MemoryStorage({f"store/{name}": b"" for name in names})
    (line,) = report.left_behind(Folder(storage, "store"), ("topics.json", "consumerOffset.json"))
    assert line == (
        "not taken over: compaction/, config/consumerOrderInfo.json, config/users/, "
        "epochFileCheckpoint"
    )
    assert report.left_behind(Folder(MemoryStorage({"store/commitlog/x": b""}), "store"), ()) == []


# --- The summary of a rebuild: what is counted, what a manifest keeps, how damage is told.
def summary(**more: Any) -> report.Summary:
    return report.Summary("s", "o", "5.3.3", {}, {}, 0, 9, "undamaged", **more)


def a_range(**more: Any) -> dict[str, Any]:
    return {"file": "log/0", "offset": 200, "physical_offset": 1200, "length": 1234,
            "kind": "damaged", "field": "magic", "reason": "wrong", "value": None, "missing": [],
            "witnesses": [], "against": [], "sureness": "certain", "follows": "record",
            **more}  # fmt: skip


def test_files_are_counted_by_queue_and_index_and_two_rebuilds_have_one_manifest() -> None:
    made = summary()
    made.count_files(["index", "consumequeue/T/0", "consumequeue/T/0", "consumequeue/T/1", "index",
                      "batchconsumequeue/T/0"])  # fmt: skip
    assert (made.index_files, made.queue_files, made.queues) == (2, 4, 3)
    made.count_files(["rocksdbstore", "consumequeue"])
    assert (made.index_files, made.queue_files, made.queues) == (1, 1, 1)
    made.count_files([])
    assert (made.index_files, made.queue_files, made.queues) == (0, 0, 0)
    one = summary(files=[report.OutputFile("checkpoint", 4096, "00")])
    other = summary(files=[report.OutputFile("checkpoint", 4096, "00")], seconds=9.5, cleaned=["x"],
                    stages={"scan": 1.0}, releases="5.3.3 or 5.3.2")  # fmt: skip
    other.output = "elsewhere"
    assert one.manifest() == other.manifest()
    assert one.manifest()["files"][0]["path"] == "checkpoint"
    told = other.as_json()
    assert (told["output_files"], told["input_files"], told["seconds"]) == (1, 0, 9.5)


@pytest.mark.parametrize(("more", "text"), [
    ({}, "log/0: offset 200, physical 1200, 1,234 bytes damaged: magic wrong; certain, "
         "by nobody; then record"),
    ({"file": None, "value": 0}, "physical 1200, 1,234 bytes damaged: magic wrong "
                                 "(it says 0); certain, by nobody; then record"),
    ({"file": None, "witnesses": ["a", "b"], "against": ["c"]},
     "physical 1200, 1,234 bytes damaged: magic wrong; certain, by a and b, against c; then "
     "record"),
    ({"file": None, "missing": [{"topic": "T", "queue_id": 0, "first": 7, "count": 1},
                                {"topic": "U", "queue_id": 3, "first": 7, "count": 3}]},
     "physical 1200, 1,234 bytes damaged: magic wrong; certain, by nobody; then record; "
     "missing T/0: 7, U/3: 7..9"),
])  # fmt: skip
def test_a_range_in_full(more: dict[str, Any], text: str) -> None:
    assert report.range_text(a_range(**more)) == text


@pytest.mark.parametrize(("more", "begins"), [
    ({}, "damaged at offset 1,200, 1,234 bytes: magic: wrong"),
    ({"kind": "content", "field": "bodyCRC"}, "wrong checksum at offset 1,200"),
    ({"kind": "content", "field": "__CRC32#"}, "wrong checksum at"),
    ({"kind": "content", "field": "TAGS"}, "doubtful record at"),
    ({"length": 1}, "damaged at offset 1,200, 1 byte: "),
])  # fmt: skip
def test_a_range_in_short(more: dict[str, Any], begins: str) -> None:
    assert report.short_range(a_range(**more)).startswith(begins)


def test_of_many_ranges_two_are_shown_and_their_warnings_not_repeated() -> None:
    ranges = [a_range(physical_offset=n) for n in range(5)]
    causes = [{"ranges": 5, "kind": "damaged", "bytes": 1, "field": "magic", "reason": "wrong"}]
    damage = {"ranges": ranges, "range_count": 5, "bytes_lost": 1, "messages_missing": 0,
              "causes": causes}  # fmt: skip
    made = summary(damage=damage, warnings=[*map(report.range_text, ranges), "look here"])
    lines = made.text().splitlines()
    assert sum(line.startswith("  range ") for line in lines) == 2
    assert [line for line in lines if "warning" in line] == ["  warning   look here"]
    assert sum(line.startswith("  range ") for line in made.details()) == 5
    assert f"  cause     {report.cause_line(causes[0])}" in made.details()
