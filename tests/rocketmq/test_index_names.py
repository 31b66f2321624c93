"""A broker in another time zone than this process goes on with what reput named, and finds all.

RocketMQ names index files in local time and orders them by name at each start (IndexService.load).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reput import Message, catch_up, check, open_writer, verify
from reput.broker.writer.writer import CommitLogWriter
from reput.jobs.install import install_set
from reput.store_format.derived.index_header import decode_header
from reput.store_format.message.message import parse_properties
from reput.store_format.release.settings import writer_settings_from
from tests.broker.writer.stores import stored_records
from tests.in_process import as_text, run
from tests.jobs.checking import run_check
from tests.rocketmq.driver import Driver, remove_derived
from tests.rocketmq.judge import Drivers, Reput, copy, difference
from tests.rocketmq.puts import SIZES, put

pytestmark = pytest.mark.rocketmq
ZONE = {**as_text(SIZES), "user.timezone": "America/New_York"}
MANY = 150  # messages, of three keys each: more than two index files


def put_many(running: Driver, store: Path) -> None:
    """In lives of less than a file each: a warm broker with much to dispatch fills a file within a
    millisecond, gives the next one the same name, and writes over it (5 of 75 stores)."""
    for _ in range(3):
        put(running, store, MANY // 3)


@pytest.fixture(scope="module")
def new_york() -> Iterator[Driver]:
    with Driver("5.3.3", jvm=("-Duser.timezone=America/New_York",)) as running:
        yield running


def rebuilt(store: Path) -> None:
    run(str(store), str(store.parent / "set"), rocketmq="5.3.3", settings=as_text(SIZES))
    install_set(str(store), str(store.parent / "set"))


def rebuilt_from_the_log(store: Path) -> None:
    """The names are gone: the user says the zone."""
    remove_derived(store)
    run(str(store), str(store.parent / "set"), rocketmq="5.3.3", settings=ZONE)
    install_set(str(store), str(store.parent / "set"))


def appended(store: Path) -> None:
    with open_writer(str(store), rocketmq="5.3.3", settings=as_text(SIZES)) as writer:
        for number in range(MANY):
            writer.append(Message("T0", b"ours", keys=f"o{number} s"))


def caught_up(store: Path) -> None:
    remove_derived(store)
    catch_up(str(store), rocketmq="5.3.3", settings=ZONE)


def test_a_broker_that_moves_west_twice_leaves_a_file_half_filled(new_york, tmp_path) -> None:
    """The full file from Tokyo is the last one by name in each life, so each begins a new file."""
    for zone in ("Asia/Tokyo", "UTC"):
        with Driver("5.3.3", jvm=(f"-Duser.timezone={zone}",)) as running:
            put(running, tmp_path, 100)
    put(new_york, tmp_path, 100)
    by_name = sorted((tmp_path / "index").iterdir())
    assert [decode_header(path.read_bytes()).entries for path in by_name] == [199, 101, 199, 3, 199,
                                                                              199]  # fmt: skip
    assert run_check(str(tmp_path), "5.3.3", SIZES).sound


def test_a_life_without_keys_in_between_leaves_an_empty_file(tmp_path: Path) -> None:
    """The next broker goes on with a file of its own, as the full one is still last by name."""
    store = tmp_path / "store"
    for zone, keys in (("Asia/Tokyo", 1), ("UTC", 1), ("America/New_York", 0), ("Etc/GMT+8", 1)):
        with Driver("5.3.3", jvm=(f"-Duser.timezone={zone}",)) as running:
            if keys:
                put(running, store, 100)
            else:
                some = [{"t": "T0", "q": 0, "b": 9, "bs": n, "born": 1, "p": {}} for n in range(9)]
                running.ask("put", store=str(store), settings=SIZES, messages=some)
        assert run_check(str(store), "5.3.3", SIZES).sound
    heads = [decode_header(path.read_bytes()) for path in (store / "index").iterdir()]
    assert [head.entries for head in heads].count(0) == 1
    assert (
        catch_up(str(store), rocketmq="5.3.3", settings=as_text(SIZES), dry_run=True).entries == 0
    )
    rebuilt(store)
    assert run_check(str(store), "5.3.3", SIZES).sound


@pytest.mark.parametrize("change", [rebuilt, rebuilt_from_the_log, appended, caught_up])
def test_a_broker_west_of_utc_finds_every_key_after(change, new_york, tmp_path) -> None:
    store = tmp_path / "store"
    put_many(new_york, store)
    change(store)
    put_many(new_york, store)
    records = list(stored_records(store / "commitlog"))
    assert len(records) >= 2 * MANY
    asked = [
        ["key", each.topic, parse_properties(each.properties)["KEYS"].split()[0], 64,
         each.store_timestamp - 999, each.store_timestamp + 1]
        for each in records[-MANY:]
    ]  # fmt: skip
    answers = new_york.ask("query", store=str(store), settings=SIZES, questions=asked)["answers"]
    there = [each.physical_offset for each in records[-MANY:]]
    assert [place for place, (found, *_) in zip(there, answers, strict=True) if place in found] == (
        there
    )
    names = sorted(path.name for path in (store / "index").iterdir())
    assert len(names) > 3
    assert run_check(str(store), "5.3.3", SIZES).sound


# --- indexFileWriteEnable=false, from 5.4.0 on: no index/ in RocketMQ's store, nor in ours.
GIVEN = {"indexFileWriteEnable": "false", "mappedFileSizeCommitLog": "65536",
         "mappedFileSizeConsumeQueue": "2000", "maxHashSlotNum": "100",
         "maxIndexNum": "400"}  # fmt: skip
MESSAGES = [{"t": "T", "q": n % 2, "p": {"KEYS": f"k{n}", "TAGS": "a"}, "b": 100, "bs": n}
            for n in range(300)]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("reput", "version"), [("local", "5.5.0")], indirect=["reput"])
def test_without_index_files(version: str, folder: Path, drivers: Drivers, reput: Reput) -> None:
    store, theirs, ours = folder / "store", folder / "theirs", folder / "ours"
    drivers.get(version).ask("put", store=str(store), settings=GIVEN, messages=MESSAGES)
    assert not (store / "index").exists()
    copy(store, theirs)
    remove_derived(theirs)
    drivers.get(version).derive(theirs, GIVEN)
    reput.rebuild(version, GIVEN, store, ours)
    assert difference(ours, theirs) is None
    assert not (ours / "index").exists()
    assert not (theirs / "index").exists()
    reported = {"rocketmq": version, "settings": GIVEN}
    assert verify(reput.engine, str(store), **reported).differences == []
    assert check(reput.engine, str(store), **reported).sound


@pytest.mark.long
def test_the_writer_keeps_none_and_rocketmq_takes_its_store(folder: Path, drivers: Drivers) -> None:
    settings = writer_settings_from(GIVEN, release="5.4.0")
    with CommitLogWriter.open(
        str(folder), settings, clock=lambda: 1_700_000_000_000, release="5.4.0"
    ) as writer:
        for number in range(300):
            writer.append(Message("T", b"x" * 100, keys=f"k{number}"))
    assert not (folder / "index").exists()
    assert drivers.get("5.4.0").open_check(folder, GIVEN)["dispatched"] == 0
    assert not (folder / "index").exists()
