"""An index file of a broker that was killed within its last put."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reput.jobs.check import check
from reput.jobs.judging.report import CheckReport
from reput.store_format.derived.extent import index_entries
from reput.store_format.derived.index_header import encode_header, read_header
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import FileState
from reput.store_format.log.prints import PRINT
from reput.store_format.log.segments import Segment
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.udfs.compare import logs as module
from reput.udfs.compare.files import _not_zero, field_at, first_difference
from reput.udfs.staging import Staging, read_range
from reput.udfs.table.log_parts import LogParts
from tests import golden_stores
from tests.in_process import Session
from tests.memory_storage import MemoryStorage
from tests.udfs.tables import rows_of

NAME = "mixed_5.3.3"


class Killed:
    """A store whose broker was killed, and the header of its newest index file."""

    def __init__(self, folder: Path) -> None:
        self.golden = golden_stores.unpack(NAME)
        self.store = golden_stores.as_left(NAME, folder / "store")
        (self.store / "abort").touch()
        self.index = max((self.store / "index").iterdir())
        file = LocalStorage().open(str(self.index))
        self.head = read_header(file)
        slots = int(str(self.golden.settings["maxHashSlotNum"]))
        before, last = index_entries(file, slots, self.head.entries - 1, 2)
        file.close()
        assert before["physicalOffset"] < last["physicalOffset"]
        self.opens_a_slot = int(last["previous"]) == 0
        self.offset = int(before["physicalOffset"])
        self.time = self.head.begin_timestamp + int(before["timeDiff"]) * 1000

    def check(self, **changed: int) -> CheckReport:
        with self.index.open("r+b") as file:
            file.write(encode_header(self.head._replace(**changed)))
        settings: dict[str, Any] = {n: str(v) for n, v in self.golden.settings.items()}
        version = self.golden.version
        return check(Session(), str(self.store), rocketmq=version, settings=settings)  # type: ignore[arg-type]


def test_a_header_of_the_entry_before_the_last_is_behind_and_another_is_a_difference(
    tmp_path,
) -> None:
    """IndexFile.putKey writes the entry, its slot and hashSlotCount, counts the entry, then sets
    endPhyOffset, and endTimestamp last.
    """
    killed = Killed(tmp_path)
    for offset in (killed.head.end_offset, killed.offset):
        report = killed.check(end_timestamp=killed.time, end_offset=offset)
        assert report.undamaged, report.differences
        assert [each.path for each in report.behind] == [str(killed.index)]
    changed = {"end_offset": killed.offset, "end_timestamp": killed.time}
    changed["next_entry"] = killed.head.next_entry - 1
    for slots_used in range(killed.head.slots_used - 2, killed.head.slots_used + 2):
        report = killed.check(**changed, slots_used=slots_used)
        may_be = (killed.head.slots_used, killed.head.slots_used - killed.opens_a_slot)
        assert report.undamaged == (slots_used in may_be), report.differences
        assert len(report.behind) + len(report.differences) == 1
    for name in ("end_timestamp", "end_offset", "begin_offset", "slots_used"):
        wrong = {"end_timestamp": killed.time, name: getattr(killed.head, name) + 70_000}
        assert len(killed.check(**wrong).differences) == 1, name
    (killed.store / "abort").unlink()  # after a clean stop
    assert len(killed.check(end_timestamp=killed.time - 1).differences) == 1


# --- The place where two derived files differ, by its entry and field as docs/formats names them.
@pytest.mark.parametrize(("folder", "at", "what", "start", "size"), [
    ("consumequeue/T/0", 0, "entry 0 physicalOffset", 0, 8),
    ("consumequeue/T/0", 7, "entry 0 physicalOffset", 0, 8),
    ("consumequeue/T/0", 8, "entry 0 size", 8, 4),
    ("consumequeue/T/0", 39, "entry 1 tagsCode", 32, 8),
    ("batchconsumequeue/T/0", 20, "entry 0 storeTimestamp", 20, 8),
    ("batchconsumequeue/T/0", 46 * 3 + 36, "entry 3 batchSize", 46 * 3 + 36, 2),
    ("index", 0, "header beginTimestamp", 0, 8), ("index", 39, "header indexCount", 36, 4),
    ("index", 40, "slot 0", 40, 4), ("index", 40 + 4 * 7 - 1, "slot 6", 64, 4),
    ("index", 68, "entry 0 keyHash", 68, 4),
    ("index", 68 + 20 + 4, "entry 1 physicalOffset", 92, 8),
    ("index", 68 + 39, "entry 1 previous", 104, 4),
])  # fmt: skip
def test_each_byte_is_in_a_field(folder: str, at: int, what: str, start: int, size: int) -> None:
    """Of index files with seven slots: entries begin at 40 + 4 * 7."""
    field = field_at(folder, at, 7)
    assert (field.what, field.at, field.layout.itemsize) == (what, start, size)


def test_a_fields_value_is_a_signed_big_endian_number() -> None:
    assert field_at("consumequeue/T/0", 10, 7).value(b"\x7f\xff\xff\xff") == 0x7FFFFFFF
    assert field_at("index", 41, 7).value(b"\xff\xff\xff\xfe") == -2


@pytest.mark.parametrize(("there", "wanted", "at"), [
    (b"", b"", -1), (b"abc", b"abc", -1), (b"abc", b"xbc", 0), (b"abc", b"abx", 2),
    (b"aaa", b"abb", 1),
])  # fmt: skip
def test_the_first_byte_that_differs(there: bytes, wanted: bytes, at: int) -> None:
    assert first_difference(np.frombuffer(there, np.uint8), np.frombuffer(wanted, np.uint8)) == at


@pytest.mark.parametrize("at", [5 << 20, (6 << 20) - 1])
def test_a_byte_after_a_hole_is_found(tmp_path: Path, at: int) -> None:
    file = tmp_path / "sparse"
    with file.open("wb") as sparse:
        sparse.truncate(6 << 20)

    def not_zero(start: int) -> int | None:
        with closing(LocalStorage().open(str(file))) as reader:
            return _not_zero(reader, start)

    assert not_zero(7) is None
    with file.open("r+b") as sparse:
        sparse.seek(at)
        sparse.write(b"x")
    assert not_zero(7) == at
    assert not_zero(at + 1) is None


# --- Ranges of logs compared byte by byte: the first byte that differs, window after window.
START, SIZE, WINDOW = 1000, 1000, 64
RULES = scan_rules(profile("5.3.3"), settings_from({}), ())
SAME = bytes(range(250)) * 4


def changed(*places: int) -> bytes:
    raw = bytearray(SAME)
    for place in places:
        raw[place - START] ^= 0x80
    return bytes(raw)


def log(raw: bytes) -> LogParts:
    """A log of one segment, read in windows of 64 bytes."""
    storage = MemoryStorage({"log/x": raw})
    storage.window_bytes = WINDOW
    return LogParts(storage, (Segment("log/x", START, FileState(len(raw), 0, 0)),), RULES)


def unlike(
    logs: Sequence[bytes], *pieces: tuple[int, int], groups: Sequence[int] = (0,)
) -> list[tuple[int, int, int, int]]:
    """(log, start, first, last) of what is found in the pieces."""
    compared = tuple(module.ComparedPiece(*piece, tuple(range(1, len(logs)))) for piece in pieces)
    task = module.CompareRanges(tuple(map(log, logs)), compared, tuple(groups))
    return [tuple(row.values()) for row in rows_of(task, *range(len(groups)))]


@pytest.mark.parametrize(("place", "piece", "last"), [
    (1000, (1000, 2000), 1064), (1063, (1000, 2000), 1064), (1064, (1000, 2000), 1128),
    (1999, (1000, 2000), 2000), (1500, (1500, 1501), 1501),
])  # fmt: skip
def test_the_first_byte_and_the_end_of_its_window(place, piece, last) -> None:
    assert unlike([SAME, changed(place)], piece) == [(1, piece[0], place, last)]


@pytest.mark.parametrize("piece", [(1000, 1500), (1501, 2000), (1500, 1500)])
def test_bytes_beside_a_piece_do_not_count(piece: tuple[int, int]) -> None:
    assert unlike([SAME, changed(1500)], piece) == []


def test_each_log_that_differs_has_a_row_and_a_group_s_pieces_go_up_to_the_next() -> None:
    logs = [SAME, changed(1700, 1100), SAME, changed(1300)]
    assert unlike(logs, (1000, 2000)) == [(1, 1000, 1100, 1704), (3, 1000, 1300, 1320)]
    pieces = [(1000 + 100 * n, 1100 + 100 * n) for n in range(5)]
    places = [1050 + 100 * n for n in range(5)]
    found = unlike([SAME, changed(*places)], *pieces, groups=(0, 3))
    assert [(start, first) for _, start, first, _ in found] == [
        (piece[0], place) for piece, place in zip(pieces, places, strict=True)
    ]
    assert len(module.UNLIKE) == 4


# --- What one log has of the other's messages, by their fingerprints.
Print = tuple[int, int, bool]  # fingerprints of a message and its record, whether its body is bad
WHOLE = (1, 10, False)


def matched(ours: list[Print], theirs: list[Print]) -> list[tuple[int, list[tuple[int, int]]]]:
    """For each log (records that both have, (place, kind) of the others); places count from 100."""
    staging = Staging(MemoryStorage(), "staging")
    rows = []
    for log, prints in enumerate((ours, theirs)):
        array = np.zeros(len(prints), PRINT)
        for n, (message, record, bad) in enumerate(prints):
            array[n] = ((message, 0), (record, 0), 100 + n, bad)
        if prints:
            output = staging.storage.create(staging.path(f"prints{log}"))
            output.write(array.view(np.uint8))
            output.finish(array.nbytes)
            half = len(prints) // 2
            for at, count in ((0, half), (half, len(prints) - half)):
                rows.append({"share": 0, "log": log, "name": f"prints{log}",
                             "at": at * PRINT.itemsize, "count": count})  # fmt: skip
    batch = pa.RecordBatch.from_pylist(rows, module.LISTED)
    found: dict[int, Any] = {0: (0, []), 1: (0, [])}
    for out in module.MatchPrints(staging, (0, 1))(iter([batch])):
        for row in out.to_pylist():
            size = row["count"] * module.FOUND_PLACE.itemsize
            places: Any = read_range(staging, row["name"], 0, size).view(module.FOUND_PLACE)
            found[row["log"]] = row["same"], [tuple(each) for each in places.tolist()]
    return [found[0], found[1]]


@pytest.mark.parametrize(("ours", "theirs", "found"), [
    ([], [], [(0, []), (0, [])]), ([WHOLE], [WHOLE], [(1, []), (1, [])]),
    ([WHOLE], [], [(0, [(100, module.ONLY)]), (0, [])]),
    ([WHOLE], [(2, 20, False)], [(0, [(100, module.ONLY)]), (0, [(100, module.ONLY)])]),
    ([WHOLE], [(1, 11, False)], [(0, [(100, module.AGAIN)]), (0, [(100, module.AGAIN)])]),
    ([(1, 10, True)], [WHOLE], [(0, [(100, module.DAMAGED)]), (1, [])]),
    ([(1, 10, True)], [(1, 10, True)], [(1, []), (1, [])]),
    ([(1, 10, True)], [], [(0, [(100, module.ONLY)]), (0, [])]),
    ([WHOLE, WHOLE], [WHOLE], [(2, []), (1, [])]),
    ([(2, 20, False), WHOLE, (3, 30, False)], [WHOLE],
     [(1, [(100, module.ONLY), (102, module.ONLY)]), (1, [])]),
])  # fmt: skip
def test_a_record_is_the_same_again_damaged_or_only_here(ours, theirs, found) -> None:
    assert matched(ours, theirs) == found
    assert matched(theirs, ours) == found[::-1]
