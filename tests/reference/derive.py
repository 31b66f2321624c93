"""All that RocketMQ derives from a log: its dispatchers, one message after the other."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.reference.index import IndexService
from tests.reference.javatext import is_blank, parse_integer, split
from tests.reference.log import SCHEDULE_TOPIC, Message, Segment, Walk
from tests.reference.queues import BatchConsumeQueue, ConsumeQueue, FileQueue, file_name
from tests.reference.rules import Rules, parse_version

COMMITTED = (0x0, 0x8)  # no transaction, or its commit


class DispatchError(ValueError):
    """A message at which RocketMQ's own dispatch throws, and so never gets past it."""


@dataclass
class Derivation:
    """Files by relative path: (content without its trailing zeros, full length).

    Index files are named `index/0`, `index/1`, ... as their real names come from the clock.
    """

    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    end: int = 0
    stop: str = ""
    messages: int = 0


class Dispatcher:
    """DefaultMessageStore.doDispatch: the queue builder, then the index builder."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.queues: dict[tuple[str, int], ConsumeQueue | BatchConsumeQueue] = {}
        self.index = IndexService(rules) if rules.flag("messageIndexEnable") else None

    def dispatch(self, message: Message) -> None:
        if message.transaction in COMMITTED:
            queue = self._queue(message.topic, message.queue_id)
            if isinstance(queue, BatchConsumeQueue):
                queue.put(message)
            else:
                queue.put(message, message.queue_offset)
                self._multi_dispatch(message)
        if self.index:
            self.index.build(message)

    def _queue(self, topic: str, queue_id: int) -> ConsumeQueue | BatchConsumeQueue:
        """ConsumeQueueStore.findOrCreateConsumeQueue."""
        if (topic, queue_id) not in self.queues:
            kind = BatchConsumeQueue if self.rules.is_batch_topic(topic) else ConsumeQueue
            self.queues[topic, queue_id] = kind(self.rules)
        return self.queues[topic, queue_id]

    def _multi_dispatch(self, message: Message) -> None:
        """ConsumeQueue.multiDispatchLmqQueue; 4.9.3 on."""
        rules = self.rules
        if not rules.since(4, 9, 3) or not rules.flag("enableMultiDispatch"):
            return
        if self._is_excluded(message.topic):
            return
        in_rocksdb = rules.flag("rocksdbCQDoubleWriteEnable")
        if rules.since(5, 5, 0) and in_rocksdb and rules.flag("combineCQUseRocksdbForLmq"):
            return
        queues_text = message.property("INNER_MULTI_DISPATCH")
        offsets_text = message.property("INNER_MULTI_QUEUE_OFFSET")
        if is_blank(queues_text) or is_blank(offsets_text):
            return
        names, offsets = split(queues_text or "", ","), split(offsets_text or "", ",")
        if len(names) != len(offsets):
            return
        for name, offset in zip(names, offsets, strict=True):
            if rules.since(5, 1, 2) and "/" in name:
                continue
            lmq = rules.flag("enableLmq") and name.startswith("%LMQ%")
            try:
                queue_offset = parse_integer(offset, 64)
            except ValueError as error:
                raise DispatchError(f"queue offset {offset!r} of queue {name!r}") from error
            queue = self._queue(name, 0 if lmq else message.queue_id)
            if isinstance(queue, BatchConsumeQueue):
                raise DispatchError(f"{name!r} is a batch queue: ClassCastException")
            queue.put(message, queue_offset)

    def _is_excluded(self, topic: str) -> bool:
        """checkMultiDispatchQueue, whose exceptions came one by one."""
        if self.rules.since(5, 1, 1) and topic.startswith("%RETRY%"):
            return True
        if self.rules.since(5, 1, 2) and topic in (SCHEDULE_TOPIC, "rmq_sys_wheel_timer"):
            return True
        return self.rules.since(5, 2, 0) and topic.startswith("rmq_sys_")

    def files(self) -> dict[str, tuple[bytes, int]]:
        files = {}
        for (topic, queue_id), queue in self.queues.items():
            root = "consumequeue" if isinstance(queue, ConsumeQueue) else "batchconsumequeue"
            files |= _queue_files(f"{root}/{topic}/{queue_id}", queue.queue)
        for number, file in enumerate(self.index.files if self.index else []):
            files[f"index/{number}"] = (file.content(), file.length())
        return files


def _queue_files(folder: str, queue: FileQueue) -> dict[str, tuple[bytes, int]]:
    return {
        f"{folder}/{file_name(file.start)}": (bytes(file.content).rstrip(b"\0"), queue.file_size)
        for file in queue.files
    }


def derive(
    segments: Mapping[int, Segment],
    settings: Mapping[str, Any] | None = None,
    version: str = "5.3.3",
    topic_attributes: Mapping[str, Mapping[str, str]] | None = None,
) -> Derivation:
    """The ConsumeQueue and Index files of a log, as RocketMQ's recovery would write them.

    `segments` maps each segment's first physical offset to its bytes.
    """
    rules = Rules(parse_version(version), settings or {}, topic_attributes or {})
    walk = Walk(segments, rules)
    dispatcher = Dispatcher(rules)
    derivation = Derivation()
    for message in walk:
        dispatcher.dispatch(message)
        derivation.messages += 1
    derivation.files = dispatcher.files()
    derivation.end, derivation.stop = walk.end, walk.stop
    return derivation
