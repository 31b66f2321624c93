"""Timers and delayed messages in every store that a command makes: what waited still waits."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import rocksdict

import reput
from reput.jobs.cli import main
from reput.jobs.deriving.timers import Waits, write_services
from reput.jobs.install import install_set, undo_install
from reput.jobs.recover import recover
from reput.jobs.repair import repair
from reput.store_format.fate.known import timers_in_rocksdb
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.layouts import TIMER_CHECK
from reput.store_format.message.message import Message
from reput.store_format.release.profiles import profile
from reput.store_format.rocksdb.rows import READ_POSITION, TIMERS
from reput.store_format.state.timers import timer_check, why_lost
from tests.broker.services.stores import LEVELS, Clock, delayed, disk, timer, writing
from tests.broker.writer.stores import stored_records
from tests.faults.memory_files import MemoryFiles, crash_states
from tests.in_process import Session, run
from tests.jobs.opening.writing import SETTINGS as SIZES
from tests.store_format.state.stores import faults as state_faults
from tests.trees import contents

NOW = time.time_ns() // 1_000_000
T0 = NOW - NOW % 1000 - 60_000
SETTINGS = {**{name: str(value) for name, value in SIZES.items()},
            "messageDelayLevel": LEVELS, "mappedFileSizeTimerLog": "200"}  # fmt: skip
GIVEN = {"rocketmq": "5.3.3", "settings": SETTINGS}
WORDS = ["--rocketmq", "5.3.3", "--yes",
         *(f"--set={name}={value}" for name, value in SETTINGS.items())]  # fmt: skip
HOUR = 3_600_000
WAITS = (1000, HOUR, HOUR, 71 * HOUR)  # of timers, in milliseconds
Fates = dict[str | None, tuple[str, str]]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Of four timers and three delayed messages one each was delivered, as by a broker."""
    root, clock = tmp_path / "store", Clock(T0)
    sent = [timer(body, wait) for body, wait in zip("abcd", WAITS, strict=True)]
    sent += [delayed("e", 1), delayed("f", 3), delayed("g", 3)]
    with writing(disk(root), clock, **SETTINGS) as writer:
        for message in sent:
            writer.append(message)
            clock.now += 10
    assert reput.deliver_delayed(str(root), until=T0 + 3000, **GIVEN).delivered == 2
    return root


def fates(store: Path) -> Fates:
    """Each one's state and kind by its UNIQ_KEY. No file is lost."""
    end = max(each.physical_offset + each.size for each in stored_records(store / "commitlog"))
    assert why_lost(Folder(LocalStorage(), str(store)), end) == ""
    with reput.open_store(str(store), **GIVEN) as opened:
        rows = opened.delayed(everything=True)
    return {row.unique_key: (row.state.replace("late", "waiting"), row.by) for row in rows}


def moved(store: Path, to: Path, *also: str) -> Path:
    """A copy of the log and of `also`."""
    for name in ("commitlog", *also):
        shutil.copytree(store / name, to / name)
    return to


def rebuilt(store: Path) -> list[str]:
    """Rebuild a store, and install the set; what is said of both."""
    folder = Path(f"{store}-set")
    summary = run(str(store), str(folder), **GIVEN)
    assert install_set(str(store), str(folder)).waits == summary.waits
    return summary.waits


def recovered(store: Path, release: str = "5.3.3") -> list[str]:
    given = GIVEN | {"rocketmq": release}
    about = recover(Session(), str(store), **given)  # type: ignore[arg-type]
    assert about.done
    again = recover(Session(), str(store), **given)  # type: ignore[arg-type]
    assert not again.needed
    return about.waits


THREE = "3 timers wait: timerlog and config/timercheck are written"
LEVEL = "2 delay levels delivered as the log shows: config/delayOffset.json is written"


@pytest.mark.parametrize(("also", "said"), [(["config"], [THREE]), ([], [THREE, LEVEL])])
def test_a_moved_store_has_its_timers_once_a_set_is_installed(store, tmp_path, also, said) -> None:
    copy = moved(store, tmp_path / "copy", *also)
    before = contents(copy)
    assert rebuilt(copy) == said
    assert fates(copy) == fates(store)
    undo_install(str(copy))
    assert contents(copy) | {"lock": b""} == before | {"lock": b""}
    undo_install(str(copy))
    assert fates(copy) == fates(store)


