"""One of the compared stores: what its log has, and what follows its last record."""

import pytest

from reput.jobs.comparing.logs import Side, Tail, open_side
from reput.store_format.discover.store import store_at
from tests.jobs.comparing.pairs import COMMON, MASTER, SEGMENT, places, store
from tests.logs.encoder import encode
from tests.memory_storage import MemoryStorage

COUNT = 5
PLACES = places(COMMON[:COUNT])
END = PLACES[-1] + len(encode(COMMON[COUNT - 1], 0))
LAST = f"{MASTER}/commitlog/{0:020d}"


def opened(files: dict[str, bytes], **settings: str) -> Side:
    return open_side(store_at(MASTER, "5.3.3", settings, MemoryStorage(files)))


@pytest.mark.parametrize(
    ("behind", "tail"),
    [
        (b"", None),
        (b"\0\0\1", Tail(END + 3, -1)),
        (encode(COMMON[COUNT], END + 9).rjust(9 + len(encode(COMMON[COUNT], 0)), b"\0"),
         Tail(END + 9 + len(encode(COMMON[COUNT], 0)), END + 9)),
        (b"\0" * 9 + encode(COMMON[COUNT], END), Tail(END + 9 + len(encode(COMMON[COUNT], 0)), -1)),
    ],
    ids=["zeros", "a byte", "a record in its place", "a record of another place"],
)  # fmt: skip
def test_what_follows_the_last_record_is_told(behind: bytes, tail: Tail | None) -> None:
    files = store(MASTER, COMMON[:COUNT])
    files[LAST] = files[LAST][:END] + behind.ljust(SEGMENT - END, b"\0")
    side = opened(files)
    assert (side.start, side.end, side.tail) == (0, END, tail)


def test_a_log_has_the_bytes_of_its_segments_up_to_its_last_record() -> None:
    first = 7 * SEGMENT
    files = store(MASTER, COMMON, first=first)
    side = opened(files)
    second = first + SEGMENT
    assert side.spans == [(first, second), (second, side.end)]
    wanted = {first - 1: False, first: True, second - 1: True, second: True,
              side.end - 1: True, side.end: False}  # fmt: skip
    assert {place: side.has(place) for place in wanted} == wanted


def test_a_missing_segment_s_bytes_are_not_had() -> None:
    files = store(MASTER, COMMON * 2)
    del files[f"{MASTER}/commitlog/{SEGMENT:020d}"]
    side = opened(files, mappedFileSizeCommitLog=str(SEGMENT))
    assert [side.has(SEGMENT + n) for n in (-1, 0, SEGMENT - 1, SEGMENT)] == [
        True, False, False, True,
    ]  # fmt: skip
    assert any("a hole before it" in note for note in side.notes)


def test_an_empty_log_has_nothing() -> None:
    side = opened(store(MASTER, []), mappedFileSizeCommitLog=str(SEGMENT))
    assert (side.spans, side.has(0), side.end) == ([], False, 0)
