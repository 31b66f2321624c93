"""Clues of the releases that wrote a store: what only some of them leave."""

from typing import Any

import pytest

from reput.store_format.derived.checkpoint import Checkpoint, encode
from reput.store_format.discover.release import Clues, clues_of
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import FileState
from reput.store_format.log.segments import Segment
from reput.store_format.release.profiles import Period
from reput.store_format.release.settings import Settings
from tests.logs.damage import record_places
from tests.logs.encoder import Message, build_log, properties
from tests.memory_storage import MemoryStorage
from tests.store_format.discover.index_files import IndexFile

SEGMENT = 1 << 14
TEXT = properties(("KEYS", "k"), ("TAGS", "a"))
PLAIN = [Message(properties=TEXT) for _ in range(12)]


def clues(
    log: list[Message] | None = None, tags: range = range(0), indexed: int = 0,
    every_key: bool = False, folders: tuple[str, ...] = (), **files: bytes,
) -> Clues:  # fmt: skip
    """Of a store with these files. The first `indexed` messages are in the index, those of numbers
    `tags` with their tags.
    """
    (raw,) = build_log(PLAIN if log is None else log, SEGMENT).values()
    storage = MemoryStorage({f"store/{path}": content for path, content in files.items()})
    storage.files["store/commitlog/0"] = raw
    storage.folders |= {f"store/{folder}" for folder in folders}
    index = IndexFile(7, 50, every_key)
    for number, place in enumerate(record_places({0: raw})[:indexed]):
        index.put_all(["T#k", *(["T#T#a"] if number in tags else [])], place)
    if indexed:
        storage.files["store/index/20230101000000000"] = index.raw()
    segments = [Segment("store/commitlog/0", 0, FileState(SEGMENT, 0, 0))]
    settings = Settings(max_hash_slot_num=7, max_index_num=50)
    store = Folder(storage, "store")
    return clues_of(store, segments, settings, store)


def since(found: Clues) -> set[str]:
    return {clue.since for clue in found.hard if clue.since}


def until(found: Clues) -> set[str]:
    return {clue.until for clue in found.hints if clue.until}


def test_a_log_alone_only_hints() -> None:
    found = clues()
    assert (found.hard, until(found)) == ([], {"4.9.8"})
    assert (found.periods, found.has_keys, found.text_ends) == ([Period(0, ())], False, None)


@pytest.mark.parametrize(
    ("there", "first"),
    [
        ({"timerwheel": b"a file"}, "5.0.0"),
        ({"folders": ("kvStore",)}, "5.3.2"),
        ({"folders": ("compaction",)}, "5.1.0"),
        ({"folders": (f"consumequeue/{'L' * 128}",)}, "5.1.0"),
        ({"abort": b"4711"}, "5.0.0"),
        ({"config/topics.json": b'{"topicConfigTable":{"T":{"attributes":{}}}}'}, "5.0.0"),
        ({"checkpoint": encode(Checkpoint(1, 1, 1, master_flushed_offset=1))}, "5.0.0"),
        ({"checkpoint": encode(Checkpoint(1, 1, 1, confirm_phy_offset=1))}, "5.1.1"),
        ({"checkpoint": encode(Checkpoint(1, 1, 1, logics_physical_offset=1))}, "5.5.0"),
    ],
)
def test_what_a_broker_of_5_leaves(there: dict[str, Any], first: str) -> None:
    found = clues(**there)
    assert since(found) == {first}
    assert "4.9.8" not in until(found)


@pytest.mark.parametrize(
    "there",
    [
        {"folders": (f"consumequeue/{'L' * 127}", f"consumequeue/%LMQ%{'L' * 128}")},
        {"lock": b"lock"}, {"abort": b""}, {"config/topics.json": b"no JSON"},
        {"config/topics.json": b'{"topicConfigTable":{"T":{},"U":"attributes"}}'},
        {"checkpoint": encode(Checkpoint(1, 1, 1))}, {"checkpoint": b"\1" * 47},
    ],
)  # fmt: skip
def test_what_any_broker_leaves(there: dict[str, Any]) -> None:
    found = clues(**there)
    assert found.hard == []
    assert "4.9.8" in until(found)


def test_a_checkpoint_without_logics_physical_offset_hints_at_an_older_broker() -> None:
    assert "5.4.0" in until(clues(checkpoint=encode(Checkpoint(1, 1, 1))))
    assert "5.4.0" not in until(clues(checkpoint=encode(Checkpoint(1, 1, 1, 0, 0, 9))))


def test_a_long_topic_in_the_index_is_new() -> None:
    log = [*PLAIN, Message(topic="L" * 128, version=2, properties=TEXT)]
    assert since(clues(log, range(13), 13)) >= {"5.1.0"}
    assert since(clues(log, range(12), 12)) == {"5.4.0", "4.7.1"}  # it is not in the index


def test_how_the_last_indexed_text_ends() -> None:
    for text, ends in ((TEXT, True), (TEXT[:-1], False)):
        found = clues([*PLAIN[:5], Message(properties=text)], indexed=6)
        assert (found.text_ends, found.has_keys) == (ends, True)


def test_the_index_shows_each_broker() -> None:
    found = clues(indexed=12, tags=range(6, 12))
    assert [[clue.since or clue.until for clue in each.clues] for each in found.periods] == [
        ["4.7.1", "5.3.4"], ["4.7.1", "5.4.0"],
    ]  # fmt: skip
    assert since(found) == {"4.7.1", "5.4.0"}


def test_a_newer_broker_that_has_put_no_key_yet_has_a_period_of_its_own() -> None:
    found = clues(indexed=12, every_key=True, abort=b"4711")
    (raw,) = build_log(PLAIN, SEGMENT).values()
    assert [each.start for each in found.periods] == [0, record_places({0: raw})[11] + 1]
    assert found.periods[-1].clues == ()
    assert [clue.since for clue in found.hard] == ["5.0.0"]


def test_an_index_that_no_broker_makes_shows_nothing() -> None:
    """Every key counts, as up to 4.7.0, and tags have keys, as from 5.4.0 on."""
    found = clues(indexed=12, every_key=True, tags=range(12))
    assert (found.periods, found.hard) == ([Period(0, ())], [])
