"""A check judges by the release that wrote the files, and asks for what such a store must have."""

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.judging.check import check_store_of
from reput.jobs.judging.report import CheckReport
from reput.jobs.judging.shown import details, next_step, text
from reput.jobs.pipeline.job import find_store
from reput.store_format.derived.checkpoint import Checkpoint, encode
from reput.store_format.derived.index_header import decode_header
from reput.store_format.discover.purpose import CHECK
from reput.store_format.discover.store import StoreAt
from reput.store_format.faults import REASONS, Fault
from reput.store_format.message.message import Message
from reput.store_format.names import index_name
from reput.udfs.damage import searches
from tests.broker.writer.stores import Clock, open_writer, stored_records
from tests.damaged import SEGMENT, START, Damaged, damaged, messages
from tests.in_process import STORE, Session, as_text, rebuild_log, storage_of
from tests.jobs.checking import checked as log_checked
from tests.jobs.checking import run_check
from tests.jobs.opening.writing import SETTINGS as SIZES
from tests.logs.encoder import properties
from tests.memory_storage import MemoryStorage
from tests.store_format.damage.generator import derived_of
from tests.trees import flip


def checked(
    log: Damaged, more: dict[str, bytes], release: str | None = "5.3.3",
    storage: MemoryStorage | None = None, ranges: Any = None,
) -> CheckReport:  # fmt: skip
    storage = storage or storage_of(log.log)
    storage.files |= more
    at = StoreAt(storage, STORE, release, as_text(log.settings))
    found = find_store(Session(), at, CHECK)
    before = dict(storage.files)
    report = check_store_of(found, "tmp", storage, ranges)
    assert storage.files == before
    return report


def of_release(release: str) -> tuple[Damaged, dict[str, bytes]]:
    log = damaged()
    log.version = release
    return log, derived_of(log.log)


class Disk(MemoryStorage):
    """A storage that has locks, as a local disk has."""

    asks_locks, holder = True, None

    def lock_holder(self, store: str) -> int | None:
        return self.holder


def test_a_killed_broker_needs_recovery_and_a_running_one_does_not() -> None:
    log, files = of_release("5.3.3")
    abort, lock = {f"{STORE}/abort": b"7"}, {f"{STORE}/lock": b"lock"}
    disk = Disk(dict(storage_of(log.log).files))
    report = checked(log, files | lock, storage=disk)
    assert (report.state, report.crashed, report.lock_unknown) == ("sound", False, False)
    report = checked(log, files | lock | abort, storage=disk)
    assert (report.state, report.crashed, report.lock_unknown) == ("needs recovery", True, False)
    for known, read in ((b"", True), (bytes(4096), True), (encode(Checkpoint(START)), False)):
        more = {f"{STORE}/checkpoint": known} if known else {}
        report = checked(log, more, storage=disk)
        assert any("reads the whole log" in each for each in report.notes) == read
    assert report.undamaged
    disk.holder = 7
    report = checked(log, {}, storage=disk)
    assert (report.state, report.crashed) == ("sound", False)
    for each in (storage_of(log.log), Disk(dict(storage_of(log.log).files))):  # no locks, no lock
        report = checked(
            log, files | abort | ({} if isinstance(each, Disk) else lock), storage=each
        )
        assert (report.state, report.lock_unknown) == ("needs recovery", True)


def test_a_log_that_is_damaged_is_not_asked_for_another_release() -> None:
    log, files = of_release("4.7.0")
    log.flip(7, 5)
    output = io.BytesIO()
    report = checked(log, files, "5.3.3", ranges=output)
    assert (report.sound, report.looks_like) == (False, "")
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    assert ("range", log.places[7]) in [(e["type"], e.get("physical_offset")) for e in lines]


def test_of_a_store_in_use_its_end_is_no_finding() -> None:
    """A broker writes its files while they are read: what its log lacks may have been appended."""
    log, files = of_release("5.3.3")
    log.put(log.places[59], bytes(log.size(59)))
    later = {**files, f"{STORE}/checkpoint": encode(Checkpoint(START + 59, START + 59))}
    stopped = checked(log, later)
    assert any("may be missing" in each.reason for each in stopped.findings)
    used = Disk(storage_of(log.log).files)
    used.holder = 77
    assert checked(log, later, storage=used).findings == []


