"""Where index files begin early, what becomes of their pieces, and a queue's runs in staging."""

from dataclasses import replace

import numpy as np
import pytest

from reput.store_format.damage.queue_ends import GAP_COUNT, all_offsets, place_of
from reput.store_format.derived.index_header import NO_HEADER, IndexHeader
from reput.store_format.layouts import INDEX_MESSAGE
from reput.udfs.rebuild import index as index_tasks
from reput.udfs.rebuild.index import IndexFiles
from reput.udfs.rebuild.runs import LAST_LIFE, Lives
from reput.udfs.staging import HASHES, MESSAGES, Staging
from tests.memory_storage import MemoryStorage
from tests.store_format.damage.staged import staged

SLOTS, ROOM = 4, 5  # so a file has four entries
Message = tuple[int, int, list[int]]  # place, time, hashes of its keys
FIVE = [(100, 10_000, [1, 2]), (200, 11_000, [3, 5, 5]), (300, 11_500, [7])]


def index(*runs: list[Message], room: int = ROOM) -> IndexFiles:
    storage, ends = MemoryStorage(), [0]
    for number, messages in enumerate(runs):
        hashes = [h if n else ~h for *_, keys in messages for n, h in enumerate(keys)]
        storage.files[f"s/{number}{HASHES}"] = np.array(hashes, np.int32).tobytes()
        places = np.array([each[:2] for each in messages], INDEX_MESSAGE)
        storage.files[f"s/{number}{MESSAGES}"] = places.tobytes()
        ends.append(ends[-1] + len(hashes))
    names = tuple(map(str, range(len(runs))))
    return IndexFiles(Staging(storage, "s"), names, tuple(ends[1:]), SLOTS, room, 1, 0, 1)


def head(begin: int, end: int, entries: int) -> IndexHeader:
    return IndexHeader(0, 0, begin, end, 0, entries + 1)


@pytest.mark.parametrize(("heads", "begins"), [
    ([head(100, 200, 4), head(200, 300, 2)], {}),  # full
    ([head(100, 100, 2), head(200, 300, 4)], {1: 2}),
    ([head(100, 100, 2), head(200, 200, 3), head(300, 300, 1)], {1: 2, 2: 5}),
    ([head(100, 100, 2), NO_HEADER], {}),  # no file follows
    ([head(100, 200, 3), head(200, 300, 3)], {}),  # a message's keys are never apart so
    ([head(100, 100, 1), head(200, 300, 4)], {}),  # a put is in neither file
    ([head(100, 100, 3), head(200, 300, 4)], {}),  # the count says another put than the end
    ([head(100, 200, 2), head(300, 300, 1)], {}),
    ([head(100, 100, 2), head(300, 300, 1)], {}),  # a whole message is in neither
    ([head(100, 300, 6), head(400, 400, 1)], {}),  # the log does not go on
])  # fmt: skip
def test_a_file_begins_early_where_both_headers_and_the_log_say_so(heads, begins) -> None:
    files = index(FIVE[:1], FIVE[1:], room=9 if heads[0].entries == 6 else ROOM)
    assert files.begins_early(heads) == begins


def test_early_files_are_cut_there_and_the_rest_by_their_room() -> None:
    files = replace(index(FIVE, FIVE, room=4), begins={1: 2, 3: 7})
    assert [files.bounds(n) for n in range(6)] == [
        (0, 2), (2, 5), (5, 7), (7, 10), (10, 12), (13, 13),
    ]  # fmt: skip


def test_a_piece_stays_as_it_is_while_the_next_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_tasks, "_PUTS_A_READ", 1)
    files = index(FIVE)
    pieces = index_tasks._entries(files, [index_tasks.chain_range(files, 0, 0)], 0, 4, 0, 0)
    before = next(pieces)
    kept = before.tobytes()
    for piece in pieces:
        assert before.tobytes() == kept != piece.tobytes()
        before, kept = piece, piece.tobytes()


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_piece_that_cannot_be_written_fails_the_task(failing: int) -> None:
    class Full:
        def write(self, piece: int) -> None:
            if piece == failing:
                raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        index_tasks._write_behind(Full(), range(3))  # type: ignore[arg-type]


# --- A queue's runs in staging: read, and numbered as docs/formats/consumequeue.md says.
MOST = (1 << 63) - 1


def places(offsets: list[int]) -> list[tuple[int, int]]:
    """Records of 100 bytes with these queueOffsets, one behind the other."""
    return [(offset, 1000 + 100 * number) for number, offset in enumerate(offsets)]


def test_what_is_skipped_is_noted_with_the_records_around_it_and_a_shift() -> None:
    files, (row,) = staged(places([7, 8, 8, 11, 12, 0]))
    found = files.number(row, 7, np.array([], GAP_COUNT))
    assert found.odd == (8, -1, 1200, 11, 9, 1300, 0, 11, 1500)
    assert found.shift == -11
    later, (row,) = staged(places([12, 13]))
    assert later.number(row, 10, np.array([], GAP_COUNT), shift=2).odd == ()
    assert later.number(row, 10, np.array([], GAP_COUNT), shift=1).odd == (12, 10, 1000)


@pytest.mark.parametrize(("offsets", "decided", "found"), [
    ([3, 4, 5], (0, 0), []),  # each is the one before plus 1
    ([3, 4, 5], (2, 9), [9, 10, 5]), ([3, 7], (0, 0), [3, 7]), ([3, 7], (1, 6), [6, 7]),
    ([MOST, MOST], (0, 0), [MOST, MOST]), ([-1, 0], (1, 5), [5, 0]),
])  # fmt: skip
def test_decided_offsets_stand_before_the_log_s_own(offsets, decided, found) -> None:
    files, (row,) = staged(places(offsets))
    told = {**row, "decided": decided[0], "decided_from": decided[1]}
    assert files.offsets(told).tolist() == found


def test_offsets_wrap_as_in_java() -> None:
    files, (row,) = staged(places([0, 1, 2]))
    wrapping = {**row, "first": MOST, "decided": 1, "decided_from": 4}
    assert files.offsets(wrapping).tolist() == [4, -MOST - 1, -MOST]


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("cut", [(1, 4), (3, 6), (2, 5)])
def test_runs_begin_where_the_last_life_of_a_topic_does(batch: int, cut: tuple[int, int]) -> None:
    whole = places([0, 1, 2, 0, 1, 2])
    runs = [whole[: cut[0]], whole[cut[0] : cut[1]], whole[cut[1] :]]
    files, rows = staged(*(run for run in runs if run), batch=batch)
    kept, ended = files.living(rows)
    assert (kept, ended) == (rows, 0)
    files = replace(files, lives=Lives(remade=LAST_LIFE))
    kept, ended = files.living(rows)
    assert (sum(row["count"] for row in kept), ended, kept[0]["first"]) == (3, 3, 0)
    assert [place_of(files, row, n) for row in kept for n in range(row["count"])] == [
        1300, 1400, 1500
    ]  # fmt: skip
    if not batch:
        assert [n for row in kept for n in all_offsets(files, row).tolist()] == [0, 1, 2]
