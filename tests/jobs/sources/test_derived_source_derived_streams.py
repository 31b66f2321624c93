"""Queue and index files as streams: stores that grow, limits, checkpoints, files that are gone."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from reput.jobs.sources.derived_source import ConsumeQueueSource, DerivedStream, IndexFileSource
from reput.jobs.sources.options import OptionError
from reput.store_format.faults import StoreError
from reput.store_format.layouts import QUEUE_ENTRY_BYTES
from tests.jobs.sources.derived_table import table
from tests.quiet.small_stores import made

ALL = ReadAllAvailable()
KINDS = [ConsumeQueueSource, IndexFileSource]
KEYS = {ConsumeQueueSource: ("topic", "queueId", "queueOffset"), IndexFileSource: ("file", "entry")}
Offset = dict[str, int]
Rows = list[tuple[Any, ...]]


def stream(kind: Any, store: Path, **options: Any) -> DerivedStream:
    source = kind({"path": str(store), **{n: str(v) for n, v in options.items()}})
    reader: DerivedStream = source.streamReader(source.schema())
    return reader


def rows(kind: Any, reader: DerivedStream, start: Offset, end: Offset) -> Rows:
    names = KEYS[kind]
    return [
        tuple(row[name] for name in names)
        for part in reader.partitions(start, end)
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]


def drained(
    kind: Any, reader: DerivedStream, start: Offset, limit: ReadLimit = ALL
) -> tuple[list[Rows], Offset]:
    """Batch after batch until none comes, and where the stream is then."""
    found = []
    while (end := reader.latestOffset(start, limit)) != start:
        found.append(rows(kind, reader, start, end))
        assert rows(kind, reader, start, end) == found[-1]  # as after a kill
        start = end
    return found, start


def whole(kind: Any, store: Path) -> Rows:
    return sorted(tuple(row[n] for n in KEYS[kind]) for row in table(kind, store).to_pylist())


def flat(batches: list[Rows]) -> Rows:
    return sorted(row for batch in batches for row in batch)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_broker_appends_comes_once(kind: Any, tmp_path: Path) -> None:
    store, at, found = tmp_path / "store", {}, []
    for count in (50, 130, 7, 300):
        made(store, count, first=sum((50, 130, 7, 300)[: (50, 130, 7, 300).index(count)]))
        batches, at = drained(kind, stream(kind, store), at)
        found += batches
        assert flat(found) == whole(kind, store)
    assert len(found) == 4
    assert len({row[:-1] for row in flat(found)}) > 3  # of several queues, or files


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("most", [1, 7, 100_000])
def test_a_batch_has_no_more_than_was_asked_for(kind: Any, most: int, tmp_path: Path) -> None:
    store = made(tmp_path / "store", 60)
    reader = stream(kind, store, maxOffsetsPerTrigger=most)
    batches, _ = drained(kind, reader, {}, reader.getDefaultReadLimit())
    assert max(map(len, batches)) <= most
    assert flat(batches) == whole(kind, store)
    assert isinstance(reader.getDefaultReadLimit(), ReadMaxRows)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_may_begin_at_the_end(kind: Any, tmp_path: Path) -> None:
    store = made(tmp_path / "store", 60)
    before = whole(kind, store)
    reader = stream(kind, store, startingOffsets="latest")
    at = reader.initialOffset()
    assert drained(kind, reader, at) == ([], at)
    made(store, 40, first=60)
    batches, _ = drained(kind, reader, at)
    assert flat(batches) == sorted(set(whole(kind, store)) - set(before))


@pytest.mark.parametrize("kind", KINDS)
def test_available_now_ends_where_it_began(kind: Any, tmp_path: Path) -> None:
    store = made(tmp_path / "store", 60)
    before = whole(kind, store)
    reader = stream(kind, store)
    reader.prepareForTriggerAvailableNow()
    made(store, 40, first=60)
    batches, _ = drained(kind, reader, {}, ReadMaxRows(11))
    assert flat(batches) == before


def test_files_that_were_deleted_unread_are_reported(tmp_path: Path) -> None:
    store = made(tmp_path / "store", 1000)
    folder = max((store / "consumequeue").glob("*/*"), key=lambda path: len(list(path.iterdir())))
    name = str(folder.relative_to(store))
    first = min(folder.iterdir())
    length = first.stat().st_size
    first.unlink()
    reader, kind = stream(ConsumeQueueSource, store), ConsumeQueueSource
    # nothing of it was read: it begins where it does now
    batches, _ = drained(kind, reader, {})
    assert flat(batches) == whole(kind, store)
    with pytest.raises(StoreError, match=r"position 3, .* deleted before they were read"):
        reader.latestOffset({name: 3}, ALL)
    with pytest.raises(StoreError, match=r"position 3, .* deleted before they were read"):
        reader.partitions({name: 3}, {name: 1 << 20})
    reader = stream(kind, store, failOnDataLoss="false")
    found, _ = drained(kind, reader, {name: 3})
    assert flat(found) == whole(kind, store)
    assert min(row[2] for row in flat(found) if row[:2] == (folder.parent.name, int(folder.name)))
    assert length // QUEUE_ENTRY_BYTES > 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_was_cut_is_reported(kind: Any, tmp_path: Path) -> None:
    store = made(tmp_path / "store", 60)
    _, at = drained(kind, stream(kind, store), {})
    name = max(at)
    ahead = {**at, name: at[name] + 5}
    with pytest.raises(StoreError, match=r"was cut|but the file has"):
        stream(kind, store).latestOffset(ahead, ALL)
    made(store, 40, first=60)
    batches, _ = drained(kind, stream(kind, store, failOnDataLoss="false"), ahead)
    assert flat(batches)


def test_what_a_stream_does_not_take_is_named(tmp_path: Path) -> None:
    for kind in KINDS:
        with pytest.raises(OptionError, match="startingOffsets=7: earliest or latest is wanted"):
            stream(kind, tmp_path, startingOffsets=7)
        with pytest.raises(OptionError, match="option endingOffsets: is not for"):
            stream(kind, tmp_path, endingOffsets=7)
        with pytest.raises(OptionError, match="option maxOffsetsPerTrigger: is for a stream"):
            table(kind, tmp_path, maxOffsetsPerTrigger=7)
        assert drained(kind, stream(kind, tmp_path), {}) == ([], {})
