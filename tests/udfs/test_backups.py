"""Tasks on pieces, each as a worker runs it."""

from pathlib import Path

import pyarrow as pa
import pytest

from reput.store_format.files.backups import Moment
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.catalogue import Catalogue
from reput.store_format.files.local import LocalStorage
from reput.store_format.log.rules import record_rules
from reput.store_format.log.segments import list_segments
from reput.store_format.release.profiles import profile
from reput.udfs.backups import CheckPieces, CopySegments
from reput.udfs.staging import Staging
from tests.backed_up import SEGMENT, ends, log_of, made, messages
from tests.reference.repository import Repository

__all__ = ["made"]  # a fixture


def numbers(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(range(count))})


@pytest.mark.parametrize("count", [1, 30, 70])
def test_segments_are_the_log_up_to_its_end(made: Repository, tmp_path: Path, count: int) -> None:
    end = ends()[count - 1]
    path = str(Moment(str(made.root), "broker-a", 3, 1, end))
    storage = storage_for(path)
    segments = list_segments(storage, [f"{path}/commitlog"], SEGMENT).segments
    (tmp_path / "staging").mkdir()
    task = CopySegments(storage, Staging(LocalStorage(), str(tmp_path / "staging")),
                        tuple(segments), end)  # fmt: skip
    rows = [row for batch in task(iter([numbers(len(segments))])) for row in batch.to_pylist()]
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
    (row,) = [row for batch in task(iter([numbers(1)])) for row in batch.to_pylist()]
    assert row["wrong"] == ("" if damaged else f"has no whole record at {first:,} (BODY_CRC)")
