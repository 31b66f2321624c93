"""Crash states at every operation, failing disks, and a real process killed again and again."""

import copy
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reput.store_format.log.record import Record
from reput.store_format.message.message import Message
from reput.store_format.message.refusals import WriterFailed
from tests.broker.writer.crashes import Judge, check_all, log_bytes, open_memory, work
from tests.broker.writer.stores import (
    RULES,
    Clock,
    open_writer,
    read_stored,
    settings,
    stored_records,
)
from tests.faults.memory_files import Crash, MemoryFiles, Op, crash_states
from tests.seeds import examples, seed, seeds

MODES = {
    "sync": {"flushDiskType": "SYNC_FLUSH"}, "async": {},
    "buffered": {"transientStorePoolEnable": "true"},
    "crc": {"enabledAppendPropCRC": "true", "flushDiskType": "SYNC_FLUSH"}}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_a_crash_anywhere_leaves_a_prefix_with_all_that_was_promised(mode: str) -> None:
    """A selection: every eleventh state of one piece of work a mode."""
    assert check_all(work(1, 30, **MODES[mode]), 1, 3, wanted=lambda n: n % 11 == 0) > 100


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


def _kill_and_check(root: Path, kills: int, seed: int) -> int:
    """Kill a process of four threads again and again; returns how many were acknowledged."""
    rng = random.Random(seed)
    acknowledged: list[tuple[int, int, str]] = []
    for number in range(kills):
        here = str(Path(__file__).parents[2])
        worker = subprocess.Popen([sys.executable, "-c", _WORKER, str(root), str(number), here],
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
    with open_writer(root, mappedFileSizeCommitLog=65536, maxHashSlotNum=50, maxIndexNum=200,
                     mappedFileSizeConsumeQueue=2000) as writer:  # fmt: skip
        assert writer.recovered is not None
    records = {r.physical_offset: r for r in stored_records(root / "commitlog")}
    for physical, queue, body in acknowledged:
        assert records[physical].body.decode() == body
        assert records[physical].queue_offset == queue
    # each queue's offsets are 0, 1, 2, ... in the log's order: nothing is twice or missing
    positions: dict[tuple[bytes, int], int] = {}
    for record in records.values():
        key = (record.topic, record.queue_id)
        assert record.queue_offset == positions.get(key, 0)
        positions[key] = record.queue_offset + 1
    return len(acknowledged)


def test_a_killed_process_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    assert _kill_and_check(tmp_path, 3, 1) >= 3


@pytest.mark.long
def test_twenty_kills(tmp_path: Path) -> None:
    assert _kill_and_check(tmp_path, 20, 2) >= 20


# --- A writer against a list, with reopening, crashes, rolls and damage at the end as steps.
SEGMENT = 2048


class WriterMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.files, self.clock = MemoryFiles(), Clock()
        self.given = settings(mappedFileSizeCommitLog=SEGMENT)
        self.writer = open_memory(self.files, self.given, self.clock)
        self.model: list[tuple[int, str, int, int, bytes]] = []  # offset, topic, queue, position

    def expect(self, physical: int, topic: str, queue: int, position: int, body: bytes) -> None:
        known = [m for m in self.model if m[1:3] == (topic, queue)]
        assert position == len(known)
        self.model.append((physical, topic, queue, position, body))

    @rule(topic=st.sampled_from("AB"), queue=st.integers(0, 1), body=st.binary(max_size=900))
    def append(self, topic: str, queue: int, body: bytes) -> None:
        result = self.writer.append(Message(topic, body, queue, keys="k"))
        self.expect(result.physical_offset, topic, queue, result.queue_offset, body)

    @rule(bodies=st.lists(st.binary(max_size=200), min_size=1, max_size=4))
    def append_batch(self, bodies: list[bytes]) -> None:
        result = self.writer.append_batch([Message("A", body, 1) for body in bodies])
        for number, body in enumerate(bodies):
            self.expect(result.offsets[number], "A", 1, result.queue_offset + number, body)

    @rule()
    def roll(self) -> None:
        body = bytes(SEGMENT - 200)
        result = self.writer.append(Message("B", body, 0))
        self.expect(result.physical_offset, "B", 0, result.queue_offset, body)

    @rule(milliseconds=st.integers(-5_000, 100_000))
    def wait(self, milliseconds: int) -> None:
        self.clock.now += milliseconds

    @rule()
    def dispatch(self) -> None:
        self.writer.dispatch()

    @rule()
    def flush_and_keep_checkpoint(self) -> None:
        self.writer.flush()
        self.writer.keep_checkpoint()

    @rule()
    def reopen(self) -> None:
        self.writer.close()
        self.writer = open_memory(self.files, self.given, self.clock)

    @rule()
    def crash(self) -> None:
        self.writer.abandon()
        self.writer = open_memory(self.files, self.given, self.clock)

    @precondition(lambda self: self.model)
    @rule(cut=st.integers(0, 100))
    def truncate(self, cut: int) -> None:
        """The last record loses its end, as a crash before the checkpoint may leave it."""
        physical = self.model[-1][0]
        if self.writer.store.checkpoint.physic_msg_timestamp >= self.writer.appender.last_timestamp:
            return  # it is known to be durable: that would be damage
        end = self.writer.log.end
        self.writer.abandon()
        segment = physical - physical % SEGMENT
        content = self.files.contents[self.files.names_of[f"commitlog/{segment:020d}"]]
        at = physical - segment + min(cut, end - physical - 1)
        content[at : end - segment] = bytes(end - segment - at)
        del self.model[-1]
        self.writer = open_memory(self.files, self.given, self.clock)

    @invariant()
    def the_log_is_the_list(self) -> None:
        end = self.writer.log.end
        raw = log_bytes(self.files, SEGMENT, -(-end // SEGMENT) * SEGMENT)
        found = [(r.physical_offset, r.topic, r.queue_id, r.queue_offset, r.body) for r in _records(
            raw)]  # fmt: skip
        assert found == self.model

    def teardown(self) -> None:
        self.writer.close()
        positions = {(k.topic, k.queue_id): s.position for k,
                     s in self.writer.queues.states.items()}  # fmt: skip
        for key, position in positions.items():
            assert position == len([m for m in self.model if m[1:3] == key])


def _records(raw: bytes) -> Iterator[Record]:
    def read(at: int, buffer: np.ndarray) -> None:
        buffer[:] = np.frombuffer(raw[at : at + len(buffer)], np.uint8)

    for segment in range(0, len(raw), SEGMENT):
        at = segment
        while record := read_stored(read, at, segment + SEGMENT, RULES):
            yield record
            at += record.size


TestWriterMachine = WriterMachine.TestCase
TestWriterMachine.settings = hypothesis_settings(
    max_examples=20, stateful_step_count=30, deadline=None)  # fmt: skip
