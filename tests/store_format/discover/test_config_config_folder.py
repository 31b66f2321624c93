"""A broker's JSON in config/: the .bak where the file cannot be read, and what counts of it."""

import json
from typing import Any

import pytest

from reput.store_format.discover.config import (
    batch_topics,
    config_table,
    configured_topics,
    consumer_offsets,
    queues_of,
    topic_attributes,
)
from reput.store_format.files.folder import Folder
from reput.store_format.notes import Notes
from tests.memory_storage import MemoryStorage


def store(**files: Any) -> MemoryStorage:
    """Files of config/: bytes, or what is written as JSON."""
    return MemoryStorage(
        {
            f"store/config/{name.replace('_', '.')}": raw
            if isinstance(raw, bytes)
            else json.dumps(raw).encode()
            for name, raw in files.items()
        }
    )


def topics(**about: Any) -> MemoryStorage:
    return store(topics_json={"topicConfigTable": about})


A: dict[str, Any] = {"topicConfigTable": {"A": {}}}
B: dict[str, Any] = {"topicConfigTable": {"B": {}}}


@pytest.mark.parametrize(
    ("files", "found", "notes"),
    [
        ({"topics_json": A, "topics_json_bak": B}, "A", 0),
        ({"topics_json_bak": B}, "B", 0),
        ({"topics_json": b"", "topics_json_bak": B}, "B", 1),  # as a broker does
        ({"topics_json": b'{"topicConfigTable":{"A"', "topics_json_bak": B}, "B", 1),
        ({"topics_json": b"\xff\xfe", "topics_json_bak": B}, "B", 1),
        ({"topics_json": b"[" * 100_000, "topics_json_bak": B}, "B", 1),
        ({"topics_json": {"other": {}}, "topics_json_bak": B}, "B", 1),
        ({"topics_json": {"topicConfigTable": ["A"]}, "topics_json_bak": B}, "B", 1),
        ({"topics_json": [1], "topics_json_bak": b"null"}, None, 2),
        ({}, None, 0),
    ],
)
def test_the_bak_is_read_where_the_file_is_missing_or_cannot_be_read(
    files: dict[str, Any], found: str | None, notes: int
) -> None:
    noted = Notes()
    table = configured_topics(Folder(store(**files), "store"), noted)
    assert (None if table is None else list(table)) == (None if found is None else [found])
    assert len(noted.lines) == notes


def test_keys_may_be_numbers_without_quotes() -> None:
    raw = b'{"offsetTable":{"T@g":{0:5,1:7},"U@{1:2}":{ -1 : 3}}}'
    table = config_table(Folder(store(x_json=raw), "store"), "x.json", Notes(), "offsetTable")
    assert table == {"T@g": {"0": 5, "1": 7}, "U@{1:2}": {"-1": 3}}


def test_a_topics_attributes() -> None:
    there = topics(
        A={"attributes": {"queue.type": "BatchCQ"}}, B={"attributes": {"queue.type": "SimpleCQ"}},
        C={}, D="text", E={"attributes": None}, F={"attributes": {"other": "BatchCQ"}},
    )  # fmt: skip
    found = topic_attributes(Folder(there, "store"), Notes())
    assert [name for name, attributes in found.items() if attributes] == ["A", "B", "F"]
    assert set(found) == set("ABCDEF")
    assert batch_topics(Folder(there, "store"), Notes()) == ["A"]


@pytest.mark.parametrize(
    ("about", "count"),
    [({"writeQueueNums": 8}, 8), ({"readQueueNums": 8}, 0), ({"writeQueueNums": "8"}, 0),
     ({"writeQueueNums": None}, 0), ([], 0)],
)  # fmt: skip
def test_how_many_queues_a_topic_has(about: Any, count: int) -> None:
    assert queues_of(Folder(topics(T=about), "store"), "T", Notes()) == count
    assert queues_of(Folder(topics(T=about), "store"), "U", Notes()) == 0


def test_offsets_are_by_group_and_topic() -> None:
    table = {
        "T@g": {"0": 5, "3": 7, "-1": 9, "x": 9, "1": "9", "2": None}, "U@g": {}, "alone": {"0": 1},
        "%RETRY%g@g": {"0": 2}, "V@g": [1],
    }  # fmt: skip
    notes = Notes()
    found = consumer_offsets(
        Folder(store(consumerOffset_json={"offsetTable": table}), "store"), notes
    )
    assert found == {("g", "T"): {0: 5, 3: 7}, ("g", "U"): {}, ("g", "%RETRY%g"): {0: 2}}
    assert len(notes.lines) == 1
    assert consumer_offsets(Folder(MemoryStorage(), "store"), notes) == {}
