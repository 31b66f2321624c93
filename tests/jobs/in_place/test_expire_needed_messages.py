"""Who still needs a message: a group that has not read it, or nobody knows that it was read."""

import json
from typing import Any

import pytest

from reput.jobs.in_place.expire import Even, Needed, needed
from reput.store_format.discover.store import StoreAt
from reput.store_format.faults import StoreError
from reput.store_format.notes import Progress
from tests.damaged import START, Damaged, damaged
from tests.in_process import STORE, as_text, storage_of
from tests.logs.encoder import Message, properties
from tests.memory_storage import MemoryStorage
from tests.store_format.damage.generator import derived_of
from tests.store_format.query.popped import POPPED, REVIVE, ack, point

OFFSETS = f"{STORE}/config/consumerOffset.json"

ONLY_UNREAD = Even(delayed=True, pending=True)


def log_of(*topics: str, each: int = 5) -> Damaged:
    """So many messages of each topic's queue 0, one topic after the other."""
    return damaged(
        [
            Message(topic, 0, n, b"x", store_timestamp=START)
            for topic in topics for n in range(each)
        ],
        1 << 16,
    )  # fmt: skip


LOG = log_of("A", "%RETRY%g")


def asked(
    read: dict[str, dict[str, int]], even: Even = ONLY_UNREAD,
    log: Damaged = LOG, files: dict[str, bytes] | None = None,
) -> list[Needed]:  # fmt: skip
    storage = storage_of(log.log)
    storage.files |= derived_of(log.log) if files is None else files
    storage.files[OFFSETS] = json.dumps({"offsetTable": read}).encode()
    return of(storage, log, even)


def of(storage: MemoryStorage, log: Damaged, even: Even) -> list[Needed]:
    at: Any = StoreAt(storage, STORE, "5.3.3", as_text(log.settings))
    return needed(at, "5.3.3", even, Progress(), lambda _: None)


ALL_READ = {"%RETRY%g@g": {"0": 5}}


@pytest.mark.parametrize(
    ("offset", "first"), [(-1, 0), (0, 0), (1, 1), (4, 4), (5, None), (99, None)]
)
def test_the_first_unread_message_of_a_group_is_needed(offset: int, first: int | None) -> None:
    found = asked({"A@g": {"0": offset}, **ALL_READ})
    assert [each.offset for each in found] == ([] if first is None else [LOG.places[first]])
    if found:
        assert found[0].who.startswith("group 'g' has read topic 'A', queue 0, up to ")


def test_a_queue_without_an_offset_and_a_groups_own_retries_count_as_unread() -> None:
    found = asked({"A@g": {"7": 3}})
    assert [each.offset for each in found] == [LOG.places[0], LOG.places[5]]
    assert "topic '%RETRY%g', queue 0, up to 0" in found[1].who


def test_a_group_that_is_left_out_and_a_topic_that_nobody_reads_need_nothing() -> None:
    read = {"A@g": {"0": 2}, "A@old": {"0": 0}, **ALL_READ}
    even = Even(delayed=True, pending=True, groups=frozenset(["old"]))
    assert [each.offset for each in asked(read, even)] == [LOG.places[2]]
    assert [each.offset for each in asked(read)] == [LOG.places[0], LOG.places[2]]
    assert asked({}) == []
    assert asked(read, Even(unread=True, delayed=True, pending=True)) == []


@pytest.mark.parametrize("topic", ["%RETRY%g_A", "%RETRY%g+A"])
def test_retries_of_pop_that_nobody_has_popped_yet_count_as_unread(topic: str) -> None:
    """A topic of them begins with the group's name, a sign and the topic that it popped."""
    log = log_of("A", topic, "%RETRY%gg_A")
    (found,) = asked({"A@g": {"0": 5}}, log=log)
    assert found.offset == log.places[5]


POPPED_ALL = {"A@g": {"0": 5}, **ALL_READ}


def with_points(*bodies: tuple[str, Any]) -> Damaged:
    """Five messages, and what pop wrote of them: (tags, body)."""
    return damaged(
        [
            *(Message("A", 0, n, b"x", store_timestamp=START) for n in range(5)),
            *(Message(REVIVE, 0, n, json.dumps(body).encode(), properties(("TAGS", tags)), START)
              for n, (tags, body) in enumerate(bodies)),
        ]
    )  # fmt: skip


