"""Queue and index files as rows: what the readers say of them, entry by entry."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from reput.jobs.sources.derived_source import ConsumeQueueSource, DerivedStream, IndexFileSource
from reput.jobs.sources.options import OptionError
from reput.store_format.derived.index_reader import IndexReader
from reput.store_format.derived.queue_reader import QueueReader
from reput.store_format.discover.sizes import settings_to_read
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.layouts import QUEUE_ENTRY_BYTES
from tests import golden_stores
from tests.jobs.sources.reading import table_of as table
from tests.quiet.small_stores import made

# queues of both kinds, and several index files
LMQ, MIXED = "small_lmq_batch_5.5.0", "mixed_5.3.3"


@pytest.mark.parametrize("name", [LMQ, MIXED])
def test_each_entry_of_each_queue_is_a_row(name: str) -> None:
    store, wanted = golden_stores.unpack(name).expect, []
    for kind in ("consumequeue", "batchconsumequeue"):
        for folder in sorted((store / kind).glob("*/*")):
            topic, queue = folder.parent.name, int(folder.name)
            reader = QueueReader(Folder(LocalStorage(), str(folder)), kind != "consumequeue")
            wanted += [
                (topic, queue, e.position, e.physical_offset, e.size, e.tags_code, e.messages,
                 e.store_timestamp, reader.batch) for e in reader.entries(0)]  # fmt: skip
    found = table(ConsumeQueueSource, store)
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == sorted(wanted)
    assert any(row[-1] for row in wanted) == (name == LMQ)


def test_queues_are_chosen_by_topic() -> None:
    store = golden_stores.unpack(MIXED).expect
    whole = table(ConsumeQueueSource, store)
    topics = sorted(set(whole["topic"].to_pylist()))
    one = table(ConsumeQueueSource, store, subscribe=topics[1], columns="topic,size")
    assert set(one["topic"].to_pylist()) == {topics[1]}
    assert one.column_names == ["topic", "size"]
    every = table(ConsumeQueueSource, store, subscribePattern=".*", minPartitions=50)
    assert every.num_rows == whole.num_rows


def test_each_entry_of_each_index_file_is_a_row() -> None:
    store, wanted = golden_stores.unpack(MIXED).expect, []
    settings, _ = settings_to_read(Folder(LocalStorage(), str(store)), {}, "5.3.3")
    reader = IndexReader(Folder(LocalStorage(), str(store)), settings)
    for number in reversed(range(len(reader.files))):
        with reader.open(number) as file:
            for n in range(1, file.header.entries + 1):
                e = file.entry(n)
                fields = (e.key_hash, e.physical_offset, e.time_diff, file.timestamp(e), e.previous)
                wanted.append((Path(file.path).name, n, e.key_hash % file.slots, *fields))
    found = table(IndexFileSource, store)
    assert [tuple(row.values()) for row in found.to_pylist()] == wanted
    assert len(reader.files) > 1


def test_what_is_wrong_is_named_and_a_store_without_files_has_no_row(tmp_path: Path) -> None:
    assert table(ConsumeQueueSource, tmp_path).num_rows == 0
    assert table(IndexFileSource, tmp_path).num_rows == 0
    with pytest.raises(OptionError, match="onDamage: is not for consumequeue, which takes path"):
        table(ConsumeQueueSource, tmp_path, ondamage="skip")
    with pytest.raises(OptionError, match="subscribe: is not for indexfile"):
        table(IndexFileSource, tmp_path, subscribe="A")
    folder = tmp_path / "consumequeue" / "T" / "0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}").mkdir()
    assert table(ConsumeQueueSource, tmp_path).num_rows == 0  # a folder is none of its files


# --- Queue and index files as streams: stores that grow, limits, checkpoints, files that go.
ALL = ReadAllAvailable()
KINDS = [ConsumeQueueSource, IndexFileSource]
KEYS = {ConsumeQueueSource: ("topic", "queueId", "queueOffset"), IndexFileSource: ("file", "entry")}
Offset = Any
Rows = list[tuple[Any, ...]]


def stream(kind: Any, store: Path, **options: Any) -> DerivedStream:
    source = kind({"path": str(store), **{n: str(v) for n, v in options.items()}})
    reader: DerivedStream = source.streamReader(source.schema())
    return reader


def rows(kind: Any, reader: DerivedStream, start: Offset, end: Offset) -> Rows:
    names = KEYS[kind]
    return [tuple(row[name] for name in names) for part in reader.partitions(start, end)
            for batch in reader.read(part) for row in batch.to_pylist()]  # fmt: skip


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
    store, at, found, first = tmp_path / "store", {}, [], 0
    for count in (50, 130, 7, 300):
        made(store, count, first=first)
        first += count
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
    kept = len(reader.files.there({}))  # at least one of each, as Kafka's source does
    assert max(map(len, batches)) <= most + kept
    assert len(batches) > 1 or most == 100_000
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
    ahead = {**at, name: at[name][0] + 5}
    with pytest.raises(StoreError, match=r"was cut|but the file has"):
        stream(kind, store).latestOffset(ahead, ALL)
    made(store, 40, first=60)
    batches, _ = drained(kind, stream(kind, store, failOnDataLoss="false"), ahead)
    assert flat(batches)


def tree(store: Path, kind: Any) -> Path:
    return store / ("consumequeue" if kind is ConsumeQueueSource else "index")


def read_all(reader: Any, parts: list[Any]) -> int:
    return sum(batch.num_rows for part in parts for batch in reader.read(part))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["batch", "stream"])
@pytest.mark.parametrize("what", ["gone", "cut"])
def test_what_goes_after_the_planning_is_an_error(kind: Any, how: str, what: str, tmp_path) -> None:
    store = made(tmp_path / "store", 400)
    if how == "batch":
        source = kind({"path": str(store), "minPartitions": "9"} if kind is KINDS[0] else
                      {"path": str(store)})  # fmt: skip
        reader = source.reader(source.schema())
        parts = reader.partitions()
    else:
        reader = stream(kind, store)
        parts = reader.partitions({}, reader.latestOffset({}, ALL))
    assert read_all(reader, parts) == len(whole(kind, store))
    victim = max(path for path in tree(store, kind).rglob("*") if path.is_file())
    if what == "gone":
        victim.unlink()
    else:
        with victim.open("r+b") as file:
            file.truncate(victim.stat().st_size // 4)
    with pytest.raises(StoreError, match=victim.name):
        read_all(reader, parts)


def test_entries_that_are_wiped_after_the_planning_are_missed(tmp_path: Path) -> None:
    """The file has its length still: a stream's range is known to the entry."""
    store = made(tmp_path / "store", 60)
    reader = stream(ConsumeQueueSource, store)
    parts = reader.partitions({}, reader.latestOffset({}, ALL))
    victim = max((store / "consumequeue").rglob("0*0"))
    victim.write_bytes(bytes(victim.stat().st_size))
    with pytest.raises(StoreError, match=f"{victim.parent}: had entries up to"):
        read_all(reader, parts)


