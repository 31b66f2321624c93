"""`--group-offsets FILE`: a file beside the store that keeps what clients commit, over the end of a
server. It is written as a broker's consumerOffset.json is; the store itself is never written to.
"""

import json
from collections.abc import Callable, Iterable

from reput.broker.serving.group_offsets import GroupOffsets
from reput.jobs.outputs.output import Input, WholeFile
from reput.store_format.discover.config_folder import Offsets, offsets_of_table
from reput.store_format.faults import StoreError
from reput.store_format.java.fastjson import quoted_keys
from reput.store_format.notes import Notes

_BEGINS = b'{"offsetTable":'
_BYTES_MOST = 256 << 20
_WRITTEN_EVERY = 5000  # BrokerConfig.flushConsumerOffsetInterval, milliseconds


class OffsetsFile:
    """The file; it appears whole or not at all, and one that is something else stays."""

    def __init__(self, path: str, inputs: Iterable[Input]) -> None:
        """inputs: what is served. Raises StoreError where something else is there, or the place
        lies within an input.
        """
        self._file = WholeFile(path, tuple(inputs), _BEGINS, replace=True)
        self._file.check()
        self._changes = self._time = 0

    def over(self, start: Offsets, notes: Notes) -> Offsets:
        """The store's offsets, those of the file in their place. Raises StoreError, OSError."""
        path = self._file.path
        try:
            with open(path, "rb") as file:
                raw = file.read(_BYTES_MOST + 1)
        except FileNotFoundError:
            return start
        if len(raw) > _BYTES_MOST:
            raise StoreError(f"{path}: more than {_BYTES_MOST} bytes are too many")
        try:
            table = json.loads(quoted_keys(raw))["offsetTable"]
        except (ValueError, KeyError, TypeError, RecursionError):
            table = None
        if not isinstance(table, dict):
            raise StoreError(f"{path}: has no offsetTable; it is left as it is")
        kept = offsets_of_table(table, notes)
        return {key: {**start.get(key, {}), **kept.get(key, {})} for key in {**start, **kept}}

    def write(self, offsets: GroupOffsets) -> None:
        """Write the file anew where something was committed since. Raises StoreError, OSError."""
        changes = offsets.changes
        if changes == self._changes:
            return
        text = _BEGINS + json.dumps(offsets.table(), ensure_ascii=False).encode() + b"}\n"
        with self._file.writing() as file:
            file.write(text)
        self._changes = changes

    def ticking(self, offsets: GroupOffsets, tell: Callable[[str], None]) -> Callable[[int], None]:
        """What writes the file every few seconds; a full disk is reported, and tried again."""

        def tick(now: int) -> None:
            if now - self._time < _WRITTEN_EVERY:
                return
            self._time = now
            try:
                self.write(offsets)
            except (StoreError, OSError) as error:
                tell(f"group offsets were not written: {error}")

        return tick
