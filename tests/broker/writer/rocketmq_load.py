"""What RocketMQ's own start makes of a store's index, as a model: load, then recovery.

IndexService.load, CommitLog.recoverAbnormally and isMappedFileMatchedRecover,
IndexService.buildIndex, IndexFile.putKey and selectPhyOffset. The real one says the same in
tests/rocketmq/test_catch_up.py, after kills at each step.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from reput.store_format.derived.checkpoint import Checkpoint, decode
from reput.store_format.layouts import CHECKPOINT, INDEX_ENTRY, INDEX_HEADER, INDEX_HEADER_BYTES
from reput.store_format.release.settings import WriterSettings

Keys = Counter[tuple[int, int]]  # how often (keyHash, physicalOffset) is found

_MAGIC = 0xDAA320A7
_STORE_TIMESTAMP_AT = 56  # with an IPv4 host
_SLACK = 3_000  # StoreCheckpoint.getMinTimestamp


def entries(content: bytes, slots: int) -> Keys:
    """All entries of a file that some slot's chain leads to (IndexFile.selectPhyOffset)."""
    count = int(np.frombuffer(content, INDEX_HEADER, 1)[0]["indexCount"])
    table = np.frombuffer(content, INDEX_ENTRY, offset=INDEX_HEADER_BYTES + 4 * slots)
    found: Keys = Counter()
    for newest in np.frombuffer(content, ">i4", slots, INDEX_HEADER_BYTES):
        at = int(newest)
        if at <= 0 or at > count or count <= 1:
            continue
        while True:
            found[int(table[at]["keyHash"]), int(table[at]["physicalOffset"])] += 1
            before = int(table[at]["previous"])
            if before <= 0 or before > count or before == at:
                break
            at = before
    return found


class Load:
    """A store as RocketMQ finds it; nothing of it is changed."""

    def __init__(self, tree: dict[str, bytes], given: WriterSettings) -> None:
        self.crashed = "abort" in tree
        raw = tree.get("checkpoint", b"")
        known = decode(raw) if len(raw) >= CHECKPOINT.itemsize else Checkpoint()
        slots = given.max_hash_slot_num
        self.indexed: Keys = Counter()
        self.end_offset = 0  # the last file's endPhyOffset
        for name in sorted(n for n in tree if n.startswith("index/")):
            header = np.frombuffer(tree[name].ljust(INDEX_HEADER_BYTES, b"\0"), INDEX_HEADER, 1)[0]
            if self.crashed and int(header["endTimestamp"]) > known.index_msg_timestamp:
                continue
            self.indexed += entries(tree[name], slots)
            self.end_offset = int(header["endPhyOffset"])
        self.start = self._start(tree, known)

    def _start(self, tree: dict[str, bytes], known: Checkpoint) -> int:
        """The segment from which recovery dispatches."""
        segments = sorted(n for n in tree if n.startswith("commitlog/"))
        safe = max(min(known.physic_msg_timestamp, known.logics_msg_timestamp) - _SLACK, 0)
        for name in reversed(segments):
            raw = tree[name]
            magic = int.from_bytes(raw[4:8])
            stored = int.from_bytes(raw[_STORE_TIMESTAMP_AT : _STORE_TIMESTAMP_AT + 8])
            if magic == _MAGIC and 0 < stored <= safe:
                return int(name.rpartition("/")[2])
        return int(segments[0].rpartition("/")[2]) if segments else 0

    def found(self, log: Keys) -> Keys:
        """How often each key is found afterwards. log: each record's keys, once each."""
        if not self.crashed:
            return self.indexed
        put = {key: times for key, times in log.items() if key[1] >= max(
            self.start, self.end_offset)}  # fmt: skip
        return self.indexed + Counter(put)


def keys_of(tree: dict[str, bytes], slots: int, end: int) -> Keys:
    """The keys of the records before `end`, from a whole store's index."""
    found: Keys = Counter()
    for name in sorted(n for n in tree if n.startswith("index/")):
        found += entries(tree[name], slots)
    return Counter({key: times for key, times in found.items() if key[1] < end})