def test_a_set_of_a_whole_store_carries_its_units_which_the_store_itself_keeps(
    store: Path, tmp_path: Path
) -> None:
    before = contents(store)
    summary = run(str(store), str(tmp_path / "set"), **GIVEN)
    assert summary.waits == [THREE]
    assert install_set(str(store), str(tmp_path / "set")).waits == []
    assert contents(store / "timerlog") == contents(tmp_path / "set/timerlog")
    assert contents(store / "config") == {
        path.removeprefix("config/"): raw
        for path, raw in before.items()
        if path.startswith("config/")
    }


def repaired(store: Path) -> list[str]:
    to = Path(f"{store}-repaired")
    summary = repair(Session(), str(store), str(to), **GIVEN)  # type: ignore[arg-type]
    shutil.rmtree(store)
    to.rename(store)
    return summary.waits


def replicated(store: Path) -> list[str]:
    to = f"{store}-replica"
    first = reput.replicate(str(store), to, **GIVEN)
    assert reput.replicate(str(store), to, **GIVEN).waits == first.waits
    shutil.rmtree(store)
    Path(to).rename(store)
    return first.waits


def caught_up(store: Path) -> list[str]:
    to = f"{store}-set"
    about = reput.catch_up(str(store), output=to, **GIVEN)
    assert install_set(str(store), to).waits == about.waits
    return about.waits


def appended(store: Path) -> list[str]:
    (store / "abort").touch()
    lines = Path(f"{store}-lines.jsonl")
    lines.touch()
    assert main(["append", str(store), "--from", str(lines), *WORDS]) == 0
    return [THREE]


@pytest.mark.parametrize("change", [rebuilt, recovered, repaired, replicated, caught_up, appended])
def test_every_command_derives_what_is_lost(store: Path, change) -> None:
    wanted = fates(store)
    shutil.rmtree(store / "timerlog")
    assert change(store) == [THREE]
    assert fates(store) == wanted


def with_timers_in_rocksdb(store: Path, off_again: bool = False) -> None:
    """Make a store's timers RocksDB's (timerRocksDBEnable): the wheel has read nothing. off_again:
    there are older rows, and the wheel has read all.
    """
    position = 2 if off_again else len(WAITS)
    if not off_again:
        shutil.rmtree(store / "timerlog")
        check = store / "config/timercheck"
        fields = ("lastTimerQueueOffset", "lastTimerLogFlushPos", "masterTimerQueueOffset")
        check.write_bytes(timer_check(check.read_bytes(), **dict.fromkeys(fields, 0)))
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    with (
        reput.open_store(str(store), **GIVEN) as opened,
        rocksdict.Rdict(str(store / "rocksdbstore"), options, {TIMERS: options}) as database,
    ):
        rows = database.get_column_family(TIMERS)
        for row in opened.delayed(everything=True):
            waits = row.by == "timer" and not row.delivery_physical_offset
            if waits and row.queue_offset < position:
                place = row.physical_offset.to_bytes(8, "big")
                rows[row.due.to_bytes(8, "big") + place] = bytes(4) + place
        rows[READ_POSITION] = position.to_bytes(8, "big")


def converted(store: Path) -> list[str]:
    summary = reput.convert(str(store), f"{store}-new", **GIVEN)
    shutil.rmtree(store)
    Path(f"{store}-new").rename(store)
    return summary.waits


@pytest.mark.parametrize("change", [rebuilt, repaired, converted, replicated])
def test_timers_of_rocksdb_wait_in_files_of_a_store_that_is_without_it(
    store: Path, change: Callable[[Path], list[str]], tmp_path: Path
) -> None:
    """A broker with timerRocksDBEnable delivers these, and reads the topic after them (start)."""
    wanted = fates(store)
    with_timers_in_rocksdb(store)
    same = moved(store, tmp_path / "same", "config", "rocksdbstore")
    assert rebuilt(same) == []
    if change is rebuilt:
        store = moved(store, tmp_path / "copy", "config")
    assert change(store) == [THREE]
    if change is rebuilt:
        assert install_set(str(same), f"{store}-set").waits == []
    assert not (store / "rocksdbstore").exists()
    assert fates(store) == wanted


