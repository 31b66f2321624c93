"""Files in staging: names that say what they are, lines and pieces of bounded size."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from reput.store_format.files.backups import Moment
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.catalogue import Catalogue
from reput.store_format.files.local import LocalStorage
from reput.store_format.log.rules import record_rules
from reput.store_format.log.segments import list_segments
from reput.store_format.release.profiles import profile
from reput.udfs import staging as module
from reput.udfs.backups import CheckPieces, CopySegments
from reput.udfs.staging import Staging
from tests.backed_up import SEGMENT, ends, log_of, made, messages
from tests.memory_storage import MemoryStorage
from tests.reference.repository import Repository
from tests.udfs.tables import rows_of

MB = 1 << 20


def staging(**files: bytes) -> module.Staging:
    return module.Staging(
        MemoryStorage({f"staging/{name}": raw for name, raw in files.items()}), "staging"
    )


def test_names_of_attempts_say_their_split_and_a_range_is_read_unless_it_is_empty() -> None:
    assert module.attempt_name("x") != module.attempt_name("x")
    for split in (0, 7, 123_456_789):
        assert module.split_of(module.scan_name(split) + module.ENTRIES) == split
    one, again, other = module.scan_name(3), module.scan_name(3), module.scan_name(4)
    names = [module.past_name(one, 100, 2), module.past_name(one, 900, 5),
             module.past_name(again, 500, 4), module.past_name(other, 10, 1),
             module.scan_name(5) + module.ENTRIES]  # fmt: skip
    assert module.past_of(names) == (910, 6)
    assert module.past_of([]) == (0, 0)
    assert module.read_range(staging(file=b"abcdef"), "file", 2, 3).tobytes() == b"cde"
    assert module.read_range(staging(), "none", 2, 0).tobytes() == b""
    assert module.local_folder(module.Staging(LocalStorage(), "/tmp/x")) == "/tmp/x"
    assert module.local_folder(staging()) is None


@pytest.mark.parametrize(
    ("name", "derived", "index"),
    [(module.queue_file_name(), True, False), (module.index_file_name(), True, True),
     (module.table_file_name(), False, False), (module.scan_name(0), False, False),
     ("indexes-1", False, False)], ids=["queue", "index", "table", "scan", "no attempt"],
)  # fmt: skip
def test_finished_files_are_known_by_their_names(name: str, derived: bool, index: bool) -> None:
    assert (module.is_derived_file(name), module.is_index_file(name)) == (derived, index)


@pytest.mark.parametrize("many", [0, 1, (1 << 12) - 1, 1 << 12, (1 << 12) + 1])
def test_lines_are_all_written_and_no_line_is_no_file(many: int) -> None:
    to = staging()
    lines = module.LineFile(to)
    for n in range(many):
        lines.add({"n": n})
    name = lines.finish()
    assert bool(name) == bool(many)
    if many:
        written = to.storage.read_bytes(to.path(name)).splitlines()
        assert [json.loads(line)["n"] for line in written] == list(range(many))


@pytest.mark.parametrize(("size", "pieces"), [(0, []), (1, [1]), (MB, [MB]), (MB + 1, [MB, 1])])
def test_a_file_is_read_in_pieces_of_a_megabyte(size: int, pieces: list[int]) -> None:
    found = list(module.pieces_of(staging(file=b"x" * size), "file"))
    assert [len(each) for each in found] == pieces


# --- Rows on their way through Spark: in large batches, in order, none lost where a batch ends.
COLUMNS = module.schema(number=pa.int64(), name=pa.string())


def rows(count: int) -> Iterator[dict[str, Any]]:
    return iter([{"number": number, "name": f"n{number}"} for number in range(count)])


@pytest.mark.parametrize(
    ("count", "batches"),
    [(0, []), (1, [1]), (1023, [1023]), (1024, [1024]), (1025, [1024, 1]), (2048, [1024, 1024])],
)
def test_rows_go_in_batches_of_1024(count: int, batches: list[int]) -> None:
    made = list(module.in_batches(rows(count), COLUMNS))
    assert [batch.num_rows for batch in made] == batches
    assert all(batch.schema == COLUMNS for batch in made)
    assert list(module.rows_of(iter(made))) == list(rows(count))


def test_rows_are_made_as_a_batch_needs_them() -> None:
    source = rows(3000)
    next(module.in_batches(source, COLUMNS))
    assert next(source)["number"] == 1024
    assert module.PLACED.names[: len(module.RUN)] == module.RUN.names
    assert module.PLACED.types[: len(module.RUN)] == module.RUN.types


# --- Several tasks as one: each number goes to one of them, and is counted from 0 for it.
KIND = pa.schema([("task", pa.string()), ("id", pa.int64())])


def task(name: str, rows: int = 1) -> module.Task:
    """Yields a batch with its name and number, `rows` times for each number."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in module.ids_of(batches):
            for _ in range(rows):
                yield pa.RecordBatch.from_pylist([{"task": name, "id": number}], KIND)

    return run


