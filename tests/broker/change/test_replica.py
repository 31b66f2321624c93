"""`ReplicaLog`: whatever pieces bytes come in, the files end where a whole record ends."""

from pathlib import Path
from random import Random

import pytest

from reput.broker.change.replica import ReplicaLog, Standing, write_standing
from reput.store_format.files.disk import DiskFiles
from tests.faults.killing import lengths_at_each_kill
from tests.faults.memory_files import MemoryFiles, Op, crash_states
from tests.jobs.replicating.stores import SEGMENT_BYTES, messages, record_starts
from tests.logs.encoder import build_log
from tests.seeds import seeds


def source() -> tuple[bytes, list[int]]:
    """A log of several segments, and where its records end; a segment counts as one's end."""
    segments = build_log(messages(40), SEGMENT_BYTES)
    whole = {start: data.ljust(SEGMENT_BYTES, b"\0") for start, data in segments.items()}
    starts, end = record_starts(whole)
    ends = sorted({*starts[1:], end, *(start for start in whole if start)})
    return b"".join(whole.values())[:end], ends


def in_files(files: MemoryFiles) -> bytes:
    names = sorted(files.names("commitlog"))
    return b"".join(bytes(files.contents[files.names_of[f"commitlog/{name}"]]) for name in names)


@pytest.mark.explore
@pytest.mark.parametrize("seed", seeds(range(3)))
def test_at_every_operation_the_log_ends_with_a_whole_record(seed: int) -> None:
    raw, ends = source()
    random = Random(seed)
    files = MemoryFiles()
    log = ReplicaLog(files, SEGMENT_BYTES, 0)

    def look(op: Op) -> bool:
        """Before each change: what a kill would leave now."""
        there = in_files(files)
        assert there[: log.end] == raw[: log.end]
        assert not any(there[log.end : log.end + 8]), (op.kind, log.end)
        return False

    files.fail = look
    while log.end < len(raw):
        stop = (log.end // SEGMENT_BYTES + 1) * SEGMENT_BYTES
        piece = raw[log.written : min(log.written + random.randrange(1, 700), stop, len(raw))]
        log.write(piece)
        whole = [end for end in ends if log.end < end <= log.written]
        if whole and (random.random() < 0.7 or log.written in (stop, len(raw))):
            log.commit(random.choice(whole) if log.written < min(stop, len(raw)) else whole[-1])
        if random.random() < 0.1:
            log.rewind()
    look(Op("end", ""))
    assert in_files(files)[: len(raw)] == raw


def test_a_kill_leaves_no_segment_without_its_length(tmp_path: Path) -> None:
    """MappedFileQueue.load refuses an empty one before 5.1.3."""
    work = lambda root: ReplicaLog(DiskFiles(root), SEGMENT_BYTES, 0).write(bytes(100))  # noqa: E731
    assert lengths_at_each_kill(tmp_path, work) == {SEGMENT_BYTES}


def test_a_segment_begins_behind_a_whole_one_and_what_was_noted_is_there() -> None:
    log = ReplicaLog(MemoryFiles(), SEGMENT_BYTES, 0)
    log.write(bytes(SEGMENT_BYTES))
    with pytest.raises(ValueError, match="before 0 is committed"):
        log.write(b"x")
    raw, ends = source()
    files = MemoryFiles()
    log = ReplicaLog(files, SEGMENT_BYTES, 0)
    log.write(raw[: ends[0]])
    log.commit(ends[0])
    log.sync()
    write_standing(files, Standing("s", ends[0], 0, {}))
    left = [c.files.tree() for c in crash_states(MemoryFiles(), files.ops, 1,
                                                 0) if c.after == len(files.ops)]  # fmt: skip
    assert left == [files.tree()] * 3