IN_ORDER = {"popTime": POPPED, "i": 60_000, "o": [2, 1], "cm": 0b01, "l": 0}


@pytest.mark.parametrize(
    ("bodies", "orders", "first"),
    [
        ([("ck", point(1, 3, topic="A", q=0))], {}, 1),
        ([("ck", point(1, 3, topic="A", q=0, sp=True)), ("ack", ack(1, 1, t="A", q=0))], {}, 2),
        (
            [
                ("ck", point(1, 2, topic="A", q=0)),
                ("bAck", {**ack(1, -1, t="A", q=0), "aol": [1, 2]}),
            ],
            {},
            None,
        ),
        ([("ck", point(1, 3, topic="A", q=0, bm=0b11))], {}, 3),
        ([("ck", point(99, 3, topic="A", q=0))], {}, None),
        ([], {"A@g": {"0": IN_ORDER}}, 3),
        ([], {"A@g": {"1": IN_ORDER}}, None),
    ],
)
def test_what_was_popped_and_not_acknowledged_is_needed(
    bodies: list[Any], orders: Any, first: int | None
) -> None:
    log = with_points(*bodies)
    files = derived_of(log.log)
    files[f"{STORE}/config/consumerOrderInfo.json"] = json.dumps({"table": orders}).encode()
    found = asked(POPPED_ALL, log=log, files=files)
    assert [each.offset for each in found][:1] == ([] if first is None else [log.places[first]])
    if found:
        assert f"has popped, and not acknowledged, queueOffset {first} of topic 'A'" in found[0].who
    even = ONLY_UNREAD._replace(groups=frozenset("g"))
    assert asked(POPPED_ALL, even, log=log, files=files) == []


def test_check_points_are_read_from_queues_and_from_the_log_where_queues_lack_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = with_points(("ck", point(1, 3, topic="A", q=0)))
    files = {p: raw for p, raw in derived_of(log.log).items() if REVIVE not in p}
    assert [each.offset for each in asked(POPPED_ALL, log=log, files=files)] == log.places[1::4]
    monkeypatch.setattr("reput.store_format.query.by_queue.scan", None)  # reads the log
    assert [each.offset for each in asked(POPPED_ALL, log=log)] == [log.places[1]]


def test_what_the_queues_lack_counts_as_unread() -> None:
    files = {p: raw for p, raw in derived_of(LOG.log).items() if "RETRY" not in p}
    (found,) = asked({"A@g": {"0": 5}}, files=files)
    assert found.offset == LOG.places[5]
    assert found.who.startswith("the queues do not have all of the log")
    assert asked({}, files=files) == []


def test_offsets_that_cannot_be_read_leave_unknown_what_is_unread() -> None:
    storage = storage_of(LOG.log)
    storage.files |= derived_of(LOG.log)
    storage.files[OFFSETS] = b"{"
    with pytest.raises(StoreError, match="what is unread is not known; --even-unread"):
        of(storage, LOG, Even(delayed=True, pending=True))
    assert of(storage, LOG, Even(unread=True)) == []


def test_delayed_and_half_messages_are_needed_from_the_first_open_one_on() -> None:
    later = properties(("REAL_TOPIC", "A"), ("REAL_QID", "0"), ("DELAY", "3"))
    half = properties(("REAL_TOPIC", "A"), ("REAL_QID", "0"), ("UNIQ_KEY", "u"))
    log = damaged(
        [
            Message("A", 0, 0, b"x", store_timestamp=START),
            Message("SCHEDULE_TOPIC_XXXX", 2, 0, b"x", later, START),
            Message("SCHEDULE_TOPIC_XXXX", 2, 1, b"x", later, START),
            Message("RMQ_SYS_TRANS_HALF_TOPIC", 0, 0, b"x", half, START),
        ]
    )
    found = asked({}, Even(), log)
    assert [each.offset for each in found] == [log.places[1], log.places[3]]
    assert [each.who for each in found] == [
        "2 delayed messages not delivered yet", "1 half message not decided yet",
    ]  # fmt: skip
    assert len(asked({}, Even(delayed=True), log)) == len(asked({}, Even(pending=True), log)) == 1
