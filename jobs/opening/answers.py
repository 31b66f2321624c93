"""The answers of a store that is opened for questions: messages, and rows of listings."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from reput.store_format.notes import Notes
from reput.store_format.query.reader import StoredMessage

if TYPE_CHECKING:
    import pyarrow as pa

Row = TypeVar("Row", bound=NamedTuple)


class Messages:
    """Messages in the log's order, read one by one as they are iterated; only once.

    notes: what was skipped, cut or read from the log; complete after all messages are read.
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
        """(bytes of the log read instead of queues and index, bytes to be read in all)."""
        return self._notes.scanned, self._notes.to_scan

    def to_arrow(self, body: bool = False) -> "pa.Table":
        """A table with the columns of the Spark source; needs pyarrow."""
        from reput.udfs.table.columns import messages_table

        rows = (each.row() | ({"body": each.body()} if body else {}) for each in self)
        return messages_table(rows, body)


class KeyMessages(Messages):
    """The messages found by many keys."""

    def __init__(
        self, messages: Iterable[StoredMessage], notes: Notes, missing: Callable[[], list[str]]
    ) -> None:
        super().__init__(messages, notes)
        self._missing = missing

    @property
    def missing(self) -> list[str]:
        """The keys that no message has; complete after all messages are read."""
        return self._missing()


class Rows(list[Row], Generic[Row]):
    """The rows of a listing; `notes` as for Messages."""

    def __init__(self, rows: Iterable[Row], notes: Notes) -> None:
        super().__init__(rows)
        self.notes = notes.lines

    def to_arrow(self) -> "pa.Table":
        """A table with the rows' fields as columns; needs pyarrow."""
        import pyarrow as pa

        return pa.Table.from_pylist([row._asdict() for row in self])
