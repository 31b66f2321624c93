"""The segments of a new log: each record at its new place, blanks, and what is dispatched."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reput.store_format.faults import Fault, StoreChanged
from reput.store_format.files.protocol import FileState
from reput.store_format.log.segments import Segment
from reput.store_format.rewrite.changes import Changes
from reput.udfs.convert.measure import MEASURED_ORDER, MEASURED_RECORD
from reput.udfs.convert.write import SEGMENT_WRITTEN, NewSegment, OldLog, Part, Piece, WriteSegments
from reput.udfs.staging import Staging
from tests.logs.damage import record_places
from tests.logs.encoder import Message, build_log, encode
from tests.memory_storage import MemoryStorage
from tests.udfs.table.parts import log_of

OLD, NEW = 4096, 512  # bytes of a segment
MESSAGES = [Message(queue_offset=n, body=b"%0100d" % n) for n in range(5)]
PLACES = record_places(build_log(MESSAGES, OLD))
SIZE = len(encode(MESSAGES[0], 0))  # so two records and a blank fill a new segment
RULES: Any = log_of(MESSAGES).rules


def old_log(
    files: dict[str, bytes], kept: Sequence[int], changes: Changes, sizes: Sequence[int], at: int,
    name: str = "a",
) -> OldLog:  # fmt: skip
    """One piece of some records, the first of which is placed at or behind `at`."""
    records = [(PLACES[n], size) for n, size in zip(kept, sizes, strict=True)]
    files[f"s/{name}.records"] = np.array(records, MEASURED_RECORD).tobytes()
    storage = MemoryStorage({"old": build_log(MESSAGES, OLD)[0]})
    segment = Segment("old", 0, FileState(OLD, 0, 0))
    piece = Piece(0, PLACES[kept[0]], name, len(kept), at, segment, max(SIZE, *sizes))
    end = PLACES[-1] + SIZE
    return OldLog(storage, RULES, changes, (piece,), 0, end)


def written(
    segments: Sequence[NewSegment], logs: Sequence[OldLog], files: dict[str, bytes]
) -> tuple[list[dict[str, Any]], dict[int, bytes]]:
    storage = MemoryStorage(files)
    task = WriteSegments(Staging(storage, "s"), tuple(logs), tuple(segments), NEW, RULES)
    ids = pa.RecordBatch.from_pydict({"id": list(range(len(segments)))})
    batches = list(task(iter([ids])))
    assert all(batch.schema == SEGMENT_WRITTEN for batch in batches)
    rows = [row for batch in batches for row in batch.to_pylist()]
    return rows, {row["start"]: storage.files[f"s/{row['name']}"] for row in rows}


def parts(*stops: int, start: int = 0) -> list[NewSegment]:
    """Segments that end behind so many of the log's records."""
    begins = [0, *stops[:-1]]
    return [
        NewSegment(start + n * NEW, (Part(0, 0, begin, 0, stop),), n == len(stops) - 1)
        for n, (begin, stop) in enumerate(zip(begins, stops, strict=True))
    ]


def test_records_move_to_the_segments_of_the_new_log() -> None:
    files: dict[str, bytes] = {}
    log = old_log(files, range(5), Changes(), [SIZE] * 5, 0)
    rows, made = written(parts(2, 4, 5), [log], files)
    assert made == build_log(MESSAGES, NEW)
    assert [(row["records"], row["fault"], row["length"]) for row in rows] == [
        (2, Fault.BLANK, NEW), (2, Fault.BLANK, NEW), (1, Fault.ZEROS, NEW),
    ]  # fmt: skip
    assert [row["next"] for row in rows] == [NEW, 2 * NEW, 2 * NEW + SIZE]


def test_a_log_may_begin_anywhere_and_some_records_may_be_left_out() -> None:
    files: dict[str, bytes] = {}
    kept = [MESSAGES[n] for n in (0, 2, 4)]
    changes = Changes(dropped=("X",))
    log = old_log(files, (0, 2, 4), changes, [SIZE] * 3, 3 * NEW)
    _, made = written(parts(2, 3, start=3 * NEW), [log], files)
    assert made == build_log(kept, NEW, 3 * NEW)


def test_topics_and_hosts_change_in_every_record() -> None:
    files: dict[str, bytes] = {}
    host = bytes((10, 0, 0, 1, 0, 0, 0, 9))
    changes = Changes(renames=(("T", "Longer"),), store_host=host)
    log = old_log(files, range(2), changes, [SIZE + 5] * 2, 0)
    _, made = written(parts(2), [log], files)
    wanted = [Message("Longer", queue_offset=n, body=b"%0100d" % n, store_host=host)
              for n in range(2)]  # fmt: skip
    assert made == build_log(wanted, NEW)


def test_records_of_several_logs_come_by_their_new_places() -> None:
    files = {"s/a.places": np.array([0, 2 * SIZE], np.int64).tobytes(),
             "s/b.places": np.array([SIZE], np.int64).tobytes(),
             "s/a.numbers": np.array([7, 9], np.int64).tobytes(),
             "s/b.numbers": np.array([8], np.int64).tobytes(),
             "s/a.order": np.array([(0, 1)] * 2, MEASURED_ORDER).tobytes(),
             "s/b.order": np.array([(0, 1)], MEASURED_ORDER).tobytes()}  # fmt: skip
    ordered = Changes(merges=True)
    logs = [
        replace(old_log(files, kept, ordered, [SIZE] * len(kept), 0, name), ordered=True)
        for name, kept in (("a", (0, 4)), ("b", (2,)))
    ]
    segment = NewSegment(0, (Part(0, 0, 0, 0, 2), Part(1, 0, 0, 0, 1)), True)
    storage, big = MemoryStorage(files), 1024
    task = WriteSegments(Staging(storage, "s"), tuple(logs), (segment,), big, RULES)
    (batch,) = task(iter([pa.RecordBatch.from_pydict({"id": [0]})]))
    wanted = [Message(queue_offset=offset, body=b"%0100d" % n)
              for offset, n in ((7, 0), (8, 2), (9, 4))]  # fmt: skip
    assert storage.files[f"s/{batch['name'][0]}"] == build_log(wanted, big)[0]


@pytest.mark.parametrize(("byte", "number", "said"), [(4, 3, 2), (3, 3, 2), (28, 0, 0), (4, 0, 0)])
def test_a_log_that_was_changed_meanwhile_is_an_error_that_says_where(
    byte: int, number: int, said: int
) -> None:
    """It names the first record that the segment still needs."""
    files: dict[str, bytes] = {}
    log = old_log(files, range(5), Changes(), [SIZE] * 5, 0)
    raw = bytearray(build_log(MESSAGES, OLD)[0])
    raw[PLACES[number] + byte] ^= 1
    log.storage.files["old"] = bytes(raw)  # type: ignore[attr-defined]
    with pytest.raises(StoreChanged, match=f"old: changed .* offset {PLACES[said]} are others"):
        written(parts(2, 4, 5), [log], files)
