"""Where a queue's files begin: its first queueOffset says so, in Java's wrapping arithmetic."""

import hashlib
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reput.jobs.pipeline import pipeline
from reput.jobs.pipeline.pipeline import Cut
from reput.store_format.derived.queue_files import pre_blank
from reput.store_format.dispatch.scan import place_rules
from reput.store_format.names import segment_name
from reput.store_format.release.profiles import profile
from reput.udfs.rebuild import queues
from reput.udfs.rebuild.queues import SmallQueues, _shares, built_rows
from reput.udfs.rebuild.runs import StagedRuns
from reput.udfs.staging import ENTRIES, PLACED_TREE, RUN, Staging
from tests.against_reference import difference
from tests.in_process import Session, rebuild_log
from tests.logs import Log, Message, build_log, properties
from tests.logs.damage import record_places
from tests.memory_storage import MemoryStorage
from tests.reference import derive

SEGMENT, FILE = 2048, 40  # of two entries
BLANK, NOTHING = -1, -2
WRAPS = 1 << 60  # 20 times as much is 2^62 once it has wrapped, 24 bytes into a file
FIRST = (1 << 62) - 24
SIZES = {"mappedFileSizeCommitLog": SEGMENT, "mappedFileSizeConsumeQueue": FILE, "maxIndexNum": 9,
         "maxHashSlotNum": 7}  # fmt: skip


def files_of(*offsets: int) -> dict[int, list[int]]:
    """A queue of messages with these queueOffsets: which of them each file has, by its start."""
    log = build_log([Message(queue_offset=offset) for offset in offsets], SEGMENT)
    rebuilt = rebuild_log(Log(log, SIZES, "5.3.3", {}))
    places = record_places(log)

    def number(place: int, size: int, _: int) -> int:
        if size in (0, 0x7FFFFFFF):
            return BLANK if size else NOTHING
        return places.index(place)

    return {
        int(name[-20:]): [number(*each) for each in struct.iter_unpack(">qiq", raw)]
        for name, raw in rebuilt.files.items()
        if name.startswith("consumequeue/")
    }


@pytest.mark.parametrize(("offsets", "files"), [
    ((0, 1), {0: [0, 1]}), ((1, 2), {0: [BLANK, 0], 40: [1, NOTHING]}),
    ((6, 7, 8), {120: [0, 1], 160: [2, NOTHING]}),
    ((0, 1, 1), {0: [0, 1], 40: [NOTHING, NOTHING]}),  # one left out behind a full file
])  # fmt: skip
def test_pre_blanks_stand_before_the_first_entry_of_its_file(offsets, files) -> None:
    assert files_of(*offsets) == files


@pytest.mark.parametrize(("more", "files"), [
    ((), {}), ((1,), {FIRST + 40: [1, NOTHING]}),
    ((1, 2, 3), {FIRST + 40: [1, 2], FIRST + 80: [3, NOTHING]}),
    ((0,), {FIRST + 40: [NOTHING, NOTHING]}),
])  # fmt: skip
def test_pre_blanks_may_fill_the_first_file_so_that_its_message_is_left_out(more, files) -> None:
    """Its own position is behind the queue's next one by then."""
    offsets = (WRAPS, *(WRAPS + each for each in more))
    assert files_of(*offsets) == {FIRST: [BLANK, BLANK]} | files


@pytest.mark.parametrize("offsets", [(0, 1, 2, 1, 3), (0, 1, 1, 2, 3), (0, 1, 2, 3, 4, 1)])
def test_a_message_left_out_of_a_run_in_several_files_is_said_once(offsets) -> None:
    log = build_log([Message(queue_offset=offset) for offset in offsets], SEGMENT)
    left_out = rebuild_log(Log(log, SIZES, "5.3.3", {})).summary.manifest()["in_no_queue"]
    assert len(left_out) == 1
    assert "its queueOffset 1 is below the next position; the record at 92 is" in left_out[0]


# --- Where there are few runs, each task builds its share of the queues: no row is shuffled.
SETTINGS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 16384, "mappedFileSizeConsumeQueue": 100, "maxHashSlotNum": 7,
    "maxIndexNum": 9,
}  # fmt: skip
LIMITS = ("_LISTS_READ_BY_ALL", "_ENTRIES_OF_A_TASK")


