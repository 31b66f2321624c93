"""A check judges by the release that wrote the files, and asks for what such a store must have."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.judging.check import check_store_of
from reput.jobs.judging.report import CheckReport
from reput.jobs.judging.shown import next_step
from reput.jobs.pipeline.job import find_store
from reput.store_format.derived.checkpoint import Checkpoint, encode
from reput.store_format.derived.index_header import decode_header
from reput.store_format.discover.purpose import CHECK
from reput.store_format.discover.store import StoreAt
from reput.store_format.message.message import Message
from tests.broker.writer.stores import Clock, open_writer, stored_records
from tests.damaged import START, Damaged, damaged
from tests.in_process import STORE, Session, as_text, storage_of
from tests.jobs.checking import run_check
from tests.jobs.opening.writing import SETTINGS as SIZES
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


def test_a_log_alone_is_sound_unless_a_checkpoint_tells_of_queues() -> None:
    log = damaged()
    report = checked(log, {})
    assert (report.sound, report.derived_files, report.differences) == (True, None, [])
    known = encode(Checkpoint(START, START + 59))
    report = checked(log, {f"{STORE}/checkpoint": known})
    missing = {each.path for each in report.differences if each.field == "the file is missing"}
    assert len(missing) == len(report.differences) == 8  # two files of each queue, two of the index
    assert not report.sound


@pytest.mark.parametrize("release", ["4.7.0", "5.3.3"])
def test_files_of_the_release_that_is_given_are_sound(release: str) -> None:
    log, files = of_release(release)
    report = checked(log, files, release)
    assert (report.sound, report.derived_files, report.looks_like) == (True, 8, "")


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


def test_files_of_another_release_are_told_from_wrong_ones() -> None:
    """Up to 4.7.0 hashSlotCount grows with every put: 49 in a file, and 7 since."""
    log, files = of_release("4.7.0")
    report = checked(log, files, "5.3.3")
    assert {each.path.split("/")[1] for each in report.differences} == {"index"}
    assert (report.sound, report.looks_like) == (False, "4.7.0")
    of_itself = checked(log, files, None)
    assert of_itself.sound
    assert of_itself.rocketmq != "5.3.3"


def test_files_that_no_release_writes_look_like_none() -> None:
    log, files = of_release("5.3.3")
    path = min(path for path in files if "/index/" in path)
    files[path] = files[path][:36] + b"\0\0\0\1" + files[path][40:]  # indexCount
    report = checked(log, files)
    assert (report.sound, report.looks_like) == (False, "")
    assert [each.path for each in report.differences] == [path]


def test_a_log_that_is_damaged_is_not_asked_for_another_release() -> None:
    log, files = of_release("4.7.0")
    log.flip(7, 5)
    output = io.BytesIO()
    report = checked(log, files, "5.3.3", ranges=output)
    assert (report.sound, report.looks_like) == (False, "")
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    assert ("range", log.places[7]) in [(e["type"], e.get("physical_offset")) for e in lines]


class InUse(MemoryStorage):
    def lock_holder(self, store: str) -> int | None:
        return 77


def test_of_a_store_in_use_its_end_is_no_finding() -> None:
    """A broker writes its files while they are read: what its log lacks may have been appended."""
    log, files = of_release("5.3.3")
    log.put(log.places[59], bytes(log.size(59)))
    later = {**files, f"{STORE}/checkpoint": encode(Checkpoint(START + 59, START + 59))}
    stopped = checked(log, later)
    assert any("may be missing" in each.reason for each in stopped.findings)
    used = checked(log, later, storage=InUse(storage_of(log.log).files))
    assert used.findings == []


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


def test_a_record_in_the_place_of_a_lost_one_has_a_time_of_its_own(
    with_times: Path, tmp_path: Path
) -> None:
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
def test_a_flipped_time_in_the_index_stays_the_index_s_fault(
    with_times: Path, at: int, tmp_path: Path
) -> None:
    store = Path(shutil.copytree(with_times, tmp_path / "store"))
    path = sorted((store / "index").iterdir())[2]
    flip(path, 40 + 4 * 7 + 20 * 30 + at)
    report = run_check(str(store), "5.3.3", SIZES)
    assert ([each.path for each in report.differences], report.findings) == ([str(path)], [])
