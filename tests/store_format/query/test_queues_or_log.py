"""Whatever files of a store are gone or cut, its queues and index answer as its log does."""

import random

import pytest

from reput.store_format.filter.filters import tag_filter
from reput.store_format.query.by_key import by_key
from reput.store_format.query.by_queue import by_offset, by_time
from reput.store_format.query.inventory import QueueRow, queues, rates
from reput.store_format.query.reader import OpenedStore, StoredMessage
from tests.logs import Message, properties
from tests.store_format.query.derived_stores import Derived

START = 1_700_000_000_000
SPANS = 4


def drawn(draw: random.Random) -> tuple[Derived, int]:
    """A store of two topics with up to three queues each, and the milliseconds that it spans."""
    time, ends, messages = 0, dict[tuple[str, int], int](), list[Message]()
    for _ in range(draw.randint(5, 60)):
        time += draw.choice([0, 1, 10, 10, 200])
        topic, queue_id = draw.choice("TTTU"), draw.randint(0, 2)
        position = ends.get((topic, queue_id), draw.choice([0, 0, 3, 25]))
        prepared = draw.random() < 0.08
        ends[topic, queue_id] = position + (not prepared)
        texts = properties(("TAGS", draw.choice("AB")), ("KEYS", f"k{draw.randint(0, 5)}"))
        body = bytes(draw.choice([1, 50, 300]))
        messages.append(
            Message(topic, queue_id, position, body, texts, START + time, 4 if prepared else 0)
        )
    return Derived(messages, draw.choice(["4.9.7", "5.1.0", "5.3.3", "5.5.0"])), time


def damage(store: Derived, draw: random.Random) -> list[str]:
    """Up to three files go, or end early: what a query promises to notice (docs/query.md)."""
    hit = []
    for _ in range(draw.randint(0, 3)):
        what = draw.choice(["commitlog", "consumequeue", "index"])
        paths = store.paths(what)
        path = draw.choice([*paths[:1], *paths[-1:], draw.choice(paths)])
        alone = len(store.paths(path[2:].rpartition("/")[0])) == 1
        if what == "consumequeue" and (alone or draw.random() < 0.5):
            store.storage.files[path] = store.storage.files[path][: draw.choice([0, 10, 60, 100])]
        elif not (what == "commitlog" and alone):
            del store.storage.files[path]
        hit.append(path)
        if not store.paths(what):
            break
    return hit


def counts(rows: list[QueueRow]) -> list[QueueRow]:
    """Queues with messages; from where to where they go, a log with holes cannot tell."""
    return [row._replace(min_offset=0, max_offset=0) for row in rows if row.messages]


class Both:
    """A store's answers, each through its queues or index and from its log alone."""

    def __init__(self, store: Derived, opened: OpenedStore) -> None:
        self.notes, self.opened = store.notes, opened

    def by_time(self, topic: str, *times: int | None, tags: str = "*") -> list[list[StoredMessage]]:
        chosen = None if tags == "*" else tag_filter(tags)
        return [
            list(by_time(self.opened, topic, None, (times[0], times[1]), scan, self.notes, chosen))
            for scan in (False, True)
        ]

    def by_key(self, topic: str, key: str) -> list[list[StoredMessage]]:
        def wanted(message: StoredMessage) -> bool:
            return message.topic == topic and key in message.keys

        return [list(by_key(self.opened, [topic], key, wanted, scan, self.notes))
                for scan in (False, True)]  # fmt: skip

    def by_offset(self, topic: str, queue_id: int, *ends: int) -> list[list[StoredMessage]]:
        return [
            list(by_offset(self.opened, topic, queue_id, ends[0], ends[1], scan, self.notes))
            for scan in (False, True)
        ]


@pytest.mark.parametrize("seed", range(80))
def test_queues_and_index_answer_as_the_log_does(seed: int) -> None:
    draw = random.Random(seed)
    store, time = drawn(draw)
    hit = damage(store, draw)
    with store.open() as opened:
        found, wanted = (counts(queues(opened, scan, store.notes)) for scan in (False, True))
        assert found == wanted, hit
        of_topic = {row.topic: row for row in rates(opened, SPANS, store.notes)}
        both = Both(store, opened)
        for topic in "TU":
            for _ in range(3):
                times = [draw.choice([None, START + draw.randint(0, time + 1)]) for _ in range(2)]
                queued, logged = both.by_time(topic, *times, tags=draw.choice("*A"))
                assert places(queued) == places(logged), (hit, times)
            for queue_id in range(3):
                first = draw.randint(0, 8)
                queued, logged = both.by_offset(topic, queue_id, first, first + draw.randint(0, 9))
                assert places(queued) == places(logged), hit
            for number in range(6):
                indexed, logged = both.by_key(topic, f"k{number}")
                assert places(indexed) == places(logged), hit
            _, logged = both.by_time(topic, None, None)
            assert (topic in of_topic) == bool(logged)
            if logged:
                row = of_topic[topic]
                spans = [(each.store_timestamp - row.begin) // row.width for each in logged]
                assert list(row.messages) == [spans.count(n) for n in range(SPANS)], hit


def places(messages: list[StoredMessage]) -> list[int]:
    return [each.physical_offset for each in messages]
