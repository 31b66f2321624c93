"""The two steps of a rebuild: which splits are scanned, and which files are built, and how many."""

from collections import Counter
from typing import Any

import pytest

from reput.jobs.pipeline.link import Linked
from reput.jobs.pipeline.pipeline import Cut, OldIndex, Pipeline, index_file_count, index_files
from reput.store_format.discover.purpose import REPLICATE
from reput.store_format.faults import Fault
from reput.udfs.staging import Staging
from tests.damaged import SEGMENT, START, Damaged, damaged, messages
from tests.in_process import STORE, storage_of
from tests.jobs.found import found, job_of
from tests.logs.encoder import Message, properties
from tests.memory_storage import MemoryStorage

SPLIT = 1024


def job(log: Damaged, cut: Cut | None = None, **more: Any) -> Pipeline:
    return job_of(found(log.log, cut=cut or Cut(SPLIT), **more))


def puts_of(puts: int, last_record: int, last_put: int) -> Linked:
    row = {"index_puts": puts, "last_record": last_record, "last_put": last_put, "run": "r"}
    return Linked([row] if last_record >= 0 else [])


@pytest.mark.parametrize(
    ("puts", "last_record", "last_put", "old", "files"),
    [
        (0, -1, -1, OldIndex(), 0),  # no message at all
        (0, 100, -1, OldIndex(), 1),  # the first message opens a file, even without a key
        (1, 100, 100, OldIndex(), 1),
        (49, 100, 100, OldIndex(), 1),  # of maxIndexNum 50 one entry is never used
        (49, 200, 100, OldIndex(), 2),  # a message without a key behind the one that filled it
        (50, 100, 100, OldIndex(), 2),
        (48, 200, 100, OldIndex(), 1),
        (98, 200, 100, OldIndex(), 3),
        (0, -1, -1, OldIndex("", 49), 1),
        (1, 100, 100, OldIndex("", 49), 2),
        (0, 100, -1, OldIndex("", 49), 2),
        (50, 100, 100, OldIndex(begins={1: 1}), 2),
        (52, 200, 100, OldIndex(begins={1: 1, 2: 3}), 4),
        (51, 100, 100, OldIndex("", 49, {1: 49, 2: 50}), 4),
    ],
)
def test_a_message_that_finds_the_last_index_file_full_opens_the_next(
    puts: int, last_record: int, last_put: int, old: OldIndex, files: int
) -> None:
    plan = job(damaged()).plan
    assert plan.settings.max_index_num == 50
    assert index_file_count(plan, puts_of(puts, last_record, last_put), old) == files


def test_index_files_are_told_where_each_splits_puts_end() -> None:
    plan = job(damaged()).plan
    linked = Linked([{"index_puts": n, "run": f"r{n}"} for n in (3, 0, 4)])
    made = index_files(plan, Staging(MemoryStorage(), "s"), linked, 2, OldIndex("old", 10))
    assert (made.runs, made.ends) == (("old", "r3", "r0", "r4"), (10, 13, 13, 17))
    assert (made.slots, made.index_num, made.ranges) == (7, 50, 2)


@pytest.mark.parametrize(
    ("folder", "configured", "length"),
    [
        ("consumequeue/T/0", ("mappedFileSizeConsumeQueue", 6_000_000), 6_000_000),
        ("consumequeue/T/0", ("mappedFileSizeConsumeQueue", 381), 400),
        ("consumequeue/T/0", ("mappedFileSizeConsumeQueue", 400), 400),
        ("batchconsumequeue/B/0", ("mapperFileSizeBatchConsumeQueue", 460), 460),
    ],
)  # fmt: skip
def test_a_queue_file_is_as_long_as_its_setting_in_whole_entries(
    folder: str, configured: tuple[str, int], length: int
) -> None:
    log = damaged()
    log.settings[configured[0]] = configured[1]
    assert job(log).queue_bytes(folder) == length


@pytest.mark.parametrize("split_bytes", [300, SPLIT, 1 << 20])
def test_a_scan_ends_at_the_last_record_however_it_is_cut(split_bytes: int) -> None:
    log = damaged()
    linked = job(log, Cut(split_bytes)).scan()
    assert sum(row["records"] for row in linked.accepted) == 60
    assert linked.end == log.places[-1] + log.size(59)
    assert linked.broke is not None
    assert (linked.broke.fault, linked.broke.rest_is_zero) == (Fault.ZEROS, True)


def test_each_segment_is_walked_by_itself_but_those_of_a_wrong_size() -> None:
    log = damaged(messages(100))
    log.flip(3, 1)  # a wrong totalSize
    storage = storage_of(log.log)
    storage.files[f"{STORE}/commitlog/{SEGMENT:020d}"] = bytes(SEGMENT - 1)
    walks, scanned = job_of(found(log.log, storage, Cut(SPLIT), purpose=REPLICATE)).scan_segments()
    assert sorted(walks) == [0, 2]
    assert (walks[0].end, walks[0].fault) == (log.places[3], Fault.SIZE_PAST_END)
    assert walks[2].end == log.places[-1] + log.size(99)
    in_segment = SEGMENT // SPLIT
    assert not [split for split in scanned if split // in_segment == 1]


def test_only_the_kinds_that_are_asked_for_are_built() -> None:
    log = damaged()  # 60 messages of three queues, each with a key: ten entries a file
    for cut in (Cut(SPLIT), Cut(SPLIT, 3, 3)):
        for queues, indexes in ((True, True), (True, False), (False, True), (False, False)):
            ready = job(log, cut)
            built = ready.build(ready.scan(), queues=queues, indexes=indexes)
            wanted = {f"consumequeue/T/{n}": 2 for n in range(3)} if queues else {}
            wanted |= {"index": 2} if indexes else {}
            assert Counter(row["folder"] for row in built) == wanted


def test_no_index_is_built_where_the_settings_want_none() -> None:
    log = damaged()
    log.settings["messageIndexEnable"] = False
    ready = job(log)
    assert ready.index(linked := ready.scan())[1] == 0
    assert "index" not in {row["folder"] for row in ready.build(linked)}


def test_a_check_checks_bodies_and_whole_records_whatever_the_settings_say() -> None:
    log = damaged([Message("T", 0, 0, b"body", properties(("KEYS", "k")), START)])
    log.settings["checkCRCOnRecover"] = False
    ready = job(log)
    assert (ready.rules.check_body_crc, ready.rules.check_property_crc) == (False, False)
    ready.check_property_crc()
    assert (ready.rules.check_body_crc, ready.rules.check_property_crc) == (False, True)
    ready.check_every_crc()
    assert (ready.rules.check_body_crc, ready.rules.check_property_crc) == (True, True)
    older = damaged(messages(3))
    older.version = "5.1.4"  # __CRC32# is known from 5.2.0 on
    ready = job(older)
    ready.check_every_crc()
    assert not ready.rules.check_property_crc
