"""What a task holds in memory, what it reads, and what comes to the driver."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reput.jobs.pipeline.pipeline import Cut
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.files.local import LocalReader, LocalStorage
from reput.store_format.log.segments import Splits, find_segments
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.udfs.rebuild.scan import ScanSplits
from reput.udfs.staging import Staging
from tests.in_process import Session, rebuild_log
from tests.logs import Log
from tests.logs.encoder import MAGIC_BLANK, Message, build_log, encode, properties
from tests.processes import run_python

GIB = 1 << 30
MIB = 1 << 20


def huge_bodies(path: Path, bodies: int) -> None:
    """A segment of a GiB, nearly all holes: records with bodies of zeros, then the log's end.

    A body of zeros is not checked where its CRC is not asked for.
    """
    each = GIB // bodies - 200
    with path.open("wb") as file:
        at = 0
        for number in range(bodies):
            message = Message(queue_offset=number, properties=properties(("KEYS", f"k{number}")))
            whole = bytearray(encode(message, at))
            size = len(whole) + each
            whole[:4] = size.to_bytes(4, "big")
            whole[84:88] = each.to_bytes(4, "big")
            file.seek(at)
            file.write(whole[:88])
            file.seek(at + 88 + each)
            file.write(whole[88:])
            at += size
        rest = (GIB - at).to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big")
        file.seek(at)
        file.write(rest)
        file.truncate(GIB)


def small_records(path: Path) -> int:
    """A segment of a GiB full of small records, its text written a part at a time."""
    record = np.frombuffer(encode(Message(properties=properties(("KEYS", "k"), ("TAGS", "t"))), 0),
                           np.uint8)  # fmt: skip
    size = len(record)
    count = (GIB - 8) // size
    with path.open("wb") as file:
        for start in range(0, count, 100_000):
            numbers = np.arange(start, min(start + 100_000, count), dtype=np.int64)
            block = np.tile(record, len(numbers)).reshape(-1, size)
            for at, values in ((20, numbers), (28, numbers * size)):
                block[:, at : at + 8] = values.astype(">i8").view(np.uint8).reshape(-1, 8)
            file.write(block.tobytes())
        rest = GIB - count * size
        file.write(rest.to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big"))
        file.truncate(GIB)
    return count


class Counting(LocalStorage):
    """Counts the bytes read of input files, and the longest read."""

    def __init__(self) -> None:
        super().__init__()
        self.read = self.longest = 0

    def open(self, path: str, state: Any = None) -> LocalReader:
        reader = super().open(path, state)
        read_into = reader.read_into

        def counted(offset: int, buffer: Any) -> None:
            self.read += len(buffer)
            self.longest = max(self.longest, len(buffer))
            read_into(offset, buffer)

        reader.read_into = counted  # type: ignore[method-assign]
        return reader


def scan_splits(store: Path, staging: Path, split_bytes: int, numbers: range) -> tuple[Any, ...]:
    """Scan some splits of a store, as one task after the other: rows, storage."""
    storage = Counting()
    settings = settings_from({"checkCRCOnRecover": "false"})
    segments = find_segments(storage, [f"{store}/commitlog"], GIB)
    staging.mkdir(exist_ok=True)
    task = ScanSplits(storage, Staging(storage, str(staging)), Splits(segments, split_bytes, GIB),
                      scan_rules(profile("5.3.3"), settings, ()), numbers, (0,), {})  # fmt: skip

    def ids() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"id": [0]})

    rows = [row for batch in task(ids()) for row in batch.to_pylist()]
    return rows, storage


# The scan's own memory: the peak of the process, less what it is without a scan.
PEAK = """
import sys
from pathlib import Path
from tests.attack.test_bounds import scan_splits, GIB
from tests.memory import Peak

