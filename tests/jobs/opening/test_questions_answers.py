"""Answers are read once, as they are asked for; what is said of them is complete behind them."""

from collections.abc import Iterator
from typing import NamedTuple

from reput.jobs.opening.questions import KeyMessages, Messages, Rows
from reput.store_format.log.record import Record
from reput.store_format.notes import Notes
from reput.store_format.query.reader import StoredMessage
from tests.logs.encoder import HOST


class Row(NamedTuple):
    topic: str
    messages: int


def message(number: int) -> StoredMessage:
    record = Record(
        b"T", 0, number, 100 * number, 97, 0, 0, 0, 0, 5, HOST, 7, HOST, 0, 0, 0, 2,
        b"KEYS\1a b\2",
    )  # fmt: skip
    return StoredMessage(record, False, lambda of: b"%d" % of.queue_offset)


def found(many: int, notes: Notes) -> Iterator[StoredMessage]:
    """They come with a note each, and read 10 bytes of the log."""
    notes.to_scan = 10 * many
    for number in range(many):
        notes.note(f"note {number}")
        notes.scanned += 10
        yield message(number)
    notes.cut = True


def test_messages_are_read_as_they_are_asked_for_and_only_once() -> None:
    notes = Notes()
    answer = Messages(found(3, notes), notes)
    assert (answer.notes, answer.cut, answer.scanned) == ([], False, (0, 0))
    assert next(iter(answer)).queue_offset == 0
    assert (answer.notes, answer.scanned) == (["note 0"], (10, 30))
    assert [each.queue_offset for each in answer] == [1, 2]
    assert list(answer) == []
    assert (answer.notes, answer.cut) == (["note 0", "note 1", "note 2"], True)
    assert answer.scanned == (30, 30)


def test_a_table_has_bodies_only_where_they_are_asked_for() -> None:
    notes = Notes()
    table = Messages(found(2, notes), notes).to_arrow()
    assert "body" not in table.column_names
    assert table["physicalOffset"].to_pylist() == [0, 100]
    assert table["keys"].to_pylist() == [["a", "b"]] * 2
    assert Messages(found(2, notes), notes).to_arrow(body=True)["body"].to_pylist() == [b"0", b"1"]
    assert Messages([], notes).to_arrow(body=True).num_rows == 0


def test_missing_keys_are_known_behind_the_last_message() -> None:
    notes, wanted = Notes(), ["a", "b", "c"]

    def each() -> Iterator[StoredMessage]:
        for number in range(2):
            wanted.pop(0)
            yield message(number)

    answer = KeyMessages(each(), notes, lambda: list(wanted))
    assert answer.missing == ["a", "b", "c"]
    assert len(list(answer)) == 2
    assert answer.missing == ["c"]


def test_a_listing_is_a_list_and_a_table_of_its_rows_fields() -> None:
    notes = Notes()
    rows = Rows(iter([Row("A", 1), Row("B", 2)]), notes)
    assert rows == [("A", 1), ("B", 2)]
    assert rows.to_arrow().to_pydict() == {"topic": ["A", "B"], "messages": [1, 2]}
    notes.note("said later")
    assert rows.notes == ["said later"]
