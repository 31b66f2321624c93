"""What only one store has, added up by queue: -1 is not a number of a message."""

from types import SimpleNamespace

import pytest

from reput.jobs.comparing.contents import KINDS, Found, QueueOnly, _add_up, walks_of

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
    other = {**ROW, "oldest": 60, "newest": 80, **more}
    for rows in ([ROW, other], [other, ROW]):
        queue = QueueOnly("T", 0, "only")
        for row in rows:
            queue.add(row)
        assert (queue.messages, queue.bytes) == (2, 200)
        assert (queue.least, queue.greatest) == (least, greatest)
        assert (queue.oldest, queue.newest) == (60, 80)


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


def test_a_report_names_twenty_messages_of_each_kind() -> None:
    row = {"log": 0, "topic": "T", "queue_id": 0, "kind": 0, **ROW, "first": ["{}"] * 20}
    found = Found(), Found()
    _add_up([{**row, "walk": n, "lines": ""} for n in range(len(KINDS) + 1)], found)
    assert [len(each.first) for each in found] == [20 * len(KINDS), 0]


def test_a_log_is_walked_to_its_own_end() -> None:
    log = SimpleNamespace(segments=[SimpleNamespace(start=n, end=n + 100) for n in (0, 100)])
    sides = [SimpleNamespace(log=log, end=end) for end in (150, 200)]
    walks = [(each.log, *each.spans) for each in walks_of(sides, [(40, 180)])]
    assert walks == [(0, (40, 100)), (0, (100, 150)), (1, (40, 100)), (1, (100, 180))]
