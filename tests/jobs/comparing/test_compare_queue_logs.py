"""A queue's own log and the queue file beside it: every way in which an entry may differ."""

from pathlib import Path

import pytest

from reput.jobs.comparing.compare import verify_queue_log
from reput.jobs.judging.report import MISSING, MISSING_AT_END, ONE_TOO_MANY
from reput.store_format.discover.store import store_at
from tests.store_format.files.queue_log_archive import (
    PLAIN,
    TOPIC,
    compacted_url,
    copy,
    root,
    tiered_url,
)
from tests.trees import flip

__all__ = ["copy", "root"]  # fixtures

COMPACTED, TIERED = 46, 20  # bytes of an entry


def differences(url: str) -> list[tuple[str, int, str, int | None, int | None]]:
    report = verify_queue_log(store_at(url))
    return [(Path(d.path).name, d.offset, d.field, d.there, d.wanted) for d in report.differences]


@pytest.mark.parametrize(
    ("byte", "field"),
    [(7, "physicalOffset"), (11, "size"), (19, "tagsCode"), (27, "storeTimestamp"),
     (35, "baseOffset"), (37, "batchSize")],
)  # fmt: skip
def test_each_field_of_an_entry_is_compared(byte: int, field: str, copy: Path) -> None:
    path = copy / f"compaction/compactionCq/{TOPIC}/0/{0:020d}"
    flip(path, 2 * COMPACTED + byte, 2)
    ((name, at, said, there, wanted),) = differences(compacted_url(copy))
    assert (name, at, said) == (path.name, 2 * COMPACTED, f"entry 2 {field}")
    assert there is not None
    assert wanted is not None
    assert there ^ wanted == 2


def test_of_a_compacted_queue_s_file_one_entry_too_few_or_too_many_is_told(copy: Path) -> None:
    path = copy / f"compaction/compactionCq/{TOPIC}/0/{0:020d}"
    raw = path.read_bytes()
    entries = [raw[at : at + COMPACTED] for at in range(0, len(raw), COMPACTED)]
    used = sum(int.from_bytes(entry[8:12], "big") > 0 for entry in entries)
    last = raw[(used - 1) * COMPACTED : used * COMPACTED]
    path.write_bytes(raw[: (used - 1) * COMPACTED].ljust(len(raw), b"\0"))
    assert differences(compacted_url(copy)) == [
        (path.name, (used - 1) * COMPACTED, MISSING_AT_END, used - 1, used)
    ]
    path.write_bytes(raw[: used * COMPACTED] + last + raw[(used + 1) * COMPACTED :])
    assert differences(compacted_url(copy)) == [
        (path.name, used * COMPACTED, ONE_TOO_MANY, used + 1, used)
    ]
    path.unlink()
    assert differences(compacted_url(copy)) == [(path.name, 0, MISSING, None, None)]


def test_a_tiered_queue_s_missing_file_is_a_hole_or_a_missing_end(copy: Path) -> None:
    files = copy / f"tiered/judge/{PLAIN}/0/CONSUME_QUEUE"
    by_start = sorted(files.iterdir(), key=lambda path: path.name[8:])
    assert len(by_start) >= 3
    sizes = [path.stat().st_size for path in by_start]
    last = by_start[-1].read_bytes()
    by_start[-1].unlink()
    (found,) = differences(tiered_url(copy))
    assert found[1:] == (0, MISSING_AT_END, None, None)
    by_start[-1].write_bytes(last)
    by_start[1].unlink()
    (hole,) = differences(tiered_url(copy))
    assert hole[2:] == (f"a hole before {sizes[0] + sizes[1]}", sizes[0], sizes[0] + sizes[1])


def test_the_report_names_the_queue_and_counts_its_files(root: Path) -> None:
    report = verify_queue_log(store_at(tiered_url(root)))
    assert report.same
    assert report.files == len(list((root / f"tiered/judge/{PLAIN}/0/CONSUME_QUEUE").iterdir()))
    assert report.warnings == []
