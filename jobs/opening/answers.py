"""What a store that is opened for questions answers with: messages, and rows of listings."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from reput.store_format.notes import Notes
from reput.store_format.query.stored_message import StoredMessage

if TYPE_CHECKING:
    import pyarrow as pa

Row = TypeVar("Row", bound=NamedTuple)


class Messages:
    """Messages in the log's order, read as they are asked for, once.

    notes: what was skipped, cut or read from the log; all of it once the messages are read.
    """

    def __init__(self, messages: Iterable[StoredMessage], notes: Notes) -> None:
        self._messages, self._notes = iter(messages), notes

    def __iter__(self) -> Iterator[StoredMessage]:
        return self._messages

    @property
    def notes(self) -> list[str]:
        return self._notes.lines

    @property
    def cut(self) -> bool:
        """Whether there are more messages than were asked for."""
        return self._notes.cut

    @property
    def scanned(self) -> tuple[int, int]:
        """Bytes of the log that were read in place of queues and index, and are to be read."""
        return self._notes.scanned, self._notes.to_scan

    def to_arrow(self, body: bool = False) -> "pa.Table":
        """A table with the columns of the Spark source; needs pyarrow."""
        from reput.udfs.table.stored_messages import messages_table

        rows = (each.row() | ({"body": each.body()} if body else {}) for each in self)
        return messages_table(rows, body)


class KeyMessages(Messages):
    """The messages that were found by many keys."""

    def __init__(
        self, messages: Iterable[StoredMessage], notes: Notes, missing: Callable[[], list[str]]
    ) -> None:
        super().__init__(messages, notes)
        self._missing = missing

    @property
    def missing(self) -> list[str]:
        """The keys that no message has, once the messages are read."""
        return self._missing()


class Rows(list[Row], Generic[Row]):
    """Rows of a listing; `notes` as for Messages."""

    def __init__(self, rows: Iterable[Row], notes: Notes) -> None:
        super().__init__(rows)
        self.notes = notes.lines

    def to_arrow(self) -> "pa.Table":
        """A table with the rows' fields as columns; needs pyarrow."""
        import pyarrow as pa

        return pa.Table.from_pylist([row._asdict() for row in self])
