"""Decides up to where the queues of a topic can be used to find its records (`udfs/queue_parts`).

The queues must belong to this log: the last entry of each queue points to a record of that queue
and position. And no file may be missing, cut, or deleted while the log has records of it. They are
used up to the least of their ends; from there on the log is walked.
"""

from reput.jobs.opening.plan import Plan
from reput.store_format.derived.queue_files import BadQueue, QueueFiles, is_pre_blank, queue_folder
from reput.store_format.discover.config import queues_of
from reput.store_format.files.adapters import LiveFiles
from reput.store_format.files.protocol import listed
from reput.store_format.log.reader import LogReader
from reput.store_format.names import BATCH_CONSUME_QUEUE, UnsafeName, is_queue_id
from reput.store_format.notes import Notes
from reput.udfs.table.log_parts import FAIL, LogParts
from reput.udfs.table.queue_parts import Doubt, QueuedParts, TopicQueue


def by_queues(plan: Plan, log: LogParts, topic: str) -> tuple[QueuedParts, int]:
    """(the log of a topic by its queues, the physical offset up to which the queues are complete).
    Raises StoreError with the reason why the queues cannot be used.
    """
    if log.on_damage != FAIL:
        raise Doubt("only with onDamage=fail")
    storage = LiveFiles(log.storage)
    try:
        above = queue_folder(plan.store, topic, 0).rpartition("/")[0]
        batch = queue_folder(plan.store, topic, 0, True).rpartition("/")[0]
    except UnsafeName as error:
        raise Doubt(str(error)) from None
    ids = sorted(int(name) for name, state in listed(storage, above)
                 if state is None and is_queue_id(name))  # fmt: skip
    if listed(storage, batch) or topic in plan.batch_topics:
        raise Doubt(f"its queues are in {BATCH_CONSUME_QUEUE}/")
    configured = queues_of(log.storage, plan.store, topic, Notes())
    if not ids or ids != list(range(max(configured, len(ids)))):
        raise Doubt(f"{above}: not all of its queues are there")
    queues = tuple(TopicQueue(number, f"{above}/{number}") for number in ids)
    parts = QueuedParts(**vars(log), topic=topic, queues=queues)
    with LogReader(storage, list(log.segments), log.rules.records) as reader:
        return parts, min(_end(parts, reader, queue) for queue in queues)


def _end(parts: QueuedParts, log: LogReader, queue: TopicQueue) -> int:
    """The physical offset up to which a queue has all of its records. Raises StoreError."""
    files, last = QueueFiles(log.storage, queue.folder), None
    for number, file in enumerate(files.all):
        if file.state.size != files.all[0].state.size or file.state.size % files.entry_bytes:
            raise BadQueue(file.path, 0, "length", file.state.size, "is not that of the others")
        with files.open(file) as entries:
            used = entries.used()
            if number == 0 and used and file.start:
                _refuse_later(int(entries[0]["physicalOffset"]), log.start, file.path)
            if used < file.state.size // files.entry_bytes and number < len(files.all) - 1:
                raise Doubt(f"{file.path}: has no entry {used}, and files follow")
            if used and not is_pre_blank(entries[used - 1]):
                last = entries[used - 1], files.position(file, used - 1)
    return log.start if last is None else max(parts.check(log, queue, *last), log.start)


def _refuse_later(first: int, log_start: int, path: str) -> None:
    if first >= log_start:
        raise Doubt(f"{path}: files before it are missing, of which the log may have records")
