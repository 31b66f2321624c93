"""Queue and index files as rows: what the readers say of them, entry by entry."""

from pathlib import Path

import pytest

from reput.jobs.sources.derived_source import ConsumeQueueSource, IndexFileSource
from reput.jobs.sources.options import OptionError
from reput.store_format.derived.index_reader import IndexReader
from reput.store_format.derived.queue_reader import QueueReader
from reput.store_format.discover.sizes import settings_to_read
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from tests import golden_stores
from tests.jobs.sources.derived_table import table

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
                 e.store_timestamp, reader.batch) for e in reader.entries(0)
            ]  # fmt: skip
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
    assert table(ConsumeQueueSource, store, subscribePattern=".*", minPartitions=50).num_rows == (
        whole.num_rows
    )


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


def test_a_store_without_such_files_is_no_row(tmp_path: Path) -> None:
    assert table(ConsumeQueueSource, tmp_path).num_rows == 0
    assert table(IndexFileSource, tmp_path).num_rows == 0


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="onDamage: is not for consumequeue, which takes path"):
        table(ConsumeQueueSource, tmp_path, ondamage="skip")
    with pytest.raises(OptionError, match="subscribe: is not for indexfile"):
        table(IndexFileSource, tmp_path, subscribe="A")
    folder = tmp_path / "consumequeue" / "T" / "0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}").mkdir()
    assert table(ConsumeQueueSource, tmp_path).num_rows == 0  # a folder is none of its files
