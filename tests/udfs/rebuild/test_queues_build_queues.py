"""Where a queue's files begin: its first queueOffset says so, in Java's wrapping arithmetic."""

import struct

import pytest

from tests.in_process import rebuild_log
from tests.logs import Log, Message, build_log
from tests.logs.damage import record_places

SEGMENT, FILE = 2048, 40  # of two entries
BLANK, NOTHING = -1, -2
WRAPS = 1 << 60  # 20 times as much is 2^62 once it has wrapped, 24 bytes into a file
FIRST = (1 << 62) - 24
SIZES = {"mappedFileSizeCommitLog": SEGMENT, "mappedFileSizeConsumeQueue": FILE, "maxIndexNum": 9,
         "maxHashSlotNum": 7}  # fmt: skip


def files_of(*offsets: int) -> dict[int, list[int]]:
    """A queue of messages with these queueOffsets: which of them each file has, by its start."""
    log = build_log([Message(queue_offset=offset) for offset in offsets], SEGMENT)
    rebuilt = rebuild_log(Log(log, SIZES, "5.3.3", {}))
    places = record_places(log)

    def number(place: int, size: int, _: int) -> int:
        if size in (0, 0x7FFFFFFF):
            return BLANK if size else NOTHING
        return places.index(place)

    return {
        int(name[-20:]): [number(*each) for each in struct.iter_unpack(">qiq", raw)]
        for name, raw in rebuilt.files.items()
        if name.startswith("consumequeue/")
    }


@pytest.mark.parametrize(
    ("offsets", "files"),
    [
        ((0, 1), {0: [0, 1]}),
        ((1, 2), {0: [BLANK, 0], 40: [1, NOTHING]}),
        ((6, 7, 8), {120: [0, 1], 160: [2, NOTHING]}),
        ((0, 1, 1), {0: [0, 1], 40: [NOTHING, NOTHING]}),  # one left out behind a full file
    ],
)
def test_pre_blanks_stand_before_the_first_entry_of_its_file(
    offsets: tuple[int, ...], files: dict[int, list[int]]
) -> None:
    assert files_of(*offsets) == files


@pytest.mark.parametrize(
    ("more", "files"),
    [
        ((), {}),
        ((1,), {FIRST + 40: [1, NOTHING]}),
        ((1, 2, 3), {FIRST + 40: [1, 2], FIRST + 80: [3, NOTHING]}),
        ((0,), {FIRST + 40: [NOTHING, NOTHING]}),
    ],
)
def test_pre_blanks_may_fill_the_first_file_so_that_its_message_is_left_out(
    more: tuple[int, ...], files: dict[int, list[int]]
) -> None:
    """Its own position is behind the queue's next one by then."""
    offsets = (WRAPS, *(WRAPS + each for each in more))
    assert files_of(*offsets) == {FIRST: [BLANK, BLANK]} | files


@pytest.mark.parametrize("offsets", [(0, 1, 2, 1, 3), (0, 1, 1, 2, 3), (0, 1, 2, 3, 4, 1)])
def test_a_message_left_out_of_a_run_in_several_files_is_said_once(
    offsets: tuple[int, ...],
) -> None:
    log = build_log([Message(queue_offset=offset) for offset in offsets], SEGMENT)
    left_out = rebuild_log(Log(log, SIZES, "5.3.3", {})).summary.manifest()["in_no_queue"]
    assert len(left_out) == 1
    assert "its queueOffset 1 is below the next position; the record at 92 is" in left_out[0]
