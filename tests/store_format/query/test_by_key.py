"""Messages by a key: through the index or the log, by times, and as a broker answers."""

from dataclasses import replace
from typing import Any

import pytest

from reput.store_format.derived.index_reader import key_hash
from reput.store_format.message.ids import BadMessageId
from reput.store_format.query import by_key as module
from tests.logs import Message, properties
from tests.store_format.query.derived_stores import Derived

START = 1_700_000_000_000
# Every third message has the key `x`, each its own; number 9 is rolled back, 12 of another topic.
MESSAGES = [
    Message("U" if n == 12 else "T", 0, n, b"b",
            properties(("KEYS", f"k{n:02}" + (" x" if n % 3 == 0 else ""))), START + 1000 * n,
            0xC if n == 9 else 0) for n in range(40)
]  # fmt: skip
OF_X = [n for n in range(0, 40, 3) if n not in (9, 12)]


@pytest.fixture
def store() -> Derived:
    return Derived(MESSAGES)


def found(store: Derived, key: str = "x", from_log: bool = False, **asked: Any) -> list[int]:
    topics = asked.pop("topics", ["T"])
    with store.open() as opened:
        messages = module.by_key(
            opened, topics, key, lambda each: each.topic in topics and each.has_key(key),
            from_log, store.notes, **asked,
        )  # fmt: skip
        return store.numbers(list(messages))


@pytest.mark.parametrize("from_log", [False, True])
def test_all_messages_of_a_key_in_the_logs_order(store: Derived, from_log: bool) -> None:
    assert found(store, from_log=from_log) == OF_X
    assert found(store, "k07", from_log) == [7]
    assert found(store, "k09", from_log) == []  # rolled back
    assert found(store, "none", from_log) == []
    assert found(store, topics=["T", "U"], from_log=from_log) == sorted([*OF_X, 12])
    assert store.notes.lines == []


@pytest.mark.parametrize(("begin", "end", "first", "last"), [
    (6000, None, 6, 39), (6001, None, 15, 39), (None, 6000, 0, 6), (None, 5999, 0, 3),
    (6000, 6000, 6, 6), (6001, 14_999, 99, 99),
])  # fmt: skip
def test_times_are_exact_and_both_included(store, begin, end, first, last) -> None:
    times = tuple(None if each is None else START + each for each in (begin, end))
    wanted = [n for n in OF_X if first <= n <= last]
    assert found(store, times=times) == wanted
    assert found(store, from_log=True, times=times) == wanted


def test_where_the_index_ends_the_log_goes_on_and_what_has_expired_is_noted_once(store) -> None:
    for path in store.paths("index")[-3:]:
        del store.storage.files[path]
    assert found(store) == OF_X
    assert len(store.notes.lines) == 1
    store.remove("index")
    assert found(store) == OF_X
    store.remove("commitlog/00000000000000000000")
    assert found(store) == [n for n in OF_X if store.places[n] >= 2048]
    assert store.notes.lines == ["some messages that the index still has have expired from the log"]


def test_a_place_without_a_message_or_with_another_is_noted(store: Derived) -> None:
    places = [store.places[3], store.places[4] + 1, 1 << 40]
    with store.open() as opened:
        assert store.numbers(list(module.read(opened, places, store.notes))) == [3]
    assert [each.split(":")[0] for each in store.notes.lines] == [
        "the index has a message there, and the log has none",
        f"the index has a message at {1 << 40}, where the log has none",
    ]
    with store.open() as opened:
        message = opened.message(opened.log.record_at(store.places[3]))
        for hashes, lines in (({key_hash("T", "x")}, 0), ({key_hash("T", "y")}, 1)):
            module.note_if_wrong(message, hashes, store.notes)
            assert len(store.notes.lines) == lines


@pytest.mark.parametrize(("most", "count", "cut"), [(64, 12, False), (13, 12, False), (5, 5, True)])
def test_a_broker_gives_the_newest_with_the_hash(store, most, count, cut) -> None:
    with store.open() as opened:
        messages = list(module.as_broker(opened, "T", "x", None, None, most, store.notes))
    assert store.numbers(messages) == OF_X[-count:]
    assert (store.notes.cut, len(store.notes.lines)) == (cut, int(cut))


@pytest.mark.parametrize(("most", "kept", "cut"), [(2, [3, 4], True), (5, [0, 1, 2, 3, 4], False)])
def test_of_many_the_newest_are_kept_and_it_is_said(store, most, kept, cut) -> None:
    with store.open() as opened:
        some = (opened.message(opened.log.record_at(place)) for place in store.places[:5])
        assert store.numbers(list(module.newest(some, most, store.notes))) == kept
    assert store.notes.lines == (["cut: the newest 2 of 5"] if cut else [])


