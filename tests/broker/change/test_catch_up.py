"""Random cuts of random logs, and a kill after each operation of a catch-up."""

import copy
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from reput.broker.change.catch_up import NOTE
from reput.store_format.derived.checkpoint import Checkpoint, encode
from reput.store_format.derived.index_reader import BadIndex
from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.names import ABORT, CHECKPOINT
from reput.store_format.release.settings import writer_settings_from
from tests.against_reference import GREATEST_FIRST_OFFSET, first_offsets
from tests.broker.change import catching
from tests.broker.writer.crashes import open_memory
from tests.broker.writer.rocketmq_load import Load
from tests.broker.writer.stores import Clock
from tests.faults.failing import distinct
from tests.faults.memory_files import MemoryFiles, crash_states
from tests.in_process import as_text
from tests.logs import Log, logs
from tests.logs.encoder import Message, build_log, properties
from tests.reference import derive, records

MEMORY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
                  deadline=None)  # fmt: skip


def record_ends(log: Log) -> list[int]:
    return [m.physical_offset + m.size for m in records(*log[:3])]


def in_steps(log: Log, random: Random) -> None:
    assume(all(0 <= first <= GREATEST_FIRST_OFFSET for first in first_offsets(log)))
    ends = record_ends(log)
    assume(ends)
    files = MemoryFiles()
    for end in [*sorted(random.sample(ends, min(len(ends), random.randrange(4)))), ends[-1]]:
        now = catching.shorter(log, end)
        catching.put_log(files, now)
        catching.catch_up(files, now)
        assert catching.difference(files, derive(*now)) is None
        before = catching.derived(files)
        catching.catch_up(files, now)
        assert catching.derived(files) == before
    assert not catching.left_behind(files)


@settings(MEMORY, max_examples=5)
@given(logs(damage=False), st.randoms(use_true_random=False))
def test_any_steps_give_the_bytes_of_one_rebuild(log: Log, random: Random) -> None:
    in_steps(log, random)


