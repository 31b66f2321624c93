"""What a log holds that releases treat differently: only then the user is asked for a release."""

from typing import Any

import pytest

from reput.store_format.discover.release import looked_at, open_all
from reput.store_format.files.protocol import FileState
from reput.store_format.log.segments import Segment
from reput.store_format.release.profiles import Has
from reput.store_format.release.settings import Settings
from tests.logs.encoder import Message, build_log, properties
from tests.memory_storage import MemoryStorage

SEGMENT = 1 << 12
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
    for start, raw in build_log(log, SEGMENT).items():
        content = bytearray(raw)
        if hurt is not None and start == 0:
            content[hurt] ^= 0xFF
        path = f"store/commitlog/{start:020d}"
        storage.files[path] = bytes(content)
        segments.append(Segment(path, start, FileState(size or SEGMENT, 0, 0)))
    assert len(segments) > 1
    open_all(storage, segments)
    return looked_at(storage, segments, releases, has, Settings())


PLAIN = Has(False, False, odd_positions=False, malformed=False)


def test_a_log_as_most_are_holds_nothing_of_that() -> None:
    assert looked(log_of()) == PLAIN
    commits = [*log_of(), Message(sys_flag=8, queue_offset=30)]
    assert looked(commits) == PLAIN


@pytest.mark.parametrize(
    "text", [b"a\x01b\x01c\x02", b"\x01b\x02", b"a\x01\x02", b"a\x02", b"\x02"]
)
def test_one_record_with_malformed_properties_is_enough(text: bytes) -> None:
    log = log_of()
    log[45] = Message(queue_id=1, queue_offset=22, properties=KEY + text)
    assert looked(log) == PLAIN._replace(malformed=True)


@pytest.mark.parametrize(
    ("queue", "offset", "odd"),
    [
        (0, 30, False),
        (0, 31, True),
        (0, 29, True),
        (0, 0, True),
        (7, 0, False),
        (7, 5, False),  # a queue may begin anywhere,
        (7, -1, True),  # but below 0
    ],
)
def test_a_queue_offset_that_does_not_go_on(queue: int, offset: int, odd: bool) -> None:
    log = [*log_of(), Message(queue_id=queue, queue_offset=offset, properties=KEY)]
    assert looked(log) == PLAIN._replace(odd_positions=odd)


@pytest.mark.parametrize(
    ("text", "without"), [(b"", True), (properties(("UNIQ_KEY", "u")), False), (KEY, False),
                          (properties(("TAGS", "a")), True)],
)  # fmt: skip
def test_without_a_key_an_index_file_may_be_empty(text: bytes, without: bool) -> None:
    assert looked(log_of(properties=text)) == PLAIN._replace(index_without_keys=without)


def test_only_what_matters_between_the_releases_is_looked_for() -> None:
    log = log_of(properties=b"a\x02")
    assert looked(log, ("5.3.3", "5.3.4")) == UNREAD
    assert looked(log, OLD_AND_NEW, PLAIN) == PLAIN


def test_behind_damage_a_record_may_have_any_properties() -> None:
    found = looked(log_of(), hurt=4)
    assert found.malformed
    assert found.index_without_keys


def test_a_log_of_more_than_a_gibibyte_is_not_read() -> None:
    assert looked(log_of(), size=1 << 30) == UNREAD


def test_a_segment_that_cannot_be_opened_is_an_error() -> None:
    segment = Segment("store/commitlog/0", 0, FileState(SEGMENT, 0, 0))
    with pytest.raises(FileNotFoundError):
        open_all(MemoryStorage(), [segment])
