"""A store written anew: which settings hold, what a dry run leaves, and what is refused before."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.jobs.convert import convert
from reput.jobs.converting import convert as convert_store
from reput.jobs.converting import new_log
from reput.jobs.converting.convert import wanted
from reput.jobs.engines.local import local_engine
from reput.jobs.pipeline.job import find_store
from reput.store_format.discover.purpose import CONVERT
from reput.store_format.discover.store import StoreAt
from reput.store_format.faults import StoreError
from reput.store_format.layouts import TIMER_CHECK, TIMER_UNIT
from reput.store_format.release.settings import SettingError
from reput.store_format.rewrite.changes import Changes
from tests import golden_stores
from tests.built import Built
from tests.converted import (
    PLAIN,
    SEGMENT,
    body,
    config,
    converted,
    log_of,
    plain,
    records,
    records_of,
)
from tests.in_process import OUTPUT, STORE, Session, as_text, storage_of
from tests.logs import Log
from tests.logs.encoder import Message, properties
from tests.memory_storage import MemoryStorage

LOG = plain([Message("A", 0, n, b"%d" % n) for n in range(30)])


def test_given_settings_win_over_those_of_the_old_store_but_its_places_are_not_taken() -> None:
    made = to(
        "5.3.3", {"mappedFileSizeCommitLog": "8192", "maxIndexNum": "9"},
        storePathIndex=f"{STORE}/index", enableDLegerCommitLog="false",
    )  # fmt: skip
    assert made.segment_bytes == 8192
    assert made.settings["maxIndexNum"] == "9"
    assert made.settings["maxHashSlotNum"] == str(PLAIN["maxHashSlotNum"])
    assert not any("storepath" in name.lower() for name in made.settings)
    assert "enableDLegerCommitLog" not in made.settings
    with pytest.raises(SettingError):
        to("5.3.3", {"mappedFileSizeCommitLog": "many"})


def test_the_new_store_has_a_manifest_with_all_its_files() -> None:
    summary, storage = converted(LOG, to_settings={"mappedFileSizeCommitLog": "1024"})
    manifest = json.loads(storage.files[f"{OUTPUT}/manifest.json"])
    listed = {each["path"] for name in ("segments", "derived") for each in manifest[name]}
    there = {path.removeprefix(f"{OUTPUT}/") for path in storage.files if path.startswith(OUTPUT)}
    assert listed | set(manifest["copied"]) | {"manifest.json"} == there
    assert {len(segment) for segment in log_of(storage).values()} == {1024}
    assert len(summary.segments) == len(log_of(storage)) > SEGMENT // 1024
    assert [body(each) for each in records_of(storage)] == [b"%d" % n for n in range(30)]


def test_what_queues_name_past_the_logs_end_is_known_to_be_missing() -> None:
    built = Built().put("A", count=40).derive()
    storage = built.storage(STORE)
    del storage.files[max(path for path in storage.files if "/commitlog/" in path)]
    there = sum(at < 2048 for at in built.places())
    told = convert(Session(), STORE, OUTPUT, rocketmq="5.3.3", settings=built.given(),
                   storage=storage, dry_run=True)  # fmt: skip
    assert told.messages == there
    assert f"queues name {40 - there} messages of 1 queue" in told.lacks[0]


def test_a_topic_that_no_store_has_is_refused_and_one_that_is_only_configured_is_not() -> None:
    with pytest.raises(SettingError, match="no topic 'Nowhere' in this store; it has A"):
        converted(LOG, drop=["Nowhere"])
    storage = storage_of(LOG)
    table = {"topicConfigTable": {"Configured": {"topicName": "Configured"}}}
    storage.files[f"{STORE}/config/topics.json"] = json.dumps(table).encode()
    assert converted(LOG, storage, drop=["Configured"])[0].messages == 30


def test_a_release_that_cannot_read_a_taken_record_is_refused_with_how_to_leave_it_out() -> None:
    log = plain([Message("A"), Message("B" * 200, version=2), Message("C" * 130, version=2)])
    with pytest.raises(StoreError) as refused:
        converted(log, to_rocketmq="4.9.3")
    said = str(refused.value)
    assert "not for RocketMQ 4.9.3: " in said
    assert said.endswith("; and 1 more topics; --drop TOPIC leaves a topic out")
    assert converted(log, to_rocketmq="4.9.3", topics=["A"])[0].messages == 1


def test_a_setting_that_the_files_cannot_obey_and_a_broker_s_store_are_refused() -> None:
    for name in (
        "flushDiskType", "deleteWhen", "storePathCommitLog", "readUnCommitted", "storeType",
    ):  # fmt: skip
        with pytest.raises(SettingError, match=f"--to-set {name}: changes nothing in the files"):
            converted(LOG, to_settings={name: "x"})
    storage = storage_of(LOG)
    storage.__class__ = type("Held", (type(storage),), {"lock_holder": lambda self, store: 4711})
    with pytest.raises(StoreError, match="a broker has it"):
        converted(LOG, storage)


# --- What the timer and the delay levels need in a new store: units that name the records' new
# places, and files that the old store lost.
UNIT = 52
DUE = 4_000_000_000_000  # milliseconds
LOGGED = f"timerlog/{0:020d}"


def timer(n: int, topic: str = "A") -> Message:
    text = properties(("REAL_TOPIC", topic), ("TIMER_OUT_MS", str(DUE)), ("REAL_QID", "0"))
    return Message("rmq_sys_wheel_timer", 0, n, b"x" * n, text)


LOG_SERVICES = plain([Message("A"), *(timer(n) for n in range(3))])


def carried(files: dict[str, bytes], log: Log = LOG_SERVICES) -> tuple[Any, MemoryStorage]:
    """The summary, and all files, of a conversion that makes each record longer."""
    storage = storage_of(log)
    storage.files |= {f"{STORE}/{path}": content for path, content in files.items()}
    return converted(log, storage, rename={"A": "Longer"}, splits=7)


def unit(place: int, size: int) -> Any:
    made = np.zeros(1, TIMER_UNIT)
    made["size"], made["physicalOffset"], made["messageSize"] = UNIT, place, size
    made["magic"], made["writeTime"], made["delay"] = 1, DUE - 1000, 1000
    return made


def named(raw: bytes) -> list[tuple[int, int]]:
    """(physical offset, size of the record) of each unit."""
    found = np.frombuffer(raw[: len(raw) // UNIT * UNIT], TIMER_UNIT)
    found = found[found["size"] == UNIT]
    return list(zip(found["physicalOffset"].tolist(), found["messageSize"].tolist(), strict=True))


@pytest.mark.parametrize("lost", [False, True])
def test_a_unit_names_its_record_s_new_place_and_size(lost: bool) -> None:
    old = records(dict(LOG_SERVICES.segments))[1:]
    check = np.zeros(1, TIMER_CHECK)
    check["lastReadTimeMs"], check["lastTimerQueueOffset"] = DUE - 5000, 3
    check["masterTimerQueueOffset"] = 3
    units = b"".join(unit(place, len(record)).tobytes() for place, record in old)
    files = {
        LOGGED: units.ljust(1040, b"\0"), "timerwheel": b"of old places",
        "config/timercheck": check.tobytes().ljust(4096, b"\0"),
    }  # fmt: skip
    summary, made = carried({} if lost else files)
    new = records(log_of(made))[1:]
    assert [len(record) for _, record in new] == [len(record) + 5 for _, record in old]
    assert named(made.files[f"{OUTPUT}/{LOGGED}"]) == [(at, len(record)) for at, record in new]
    assert [path for path in summary.copied if "timer" in path] == [LOGGED, "config/timercheck"]
    assert summary.waits == ["3 timers wait: timerlog and config/timercheck are written"]
    assert f"{OUTPUT}/timerwheel" not in made.files  # a broker makes it from timerlog


def test_how_far_a_lost_file_s_delay_levels_were_delivered_is_told_by_the_log() -> None:
    late = [
        Message("SCHEDULE_TOPIC_XXXX", 2, n, b"late",
                properties(("REAL_TOPIC", "A"), ("REAL_QID", "0"), ("DELAY", "3")))
        for n in range(2)
    ]  # fmt: skip
    _, made = carried({}, plain([Message("A"), *late]))
    path = f"{OUTPUT}/config/delayOffset.json"
    made.files[path] = made.files[path].replace(b"3:0", b'"3":0')
    assert config(made, "delayOffset") == {"3": 0}
    summary, made = carried({}, plain([Message("A")]))
    assert not any("timer" in path for path in [*summary.copied, *made.files])
    assert summary.waits == []


def to(release: str, given: dict[str, str], **old: str) -> Any:
    at = StoreAt(storage_of(LOG), STORE, "5.3.3", {**as_text(LOG.settings), **old})
    return wanted(find_store(Session(), at, CONVERT), release, given, Changes())


# --- A log that changes while it is converted: nothing is published.
def grows(segment: Path) -> None:
    segment.write_bytes(segment.read_bytes() + bytes(4096))


@pytest.mark.parametrize("change", [grows, Path.unlink])
@pytest.mark.parametrize("when", ["before it is written", "after it was written"])
def test_nothing_is_published_of_a_log_that_changes(change, when, tmp_path, monkeypatch) -> None:
    golden = golden_stores.unpack("small_all_5.3.3")
    store = golden_stores.copy_input(golden, tmp_path / "store")
    last = max((store / "commitlog").iterdir())
    write_log = new_log.write_log

    def changing(*given: Any) -> Any:
        if when == "before it is written":
            change(last)
        rows = write_log(*given)
        if when == "after it was written":
            change(last)
        return rows

    monkeypatch.setattr(convert_store.new_log, "write_log", changing)
    settings = as_text(golden.settings)
    with local_engine(1) as engine, pytest.raises(StoreError):
        convert(
            engine, str(store), str(tmp_path / "out"), rocketmq=golden.version, settings=settings
        )
    assert sorted(each.name for each in tmp_path.iterdir()) == ["store"]
