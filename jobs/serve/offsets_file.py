"""`--group-offsets FILE`: a file beside the store that keeps committed offsets and popped messages
after the server has ended. It is like a broker's consumerOffset.json, with popped messages beside
the offsetTable. The store itself is never written to.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from reput.broker.serving.broker import Broker
from reput.broker.serving.popped import popped_rows, restore
from reput.jobs.outputs.output import Input, WholeFile
from reput.jobs.outputs.report import counted
from reput.store_format.discover.config import Offsets, offsets_of_table
from reput.store_format.faults import StoreError
from reput.store_format.java import quoted_keys
from reput.store_format.notes import Notes

_BEGINS = b'{"offsetTable":'
_BYTES_MOST = 256 << 20
_WRITTEN_EVERY = 5000  # BrokerConfig.flushConsumerOffsetInterval, milliseconds


class OffsetsFile:
    """The file, which is replaced as a whole. A file of another kind is not replaced."""

    def __init__(self, path: str, inputs: Iterable[Input]) -> None:
        """inputs: the served store. Raises StoreError for a foreign file, or a path in an input."""
        self._file = WholeFile(path, tuple(inputs), _BEGINS, replace=True)
        self._file.check()
        self._changes = self._time = 0
        self._table: Mapping[str, Any] = {}

    def over(self, start: Offsets, notes: Notes) -> Offsets:
        """The store's offsets, replaced by those in the file. Raises StoreError, OSError."""
        path = self._file.path
        try:
            with open(path, "rb") as file:
                raw = file.read(_BYTES_MOST + 1)
        except FileNotFoundError:
            return start
        if len(raw) > _BYTES_MOST:
            raise StoreError(f"{path}: more than {_BYTES_MOST} bytes are too many")
        try:
            self._table = json.loads(quoted_keys(raw))
            table = self._table["offsetTable"]
        except (ValueError, KeyError, TypeError, RecursionError):
            table = None
        if not isinstance(table, dict):
            raise StoreError(f"{path}: has no offsetTable; it is left as it is")
        kept = offsets_of_table(table, notes)
        return {key: {**start.get(key, {}), **kept.get(key, {})} for key in {**start, **kept}}

    def restore(self, broker: Broker, notes: Notes) -> None:
        """Give a broker the popped messages of the file that `over` has read."""
        if wrong := restore(self._table, broker.in_flight, broker.orders):
            notes.note(f"{self._file.path}: left out: {counted(wrong, 'row')} of popped messages")

    def write(self, broker: Broker) -> None:
        """Write the file if offsets or popped messages changed. Raises StoreError, OSError."""
        offsets = broker.offsets
        changes = offsets.changes + broker.in_flight.changes + broker.orders.changes
        if changes == self._changes:
            return
        popped = popped_rows(broker.in_flight, broker.orders)
        more = "".join(f',"{name}":{json.dumps(each)}' for name, each in popped.items() if each)
        table = json.dumps(offsets.table(), ensure_ascii=False)
        text = _BEGINS + f"{table}{more}}}\n".encode()
        with self._file.writing() as file:
            file.write(text)
        self._changes = changes

    def ticking(self, broker: Broker, tell: Callable[[str], None]) -> Callable[[int], None]:
        """A function that writes the file every few seconds; it tells errors and tries again."""

        def tick(now: int) -> None:
            if now - self._time < _WRITTEN_EVERY:
                return
            self._time = now
            try:
                self.write(broker)
            except (StoreError, OSError) as error:
                tell(f"group offsets were not written: {error}")

        return tick
