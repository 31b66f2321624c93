"""Messages by an id: the broker's by its place and host, else the client's by its key."""

from dataclasses import replace

import pytest

from reput.store_format.message.ids import BadMessageId
from reput.store_format.query.by_key import by_message_id, who_is
from tests.logs import Message, properties
from tests.store_format.query.derived_stores import Derived

HOST = bytes((10, 0, 0, 2, 0, 0, 0x2A, 0x9F))
V6 = bytes(15) + b"\1" + HOST[4:]
NOVEMBER_2023 = 1_698_796_800_000  # 2023-11-01T00:00:00Z
KEYS = [f"0A000002000100000002{n:08X}0000" for n in range(5)]
MESSAGES = [
    Message("T", 0, 0, b"", properties(("UNIQ_KEY", KEYS[0])), NOVEMBER_2023 + 9, store_host=HOST),
    Message("U", 0, 0, b"", properties(("UNIQ_KEY", KEYS[1])), NOVEMBER_2023 + 9, store_host=HOST),
    Message("T", 0, 1, b"", properties(("UNIQ_KEY", KEYS[0])), NOVEMBER_2023 + 9, store_host=HOST),
    Message("T", 0, 2, b"", properties(("KEYS", KEYS[3])), store_host=V6, sys_flag=0x20),
    Message("T", 0, 3, b"", properties(("UNIQ_KEY", KEYS[4].lower())), store_host=HOST),
]


@pytest.fixture
def store() -> Derived:
    return Derived(MESSAGES)


def found(store: Derived, text: str, topic: str | None = None, from_log: bool = False) -> list[int]:
    with store.open() as opened:
        names = ["T", "U"] if topic is None else [topic]
        messages = by_message_id(opened, text, topic, names, from_log, store.notes)
        return store.numbers(list(messages))


def broker_id(store: Derived, number: int, host: bytes = HOST) -> str:
    return f"{host.hex()}{store.places[number]:016x}"


@pytest.mark.parametrize("number", [0, 1, 4])
def test_a_brokers_id_is_a_place_of_its_host(store: Derived, number: int) -> None:
    text = broker_id(store, number)
    assert found(store, text) == found(store, text.upper()) == [number]
    assert store.notes.lines == [
        f"the id is a broker's: broker 10.0.0.2:10911, physical offset {store.places[number]}"
    ]


def test_a_host_has_to_be_the_records(store: Derived) -> None:
    assert found(store, broker_id(store, 3, V6)) == [3]
    for text in (
        broker_id(store, 3),
        broker_id(store, 0, V6),
        broker_id(store, 0, HOST[:7] + b"\0"),
    ):
        assert found(store, text) == []
    assert f"{HOST.hex()}{store.places[1] + 1:016x}" != broker_id(store, 1)
    assert found(store, f"{HOST.hex()}{store.places[1] + 1:016x}") == []


def test_a_topic_may_be_asked_for_besides(store: Derived) -> None:
    text = broker_id(store, 1)
    assert (found(store, text, "U"), found(store, text, "T")) == ([1], [])
    assert (found(store, KEYS[1], "U"), found(store, KEYS[1], "T")) == ([1], [])


@pytest.mark.parametrize("from_log", [False, True])
def test_a_clients_id_is_the_unique_key_of_some_messages(store: Derived, from_log: bool) -> None:
    assert found(store, KEYS[0], from_log=from_log) == [0, 2]
    assert found(store, KEYS[0].lower(), from_log=from_log) == [0, 2]
    assert found(store, KEYS[4].lower(), from_log=from_log) == [4]
    assert found(store, KEYS[3], from_log=from_log) == []  # KEYS is no UNIQ_KEY


def test_of_a_clients_id_the_time_is_told(store: Derived) -> None:
    found(store, KEYS[1])
    assert store.notes.lines == [
        "the id is a client's: client 10.0.0.2, process 1, class loader 00000002, 1 ms after its "
        f"month began, counter 0, which is {NOVEMBER_2023 + 1} in UTC"
    ]


@pytest.mark.parametrize("stored", [-(1 << 62), 253_402_300_800_000, 1 << 62])
def test_a_message_with_a_damaged_store_time_is_found(stored: int) -> None:
    """No CRC covers storeTimestamp."""
    broken = Derived([replace(MESSAGES[1], store_timestamp=stored)])
    assert found(broken, KEYS[1]) == [0]
    assert "the id is a client's" in broken.notes.lines[0]


def test_an_id_of_nothing_is_told_and_a_text_that_is_no_id_refused(store: Derived) -> None:
    assert found(store, KEYS[2]) == []
    assert store.notes.lines[-1].startswith(
        "the id is found neither as a broker's (broker 10.0.0.2:"
    )
    for text in ("", "x", KEYS[0][1:]):
        with pytest.raises(BadMessageId):
            found(store, text)


def test_who_a_message_is_by_either_id(store: Derived) -> None:
    text = broker_id(store, 0)
    with store.open() as opened:
        assert who_is(opened, text) == (KEYS[0], text.upper())
        assert who_is(opened, broker_id(store, 3, V6))[0] == ""
        for other in (KEYS[1], "any text", broker_id(store, 3)):
            assert who_is(opened, other) == (other, "")
