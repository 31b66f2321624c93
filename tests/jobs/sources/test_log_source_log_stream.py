"""The source as a stream: a log that grows, limits, checkpoints, a log cleaned under the reader."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from reput.jobs.sources.log_source import CommitLogSource, LogStream
from reput.store_format.faults import StoreChanged, StoreError
from tests.damaged import damaged, messages
from tests.jobs.sources.reading import up_to, write

ALL = ReadAllAvailable()
Offset = dict[str, int]


def stream(store: Path, **options: Any) -> LogStream:
    given = {"path": str(store), "columns": "physicalOffset"}
    source = CommitLogSource({**given, **{n: str(v) for n, v in options.items()}})
    return source.streamReader(source.schema())


def rows(reader: LogStream, start: Offset, end: Offset) -> list[int]:
    parts = reader.partitions(start, end)
    return [
        place
        for part in parts
        for batch in reader.read(part)
        for place in batch["physicalOffset"].to_pylist()
    ]


def drained(reader: LogStream, start: Offset, limit: ReadLimit = ALL) -> list[list[int]]:
    """Batch after batch until none comes."""
    found = []
    while (end := reader.latestOffset(start, limit)) != start:
        found.append(rows(reader, start, end))
        start = end
    return found


def flat(batches: list[list[int]]) -> list[int]:
    return [place for batch in batches for place in batch]


def test_a_growing_log_is_followed_record_by_record(tmp_path: Path) -> None:
    log = damaged(messages(60))
    reader = stream(write(up_to(log, 1), tmp_path))
    at = reader.initialOffset()
    found: list[int] = []
    for count in (1, 2, 3, 3, 25, 26, 60):
        write(up_to(log, count, torn=50 if count == 25 else 0), tmp_path)
        end = reader.latestOffset(at, ALL)
        found += rows(reader, at, end)
        assert found == log.places[:count]
        at = end
    assert reader.reportLatestOffset() == {"physicalOffset": at["physicalOffset"]}


def test_a_record_whose_end_is_not_written_yet_waits(tmp_path: Path) -> None:
    log = damaged(messages(3))
    store = write(up_to(log, 1, torn=log.size(1) - 1), tmp_path)
    reader = stream(store)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert rows(reader, reader.initialOffset(), end) == log.places[:1]


def test_a_limit_parts_the_log_and_loses_nothing(tmp_path: Path) -> None:
    log = damaged(messages(60))
    reader = stream(write(log.log, tmp_path), maxOffsetsPerTrigger=7)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(7)
    found = drained(reader, reader.initialOffset(), limit)
    assert [len(batch) for batch in found] == [7] * 8 + [4]
    assert flat(found) == log.places
    assert [len(each) for each in drained(reader, reader.initialOffset())] == [60]


def test_available_now_ends_where_the_log_ended(tmp_path: Path) -> None:
    log = damaged(messages(60))
    reader = stream(write(up_to(log, 10), tmp_path))
    reader.prepareForTriggerAvailableNow()
    write(log.log, tmp_path)
    found = drained(reader, reader.initialOffset(), ReadMaxRows(4))
    assert found == [log.places[:4], log.places[4:8], log.places[8:10]]


def test_a_batch_is_the_same_again_from_its_checkpoint(tmp_path: Path) -> None:
    log = damaged(messages(60))
    store = write(up_to(log, 20), tmp_path)
    reader = stream(store)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    write(log.log, tmp_path)
    again = stream(store)
    assert rows(again, start, end) == rows(reader, start, end) == log.places[:20]
    assert flat(drained(again, end)) == log.places[20:]


def test_where_a_stream_starts(tmp_path: Path) -> None:
    log = damaged(messages(60))
    store = write(log.log, tmp_path)
    latest = stream(store, startingOffsets="latest").initialOffset()
    assert latest == stream(store).latestOffset(stream(store).initialOffset(), ALL)
    within = stream(store, startingOffsets=log.places[30] - 1)
    assert within.initialOffset()["physicalOffset"] == log.places[30]
    assert flat(drained(within, within.initialOffset())) == log.places[30:]


def test_a_log_cleaned_under_the_reader_is_reported(tmp_path: Path) -> None:
    log = damaged(messages(60))
    store = write(log.log, tmp_path)
    start = stream(store).initialOffset()
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    with pytest.raises(
        StoreError, match=r"begins at 4096: 4,096 bytes were deleted.*failOnDataLoss"
    ):
        stream(store).latestOffset(start, ALL)
    loose = stream(store, failOnDataLoss="false")
    assert flat(drained(loose, start)) == [p for p in log.places if p >= 4096]


def test_a_segment_that_goes_between_plan_and_task_is_reported(tmp_path: Path) -> None:
    log = damaged(messages(60))
    store = write(log.log, tmp_path)
    for loss in ("true", "false"):
        write(log.log, tmp_path)
        reader = stream(store, failOnDataLoss=loss)
        start = reader.initialOffset()
        parts = reader.partitions(start, reader.latestOffset(start, ALL))
        (tmp_path / "commitlog" / f"{0:020d}").unlink()
        if loss == "true":
            with pytest.raises(StoreChanged):
                list(reader.read(parts[0]))
        else:
            assert list(reader.read(parts[0])) == []


def test_another_log_than_the_checkpoints_is_reported(tmp_path: Path) -> None:
    store = write(damaged(messages(3)).log, tmp_path)
    with pytest.raises(StoreError, match="it is another log, or was cut"):
        stream(store).latestOffset({"physicalOffset": 1 << 20}, ALL)


def test_another_longer_log_in_the_place_of_the_first_is_reported(tmp_path: Path) -> None:
    first = damaged(messages(20))
    store = write(first.log, tmp_path)
    at = stream(store).latestOffset(stream(store).initialOffset(), ALL)
    other = damaged([replace(each, body=each.body[::-1] + b"x") for each in messages(60)])
    write(other.log, store)
    with pytest.raises(StoreError, match="is not what was read: this is another log"):
        stream(store).latestOffset(at, ALL)
    with pytest.raises(StoreError, match="is not what was read: this is another log"):
        stream(store).partitions(at, {"physicalOffset": other.places[-1]})
    write(damaged(messages(60)).log, store)
    for start in (at, {"physicalOffset": at["physicalOffset"]}):  # as releases before wrote it
        assert flat(drained(stream(store), start)) == damaged(messages(60)).places[20:]


def test_damage_that_live_records_follow_ends_the_stream(tmp_path: Path) -> None:
    log = damaged(messages(60))
    last = [n for n, place in enumerate(log.places) if place >= log.places[-1] // 4096 * 4096]
    log.flip(last[2], 0)
    store = write(log.log, tmp_path)
    with pytest.raises(StoreError, match=f"offset {log.places[last[3]]}"):
        stream(store).latestOffset(stream(store).initialOffset(), ALL)
    salvaged = stream(store, onDamage="salvage")
    found = flat(drained(salvaged, salvaged.initialOffset()))
    assert found == [p for p in log.places if p != log.places[last[2]]]


def test_a_store_is_asked_what_it_is_only_once(tmp_path, monkeypatch) -> None:
    """Spark asks for the latest offset many times a second."""
    log = damaged(messages(60))
    reader = stream(write(up_to(log, 10), tmp_path))
    at = reader.latestOffset(reader.initialOffset(), ALL)
    monkeypatch.setattr("reput.jobs.sources.log_source.plan_of", None)
    write(log.log, tmp_path)
    end = reader.latestOffset(at, ALL)
    assert rows(reader, at, end) == log.places[10:]