def run(tasks: module.InTurn, *ids: int) -> list[tuple[str, int]]:
    return [tuple(row.values()) for row in rows_of(tasks, *ids)]


def test_a_series_runs_its_tasks_in_turn() -> None:
    assert run(module.InTurn(((1, task("a")), (1, task("b")))), 2, 1, 3) == [("b", 0)]
    tasks = module.InTurn(((2, task("none", 0)), (2, task("two", 2))))
    assert run(tasks, 0, 3, 1) == [("two", 1), ("two", 1)]
    inner = module.InTurn(((1, task("a")), (1, task("b"))))
    assert run(module.InTurn(((inner.total, inner), (1, task("c")))), 0, 1, 2) == [
        ("a", 0), ("b", 0), ("c", 0),
    ]  # fmt: skip
    assert (module.InTurn(()).total, run(module.InTurn(()), 0)) == (0, [])
    assert run(module.InTurn(((1, task("a")),))) == []


# --- Tasks on pieces, each as a worker runs it.
__all__ = ["made"]  # a fixture


@pytest.mark.parametrize("count", [1, 30, 70])
def test_segments_are_the_log_up_to_its_end(made: Repository, tmp_path: Path, count: int) -> None:
    end = ends()[count - 1]
    path = str(Moment(str(made.root), "broker-a", 3, 1, end))
    storage = storage_for(path)
    segments = list_segments(storage, [f"{path}/commitlog"], SEGMENT).segments
    (tmp_path / "staging").mkdir()
    task = CopySegments(storage, Staging(LocalStorage(), str(tmp_path / "staging")),
                        tuple(segments), end)  # fmt: skip
    rows = rows_of(task, *range(len(segments)))
    raw = b"".join((tmp_path / "staging" / row["name"]).read_bytes() for row in rows)
    assert raw == log_of(messages(70))[:end].ljust(len(raw), b"\0")
    assert sum(row["used"] for row in rows) == end
    assert {row["length"] for row in rows} == {SEGMENT}


@pytest.mark.parametrize("damaged", [(), ((1200, 1300),)])
def test_a_piece_is_walked_past_the_damage_that_it_names(made, damaged) -> None:
    """A body of the second run's log is damaged, and named or not."""
    log = bytearray(log_of(messages(20)))
    first, second = ends()[10], ends()[11]
    log[first + 92] ^= 1
    number = made.run(bytes(log), made.runs[3]["started"] + 1, begin=ends()[8])
    piece = made.runs[number]["pieces"][0]
    if damaged:
        piece |= {"damaged": [[first, second]], "records": piece["records"] - 1}
        made.write(number)
    catalogue = Catalogue(LocalStorage(), str(made.root), "broker-a")
    (found, *_) = catalogue.run(number).pieces
    task = CheckPieces(
        catalogue.storage, ((catalogue.piece_path(found), found, SEGMENT),),
        record_rules(profile("5.3.3")),
    )  # fmt: skip
    (row,) = rows_of(task, 0)
    assert row["wrong"] == ("" if damaged else f"has no whole record at {first:,} (BODY_CRC)")
