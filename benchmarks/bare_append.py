"""What Python leaves at all of `append`: the same records, appended by the least code that can.

`python -m benchmarks.bare_append FOLDER [--messages N] [--threads N --seconds N]` appends the
messages of `benchmarks.put_messages` to a new store's one segment, and prints messages a second as
JSON. Straight from a `Message` to one `pwrite` and an `AppendResult`, with RocketMQ's properties
and UNIQ_KEY, under one lock; the kernels of the writer dispatch every 4 MB, as nobody finds a
message before. Left out is all else that an operator needs of a writer: checks of what is given,
segments, queues that are there, delays, named hosts, transactions, errors. With `--threads` each
append waits for an fdatasync, by a group commit of the same kind as the writer's.
"""

import argparse
import json
import os
import struct
import threading
import time
import zlib
from itertools import count
from pathlib import Path
from queue import SimpleQueue

from benchmarks.put_messages import by_many_threads, clock, numbered
from reput.broker.writer.flush import BEHIND_BYTES
from reput.broker.writer.writer import DEFAULT_HOST, AppendResult, CommitLogWriter
from reput.store_format.layouts import MAGIC_V1
from reput.store_format.message.message import Message, encode_host
from reput.store_format.names import COMMIT_LOG, segment_name

_HOST = encode_host(DEFAULT_HOST)
_HEAD = struct.Struct(">iiiiiqqiq8sq8siqi")  # totalSize to bodyLength
_FIXED_BYTES = _HEAD.size + 1 + 2  # topicLength, propertiesLength


class BareLog:
    """A new store's first segment, and where its records end."""

    def __init__(self, folder: Path) -> None:
        self.store = CommitLogWriter.open(str(folder / "store"), clock=clock, background=False)
        self.store.log.make_room(1)
        path = folder / "store" / COMMIT_LOG / segment_name(0)
        self.descriptor = os.open(path, os.O_RDWR)
        self.end = 0
        self._lock = threading.Lock()
        self._next: dict[tuple[str, int], int] = {}
        self._topics: dict[str, bytes] = {}
        self._numbers = count()
        self._unique = _HOST.hex().upper() + f"{os.getpid() & 0xFFFF:04X}"

    def record(self, message: Message, queue_offset: int, at: int) -> bytes:
        """The bytes of a message at its place."""
        body, given = message.body, message.properties
        if isinstance(given, bytes):
            properties = given
        else:
            properties = (
                f"KEYS\x01{message.keys}\x02UNIQ_KEY\x01{self._unique}{clock() & 0xFFFFFFFF:08X}"
                f"{next(self._numbers) & 0xFFFF:04X}\x02TAGS\x01{message.tags}\x02"
            ).encode()
        topic = self._topics.get(message.topic)
        if topic is None:
            topic = self._topics[message.topic] = message.topic.encode()
        size = _FIXED_BYTES + len(body) + len(topic) + len(properties)
        now = clock()
        head = _HEAD.pack(
            size, MAGIC_V1, zlib.crc32(body) & 0x7FFFFFFF, message.queue_id, message.flag,
            queue_offset, at, message.sys_flag, now, _HOST, now, _HOST, message.reconsume_times,
            message.prepared_offset, len(body),
        )  # fmt: skip
        lengths = len(topic).to_bytes(1, "big"), len(properties).to_bytes(2, "big")
        return b"".join((head, body, lengths[0], topic, lengths[1], properties))

    def append(self, message: Message) -> AppendResult:
        with self._lock:
            key = (message.topic, message.queue_id)
            queue_offset, at = self._next.get(key, 0), self.end
            record = self.record(message, queue_offset, at)
            os.pwrite(self.descriptor, record, at)
            self.end = at + len(record)
            self._next[key] = queue_offset + 1
            if self.end - self.store.reput.at >= BEHIND_BYTES:
                self.dispatch()
        return AppendResult("PUT_OK", at, queue_offset, len(record), 0, _HOST, (at,))

    def dispatch(self) -> None:
        """Add what is not there yet to the queues and the index. Raises DamageFound."""
        self.store.reput.run(self.end)


class _Waiting:
    __slots__ = ("following", "message", "woken")

    def __init__(self, message: Message) -> None:
        self.message = message
        self.woken = threading.Lock()
        self.woken.acquire()
        self.following: _Waiting | None = None


class BareGroupCommit:
    """Appends of many threads: one thread writes them together, and tells the first, who tells the
    next.
    """

    def __init__(self, log: BareLog) -> None:
        self.log = log
        self._requests: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def append(self, message: Message) -> None:
        waiting = _Waiting(message)
        self._requests.put(waiting)
        waiting.woken.acquire()
        if waiting.following is not None:
            waiting.following.woken.release()

    def stop(self) -> None:
        """Called when no append is under way."""
        self._requests.put(None)
        self._thread.join()

    def _run(self) -> None:
        log = self.log
        while (first := self._requests.get()) is not None:
            requests = [first]
            while not self._requests.empty():
                request = self._requests.get()
                assert request is not None
                requests.append(request)
            at, records = log.end, []
            for request in requests:
                records.append(log.record(request.message, 0, at))
                at += len(records[-1])
            os.pwrite(log.descriptor, b"".join(records), log.end)
            log.end = at
            os.fdatasync(log.descriptor)
            me = _Waiting(first.message)
            for one, following in zip(requests, [*requests[1:], me], strict=True):
                one.following = following
            first.woken.release()
            me.woken.acquire()  # most of them have come back by then


def single(folder: Path, messages: int) -> float:
    """Messages a second, one by one."""
    log = BareLog(folder)
    began = time.perf_counter()
    for n in range(messages):
        log.append(numbered(n))
    seconds = time.perf_counter() - began
    log.dispatch()  # which raises if a record is none
    return messages / seconds


def synchronous(folder: Path, threads: int, seconds: float) -> float:
    """Messages a second, each durable before its append returns."""
    group = BareGroupCommit(BareLog(folder))
    count = by_many_threads(group.append, threads, seconds)
    group.stop()
    return count / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--messages", type=int, default=250_000)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--seconds", type=float, default=3)
    words = parser.parse_args()
    if words.threads:
        rate = synchronous(words.folder, words.threads, words.seconds)
    else:
        rate = single(words.folder, words.messages)
    print(json.dumps({"per_second": round(rate)}))


if __name__ == "__main__":
    main()