@pytest.mark.parametrize(("on", "said"), [("true", [THREE]), ("false", [])])
def test_rows_that_a_kill_took_are_derived_as_files(store: Path, on: str, said: list[str]) -> None:
    """RocksDB's own log is written late: 5.5.1 alone delivers timers again after a kill."""
    wanted = fates(store)
    (store / "abort").touch()
    given = {"rocketmq": "5.4.0", "settings": SETTINGS | {"timerRocksDBEnable": on}}
    about = recover(Session(), str(store), **given)  # type: ignore[arg-type]
    assert about.waits == said
    assert fates(store) == wanted


def rebuilt_and_installed(store: Path) -> list[str]:
    summary = run(str(store), f"{store}-set", **GIVEN)
    install_set(str(store), f"{store}-set")
    return summary.waits[1:]  # the timers of the set, which the store itself keeps


@pytest.mark.parametrize("change", [rebuilt_and_installed, recovered, caught_up, appended])
def test_a_delay_level_past_its_queue_s_end_waits_again(store: Path, change) -> None:
    """#7077: a broker would begin at the queue's end, so that what waits never comes."""
    wanted, offsets = fates(store), store / "config/delayOffset.json"
    offsets.write_text(offsets.read_text().replace("1:1", "1:1,3:50"))
    assert fates(store) != wanted
    assert change(store)[-1:] in ([LEVEL], [THREE])
    assert fates(store) == wanted


def test_delay_offsets_last_when_power_goes() -> None:
    files = MemoryFiles()
    write_services(files, Waits(None, 0, {3: 7}), profile("5.3.3"))
    *_, lost, _ = crash_states(MemoryFiles(), files.ops, 1, 0)
    assert lost.files.tree() == files.tree() != {}


def test_a_replica_goes_on_from_its_last_timer(store: Path, tmp_path: Path) -> None:
    copy = tmp_path / "replica"
    reput.replicate(str(store), str(copy), **GIVEN)
    with writing(disk(store), Clock(NOW), **SETTINGS) as writer:
        writer.append(timer("h", HOUR))
    later = T0 + 2 * HOUR
    assert reput.deliver_delayed(str(store), until=later, **GIVEN).delivered == 5
    about = reput.replicate(str(store), str(copy), **GIVEN)
    assert about.waits == ["1 timer waits: timerlog and config/timercheck are written"]
    assert fates(copy) == fates(store)


def cut_log(store: Path, place: int) -> None:
    for log in (store / "commitlog").iterdir():
        if (keep := max(place - int(log.name), 0)) < log.stat().st_size:
            log.write_bytes(log.read_bytes()[:keep].ljust(log.stat().st_size, b"\0"))


@pytest.mark.parametrize("late", [HOUR, -100 * HOUR], ids=["soon", "backlog"])
@pytest.mark.parametrize("lost", [True, False])
def test_what_the_log_s_lost_end_had_delivered_waits_again(store, lost, late, monkeypatch) -> None:
    """A machine went down: files say that all was delivered, the log has lost the deliveries.

    backlog: all of it was due long before the log's last minute.
    """
    monkeypatch.setattr("reput.store_format.state.timers._LATE_MS", late)  # f and g were due at T0
    before, unread = fates(store), contents(store / "timerlog")
    end = max(each.physical_offset + each.size for each in stored_records(store / "commitlog"))
    assert reput.deliver_delayed(str(store), until=T0 + 2 * HOUR, **GIVEN).delivered == 4
    after, check = fates(store), store / "config/timercheck"
    for name, raw in unread.items():  # a broker leaves units of what it has delivered
        (store / "timerlog" / name).write_bytes(raw)
    check.write_bytes(timer_check(check.read_bytes(), lastReadTimeMs=T0 + 2 * HOUR))
    if lost:
        cut_log(store, end)
        clean = moved(store, store.with_name("clean"), "config", "timerlog")  # no broker: no crash
        assert reput.catch_up(str(clean), **GIVEN).waits == []
    (store / "abort").touch()
    assert recovered(store) == ([THREE, LEVEL] if lost else [])
    assert fates(store) == (before if lost else after)