# --- Messages by an id: the broker's by its place and host, else the client's by its key.
HOST = bytes((10, 0, 0, 2, 0, 0, 0x2A, 0x9F))
V6 = bytes(15) + b"\1" + HOST[4:]
NOVEMBER_2023 = 1_698_796_800_000  # 2023-11-01T00:00:00Z
KEYS = [f"0A000002000100000002{n:08X}0000" for n in range(5)]
MESSAGES_BY = [
    Message("T", 0, 0, b"", properties(("UNIQ_KEY", KEYS[0])), NOVEMBER_2023 + 9, store_host=HOST),
    Message("U", 0, 0, b"", properties(("UNIQ_KEY", KEYS[1])), NOVEMBER_2023 + 9, store_host=HOST),
    Message("T", 0, 1, b"", properties(("UNIQ_KEY", KEYS[0])), NOVEMBER_2023 + 9, store_host=HOST),
    Message("T", 0, 2, b"", properties(("KEYS", KEYS[3])), store_host=V6, sys_flag=0x20),
    Message("T", 0, 3, b"", properties(("UNIQ_KEY", KEYS[4].lower())), store_host=HOST),
]


@pytest.fixture
def by_id() -> Derived:
    return Derived(MESSAGES_BY)


def found_by(
    store: Derived, text: str, topic: str | None = None, from_log: bool = False
) -> list[int]:
    with store.open() as opened:
        names = ["T", "U"] if topic is None else [topic]
        messages = module.by_message_id(opened, text, topic, names, from_log, store.notes)
        return store.numbers(list(messages))


def broker_id(store: Derived, number: int, host: bytes = HOST) -> str:
    return f"{host.hex()}{store.places[number]:016x}"


@pytest.mark.parametrize("number", [0, 1, 4])
def test_a_brokers_id_is_a_place_of_its_host(by_id: Derived, number: int) -> None:
    text = broker_id(by_id, number)
    assert found_by(by_id, text) == found_by(by_id, text.upper()) == [number]
    assert by_id.notes.lines == [
        f"the id is a broker's: broker 10.0.0.2:10911, physical offset {by_id.places[number]}"
    ]


def test_a_host_has_to_be_the_record_s_a_topic_if_it_is_asked_and_who_a_message_is(by_id) -> None:
    assert found_by(by_id, broker_id(by_id, 3, V6)) == [3]
    for text in (broker_id(by_id, 3), broker_id(by_id, 0, V6),
                 broker_id(by_id, 0, HOST[:7] + b"\0")):  # fmt: skip
        assert found_by(by_id, text) == []
    assert f"{HOST.hex()}{by_id.places[1] + 1:016x}" != broker_id(by_id, 1)
    assert found_by(by_id, f"{HOST.hex()}{by_id.places[1] + 1:016x}") == []
    text = broker_id(by_id, 1)
    assert (found_by(by_id, text, "U"), found_by(by_id, text, "T")) == ([1], [])
    assert (found_by(by_id, KEYS[1], "U"), found_by(by_id, KEYS[1], "T")) == ([1], [])
    text = broker_id(by_id, 0)
    with by_id.open() as opened:
        assert module.who_is(opened, text) == (KEYS[0], text.upper())
        assert module.who_is(opened, broker_id(by_id, 3, V6))[0] == ""
        for other in (KEYS[1], "any text", broker_id(by_id, 3)):
            assert module.who_is(opened, other) == (other, "")


@pytest.mark.parametrize("from_log", [False, True])
def test_a_clients_id_is_the_unique_key_of_some_messages(by_id: Derived, from_log: bool) -> None:
    assert found_by(by_id, KEYS[0], from_log=from_log) == [0, 2]
    assert found_by(by_id, KEYS[0].lower(), from_log=from_log) == [0, 2]
    assert found_by(by_id, KEYS[4].lower(), from_log=from_log) == [4]
    assert found_by(by_id, KEYS[3], from_log=from_log) == []  # KEYS is no UNIQ_KEY


def test_of_a_clients_id_the_time_is_told_and_an_id_of_nothing_and_no_id_refused(by_id) -> None:
    found_by(by_id, KEYS[1])
    assert by_id.notes.lines == [
        "the id is a client's: client 10.0.0.2, process 1, class loader 00000002, 1 ms after its "
        f"month began, counter 0, which is {NOVEMBER_2023 + 1} in UTC"
    ]
    assert found_by(by_id, KEYS[2]) == []
    assert by_id.notes.lines[-1].startswith(
        "the id is found neither as a broker's (broker 10.0.0.2:"
    )
    for text in ("", "x", KEYS[0][1:]):
        with pytest.raises(BadMessageId):
            found_by(by_id, text)


@pytest.mark.parametrize("stored", [-(1 << 62), 253_402_300_800_000, 1 << 62])
def test_a_message_with_a_damaged_store_time_is_found(stored: int) -> None:
    """No CRC covers storeTimestamp."""
    broken = Derived([replace(MESSAGES_BY[1], store_timestamp=stored)])
    assert found_by(broken, KEYS[1]) == [0]
    assert "the id is a client's" in broken.notes.lines[0]
