"""Clues of the releases that wrote a store: what only some of them leave."""

import re
from typing import Any

import pytest

from reput.store_format.derived.checkpoint import Checkpoint, encode
from reput.store_format.discover import release
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import FileState
from reput.store_format.log.segments import Segment
from reput.store_format.release.profiles import Clue, Has, Period, UnknownRelease
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
) -> release.Clues:  # fmt: skip
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
    return release.clues_of(store, segments, settings, store)


def since(found: release.Clues) -> set[str]:
    return {clue.since for clue in found.hard if clue.since}


def until(found: release.Clues) -> set[str]:
    return {clue.until for clue in found.hints if clue.until}


def test_a_log_or_index_alone_shows_few_brokers() -> None:
    found = clues()
    assert (found.hard, until(found)) == ([], {"4.9.8"})
    assert (found.periods, found.has_keys, found.text_ends) == ([Period(0, ())], False, None)
    assert "5.4.0" in until(clues(checkpoint=encode(Checkpoint(1, 1, 1))))
    assert "5.4.0" not in until(clues(checkpoint=encode(Checkpoint(1, 1, 1, 0, 0, 9))))
    log = [*PLAIN, Message(topic="L" * 128, version=2, properties=TEXT)]
    assert since(clues(log, range(13), 13)) >= {"5.1.0"}
    assert since(clues(log, range(12), 12)) == {"5.4.0", "4.7.1"}  # it is not in the index
    for text, ends in ((TEXT, True), (TEXT[:-1], False)):
        found = clues([*PLAIN[:5], Message(properties=text)], indexed=6)
        assert (found.text_ends, found.has_keys) == (ends, True)
    found = clues(indexed=12, tags=range(6, 12))
    assert [[clue.since or clue.until for clue in each.clues] for each in found.periods] == [
        ["4.7.1", "5.3.4"], ["4.7.1", "5.4.0"]]  # fmt: skip
    assert since(found) == {"4.7.1", "5.4.0"}
    found = clues(indexed=12, every_key=True, abort=b"4711")
    (raw,) = build_log(PLAIN, SEGMENT).values()
    assert [each.start for each in found.periods] == [0, record_places({0: raw})[11] + 1]
    assert found.periods[-1].clues == ()
    assert [clue.since for clue in found.hard] == ["5.0.0"]
    # Every key counts, as up to 4.7.0, and tags have keys, as from 5.4.0 on.
    found = clues(indexed=12, every_key=True, tags=range(12))
    assert (found.periods, found.hard) == ([Period(0, ())], [])


def test_what_a_broker_of_5_leaves() -> None:
    for there, first in [({"timerwheel": b"a file"}, "5.0.0"), ({"folders": ("kvStore",)}, "5.3.2"),
        ({"folders": ("compaction",)}, "5.1.0"), ({"folders": (f"consumequeue/{'L' * 128}",)},
        "5.1.0"), ({"abort": b"4711"}, "5.0.0"), (
        {"config/topics.json": b'{"topicConfigTable":{"T":{"attributes":{}}}}'}, "5.0.0"),
        ({"checkpoint": encode(Checkpoint(1, 1, 1, master_flushed_offset=1))}, "5.0.0"),
        ({"checkpoint": encode(Checkpoint(1, 1, 1, confirm_phy_offset=1))}, "5.1.1"),
        ({"checkpoint": encode(Checkpoint(1, 1, 1, logics_physical_offset=1))},
        "5.5.0")]:  # fmt: skip
        found = clues(**there)
        assert since(found) == {first}
        assert "4.9.8" not in until(found)
    for there in [{"folders": (f"consumequeue/{'L' * 127}", f"consumequeue/%LMQ%{'L' * 128}")},
        {"lock": b"lock"}, {"abort": b""}, {"config/topics.json": b"no JSON"},
        {"config/topics.json": b'{"topicConfigTable":{"T":{},"U":"attributes"}}'},
        {"checkpoint": encode(Checkpoint(1, 1, 1))}, {"checkpoint": b"\1" * 47}]:  # fmt: skip
        found = clues(**there)
        assert found.hard == []
        assert "4.9.8" in until(found)


# --- What a log holds that releases treat differently: only then the user is asked for a release.
PLAIN_SEGMENT = 1 << 12
UNREAD = Has(False, True, odd_positions=True, malformed=True)
OLD_AND_NEW = ("4.1.0-incubating", "5.5.1")  # they differ in all of that
KEY = properties(("KEYS", "k"))


