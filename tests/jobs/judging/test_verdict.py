"""What is wrong with derived files, and what only looks wrong."""

import json

import numpy as np
import pytest

from reput.jobs.judging.report import MISSING_AT_END, ONE_TOO_MANY, Difference, Report
from reput.jobs.judging.verdict import BatchEntryAt, batch_entries, first_difference
from reput.jobs.verify import verify
from reput.store_format.derived.checkpoint import Checkpoint, encode
from reput.store_format.files.local import LocalStorage
from reput.store_format.layouts import BATCH_QUEUE_ENTRY, BATCH_QUEUE_ENTRY_BYTES
from tests.in_process import OUTPUT, STORE, Session, as_text, run, storage_of
from tests.logs import Log
from tests.logs.damage import record_places
from tests.logs.encoder import Message, build_log, properties
from tests.memory_storage import MemoryStorage
from tests.store_format.discover.index_files import IndexFile

SEGMENT, QUEUE_FILE = 4096, 200  # ten entries a queue file
SETTINGS = {"mappedFileSizeCommitLog": SEGMENT, "mappedFileSizeConsumeQueue": QUEUE_FILE,
            "maxHashSlotNum": 7, "maxIndexNum": 20}  # fmt: skip
KEYS_A_FILE = 19  # maxIndexNum - 1
MESSAGES = [
    Message("Gone" if n < 3 else "T", 0, n if n < 3 else n - 3, b"x",
            properties(("KEYS", f"k{n}")), 1_700_000_000_000 + 1000 * n)
    for n in range(50)
]  # fmt: skip
Files = dict[str, bytes]


def queue(start: int, topic: str = "T") -> str:
    return f"consumequeue/{topic}/0/{start:020d}"


@pytest.fixture(scope="module")
def whole() -> Files:
    """A store with all that its log of two segments gives, without its root."""
    topics: dict[str, dict[str, str]] = {"T": {}, "Gone": {}}
    storage = storage_of(Log(build_log(MESSAGES, SEGMENT), SETTINGS, "5.3.3", topics))
    run(STORE, OUTPUT, rocketmq="5.3.3", settings=as_text(SETTINGS), storage=storage)
    return {path.partition("/")[2]: raw for path, raw in storage.files.items()
            if not path.endswith("manifest.json")}  # fmt: skip


def judged(files: Files) -> Report:
    storage = MemoryStorage({f"{STORE}/{path}": raw for path, raw in files.items()})
    return verify(Session(), STORE, rocketmq="5.3.3", settings=as_text(SETTINGS), storage=storage)


def paths(found: list[str]) -> list[str]:
    return [path.removeprefix(f"{STORE}/") for path in found]


@pytest.mark.parametrize(("change", "differences"), [
    ({}, []), ({queue(1000): bytes(QUEUE_FILE)}, []),
    ({queue(1200): bytes(QUEUE_FILE)}, [(queue(1200), "the log gives no such file")]),
    ({queue(1000): bytes(QUEUE_FILE - 1)}, [(queue(1000), "file length")]),
    ({queue(1000): b"\1" * QUEUE_FILE}, [(queue(1000), "the log gives no such file")]),
    ({queue(0, "New"): b"\1" * QUEUE_FILE},
     [(queue(0, "New"), "the log gives no such file")]),
    ({queue(200): None}, [(queue(200), "the file is missing")]),
    ({queue(800): None}, [(queue(800), "the file is missing")]),
    ({queue(0, "Gone"): None}, [(queue(0, "Gone"), "the file is missing")]),
])  # fmt: skip
def test_of_a_store_that_was_stopped_all_files_count_but_prepared_ones(
    whole: Files, change: dict[str, bytes | None], differences: list[tuple[str, str]]
) -> None:
    files = {path: raw for path, raw in (whole | change).items() if raw is not None}
    report = judged(files)
    found = [(each.path.removeprefix(f"{STORE}/"), each.field) for each in report.differences]
    assert found == differences
    unused = any(queue(1000) == path and not any(raw or b"x") and len(raw or b"") == QUEUE_FILE
                 for path, raw in change.items())  # fmt: skip
    assert any("of zeros only at a queue's end" in note for note in report.notes) == unused
    assert (report.behind, report.expired) == ([], [])


def test_after_a_crash_a_broker_makes_the_last_files_anew(whole: Files) -> None:
    """It dispatches from the last segment that begins before the checkpoint's times."""
    late = MESSAGES[-1].store_timestamp
    files = whole | {"abort": b"", "checkpoint": encode(Checkpoint(late, late, late))}
    del files[queue(200)], files[queue(800)]
    report = judged(files)
    assert paths([each.path for each in report.differences]) == [queue(200)]
    assert paths([each.path for each in report.behind]) == [queue(800)]
    assert any("short of the log's end: 1 derived file," in note for note in report.notes)