def test_a_queue_that_is_gone_is_an_error_and_not_read_twice(tmp_path: Path) -> None:
    store = made(tmp_path / "store", 60)
    kind, folder = ConsumeQueueSource, store / "consumequeue" / "T1" / "2"
    _, at = drained(kind, stream(kind, store), {})
    folder.rename(tmp_path / "kept")
    with pytest.raises(StoreError, match="consumequeue/T1/2: the queue is gone"):
        stream(kind, store).latestOffset(at, ALL)
    with pytest.raises(StoreError, match="consumequeue/T1/2: the queue is gone"):
        stream(kind, store).partitions({}, at)
    reader = stream(kind, store, failOnDataLoss="false")
    assert drained(kind, reader, at) == ([], at)
    (tmp_path / "kept").rename(folder)
    assert drained(kind, reader, at) == ([], at)
    made(store, 40, first=60)
    batches, _ = drained(kind, stream(kind, store), at)
    assert len(flat(batches)) == 40


def test_index_files_that_are_gone_unread_are_an_error(tmp_path: Path) -> None:
    store, kind = made(tmp_path / "store", 20), IndexFileSource
    batches, at = drained(kind, stream(kind, store), {})
    made(store, 400, first=20)
    files = sorted((store / "index").iterdir())
    before = len(flat(batches))
    assert len(files) > 2
    last = max(at)
    files[[file.name for file in files].index(last)].unlink()
    with pytest.raises(StoreError, match=f"{last}: is gone, and only its first"):
        stream(kind, store).latestOffset(at, ALL)
    assert drained(kind, stream(kind, store, failOnDataLoss="false"), at)[0]
    _, end = drained(kind, stream(kind, store), {})
    min((store / "index").iterdir()).unlink()  # it expired: all of it was read
    assert drained(kind, stream(kind, store), end) == ([], end)
    assert before


