"""How far consumer groups have come: what the store says, and what clients tell meanwhile.

The store itself is never written to. What clients commit is kept in memory, and in a file beside
the store where one is named (ConsumerOffsetManager; the file is written as consumerOffset.json is).
"""

import json
from collections.abc import Iterable

from reput.jobs.engine.outputs import WholeFile
from reput.store_format.faults import StoreError
from reput.store_format.query.config import Offsets, offsets_of_table, quoted_keys

MOST_QUEUES = 200_000  # of all groups together that clients may add; a broker has no limit
FILE_BEGINS = b'{"offsetTable":'
_BYTES_MOST = 64 << 20


class TooManyOffsets(ValueError):
    """Clients have committed offsets of more queues than are kept."""


class GroupOffsets:
    """The next position that each group wants of each queue, -1 where there is none."""

    def __init__(self, start: Offsets) -> None:
        """start: what the store's own config/consumerOffset.json says."""
        self._offsets = {key: dict(queues) for key, queues in start.items()}
        self._pulled: dict[tuple[str, str, int], int] = {}
        self._added = 0
        self.changes = 0  # how often something was committed; who writes the file looks at it

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The group's offset of a queue (ConsumerOffsetManager.queryOffset)."""
        return self._offsets.get((group, topic), {}).get(queue_id, -1)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Keep how far a group has come (commitOffset). Raises TooManyOffsets."""
        queues = self._offsets.get((group, topic))
        if queues is None or queue_id not in queues:
            self._add()
            queues = self._offsets.setdefault((group, topic), {})
        queues[queue_id] = offset
        self.changes += 1

    def pulled(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Keep up to where a group was given messages (commitPullOffset, from 5.0.0 on)."""
        key = group, topic, queue_id
        if key not in self._pulled:
            if self._added >= MOST_QUEUES:
                return  # it is only shown to operators
            self._added += 1
        self._pulled[key] = offset

    def query_pulled(self, group: str, topic: str, queue_id: int) -> int:
        """Up to where a group was given messages, or its offset (queryPullOffset)."""
        return self._pulled.get((group, topic, queue_id), -1)

    def topics_of(self, group: str) -> list[str]:
        """The topics that a group has an offset of (whichTopicByConsumer)."""
        return [topic for each, topic in self._offsets if each == group]

    def groups_of(self, topic: str) -> list[str]:
        """The groups that have an offset of a topic (whichGroupByTopic)."""
        return [group for group, each in self._offsets if each == topic]

    def queues_of(self, group: str, topic: str) -> dict[int, int]:
        """A group's offsets of a topic, by queue."""
        return self._offsets.get((group, topic), {})

    def table(self) -> dict[str, dict[int, int]]:
        """All offsets, by `topic@group` (the offsetTable of consumerOffset.json)."""
        return {f"{topic}@{group}": queues for (group, topic), queues in self._offsets.items()}

    def _add(self) -> None:
        if self._added >= MOST_QUEUES:
            raise TooManyOffsets(f"offsets of {MOST_QUEUES} queues are kept, and no more")
        self._added += 1


class OffsetsFile:
    """The file beside the store that keeps what clients committed, over the end of a server."""

    def __init__(self, file: WholeFile) -> None:
        """Raises StoreError where something else is there, or the place is within the store."""
        file.check()
        self._file, self._written = file, 0

    def read(self, start: Offsets) -> Offsets:
        """The store's offsets, with those that the file has in their place. Raises StoreError."""
        try:
            with open(self._file.path, "rb") as file:
                raw = file.read(_BYTES_MOST + 1)
        except FileNotFoundError:
            return start
        if len(raw) > _BYTES_MOST:
            raise StoreError(f"{self._file.path}: more than {_BYTES_MOST} bytes are too many")
        try:
            table = json.loads(quoted_keys(raw))["offsetTable"]
            return {**start, **offsets_of_table(table)}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise StoreError(f"{self._file.path}: has no offsetTable; it is left as it is") from None

    def write(self, offsets: GroupOffsets) -> None:
        """Write the file anew where something was committed since. Raises StoreError, OSError."""
        if offsets.changes == self._written:
            return
        at = offsets.changes
        text = FILE_BEGINS + json.dumps(offsets.table(), ensure_ascii=False).encode() + b"}\n"
        with self._file.writing() as file:
            file.write(text)
        self._written = at


def group_offsets_file(path: str, inputs: Iterable[object]) -> OffsetsFile:
    """The file that `--group-offsets` names; inputs: the store, in which it must not lie."""
    return OffsetsFile(WholeFile(path, tuple(inputs), FILE_BEGINS, replace=True))  # type: ignore[arg-type]
