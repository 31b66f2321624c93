"""What only one store has, added up by queue: -1 is not a number of a message."""

import pytest

from reput.jobs.comparing.contents import Found, QueueOnly

ROW = {"messages": 1, "bytes": 100, "least": 5, "greatest": 5, "oldest": 70, "newest": 70}


@pytest.mark.parametrize(
    ("more", "least", "greatest"),
    [
        ({"least": 3, "greatest": 4}, 3, 5),
        ({"least": 7, "greatest": 9}, 5, 9),
        ({"least": -1, "greatest": -1}, 5, 5),
        ({"least": 0, "greatest": 0}, 0, 5),
    ],
)
def test_rows_of_a_queue_become_one(more: dict[str, int], least: int, greatest: int) -> None:
    for rows in ([ROW, {**ROW, **more}], [{**ROW, **more}, ROW]):
        queue = QueueOnly("T", 0, "only")
        for row in rows:
            queue.add(row)
        assert (queue.messages, queue.bytes) == (2, 200)
        assert (queue.least, queue.greatest) == (least, greatest)
        assert (queue.oldest, queue.newest) == (70, 70)


def test_messages_are_counted_by_kind_and_those_of_brokers_apart() -> None:
    found = Found(
        same=9,
        queues=[
            QueueOnly("T", 0, "only", messages=2),
            QueueOnly("T", 1, "only", messages=3),
            QueueOnly("SCHEDULE_TOPIC_XXXX", 4, "only", messages=10),
            QueueOnly("T", 0, "again", messages=100),
        ],
    )
    assert [found.count("only", system) for system in (None, True, False)] == [15, 10, 5]
    assert [found.count(kind) for kind in ("again", "damaged")] == [100, 0]
    told = found.as_json()
    assert {name: told[name] for name in ("same", "only", "again", "damaged")} == {
        "same": 9, "only": 15, "again": 100, "damaged": 0,
    }  # fmt: skip


def test_nothing_is_counted_where_nothing_was_found() -> None:
    assert Found().count("only") == 0
    assert QueueOnly("T", 0, "only").least == -1
