"""A set is derived and published at once: what it counts, what it leaves out, what it tells."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from reput.jobs.deriving.derive_set import ToDerive, derive_set, move_derived
from reput.jobs.opening.plan import ROCKSDB
from reput.jobs.outputs.output import REBUILT
from reput.jobs.outputs.report import OutputFile, Summary
from reput.jobs.pipeline.pipeline import Cut
from reput.store_format.faults import SALVAGE, DamageFound
from tests.damaged import START, Damaged, damaged, messages
from tests.in_process import OUTPUT, storage_of
from tests.jobs.found import found
from tests.logs.encoder import Message
from tests.memory_storage import MemoryStorage


def derived(log: Damaged, **more: Any) -> tuple[Summary, MemoryStorage]:
    storage = storage_of(log.log)
    store = found(log.log, storage, Cut(2048, 2, 2))
    target = store.output(OUTPUT, REBUILT, False, storage)
    return derive_set(store, target, ToDerive(**more)), storage


def test_a_set_has_what_the_log_has() -> None:
    log = damaged()  # ten entries a queue file, 49 keys an index file
    summary, storage = derived(log)
    assert (summary.messages, summary.index_keys, summary.log_start) == (60, 60, 0)
    assert (summary.queues, summary.queue_files, summary.index_files) == (3, 6, 2)
    assert summary.log_end == summary.bytes_scanned == log.places[-1] + log.size(59)
    assert summary.stages.keys() == {"scan", "build", "publish"}
    paths = {path.removeprefix(f"{OUTPUT}/") for path in storage.files if OUTPUT in path}
    assert paths == {each.path for each in summary.files} | {"manifest.json"}
    assert "checkpoint" in paths
    assert (summary.warnings, summary.left_out, summary.damage) == ([], [], None)


def in_queues(queues: int, offsets: Sequence[int]) -> Damaged:
    made = [Message("T", queue, offset, b"x", store_timestamp=START)
            for offset in offsets for queue in range(queues)]  # fmt: skip
    return damaged(made, 1 << 16)


@pytest.mark.parametrize("queues", [1, 10, 11])
def test_messages_in_no_queue_are_named_up_to_twenty(queues: int) -> None:
    log = in_queues(queues, (0, 1, 1, 0))
    summary, _ = derived(log)
    lines = [line for line in summary.in_no_queue if "is in no queue" in line]
    again = [line for line in summary.in_no_queue if "made again" in line]
    places = log.places
    assert lines[0] == (
        f"consumequeue/T/0: the record at physical offset {places[2 * queues]} is in no queue (so "
        "does RocketMQ): its queueOffset 1 is below the next position; the record at "
        f"{places[queues]} is at that position"
    )
    assert f"{places[3 * queues]} has queueOffset 0 and comes to position 2" in again[0]
    assert len(lines + again) == min(2 * queues, 20)
    more = f"... and {2 * queues - 20} more"
    assert (more in summary.in_no_queue) == (queues > 10)


@pytest.mark.parametrize("queues", [1, 11])
def test_messages_that_rocksdb_has_no_entry_of_are_named_up_to_twenty(queues: int) -> None:
    log = in_queues(queues, (0, 1, 1, 7, 0, 9))
    summary, _ = derived(log, queues=ROCKSDB)
    places = log.places
    assert [line.partition(": ")[2] for line in summary.in_no_queue[:2]] == [
        f"the record at physical offset {places[before]} is in no queue, as with RocketMQ: its "
        f"queueOffset {offset} is also that of the record at {places[after]}, which comes after it"
        for offset, before, after in ((0, 0, 4 * queues), (1, queues, 2 * queues))
    ]
    assert len(summary.in_no_queue) == min(2 * queues, 21)
    assert summary.in_no_queue[20:] == ["... and 2 more"] * (queues > 10)


def test_a_topic_that_leads_out_of_the_set_is_left_out_and_named_once() -> None:
    made = [*messages(4), *(Message("../../evil", 0, n, b"x") for n in range(3))]
    summary, storage = derived(damaged(made))
    assert len(summary.left_out) == 1
    assert "../../evil" in summary.left_out[0]
    assert not [path for path in storage.files if "evil" in path]


def test_a_set_past_damage_tells_of_it_and_a_failed_run_leaves_nothing() -> None:
    log = damaged()
    log.flip(7, 5)  # magic
    storage = storage_of(log.log)
    before = dict(storage.files)
    store = found(log.log, storage)
    with pytest.raises(DamageFound):
        derive_set(store, store.output(OUTPUT, REBUILT, False, storage), ToDerive())
    assert storage.files == before
    summary, _ = derived(log, on_damage=SALVAGE)
    assert (summary.messages, summary.on_damage) == (59, SALVAGE)
    assert summary.damage is not None
    assert (summary.damage["range_count"], summary.damage["bytes_lost"]) == (1, log.size(7))
    assert any("magic" in line for line in summary.warnings)


def test_index_files_are_named_upward_from_a_given_name_and_a_set_may_move() -> None:
    summary, _ = derived(damaged(), index_start_name="20300101000000999")
    names = [each.path for each in summary.files if each.path.startswith("index/")]
    assert names == ["index/20300101000000999", "index/20300101000001000"]
    paths = ["consumequeue/T/0/00", "index/1", "checkpoint"]
    storage = MemoryStorage({f"staged/{path}": path.encode() for path in paths})
    summary, _ = derived(damaged(messages(1)))
    built = replace(summary, files=[OutputFile(path, 1, "") for path in paths])
    move_derived(built, storage, "staged", "out")
    assert storage.files == {f"out/{path}": path.encode() for path in paths}