def test_a_queue_with_a_negative_id_or_a_skipped_entry_goes_on() -> None:
    """RocketMQ takes any int for one (Integer.parseInt)."""
    found = [Message(queue_id=-(n % 2), queue_offset=n // 2, body=b"b" * 50) for n in range(30)]
    log = Log(build_log(found, SIZES["mappedFileSizeCommitLog"]), SIZES, "5.3.3", {})
    files = behind(log, record_ends(log)[12])
    catching.catch_up(files, log)
    assert catching.difference(files, derive(*log)) is None
    # Its queueOffset is below the next position; RocketMQ looks the file up first.
    offsets = [*range(5), 3]  # five entries fill a file of 100 bytes
    found = [Message(queue_offset=offset, body=b"b") for offset in offsets]
    log = Log(build_log(found, SIZES["mappedFileSizeCommitLog"]), SIZES, "5.3.3", {})
    files = behind(log, record_ends(log)[2])
    catching.catch_up(files, log)
    wanted = derive(*log)
    assert sum(name.startswith("consumequeue/") for name in wanted.files) == 2
    assert catching.difference(files, wanted) is None


def with_older_index(log: Log) -> MemoryFiles:
    """A store whose index ends well before its queues."""
    ends = record_ends(log)
    files = behind(log, ends[26])
    older = behind(log, ends[10]).tree()
    for path in [path for path in files.names_of if path.startswith("index/")]:
        files.remove(path)
    for path, content in older.items():
        if path.startswith("index/"):
            file = files.create(path)
            file.write_at(0, content)
            file.sync()
    files.sync_folder("index")
    files.ops.clear()
    return files


def test_an_index_behind_the_queues_gets_its_keys_and_no_queue_comes_back() -> None:
    log = written(40)
    files = with_older_index(log)
    catching.catch_up(files, log)
    assert catching.difference(files, derive(*log)) is None
    # As of a deleted topic: what is behind the queues' end only gives keys.
    log = catching.shorter(written(40), record_ends(written(40))[26])
    files = with_older_index(log)
    for path in [path for path in files.names_of if path.startswith("consumequeue/T1/")]:
        files.remove(path)
    files.remove("consumequeue/T1/0")
    files.remove("consumequeue/T1")
    files.sync_folder("consumequeue")
    catching.catch_up(files, log)
    assert not [path for path in files.names_of if path.startswith("consumequeue/T1/")]
    index = {n: c for n, c in catching.derived(files).items() if n.startswith("index/")}
    whole = {n: c for n, (c, _) in derive(*log).files.items() if n.startswith("index/")}
    assert {n: c.rstrip(b"\0") for n, c in index.items()} == whole


@pytest.mark.long
@pytest.mark.explore
@settings(MEMORY, max_examples=50)
@given(logs(damage=False), st.randoms(use_true_random=False))
def test_fifty_logs_in_steps(log: Log, random: Random) -> None:
    in_steps(log, random)


# --- killed at any step ------------------------------------------------------------------------
SIZES = {"mappedFileSizeCommitLog": 2048, "mappedFileSizeConsumeQueue": 100, "maxHashSlotNum": 7,
         "maxIndexNum": 12}  # fmt: skip


def written(messages: int) -> Log:
    """A log of two queues: several segments, index files that roll over."""
    found = [Message(topic=f"T{number % 2}", queue_offset=number // 2,
                     body=bytes([number]) * (number * 37 % 300),
                     store_timestamp=1_700_000_000_000 + 900 * number,
                     properties=properties(("KEYS", f"k{number} a"), ("TAGS", "t"), ("UNIQ_KEY",
                                                                                     f"U{number}"))
                     if number % 5 else b"") for number in range(messages)]  # fmt: skip
    return Log(build_log(found, SIZES["mappedFileSizeCommitLog"]), SIZES, "5.3.3", {})


def behind(log: Log, end: int, checkpoint: Checkpoint | None = None) -> MemoryFiles:
    """A store whose derived files go up to `end`, and its log further."""
    files = MemoryFiles()
    now = catching.shorter(log, end)
    catching.put_log(files, now)
    catching.catch_up(files, now)
    catching.put_log(files, log)
    if checkpoint is not None:
        inode = files.names_of[CHECKPOINT]
        files.contents[inode] = bytearray(encode(checkpoint))
    files.ops.clear()
    return files


def queues_end(files: MemoryFiles) -> int:
    """Where the last record ends that any queue has."""
    end = 0
    for path, content in catching.derived(files).items():
        if not path.startswith("index/"):
            entries = np.frombuffer(content, ">i8,>i4,>i8")
            used = entries[(entries["f1"] > 0) & (entries["f1"] != 0x7FFFFFFF)]
            end = max([end, *(used["f0"] + used["f1"]).tolist()])
    return end


LATER = Checkpoint(1_900_000_000_000, 1_900_000_000_000)


@pytest.mark.parametrize(("share", "checkpoint", "every"), [
    (2, None, 19), pytest.param(1, LATER, 3, marks=pytest.mark.long)])  # fmt: skip
def test_a_kill_after_any_operation(share: int, checkpoint: Checkpoint | None, every: int) -> None:
    """The next catch-up writes the same bytes; a broker that comes first finds each key once."""
    log = written(40)
    ends = record_ends(log)
    start = behind(log, ends[len(ends) * share // 4], checkpoint)
    files = copy.deepcopy(start)
    catching.catch_up(files, log)
    wanted = derive(*log)
    assert catching.difference(files, wanted) is None
    given = writer_settings_from(as_text(SIZES))
    keys = Load(files.tree(), given).indexed
    states = list(distinct(crash_states(start, files.ops, 5, 2, every)))
    assert len(states) > 30
    for crash in states:
        where = f"after {crash.after} of {len(files.ops)}, {crash.how}"
        broker = Load(crash.files.tree(), given)
        found = broker.found(keys)
        if not broker.crashed:  # it goes on where the queues end
            at = max(queues_end(crash.files), broker.end_offset)
            found = found + type(keys)({key: n for key, n in keys.items() if key[1] >= at})
        assert found == keys, f"{where}: a broker lacks {keys - found}, has twice {found - keys}"
        by_writer = copy.deepcopy(crash.files)
        open_memory(by_writer, given, Clock(1_900_000_000_000)).close()
        assert catching.difference(by_writer, wanted) is None, where
        catching.catch_up(crash.files, log)
        assert catching.difference(crash.files, wanted) is None, where
        assert not catching.left_behind(crash.files), where


def test_the_log_and_abort_are_durable_before_a_queue_grows_and_the_end_is_in_the_end() -> None:
    log = written(20)
    start = behind(log, record_ends(log)[10])
    files = copy.deepcopy(start)
    catching.catch_up(files, log)
    done = [f"{op.kind} {op.path}" for op in files.ops]
    first = next(n for n, step in enumerate(done) if step.startswith("write consumequeue/"))
    assert done[done.index(f"sync {ABORT}") + 1] == "sync folder "  # no index makes another one
    assert f"sync commitlog/{max(log.segments):020d}" in done[:first]
    for number, op in enumerate(files.ops):  # each before the next step
        if op.data in (CHECKPOINT.encode(), NOTE.encode()) or done[number] == f"remove {ABORT}":
            assert done[number + 1] == "sync folder ", op
    noted = done.index(f"remove {NOTE}")
    for crash in crash_states(start, files.ops, 5, 0):
        if crash.after == len(done):
            assert not catching.left_behind(crash.files), crash.how
        elif crash.after == noted and crash.how == "killed":  # only the note is left
            again = copy.deepcopy(crash.files)
            catching.catch_up(again, log)
            lost = next(s for s in crash_states(crash.files, again.ops, 5, 0)
                        if (s.after, s.how) == (len(again.ops), "lost"))  # fmt: skip
            assert not catching.left_behind(lost.files)


# --- not of this log -----------------------------------------------------------------------------
def test_queues_or_an_index_of_another_log_are_refused() -> None:
    log = written(40)
    other = behind(log, record_ends(log)[20])
    empty = {start: bytes(len(data)) for start, data in log.segments.items()}
    catching.put_log(other, log._replace(
        segments=empty | catching.shorter(log, record_ends(log)[10]).segments))  # fmt: skip
    with pytest.raises(BadQueue, match="no sound record stands there"):
        catching.catch_up(other, log)
    assert ABORT not in other.names_of
    assert not other.ops
    log = written(40)
    files = behind(log, record_ends(log)[20])
    newest = max(path for path in files.names_of if path.startswith("index/"))
    file = files.open(newest)
    file.write_at(8, (1).to_bytes(8))  # endTimestamp
    files.ops.clear()
    with pytest.raises(BadIndex, match="endTimestamp 1: that record has 1700000"):
        catching.catch_up(files, log)
    assert not files.ops


def test_a_hole_in_the_log_is_refused_before_anything_is_written() -> None:
    log = written(40)
    files = behind(log, record_ends(log)[20])
    at = record_ends(log)[24]
    size = SIZES["mappedFileSizeCommitLog"]
    segment = at - at % size
    broken = bytearray(log.segments[segment])
    broken[at - segment + 100] ^= 1  # in a body
    catching.put_log(files, log._replace(segments={**log.segments, segment: bytes(broken)}))
    with pytest.raises(Exception, match="live records follow"):
        catching.catch_up(files, log)
    assert not files.ops
    # As where a segment was lost and made anew; one that is prepared ahead is no fault.
    log = written(40)
    files = behind(log, record_ends(log)[2])
    lost = sorted(log.segments)[1]
    catching.put_log(files, log._replace(segments={**log.segments, lost: bytes(2048)}))
    with pytest.raises(Exception, match="live records follow"):
        catching.catch_up(files, log)
    assert not files.ops
    ahead = max(log.segments) + 2048
    catching.put_log(files, log._replace(segments={**log.segments, ahead: bytes(2048)}))
    catching.catch_up(files, log)
    assert catching.difference(files, derive(*log)) is None