store, staging, split_bytes = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
warm = scan_splits(store, staging, 1 << 20, range(1))  # kernels and imports
peak = Peak()
rows, _ = scan_splits(store, staging, split_bytes, range(GIB // split_bytes))
print(sum(row["records"] for row in rows), peak.added)
"""


def peak_of_scan(tmp_path: Path, split_bytes: int) -> tuple[int, int]:
    """Records, and MiB that a scan of the whole store adds to a process."""
    done = run_python("-c", PEAK, tmp_path / "store", tmp_path / "staging", split_bytes,
                      timeout=300, check=True)  # fmt: skip
    records, mib = done.stdout.split()
    return int(records), int(mib)


@pytest.fixture
def commitlog(tmp_path: Path) -> Path:
    folder = tmp_path / "store" / "commitlog"
    folder.mkdir(parents=True)
    return folder


def test_a_task_does_not_hold_a_segment(tmp_path: Path, commitlog: Path) -> None:
    """One split of a whole GiB, of bodies far longer than any window."""
    huge_bodies(commitlog / f"{0:020d}", 4)
    records, mib = peak_of_scan(tmp_path, GIB)
    assert records == 4
    assert mib < 160  # a window, and tables for a million puts


@pytest.mark.long
def test_a_task_does_not_hold_a_segment_of_small_records(tmp_path: Path, commitlog: Path) -> None:
    count = small_records(commitlog / f"{0:020d}")
    records, mib = peak_of_scan(tmp_path, GIB)
    assert records == count
    assert mib < 400


def test_each_byte_is_read_about_once(tmp_path: Path, commitlog: Path) -> None:
    """And bodies not at all, where their CRC is not asked for."""
    huge_bodies(commitlog / f"{0:020d}", 4)
    rows, storage = scan_splits(tmp_path / "store", tmp_path / "staging", GIB, range(1))
    assert rows[0]["records"] == 4
    assert storage.longest <= 16 * MIB
    assert storage.read < 128 * MIB


def uniform(count: int, segment: int) -> Log:
    messages = [Message(topic=f"T{number % 3}", queue_offset=number // 3,
                        properties=properties(("KEYS", f"k{number}")))
                for number in range(count)]  # fmt: skip
    settings = {"mappedFileSizeCommitLog": segment, "mappedFileSizeConsumeQueue": 2_000_000,
                "maxHashSlotNum": 100, "maxIndexNum": 100_000}  # fmt: skip
    return Log(build_log(messages, segment), settings, "5.3.3", {})


def test_what_the_driver_collects_does_not_grow_with_messages() -> None:
    collected = []
    for count in (300, 3_000, 30_000):
        log = uniform(count, 1 << 22)
        assert len(log.segments) == 1
        session = Session()
        rebuilt = rebuild_log(log, Cut(split_bytes=1 << 20, index_ranges=2, partitions=2), session)
        assert rebuilt.summary.messages == count
        collected.append(session.rows_collected)
    # four splits, three queues with a file each, one index file
    assert collected == [4 + 3 + 1] * 3


@pytest.mark.parametrize("small", [True, False])
def test_rows_that_cross_the_shuffle_do_not_grow_with_messages(small: bool) -> None:
    """Neither those of queues that are small, nor of others."""
    shuffled = []
    for count in (300, 3_000, 30_000):
        session = Session()
        session.small = (1 << 20 if small else 0, 1 << 15)
        rebuild_log(uniform(count, 1 << 22), Cut(1 << 22, 2, 2), session)
        shuffled.append(session.rows_shuffled)
    assert len(set(shuffled)) == 1


def test_a_split_is_skipped_without_a_look_at_what_a_record_reaches_over(
    tmp_path: Path, commitlog: Path
) -> None:
    """64 splits, four records: the others find nothing, and read their own bytes only."""
    huge_bodies(commitlog / f"{0:020d}", 4)
    rows, storage = scan_splits(tmp_path / "store", tmp_path / "staging", GIB // 64, range(20, 24))
    assert [row["first"] for row in rows] == [-1] * 4
    assert storage.read < 4 * (GIB // 64) + (1 << 17)
    assert os.path.getsize(commitlog / f"{0:020d}") == GIB


# --- A store of 100,000 topics: commands take memory and time in proportion, and no more.
TOPICS = 25_000
SEGMENT = 1 << 25
SETTINGS = {"mappedFileSizeConsumeQueue": 40, "maxHashSlotNum": 1000, "maxIndexNum": 300_000}
# Then says how much memory it took at most, its workers not counted.
COMMAND = """
import sys
from reput.jobs.cli import main
code = main(sys.argv[1:])
(line,) = (x for x in open("/proc/self/status") if x.startswith("VmHWM"))
sys.stderr.write("peak %s\\n" % line.split()[1])
sys.exit(code)
"""


def run(*words: object) -> tuple[int, str, int, float]:
    """(exit code, standard output, MiB, seconds of processors: others may be at work here)."""
    began = _seconds()
    done = run_python("-c", COMMAND, *map(str, words))
    *_, peak = done.stderr.split("peak ")
    return done.returncode, done.stdout, int(peak) >> 10, _seconds() - began


def _seconds() -> float:
    """Of all that have ended, as the command's workers have."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# Each file is synced: a minute and a half alone, and far more where others use the disk.
@pytest.mark.long
@pytest.mark.timeout(2400)
def test_thousands_of_topics(tmp_path: Path) -> None:
    store = tmp_path / "store"
    (store / "commitlog").mkdir(parents=True)
    made = [Message(topic=f"T{n:06d}", properties=b"KEYS\x01k\x02") for n in range(TOPICS)]
    for start, raw in build_log(made, SEGMENT).items():
        (store / "commitlog" / f"{start:020d}").write_bytes(raw)
    given = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    words = ["--rocketmq", "5.3.3", *given]
    for command, most_mib, most_seconds in (
        (["rebuild", store, "--output", tmp_path / "set", *words], 900, 300),
        (["install", tmp_path / "set", store, "--yes"], 900, 300), (["topics", store], 600, 120),
        (["query", store, "--topic", "T020000", "--key", "k"], 400, 60),
        (["check", store, *words], 900, 300)):  # fmt: skip
        code, out, mib, seconds = run(*command)
        print(command[0], code, mib, round(seconds, 1))
        assert code == 0, (command[0], out[-500:])
        assert mib < most_mib, command[0]
        assert seconds < most_seconds, command[0]
        if command[0] == "topics":
            assert out.count("\nT") == TOPICS