def a_log() -> Log:
    messages = [Message(topic=f"T{n % 3}", queue_id=n % 2, queue_offset=n // 6,
                        properties=properties(("KEYS", str(n)))) for n in range(60)]  # fmt: skip
    return Log(build_log(messages, 16384), SETTINGS, "5.3.3", {})


def shuffled(cut: Cut) -> int:
    """Rows that went through Spark between tasks, in a rebuild whose bytes are right."""
    session, wanted = Session(), derive(*a_log())
    assert difference(rebuild_log(a_log(), cut, session), wanted) is None
    splits = -(-16384 // (cut.split_bytes or 16384))
    rows = splits + 1 + len(wanted.files)  # 1: what stands behind the end; no file twice
    assert session.rows_collected == rows
    return session.rows_shuffled


@pytest.mark.parametrize("limit", LIMITS)
def test_many_runs_are_shared_out_by_spark(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    assert shuffled(Cut(split_bytes=1000)) == 0
    monkeypatch.setattr(pipeline, limit, 3)
    assert shuffled(Cut(split_bytes=1000)) > 0


@pytest.mark.parametrize(
    ("a_task", "together", "few"),
    [(1 << 20, 1 << 20, True), (3, 1 << 20, False), (1 << 20, 3, False), (1 << 20, 9_000, False)],
)
def test_lists_are_read_by_all_as_far_as_that_is_little(monkeypatch, a_task, together, few) -> None:
    """The lists of this log count as 4,608 bytes; there are two cores."""
    monkeypatch.setattr(pipeline, "_LIST_BYTES_READ_BY_ALL", 3)
    monkeypatch.setattr(pipeline, "_MOST_LIST_BYTES_OF_A_TASK", a_task)
    monkeypatch.setattr(pipeline, "_LIST_BYTES_OF_ALL", together)
    assert (shuffled(Cut(split_bytes=1000)) == 0) == few


def test_an_index_file_of_many_puts_is_built_in_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    chained = pipeline.ChainRanges
    monkeypatch.setattr(pipeline, "ChainRanges", lambda index: made.append(index) or chained(index))
    one_file = {**SETTINGS, "maxIndexNum": 1000}
    log = a_log()._replace(settings=one_file)
    rebuild_log(log)
    assert made == []
    monkeypatch.setattr(pipeline, "_PUTS_OF_A_TASK", 3)
    assert difference(rebuild_log(log), derive(*log)) is None
    assert [index.ranges for index in made] == [2]


@pytest.mark.parametrize(("messages_a_share", "shares"), [(60, 2), (20, 3), (1, 4)])
def test_large_queues_are_built_in_more_shares_than_there_are_cores(
    monkeypatch: pytest.MonkeyPatch, messages_a_share: int, shares: int
) -> None:
    made = []
    build = pipeline.BuildShares
    monkeypatch.setattr(
        pipeline, "BuildShares", lambda *words: made.append(words[1]) or build(*words)
    )
    monkeypatch.setattr(pipeline, "_ENTRIES_OF_A_SHARE", messages_a_share)
    assert difference(rebuild_log(a_log()), derive(*a_log())) is None
    assert made == [shares]


def test_each_queue_is_in_one_share_and_a_topic_s_queues_are_in_turn() -> None:
    row = {**dict.fromkeys(RUN.names, 0), "batch": False}
    queues = [(f"topic {n}", number) for n in range(5) for number in (-1, 0, 1, 2)]
    rows = [{**row, "topic": topic, "queue_id": number} for topic, number in queues]
    shares = _shares(pa.RecordBatch.from_pylist(rows + rows, RUN), 2).tolist()
    assert shares[: len(rows)] == shares[len(rows) :]
    for at in range(0, len(rows), 4):
        assert shares[at : at + 4] in ([0, 1, 0, 1], [1, 0, 1, 0])


# --- Small queues are built where they are numbered; that changes no byte, and no promise.
Row = dict[str, Any]
IN_FILE = 5  # entries
BYTES = 20


def entry(queue: int, number: int) -> bytes:
    return bytes([queue, number]) * (BYTES // 2)


class Job:
    """Runs in staging: (queue, split, first queueOffset, how many entries)."""

    def __init__(self, *runs: tuple[int, int, int, int]) -> None:
        self.storage = MemoryStorage()
        self.files = StagedRuns(Staging(self.storage, "staging"), {0: "a", 1: "b"},
                                place_rules(profile("5.3.3")), IN_FILE * BYTES, 46)  # fmt: skip
        content = {0: bytearray(), 1: bytearray()}
        self.rows: list[Row] = []
        for queue, split, first, count in runs:
            self.rows.append({
                "topic": "T", "queue_id": queue, "batch": False, "split": split, "part": 0,
                "entries_at": len(content[split]), "count": count, "offsets_at": -1,
                "first": first, "greatest": first + count - 1, "times_at": -1,
            })  # fmt: skip
            content[split] += b"".join(entry(queue, first + n) for n in range(count))
            content[split] += b"other"  # what is between runs is not read for entries
        for split, name in self.files.runs.items():
            self.storage.files[f"staging/{name}{ENTRIES}"] = bytes(content[split])

    def run(self, rows_a_batch: int = 100) -> tuple[list[Row], list[Row]]:
        """(rows of queues that are handed on, BUILT rows)"""
        small = SmallQueues(self.files)
        table = pa.Table.from_pylist(self.rows, RUN)
        others = list(small.others(iter(table.to_batches(rows_a_batch))))
        built = [row for stream in small.take() for some in built_rows(stream)
                 for row in some.to_pylist()]  # fmt: skip
        return [row for some in others for row in some.to_pylist()], built


@pytest.mark.parametrize("rows_a_batch", [1, 2, 100])
@pytest.mark.parametrize("at_once", [3, 4, 1000])
def test_files_of_small_queues(monkeypatch, rows_a_batch: int, at_once: int) -> None:
    monkeypatch.setattr(queues, "_RUNS_AT_ONCE", at_once)
    job = Job((1, 0, 0, 2), (1, 1, 2, 2), (2, 0, 3, 4), (2, 1, 7, 1), (3, 1, 0, 1))
    others, built = job.run(rows_a_batch)
    assert others == []
    blank = pre_blank(1)
    wanted = {("1", 0): b"".join(entry(1, n) for n in range(4)),
              ("2", 0): blank * 3 + entry(2, 3) + entry(2, 4),
              ("2", 1): b"".join(entry(2, n) for n in (5, 6, 7)),
              ("3", 0): entry(3, 0)}  # fmt: skip
    assert len(built) == len(wanted)
    for row in built:
        queue = row["folder"].rpartition("/")[2]
        content = wanted[queue, row["number"]]
        whole = content.ljust(IN_FILE * BYTES, b"\0")
        name = f"{PLACED_TREE}/{row['folder']}/{segment_name(row['number'] * len(whole))}"
        assert row["name"] == name
        assert job.storage.files[f"staging/{name}"] == whole
        assert row["sha256"] == hashlib.sha256(content).hexdigest()
        assert (row["length"], row["used"]) == (len(whole), len(content))
    assert sum(row["entries"] for row in built) == 10


@pytest.mark.parametrize(
    "change",
    [{"offsets_at": 0}, {"batch": True}, {"first": -1}, {"first": (1 << 63) - 5},
     {"first": 1 << 60}, {"count": 1 << 13}], ids=str,
)  # fmt: skip
def test_other_queues_are_handed_on(change: Row) -> None:
    job = Job((1, 0, 0, 2), (2, 0, 0, 2), (3, 0, 0, 2))
    job.rows[1] |= change
    others, built = job.run(2)
    assert others == [job.rows[1]]
    assert [row["folder"] for row in built] == ["consumequeue/T/1", "consumequeue/T/3"]


def test_a_queue_that_does_not_go_on_or_has_more_rows_than_are_looked_at_is_handed_on_whole(
    monkeypatch,
) -> None:
    job = Job((1, 0, 0, 2), (1, 1, 3, 2), (2, 0, 0, 2))
    others, built = job.run()
    assert others == job.rows[:2]
    assert len(built) == 1
    monkeypatch.setattr(queues, "_RUNS_AT_ONCE", 2)
    job = Job(*[(1, 0, n, 1) for n in range(5)], (2, 0, 0, 2))
    others, built = job.run(1)
    assert others == job.rows[:5]
    assert len(built) == 1


def test_a_second_attempt_makes_files_of_its_own() -> None:
    job = Job((1, 0, 0, 2))
    _, (first,) = job.run()
    job.storage.files[f"staging/{first['name']}"] = b"half"
    _, (second,) = job.run()
    assert second["name"] != first["name"]
    assert second["sha256"] == first["sha256"]
    whole = job.storage.files[f"staging/{second['name']}"]
    assert whole == np.frombuffer(entry(1, 0) + entry(1, 1), np.uint8).tobytes().ljust(100, b"\0")
