"""Crash states at every operation, failing disks, and a real process killed again and again."""

import copy
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from reput.store_format.message.message import Message
from reput.store_format.message.refusals import WriterFailed
from tests.broker.writer.crashes import Judge, check_all, open_memory, work
from tests.broker.writer.stores import Clock, open_writer, settings, stored_records
from tests.faults.memory_files import Crash, MemoryFiles, Op, crash_states
from tests.seeds import examples, seed, seeds

MODES = {
    "sync": {"flushDiskType": "SYNC_FLUSH"}, "async": {},
    "buffered": {"transientStorePoolEnable": "true"},
    "crc": {"enabledAppendPropCRC": "true", "flushDiskType": "SYNC_FLUSH"}}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_a_crash_anywhere_leaves_a_prefix_with_all_that_was_promised(mode: str) -> None:
    """A selection: every eleventh state of one piece of work a mode."""
    assert check_all(work(1, 30, **MODES[mode]), 1, 3, each=11) > 100


@pytest.mark.parametrize("mode", ["async", "buffered"])
def test_power_lost_as_the_index_changes_takes_no_message_that_it_names(mode: str) -> None:
    """The states right after an exchange of `index/`; the log may be flushed much later."""
    done = work(101, 40, **MODES[mode])
    changed = {number + 1 for number, op in enumerate(done.files.ops) if op.kind == "exchange"}
    judge = Judge(done)
    for crash in crash_states(done.start, done.files.ops, 101, 2):
        if crash.after in changed:
            judge.check(crash, twice=False)
    assert judge.checked >= 5


@pytest.mark.long
@pytest.mark.explore
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "sync"])  # as crc, but for it
def test_crash_states_by_the_thousand(mode: str) -> None:
    """In each mode; `make explore` goes on with others."""
    checked, number = 0, seed(100)
    while checked < examples(900):
        number += 1
        checked += check_all(work(number, 40, **MODES[mode]), number, 6)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_crash_while_recovering_changes_nothing_of_what_is_recovered(seed: int) -> None:
    check_recovery(seed, 2)


@pytest.mark.long
@pytest.mark.explore
@pytest.mark.parametrize("seed", seeds([3, 9, 12]))
def test_more_crashes_while_recovering(seed: int) -> None:
    check_recovery(seed, 6)


def check_recovery(seed: int, states: int) -> None:
    """Recovery, closing and opening are work too: each of their operations may be the last."""
    done = work(seed, 12, flushDiskType="SYNC_FLUSH")
    first = list(crash_states(done.start, done.files.ops, seed, 2, every=9))
    rng = random.Random(seed)
    judge = Judge(done)
    for crash in rng.sample(first, states):
        before = copy.deepcopy(crash.files)
        before.ops.clear()
        recovering = copy.deepcopy(before)
        open_memory(recovering, done.settings, Clock(1_800_000_000_000)).close()
        for again in crash_states(before, recovering.ops, seed, 2):
            judge.check(Crash(crash.after, again.how, again.files), twice=False)
    assert judge.checked > 15 * states


@pytest.mark.parametrize("kind", ["write", "sync", "create", "sync folder", "length"])
def test_no_operation_that_fails_is_ever_acknowledged(kind: str) -> None:
    """Each operation of that kind in turn fails, once; the disk works again afterwards."""
    number = 0
    while True:
        seen = [0]

        def fail(op: Op, number: int = number, seen: list[int] = seen) -> bool:
            seen[0] += op.kind == kind
            return op.kind == kind and seen[0] == number + 1

        files, given, clock = MemoryFiles(fail=fail), settings(flushDiskType="SYNC_FLUSH"), Clock()
        reported: list[int] = []
        try:
            writer = open_memory(files, given, clock)
        except OSError:
            files.locked = False
        else:
            failed = False
            for step in range(9):
                try:
                    result = writer.append(Message("T", bytes(900), keys=f"k{step}"))
                    assert not failed, "an append after a failure was acknowledged"
                    reported.append(result.physical_offset + result.size)
                except WriterFailed:
                    failed = True
            if failed:
                with pytest.raises(WriterFailed):
                    writer.close()
            else:
                try:
                    writer.close()
                except WriterFailed:
                    failed = True
            if seen[0] <= number:
                break  # there is no such operation any more
        # what a failed sync leaves is not durable, though it can still be read: lose it
        survivors = _lost(files)
        again = open_memory(survivors, given, clock)
        assert again.log.end >= max(reported, default=0)
        again.close()
        number += 1
    assert number > 1


def _lost(files: MemoryFiles) -> MemoryFiles:
    states = crash_states(MemoryFiles(), files.ops, 0, 0, every=len(files.ops) or 1)
    return [crash for crash in states if crash.how == "lost"][-1].files


_WORKER = """
import os, sys, threading, time
sys.path.insert(0, sys.argv[3])
from reput.store_format.message.message import Message
from reput.store_format.release.settings import writer_settings_from
from reput.broker.writer.writer import CommitLogWriter
given = writer_settings_from({
    "flushDiskType": "SYNC_FLUSH", "mappedFileSizeCommitLog": "65536", "maxHashSlotNum": "50",
    "maxIndexNum": "200", "mappedFileSizeConsumeQueue": "2000",
    "flushConsumeQueueThoroughInterval": "20"})
writer = CommitLogWriter.open(sys.argv[1], given, clock=lambda: time.time_ns() // 1000000)
def work(number):
    step = 0
    while True:
        step += 1
        body = f"{sys.argv[2]}.{number}.{step}"
        result = writer.append(Message(f"T{number % 2}", body.encode(), number, keys=body))
        assert result.status == "PUT_OK"
        os.write(1, f"{result.physical_offset} {result.queue_offset} {body}\\n".encode())
for number in range(4):
    threading.Thread(target=work, args=(number,), daemon=True).start()
time.sleep(60)
"""


def test_a_killed_process_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    """A process of four threads, killed three times."""
    rng = random.Random(1)
    acknowledged: list[tuple[int, int, str]] = []
    for number in range(3):
        here = str(Path(__file__).parents[2])
        worker = subprocess.Popen([sys.executable, "-c", _WORKER, str(tmp_path), str(number), here],
                                  stdout=subprocess.PIPE)  # fmt: skip
        assert worker.stdout is not None
        first = worker.stdout.readline()
        time.sleep(rng.random() * 0.05)
        os.kill(worker.pid, signal.SIGKILL)
        lines = [first, *worker.stdout.readlines()]
        worker.wait()
        for line in lines:
            if line.endswith(b"\n"):
                physical, queue, body = line.decode().split()
                acknowledged.append((int(physical), int(queue), body))
    with open_writer(tmp_path, mappedFileSizeCommitLog=65536, maxHashSlotNum=50, maxIndexNum=200,
                     mappedFileSizeConsumeQueue=2000) as writer:  # fmt: skip
        assert writer.recovered is not None
    records = {r.physical_offset: r for r in stored_records(tmp_path / "commitlog")}
    for physical, queue, body in acknowledged:
        assert records[physical].body.decode() == body
        assert records[physical].queue_offset == queue
    # each queue's offsets are 0, 1, 2, ... in the log's order: nothing is twice or missing
    positions: Counter[tuple[str, int]] = Counter()
    for record in records.values():
        key = (record.topic, record.queue_id)
        assert record.queue_offset == positions[key]
        positions[key] += 1
    assert len(acknowledged) >= 3