def log_of(**over: Any) -> list[Message]:
    """60 messages of two queues, in two segments or more."""
    about = {"properties": KEY, "body": b"x" * 50, **over}
    return [Message(queue_id=n % 2, queue_offset=n // 2, **about) for n in range(60)]


def looked(
    log: list[Message], releases: tuple[str, ...] = OLD_AND_NEW, has: Has = UNREAD,
    hurt: int | None = None, size: int | None = None,
) -> Has:  # fmt: skip
    """hurt: a byte of the first segment that is changed; size: of the last, as it is listed."""
    storage = MemoryStorage()
    segments = []
    for start, raw in build_log(log, PLAIN_SEGMENT).items():
        content = bytearray(raw)
        if hurt is not None and start == 0:
            content[hurt] ^= 0xFF
        path = f"store/commitlog/{start:020d}"
        storage.files[path] = bytes(content)
        segments.append(Segment(path, start, FileState(size or PLAIN_SEGMENT, 0, 0)))
    assert len(segments) > 1
    release.open_all(storage, segments)
    return release.looked_at(storage, segments, releases, has, Settings())


PLAIN_PLAIN = Has(False, False, odd_positions=False, malformed=False)


def test_only_what_releases_treat_differently_is_looked_for_in_a_log() -> None:
    assert looked(log_of()) == PLAIN_PLAIN
    commits = [*log_of(), Message(sys_flag=8, queue_offset=30)]
    assert looked(commits) == PLAIN_PLAIN
    for text in [b"a\x01b\x01c\x02", b"\x01b\x02", b"a\x01\x02", b"a\x02", b"\x02"]:
        log = log_of()
        log[45] = Message(queue_id=1, queue_offset=22, properties=KEY + text)
        assert looked(log) == PLAIN_PLAIN._replace(malformed=True)
    for queue, offset, odd in [(0, 30, False), (0, 31, True), (0, 29, True), (0, 0, True),
        (7, 0, False),
        (7, 5, False),  # a queue may begin anywhere,
        (7, -1, True)  # but below 0
        ]:  # fmt: skip
        log = [*log_of(), Message(queue_id=queue, queue_offset=offset, properties=KEY)]
        assert looked(log) == PLAIN_PLAIN._replace(odd_positions=odd)
    for text, without in [(b"", True), (properties(("UNIQ_KEY", "u")), False), (KEY, False),
        (properties(("TAGS", "a")), True)]:  # fmt: skip
        assert looked(log_of(properties=text)) == PLAIN_PLAIN._replace(index_without_keys=without)
    log = log_of(properties=b"a\x02")
    assert looked(log, ("5.3.3", "5.3.4")) == UNREAD
    assert looked(log, OLD_AND_NEW, PLAIN_PLAIN) == PLAIN_PLAIN
    found = looked(log_of(), hurt=4)
    assert found.malformed
    assert found.index_without_keys
    assert looked(log_of(), size=1 << 30) == UNREAD
    segment = Segment("store/commitlog/0", 0, FileState(PLAIN_SEGMENT, 0, 0))
    with pytest.raises(FileNotFoundError):
        release.open_all(MemoryStorage(), [segment])


# --- Which release wrote a store last: one that all clues allow, or else the user is asked.
# Has as a store is read before its log is looked at
WHICH_UNREAD = Has(False, False)
SINCE_500, UNTIL_534 = Clue("a", "5.0.0"), Clue("b", "", "5.3.4")


def asked(clues: list[Clue], hints: list[Clue], has: Has) -> str:
    with pytest.raises(UnknownRelease) as refused:
        release.release_found(clues, hints, has)
    return str(refused.value)


def test_of_releases_that_write_the_same_the_newest_or_the_user_is_asked() -> None:
    found = release.release_found(
        [Clue("a", "5.3.3"), Clue("b", "", "5.3.3"), Clue("a", "")], [], PLAIN_PLAIN
    )
    assert found == release.ReleaseFound("5.3.3", "a; b", (), "5.3.3")
    found = release.release_found([SINCE_500, UNTIL_534], [], PLAIN_PLAIN)
    assert found == release.ReleaseFound(
        "5.3.4", "5.0.0 to 5.3.4 write the same: a; b", (), found.alike
    )
    assert found.alike == "5.0.0 to 5.3.4"
    hint = Clue("h", "", "5.1.0")
    assert release.release_found([SINCE_500, UNTIL_534], [hint], PLAIN_PLAIN).release == "5.1.0"
    both = [hint, Clue("i", "5.4.0")]  # no release obeys both
    assert release.release_found([SINCE_500, UNTIL_534], both, PLAIN_PLAIN).release == "5.3.4"
    text = asked([Clue("a", "5.4.0"), Clue("b", "", "4.9.7")], [], PLAIN_PLAIN)
    assert "fit no single one: a; b" in text
    # The index differs from 4.7.1 and from 5.4.0 on; with new records much more does.
    few = asked([Clue("a", "4.7.1")], [], PLAIN_PLAIN)
    assert "it may be 4.7.1 to 5.3.4 or 5.4.0 to 5." in few
    many = asked([], [], WHICH_UNREAD._replace(new_records=True))
    assert "it may be any from 4.1.0-incubating to 5." in many
    found = release.release_found([SINCE_500], [], PLAIN_PLAIN, assume=True)
    assert found.others == ("5.3.4",)
    assert found.by.startswith("assumed, of 5.0.0 to ")
    assert found.alike.startswith("5.4.0 to ")
    assert re.search(r"^5\.4\.0 to \S+ assumed; 5\.0\.0 to .* would fit as well$", found.alike)
    # Up to 4.9.0 properties are read in another way, which few logs show.
    clues = [Clue("a", "4.7.1"), Clue("b", "", "5.3.4")]
    looks = []

    def look(has: Has) -> Has:
        looks.append(has)
        return has._replace(odd_positions=False, malformed=False)

    found = release.release_found(clues, [], WHICH_UNREAD, look)
    assert (found.release, len(looks)) == ("5.3.4", 1)
    assert "derive the same from this log: a; b" in found.by
    release.release_found(clues, [], PLAIN_PLAIN, look)
    with pytest.raises(UnknownRelease):
        release.release_found(
            [], [], WHICH_UNREAD, look
        )  # the index differs, whatever the log holds
    assert len(looks) == 1