def test_files_of_expired_messages_and_of_deleted_topics_are_no_faults(whole: Files) -> None:
    """Whole files of them, but never a queue's last file: so the one of `Gone` stays."""
    files = dict(whole)
    expired = files.pop(f"commitlog/{0:020d}").count(b"KEYS\x01")
    report = judged(files)
    assert report.same
    index = sorted(path for path in whole if path.startswith("index/"))
    queues = [queue(200 * n) for n in range((expired - 3) // 10)]
    assert paths(report.expired) == [*queues, *index[: expired // KEYS_A_FILE]]
    topics: dict[str, dict[str, str]] = {"T": {}}
    table = {"topicConfigTable": topics}
    files = whole | {"config/topics.json": json.dumps(table).encode()}
    del files[queue(0, "Gone")]
    report = judged(files)
    assert report.same
    assert "1 deleted topic in the log" in report.notes


@pytest.mark.parametrize(
    ("files", "changed", "differs"),
    [
        ((19, 4, 19, 4, 4), None, []),
        ((19, 4, 19, 4, 4), (1, 40 + 7 * 4 + 20 + 3), [1]),  # a keyHash of the half-filled file
        ((19, 4, 19, 4, 4), (2, 40 + 7 * 4 + 20 + 15 + 20), [2]),  # the second timeDiff
        ((19, 4, 19, 4, 4), (1, 39), [1, 2, 3, 4]),  # indexCount
        ((19, 4, -1, 18, 4, 4), None, [1, 2, 3, 4]),  # a message is in no file
    ],
)
def test_index_files_may_end_early_after_a_restart_further_west(
    files: tuple[int, ...], changed: tuple[int, int] | None, differs: list[int], whole: Files
) -> None:
    """Lives in Tokyo, London, Chicago and Honolulu: a broker began a new file in each, as the one
    from Tokyo, which was full, was last by name. A first timeDiff counts from that file's end.
    """
    store = {path: raw for path, raw in whole.items() if not path.startswith("index/")}
    places, at, names = record_places(build_log(MESSAGES, SEGMENT)), 0, list[str]()
    for count in files:
        file = IndexFile(7, 20)
        full = at if at and store[names[-1]][39] == 20 else min(at, 19)
        file.begin_timestamp = MESSAGES[full - 1].store_timestamp if full else 0
        for n in range(at, at + count):
            file.put(f"{MESSAGES[n].topic}#k{n}", places[n], MESSAGES[n].store_timestamp)
        if count > 0:
            names.append(f"index/2023111{5 - len(names)}071320000")
            store[names[-1]] = file.raw()
        at += abs(count)
    assert at == len(MESSAGES)
    if changed:
        number, place = changed
        raw = bytearray(store[names[number]])
        raw[place] ^= 2
        store[names[number]] = bytes(raw)
    found = paths([each.path for each in judged(store).differences])
    assert found == sorted(names[n] for n in differs)


# --- Batch queues compared by their entries: what counts, and what a difference is.
LOG_START = 1000
WANTED = (1000, 1200, 1400)


def entries(*places: int, size: int = 200) -> list[BatchEntryAt]:
    rows = np.zeros(len(places), BATCH_QUEUE_ENTRY)
    rows["physicalOffset"], rows["size"], rows["batchSize"] = places, size, 2
    rows["baseOffset"] = np.arange(len(places)) * 2
    return [("q/0", at * BATCH_QUEUE_ENTRY_BYTES, row) for at, row in enumerate(rows)]


def moved(found: list[BatchEntryAt], by: int) -> list[BatchEntryAt]:
    return [(path, at + by, entry) for path, at, entry in found]


def test_the_first_difference_is_none_of_the_same_entries_at_other_places() -> None:
    there = [*entries(600, 800), *moved(entries(*WANTED), 92), *entries(0, size=0)]
    assert first_difference(entries(*WANTED), there, "q/0", LOG_START) is None
    for found, difference, place in [
        (entries(*WANTED[:2]), Difference("q/last", 0, MISSING_AT_END, None, None), 1400),
        ([], Difference("q/last", 0, MISSING_AT_END, None, None), 1000),
        (entries(*WANTED, 1600), Difference("q/0", 138, ONE_TOO_MANY, 1600, 0), 1600),
        (entries(1000, 1300, 1400), Difference("q/0", 46, "physicalOffset", 1300, 1200), 1200),
        (entries(*WANTED, size=199), Difference("q/0", 0, "size", 199, 200), 1000),
    ]:
        wanted = (difference, place)
        assert first_difference(entries(*WANTED), found, "q/last", LOG_START) == wanted


def test_entries_are_read_as_far_as_they_are_used(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = str(tmp_path / "00000000000000000000")
    rows = np.zeros(3, BATCH_QUEUE_ENTRY)
    rows["physicalOffset"] = WANTED
    rows.tofile(path)
    read = list(batch_entries(LocalStorage(), [(path, 2 * BATCH_QUEUE_ENTRY_BYTES)]))
    assert [(name, at, int(entry["physicalOffset"])) for name, at, entry in read] == [
        (path, 0, 1000), (path, BATCH_QUEUE_ENTRY_BYTES, 1200),
    ]  # fmt: skip