def test_an_index_file_made_anew_after_a_crash_is_read_again(tmp_path: Path) -> None:
    """IndexService.load deletes it, and recovery makes it by the name of a later time."""
    store, kind = made(tmp_path / "store", 20), IndexFileSource
    _, at = drained(kind, stream(kind, store), {})
    last = max((store / "index").iterdir())
    last.rename(last.with_name("29991231235959999"))
    batches, _ = drained(kind, stream(kind, store), at)
    assert {file for file, _ in flat(batches)} == {"29991231235959999"}


@pytest.mark.parametrize("kind", KINDS)
def test_another_store_in_the_place_of_the_first_is_an_error(kind: Any, tmp_path: Path) -> None:
    store = made(tmp_path / "store", 60)
    _, at = drained(kind, stream(kind, store), {})
    shutil.rmtree(store)
    made(store, 1)  # shifts all that follows
    made(store, 300, first=1000)
    with pytest.raises(StoreError, match=r"another store|is gone"):
        stream(kind, store).latestOffset(at, ALL)
    old = {name: end for name, (end, _) in at.items()}  # of a release before
    made(tmp_path / "again", 60)
    assert drained(kind, stream(kind, tmp_path / "again"), old) == ([], old)


def test_a_limit_starves_no_queue(tmp_path: Path) -> None:
    store, kind = made(tmp_path / "store", 600), ConsumeQueueSource
    reader = stream(kind, store, maxOffsetsPerTrigger=70)
    end = reader.latestOffset({}, reader.getDefaultReadLimit())
    counts = Counter(row[:2] for row in rows(kind, reader, {}, end))
    there = Counter(row[:2] for row in whole(kind, store))
    assert counts.keys() == there.keys()
    share = 70 / sum(there.values())
    assert all(abs(counts[each] - there[each] * share) <= 1 for each in there)


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_that_is_not_there_is_an_error(kind: Any, tmp_path: Path) -> None:
    for read in (table, stream):
        with pytest.raises(StoreError, match="nowhere: no such folder"):
            read(kind, tmp_path / "nowhere")


def test_what_a_stream_does_not_take_is_named(tmp_path: Path) -> None:
    for kind in KINDS:
        for start in (7, '{"T": {"0": 7}}'):
            with pytest.raises(OptionError, match="startingOffsets: expected earliest or latest"):
                stream(kind, tmp_path, startingOffsets=start)
        with pytest.raises(OptionError, match="option endingOffsets: is not for"):
            stream(kind, tmp_path, endingOffsets=7)
        with pytest.raises(OptionError, match="option maxOffsetsPerTrigger: is for a stream"):
            table(kind, tmp_path, maxOffsetsPerTrigger=7)
        assert drained(kind, stream(kind, tmp_path), {}) == ([], {})