@pytest.fixture(scope="module")
def with_times(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 300 messages, 37 ms apart, with index files of 45 messages each."""
    root, clock = tmp_path_factory.mktemp("times") / "store", Clock()
    with open_writer(root, clock=clock, **SIZES) as writer:
        for number in range(300):
            clock.now += 37
            writer.append(Message("T", bytes(60), 0, keys=f"k{number}"))
    return root


@pytest.mark.parametrize("number", [0, 43, 44, 175, 298])  # 44 ends a file of the index, 45 begins
@pytest.mark.parametrize("bit", [(0, 6), (4, 6), (5, 6)])
def test_a_flipped_time_is_the_record_s_fault_and_not_the_index_s(
    with_times: Path, number: int, bit: tuple[int, int], tmp_path: Path
) -> None:
    """It blamed a right index, and advised a rebuild that takes the wrong time over."""
    store = Path(shutil.copytree(with_times, tmp_path / "store"))
    place = list(stored_records(store / "commitlog"))[number].physical_offset
    path = store / "commitlog" / f"{place // (1 << 16) * (1 << 16):020}"
    flip(path, place % (1 << 16) + 56 + bit[0], 1 << bit[1])
    report = run_check(str(store), "5.3.3", SIZES)
    assert report.differences == []
    assert [f"physical {place}" in each.reason for each in report.findings] == [True]
    assert next_step(report).startswith("leave the index as it is")


def test_a_record_in_the_place_of_a_lost_one_has_a_time_of_its_own(with_times, tmp_path) -> None:
    """A log lost its end, and a broker went on: its index has the lost record's entry."""
    store = Path(shutil.copytree(with_times, tmp_path / "store"))
    place = list(stored_records(store / "commitlog"))[298].physical_offset
    flip(store / f"commitlog/{place // (1 << 16) * (1 << 16):020}", place % (1 << 16) + 60, 1 << 5)
    path = sorted((store / "index").iterdir())[-1]
    with path.open("r+b") as file:
        file.seek(68 + 20 * decode_header(path.read_bytes()).entries + 4)  # of the last entry
        file.write((1 << 20).to_bytes(8, "big"))
    report = run_check(str(store), "5.3.3", SIZES)
    assert not any("storeTimestamp is not between" in each.reason for each in report.findings)


@pytest.mark.parametrize("at", [15, 16])  # a whole second, and a bit of one
def test_a_flipped_time_in_the_index_stays_the_index_s_fault(with_times, at: int, tmp_path) -> None:
    store = Path(shutil.copytree(with_times, tmp_path / "store"))
    path = sorted((store / "index").iterdir())[2]
    flip(path, 40 + 4 * 7 + 20 * 30 + at)
    report = run_check(str(store), "5.3.3", SIZES)
    assert ([each.path for each in report.differences], report.findings) == ([str(path)], [])


# --- check at the end of a log: a segment that is gone, and records torn where nothing covers them.
LOST = "segments, or the end of the last one, may be missing"


def without_its_last_segment(log: Damaged) -> MemoryStorage:
    """Only the log; what is left of it ends in a BLANK."""
    storage = storage_of(log.log)
    del storage.files[f"{STORE}/commitlog/{max(log.segments):020d}"]
    del log.segments[max(log.segments)]
    return storage


def lost(report: CheckReport) -> dict[str, str]:
    """What says that the log was longer, by the file that says so."""
    return {f.path.removeprefix(f"{STORE}/"): f.reason for f in report.findings if LOST in f.reason}


def derived(log: Damaged, *kinds: str) -> dict[str, bytes]:
    """The derived files of these kinds, under names that a store may have."""
    files = rebuild_log(log.log).files.items()
    names = {f"index/{n}": f"index/{index_name(START + n)}" for n in range(99)}
    return {f"{STORE}/{names.get(path, path)}": content
            for path, content in files if path.startswith(kinds)}  # fmt: skip


@pytest.mark.parametrize(("known", "says"), [
    (Checkpoint(physic_msg_timestamp=START + 59), "a message of 2023-11-14 22:13:20.059"),
    (Checkpoint(START, confirm_phy_offset=1 << 20), "a message at 1,048,576"),
    (Checkpoint(START, logics_physical_offset=1 << 20), "a message at 1,048,576"),
    (Checkpoint(START, START), ""),
])  # fmt: skip
def test_a_checkpoint_that_knows_more(known: Checkpoint, says: str) -> None:
    log = damaged()
    files = derived(log, "index")
    storage = without_its_last_segment(log)
    report = log_checked(log, storage=storage)
    assert report.sound, text(report)  # nothing shows it where only the log is left
    storage.files[f"{STORE}/checkpoint"] = encode(known)
    found = lost(log_checked(log, storage=storage))
    assert says in found["checkpoint"] if says else not found
    del storage.files[f"{STORE}/checkpoint"]
    storage.files |= files | derived(log, "consumequeue")  # an index file that goes on
    assert list(lost(log_checked(log, storage=storage))) == [max(files).removeprefix(f"{STORE}/")]


@pytest.mark.parametrize("file_bytes", [200, 20_000])
def test_queues_that_go_on(file_bytes: int) -> None:
    """In the same file, or in files of their own."""
    log = damaged()
    log.settings["mappedFileSizeConsumeQueue"] = file_bytes
    files = derived(log, "consumequeue", "index")
    storage = without_its_last_segment(log)
    storage.files |= {p: c for p, c in files.items() if "consumequeue" in p}
    storage.files |= derived(log, "index")
    report = log_checked(log, storage=storage)
    ((path, reason),) = lost(report).items()
    assert path == "consumequeue"
    past = report.damage["past_end"]
    gone = sum(place >= max(log.segments) + SEGMENT for place in log.places)
    assert sum(each["count"] for each in past) == report.damage["messages_past_end"] == gone > 3
    assert {each["topic"] for each in past} == {"T"}
    assert f"name {gone} messages of {len(past)} queues" in reason
    assert all(f"{each['first']} to {each['first'] + each['count'] - 1}" in "".join(details(report))
               for each in past if each["count"] > 1)  # fmt: skip
    assert "slave or in a backup" in next_step(report)
    assert f"the log ends at {max(log.segments) + SEGMENT:,}" in reason
    assert not report.sound
    assert reason in text(report)


def test_light_queues_have_their_messages_twice() -> None:
    """A message of an LMQ is in its own queue too."""
    log = damaged()
    files = derived(log, "consumequeue", "index")
    storage = without_its_last_segment(log)
    more = {p.replace("consumequeue/T/", "consumequeue/%LMQ%T/"): c for p, c in files.items()}
    storage.files |= files | more
    gone = sum(place >= max(log.segments) + SEGMENT for place in log.places)
    damage = log_checked(log, storage=storage).damage
    assert damage["messages_past_end"] == gone
    assert sum(each["count"] for each in damage["past_end"]) == 2 * gone


def test_groups_that_have_read_more() -> None:
    log = damaged()
    whole = storage_of(log.log)
    storage = without_its_last_segment(log)
    saved = {"offsetTable": {"T@group": {"0": 20, "1": 3, "77": 5}, "gone@group": {"0": 9}}}
    for each in (whole, storage):
        each.files[f"{STORE}/config/consumerOffset.json"] = json.dumps(saved).encode()
    ((path, reason),) = lost(log_checked(log, storage=storage)).items()
    assert path == "config/consumerOffset.json"
    said = "topic 'T', queue 0 was read up to 20 by group 'group', the log has it up to 1"
    assert said in reason
    assert reason.endswith(" (reput recover leaves it)")
    assert not lost(log_checked(damaged(), storage=whole))
    for wrong in (b"", b"{}", b'{"offsetTable": [1]}', b'{"offsetTable": {"T@g": {"x": 1}}}'):
        storage.files[f"{STORE}/config/consumerOffset.json"] = wrong
        assert not lost(log_checked(log, storage=storage))


def ending_in(*last: dict[str, Any]) -> Damaged:
    """A log of one segment, whose last records are these; properties over two sectors."""
    long = properties(("KEYS", "k"), ("p", "v" * 1100), ("q", "w"))
    more = messages(10 + len(last), 1, properties=properties(("KEYS", "k")))
    made = [*more[:10]]
    for message, over in zip(more[10:], last, strict=True):
        made.append(type(message)(**{**vars(message), "properties": long, **over}))
    log = damaged(made)
    assert len(log.segments) == 1
    return log


def tear(log: Damaged, number: int, cut: bool) -> int:
    """Lose a sector of a record's properties, or all that follows one; returns its place."""
    place, end = log.places[number], log.places[number] + log.size(number)
    sector = (end - 600) // 512 * 512
    assert sector > place + 150
    log.put(sector, bytes((end if cut else sector + 512) - sector))
    return place


@pytest.mark.parametrize("cut", [False, True])
def test_a_torn_last_record_is_reported_though_a_rebuild_takes_it(cut: bool) -> None:
    log = ending_in({})
    place = tear(log, 10, cut)
    assert rebuild_log(log.log).summary.messages == 11  # as RocketMQ does
    reports = [log_checked(log, splits) for splits in (1, 3)]
    for report in reports:
        (got,) = report.damage["ranges"]
        assert (got["offset"], got["length"], got["kind"]) == (
            place, log.size(10), "content",
        )  # fmt: skip
        assert got["reason"] == REASONS[Fault.TORN][1]
        assert report.messages == 11
        assert not report.sound
        assert report.damage["bytes_lost"] == 0


def test_each_record_that_was_not_durable_may_be_torn_also_behind_damage() -> None:
    log = ending_in({}, {})
    places = [tear(log, 10, False), tear(log, 11, False)]
    storage = storage_of(log.log)
    assert [r["offset"] for r in log_checked(log, storage=storage).damage["ranges"]] == places
    for durable, left in ((START + 10, places), (START + 11, places[1:]), (START + 12, [])):
        storage.files[f"{STORE}/checkpoint"] = encode(Checkpoint(durable))
        report = log_checked(log, storage=storage)
        assert [each["offset"] for each in report.damage["ranges"]] == left
    log = ending_in({})
    log.flip(3, 5)
    place = tear(log, 10, True)
    assert [each["offset"] for each in log_checked(log).damage["ranges"]] == [log.places[3], place]


@pytest.mark.parametrize("properties", [b"p\x01a\0b", b"KEYS\x01k\0", b"KEYS\x01k\x02" + bytes(20)])
def test_nuls_are_no_damage(properties: bytes) -> None:
    """Not in the last record either, unless the store was killed and nothing has dispatched it."""
    one, two = ending_in({"properties": properties}), ending_in({"properties": properties}, {})
    for log in (one, two):
        for more in ({}, derived(log, "consumequeue"), derived(log, "index")):
            for abort in ({}, {f"{STORE}/abort": b""}):
                storage = storage_of(log.log)
                storage.files |= more | abort
                report = log_checked(log, storage=storage)
                whole = log is two or more or not abort or not properties.endswith(b"\0")
                assert not report.warnings
                assert report.damage["range_count"] == (not whole)


@pytest.mark.parametrize("window", [1000, 8 << 20])
def test_a_record_longer_than_a_window_does_not_end_the_look(window: int, monkeypatch) -> None:
    monkeypatch.setattr(searches, "_WINDOW_BYTES", window)
    log = ending_in({"body": bytes([1]) * 400}, {})
    place = tear(log, 11, True)
    assert [each["offset"] for each in log_checked(log).damage["ranges"]] == [place]


@pytest.mark.parametrize("newest", [25, 50])
def test_a_clock_that_was_set_back_a_segment_ago(newest: int) -> None:
    """The checkpoint knows of a message before that; its splits and the last segment are older."""
    made = messages(newest + 1)
    made += [
        replace(each, store_timestamp=each.store_timestamp - 3_600_000)
        for each in messages(120)[newest + 1 :]
    ]
    log = damaged(made)
    time = made[newest].store_timestamp
    assert log.places[newest] // SEGMENT == log.places[newest + 1] // SEGMENT
    storage = storage_of(log.log)
    for knows, says in ((time, False), (time + 1, True)):
        storage.files[f"{STORE}/checkpoint"] = encode(Checkpoint(knows, knows))
        assert bool(lost(log_checked(log, storage=storage))) == says


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("number", [1, 30, 38, 39, 59])
def test_a_fall_of_store_timestamp_is_said(number: int, splits: int) -> None:
    """Anywhere in the log, also from segment to segment; a mere correction is not."""
    for fall, wanted in ((1000, False), (5000, True)):
        made = [
            m if n < number else replace(m, store_timestamp=m.store_timestamp - fall - 1)
            for n, m in enumerate(messages())
        ]
        log = damaged(made)
        report = log_checked(log, splits)
        assert report.sound
        said = f"storeTimestamp falls by {fall / 1000:.1f} s at physical {log.places[number]:,}: "
        assert (said in text(report)) is wanted
        assert ("storeTimestamp" in text(report)) is wanted


@pytest.mark.parametrize("later", [True, False])
def test_an_index_of_an_older_log_is_named_with_what_a_broker_does(later: bool) -> None:
    """The log was removed, or the store's path changed, and its index stayed (#8041)."""
    old, new = damaged(messages(200)), damaged(
        [replace(m, store_timestamp=m.store_timestamp + later * 86_400_000) for m in messages(40)]
    )  # fmt: skip
    storage = storage_of(new.log)
    storage.files |= derived(new, "consumequeue") | derived(old, "index")
    report = log_checked(new, storage=storage)
    (finding,) = report.findings
    indexed = f"a broker indexes no message before physical {old.places[-1]:,}"
    assert (indexed in finding.reason, LOST in finding.reason) == (later, not later)
    assert ("next      reput rebuild" in text(report)) is later
