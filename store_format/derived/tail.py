"""Where the derived files of a store end, which is where a catch-up must go on."""

from collections.abc import Iterator
from typing import NamedTuple

from reput.store_format.derived.index_header import IndexHeader
from reput.store_format.derived.index_reader import IndexReader
from reput.store_format.derived.queue_reader import QueueReader
from reput.store_format.files.protocol import InputStorage, listed
from reput.store_format.names import BATCH_CONSUME_QUEUE, CONSUME_QUEUE, is_queue_folder
from reput.store_format.release.settings import Settings


class QueueTail(NamedTuple):
    """Where one queue ends. Offsets are physical; -1 where it has no entry."""

    topic: str
    queue_id: int
    batch: bool
    next_position: int  # of the next entry
    greatest_offset: int  # where the last entry's record starts
    end: int  # where the last entry's record ends
    tags_code: int = 0  # of the last entry
    entries_end: int = 0  # number of the next entry, see QueueReader; in a batch queue no position
    may_be_cut: bool = False  # files at its end may be missing


class IndexTail(NamedTuple):
    """Where the newest index file ends."""

    path: str
    header: IndexHeader
    full: bool  # the next message opens another file


class DerivedTail(NamedTuple):
    """Where a set of derived files ends."""

    queues: list[QueueTail]
    newest_index: IndexTail | None

    @property
    def end(self) -> int:
        """The end of the last record that any queue has; -1 where there is no entry."""
        return max((queue.end for queue in self.queues), default=-1)

    @property
    def greatest_offset(self) -> int:
        """The greatest physical offset of a record in any queue; -1 where there is no entry."""
        return max((queue.greatest_offset for queue in self.queues), default=-1)


def tail(storage: InputStorage, store: str, settings: Settings) -> DerivedTail:
    """The ends of all queues and of the index at `store`, a store or a rebuilt set.

    Reads a few entries of each queue's last file, and one header. Raises BadQueue, BadIndex.
    """
    return DerivedTail(list(queue_tails(storage, store)), index_tail(storage, store, settings))


def queue_tails(storage: InputStorage, store: str) -> Iterator[QueueTail]:
    """The ends of all queues, one after the other, by folder, topic and queue id as listed."""
    for folder, batch in ((CONSUME_QUEUE, False), (BATCH_CONSUME_QUEUE, True)):
        for topic in _folders(storage, f"{store}/{folder}"):
            for queue_id in _folders(storage, f"{store}/{folder}/{topic}"):
                if is_queue_folder(queue_id):
                    queue = QueueReader(storage, f"{store}/{folder}/{topic}/{queue_id}", batch)
                    last = queue.last()
                    cut = queue.may_be_cut()
                    if last is None:
                        yield QueueTail(topic, int(queue_id), batch, 0, -1, -1, may_be_cut=cut)
                        continue
                    place = last.physical_offset
                    yield QueueTail(
                        topic, int(queue_id), batch, last.position + last.messages, place,
                        place + last.size, last.tags_code, queue.entries_end(), cut,
                    )  # fmt: skip


def index_tail(storage: InputStorage, store: str, settings: Settings) -> IndexTail | None:
    """The end of the newest index file; None where there is none."""
    index = IndexReader(storage, store, settings)
    if not index.files:
        return None
    with index.open(0) as file:
        return IndexTail(file.path, file.header, file.header.next_entry >= file.most)


def _folders(storage: InputStorage, folder: str) -> list[str]:
    return [name for name, state in listed(storage, folder) if state is None]
