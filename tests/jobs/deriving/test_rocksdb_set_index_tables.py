"""The tables of an index in RocksDB: a row for each key of a message that has a UNIQ_KEY."""

from typing import Any

import pytest

from reput.jobs.deriving.rocksdb_set import IndexTables, index_tables
from reput.jobs.pipeline.pipeline import Cut
from tests.damaged import START, Damaged, damaged
from tests.jobs.found import STAGING, found, job_of
from tests.logs.encoder import Message, properties


def log_of(*texts: bytes, flag: int = 0) -> Damaged:
    return damaged(
        [
            Message("T", 0, n, b"x", text, START + n, sys_flag=flag)
            for n, text in enumerate(texts)
        ]
    )  # fmt: skip


def tables(log: Damaged, cut: Cut | None = None) -> IndexTables:
    job = job_of(found(log.log, cut=cut))
    made = index_tables(job, job.scan())
    storage: Any = job.plan.storage
    assert all(storage.files[f"{STAGING}/{name}"] for name in made.names)
    return made


@pytest.mark.parametrize(
    ("pairs", "rows"),
    [
        ([("UNIQ_KEY", "u")], 1),
        ([("KEYS", "a b")], 0),
        ([("UNIQ_KEY", "u"), ("KEYS", "a b")], 3),
        ([("UNIQ_KEY", "u"), ("KEYS", "a b"), ("TAGS", "t")], 4),
        ([("TAGS", "t")], 0),
        ([], 0),
    ],
)
def test_a_row_for_each_key_word_the_tags_and_the_unique_key(
    pairs: list[tuple[str, str]], rows: int
) -> None:
    log = log_of(properties(*pairs))
    made = tables(log)
    assert made.rows == rows
    assert (made.last_offset, made.last_time) == ((0, START) if rows else (-1, -1))
    assert bool(made.names) == bool(rows)


@pytest.mark.parametrize("ranges", [1, 3, 20])
@pytest.mark.parametrize("split_bytes", [500, 4096])
def test_all_rows_are_there_however_the_work_is_cut(ranges: int, split_bytes: int) -> None:
    log = log_of(*(properties(("UNIQ_KEY", f"u{n}"), ("KEYS", f"k{n}")) for n in range(60)), b"")
    made = tables(log, Cut(split_bytes, index_ranges=ranges))
    assert made.rows == 120
    assert (made.last_offset, made.last_time) == (log.places[59], START + 59)


def test_a_rolled_back_message_has_no_row() -> None:
    assert tables(log_of(properties(("UNIQ_KEY", "u")), flag=0xC)) == IndexTables([], 0, -1, -1)
    assert tables(log_of(properties(("UNIQ_KEY", "u")), flag=0x4)).rows == 1


def test_a_log_without_a_message_has_no_table() -> None:
    log = log_of(b"")
    log.segments[0][:] = bytes(len(log.segments[0]))
    assert tables(log) == IndexTables([], 0, -1, -1)