def test_a_log_that_was_cut_before_its_first_timer_has_no_units(store: Path) -> None:
    with reput.open_store(str(store), **GIVEN) as opened:
        rows = [row for row in opened.delayed(everything=True) if row.by == "timer"]
    cut_log(store, min(row.physical_offset for row in rows))
    assert recovered(store)[0] == "0 timers wait: timerlog and config/timercheck are written"
    assert contents(store / "timerlog") == {}
    check = np.frombuffer((store / "config/timercheck").read_bytes(), TIMER_CHECK, 1)[0]
    assert (check["lastTimerQueueOffset"], check["masterTimerQueueOffset"]) == (0, 0)


@pytest.mark.parametrize("release", ["5.3.3", "5.4.0"])
def test_units_past_a_log_that_was_cut_go(store: Path, release: str) -> None:
    """The timers that the log still has wait as before. 5.4.0: timerRocksDBEnable was on once."""
    wanted = fates(store)
    if release == "5.4.0":
        with_timers_in_rocksdb(store, off_again=True)
        assert fates(store) == wanted
    with reput.open_store(str(store), **GIVEN) as opened:
        rows = {row.physical_offset: row for row in opened.delayed(everything=True)}
        cut = max(place for place, row in rows.items() if row.by == "timer")
    cut_log(store, cut)
    assert recovered(store, release)[:1] == [THREE]
    left = fates(store)
    assert len(left) == sum(1 for place in rows if place < cut)
    # the delivery of the first is cut too
    again = {row.unique_key: ("waiting", "timer") for row in rows.values() if row.due < T0 + 2000}
    assert left == {key: again.get(key, state) for key, state in wanted.items() if key in left}


@pytest.mark.parametrize("lost", ["timer", "delivery", ""])
def test_rows_of_timers_past_a_log_that_was_cut_go(store: Path, lost: str) -> None:
    """5.5.1 delivers what it writes there at the lost timer's time, and again at its own."""
    wanted = fates(store)
    with reput.open_store(str(store), **GIVEN) as opened:
        rows = [row for row in opened.delayed(everything=True) if row.by == "timer"]
    with_timers_in_rocksdb(store)
    cuts = {"timer": max(row.physical_offset for row in rows),
            "delivery": max(row.delivery_physical_offset or 0 for row in rows)}  # fmt: skip
    if lost:
        cut_log(store, cuts[lost])
    if lost != "timer":
        (store / "abort").touch()
    named = [f.reason for f in state_faults(store) if f.path.endswith("rocksdbstore")]
    assert ["1 of 3 timers are of messages past" in reason for reason in named] == (
        [True, False] if lost == "timer" else []
    )
    if not lost:
        assert not recovered(store, "5.4.0")
        assert timers_in_rocksdb(Folder(LocalStorage(), str(store))) is not None
        return
    assert (
        recovered(store, "5.4.0")[1]
        == "rows of timers in rocksdbstore/, past the log's end, are removed"
    )
    assert timers_in_rocksdb(Folder(LocalStorage(), str(store))) is None
    left = fates(store)
    waits = {key: ("waiting", by) for key, (_, by) in wanted.items() if key in left}
    assert left == waits  # all deliveries are lost, and e, f and g, which came after the last timer
    assert len(left) == len(wanted) - (4 if lost == "timer" else 0)


def test_a_store_without_timers_gets_no_file(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with writing(disk(root), Clock(T0), **SETTINGS) as writer:
        writer.append(Message("Orders", b"e"))
    assert rebuilt(root) == []
    assert {path.split("/")[0] for path in contents(tmp_path / "store-set")} == {
        "checkpoint", "consumequeue", "index", "manifest.json",
    }  # fmt: skip
