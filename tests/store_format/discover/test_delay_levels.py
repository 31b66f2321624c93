"""The delays of levels, as the schedule topic's queues show them."""

import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.jobs.check import check
from reput.jobs.cli import main
from reput.jobs.convert import convert
from reput.jobs.opening.open_writer import open_writer
from reput.jobs.opening.questions import open_store
from reput.jobs.rebuild import rebuild
from reput.jobs.replicate import replicate
from reput.store_format.discover import delay_levels
from reput.store_format.discover.purpose import REBUILD
from reput.store_format.discover.store import Discovered, discover, store_at
from reput.store_format.fate.rows import level_delays
from reput.store_format.faults import StoreError
from reput.store_format.notes import Notes
from reput.store_format.release.settings import SettingError, Settings
from tests.built import T0, write
from tests.in_process import OUTPUT, STORE, Session, run
from tests.jobs.checking import run_check
from tests.logs.encoder import Message, properties
from tests.memory_storage import MemoryStorage
from tests.store_format.discover.delayed import DAY, GIVEN, USUAL, delayed


def found_in(storage: MemoryStorage, **settings: str) -> Discovered:
    return discover(store_at(STORE, "5.3.3", GIVEN | settings, storage), REBUILD)


@pytest.mark.parametrize(("levels", "level", "other", "said"), [
    (DAY, 19, None, "wait at level 19, RocketMQ's default has 18, so it is wrong"),
    (f"{DAY} 2d", 19, 20, "wait at level 19, RocketMQ's default has 18, and no queue"),
    ("90s 2d", 2, 1, "for what no queue shows, up to level 2,"),
    (USUAL, 3, None, "is taken, as no queue"), (USUAL, 3, 4, ""), (DAY, 3, 4, "")])  # fmt: skip
def test_a_level_that_no_queue_shows_is_the_default_s_only_if_that_has_it(
    levels: str, level: int, other: int | None, said: str
) -> None:
    made = [Message(delay_levels.SCHEDULE, each - 1, n, b"", store_timestamp=T0 + n,
        properties=properties(("DELAY", str(each)))) for n in range(9)
        for each in filter(None, (level, other))]  # fmt: skip
    storage = delayed(levels, messages=made)
    del storage.files[f"{STORE}/consumequeue/{delay_levels.SCHEDULE}/{level - 1}/{0:020}"]
    given = {"rocketmq": "5.3.3", "settings": GIVEN, "storage": storage}
    try:
        found = "; ".join(rebuild(Session(), STORE, OUTPUT, **given).warnings)  # type: ignore[arg-type]
    except StoreError as error:
        found = str(error)
    assert said in found
    assert (delay_levels.SETTING in found) == bool(said)


def test_levels_before_a_shown_one_are_the_usual_ones_and_a_flipped_bit_shows_nothing() -> None:
    found = found_in(delayed())
    assert (found.settings[delay_levels.SETTING], found.delays_shown) == (DAY, {19})
    assert delay_levels.SETTING not in found_in(delayed(USUAL, 18)).found
    shown = delay_levels.ShownDelays({21: [delay_levels.Shown(0, 0, 60_000)]})
    assert shown.text(Settings().delays) == f"{USUAL} 1s 1s 1m"
    storage = delayed(count=1)
    queue = next(path for path in storage.files if f"{delay_levels.SCHEDULE}/18/" in path)
    for bit in range(64):
        raw = bytearray(storage.files[queue])
        raw[12 + bit // 8] ^= 1 << bit % 8
        changed = MemoryStorage({**storage.files, queue: bytes(raw)})
        assert found_in(changed).delays_shown == frozenset()
    for delay, text in [(0, "0d"), (1000, "1s"), (90_000, "90s"), (7_200_000, "2h"),
        (-1000, "-1s")]:  # fmt: skip
        assert delay_levels.delay_text(delay) == text
        assert Settings(message_delay_level=text).delays == (delay,)


def test_a_setting_that_the_queue_contradicts_is_refused() -> None:
    for given in [USUAL, f"{USUAL} 2d"]:
        with pytest.raises(
            SettingError, match=f"level 19 is 1d by its queue, {delay_levels.SCHEDULE}/18; by the"
        ):
            found_in(delayed(), messageDelayLevel=given)
        conf = delayed()
        conf.files[f"{STORE}/broker.conf"] = f"{delay_levels.SETTING}={given}\n".encode()
        with pytest.raises(SettingError, match=r"by store/broker\.conf: "):
            found_in(conf)
    for conf in [DAY, f"{USUAL} 24h", "1d"]:
        storage = delayed()
        storage.files[f"{STORE}/broker.conf"] = f"{delay_levels.SETTING}={conf}\n".encode()
        found = found_in(storage)
        assert found.settings[delay_levels.SETTING] == conf


def by_turns(*days: int) -> MemoryStorage:
    """A store whose broker had another delay of level 19 for each message."""
    storage = delayed(count=len(days))
    queues = sorted(path for path in storage.files if f"{delay_levels.SCHEDULE}/18/" in path)
    length = len(storage.files[queues[0]])
    raw = bytearray(b"".join(storage.files[path] for path in queues))
    for n, day in enumerate(days):
        due = slice(20 * n + 12, 20 * n + 20)
        raw[due] = (int.from_bytes(raw[due]) + (day - 1) * 86_400_000).to_bytes(8)
    for n, path in enumerate(queues):
        storage.files[path] = bytes(raw[n * length : (n + 1) * length])
    return storage


@pytest.mark.parametrize("days", [
    (1, 1, 1, 2, 2), (2, 1, 1, 1, 1, 1, 1, 1), (1, 2, 3, 3, 1, 2, 2, 4),
    (1, 1, 1, 1, 1, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2)  # discovery overlooks the 3
    ])  # fmt: skip
@pytest.mark.parametrize("given", [0, 1, 2])
def test_entries_keep_the_delay_that_their_level_had(days: tuple[int, ...], given: int) -> None:
    storage = by_turns(*days)
    said = {delay_levels.SETTING: f"{USUAL} {given}d"} if given else {}
    for each in (said, {delay_levels.SETTING: f"{given}d"}) if given else (said,):
        report = run_check(STORE, "5.3.3", GIVEN | each, storage=storage)
        assert report.sound, report.text()
    assert (
        found_in(storage, **said).settings[delay_levels.SETTING] == f"{USUAL} {given or days[-1]}d"
    )


def test_entries_keep_the_delay_that_their_level_had_also_in_a_rebuild() -> None:
    for days, older in [((1, 1, 1), []), ((1, 2), [1]), ((1, 2, 2, 2, 1), [1, 2]),
        ((1, 2, 3, 3, 3), [1, 2])]:  # fmt: skip
        found = found_in(by_turns(*days)).older_delays
        assert [delays[18] // 86_400_000 for _, delays in found] == older
        assert {len(delays) for _, delays in found} <= {19}
    for given in [0, 1]:
        storage = by_turns(1, 1, 2, 2, 3)
        said = {delay_levels.SETTING: f"{USUAL} {given}d"} if given else {}
        run(STORE, OUTPUT, rocketmq="5.3.3", settings=GIVEN | said, storage=storage)
        queues = [path for path in storage.files if f"{STORE}/consumequeue/" in path]
        assert queues
        for path in queues:
            assert storage.files[path.replace(STORE, OUTPUT, 1)] == storage.files[path]


def due(files: dict[str, bytes], folder: str) -> list[int]:
    """The times of delivery in the queue of level 19 of the store in a folder."""
    queue = f"{folder}/consumequeue/{delay_levels.SCHEDULE}/18/"
    raw = b"".join(files[path] for path in sorted(files) if path.startswith(queue))
    return [each[2] for each in struct.iter_unpack(">qiq", raw) if each[1]]


@pytest.mark.parametrize("asked", [
    {}, {"to_settings": {delay_levels.SETTING: "3s"}}, {"rename": {"A": "B"}},
    {"to_rocketmq": "5.4.0"},
    {"to_settings": {"mappedFileSizeCommitLog": "65536"}}])  # fmt: skip
@pytest.mark.parametrize("days", [(1, 1, 2, 2, 3), (2, 2), (1,) * 45 + (2,) * 9])
def test_a_converted_store_keeps_the_times(days: tuple[int, ...], asked: dict[str, Any]) -> None:
    storage, at = by_turns(*days), {"rocketmq": "5.3.3", "settings": GIVEN}
    storage.files[f"{STORE}/config/topics.json"] = b'{"topicConfigTable":{"A":{"topicName":"A"}}}'
    assert convert(Session(), STORE, OUTPUT, storage=storage, **at, **asked).left_out == []
    assert due(storage.files, STORE) == due(storage.files, OUTPUT) != []
    wrong = run_check(OUTPUT, None, {}, storage=storage)
    assert wrong.sound, wrong.text()


def test_stores_of_two_delays_are_not_merged_and_odd_entries_are_refused() -> None:
    storage, other = by_turns(1, 2), delayed(DAY, count=3)
    storage.files |= {path.replace(STORE, "other", 1): raw for path, raw in other.files.items()}
    asked: dict[str, Any] = {"rocketmq": "5.3.3", "settings": GIVEN, "storage": storage,
        "merge": ["other"]}  # fmt: skip
    with pytest.raises(StoreError, match=r"2 messages of level 19 may wait 1d or 2d, .* has 2d: "):
        convert(Session(), STORE, OUTPUT, **asked)
    assert convert(Session(), STORE, OUTPUT, drop=[delay_levels.SCHEDULE], **asked).messages == 0
    storage, other = by_turns(1, 2, 2), by_turns(2, 2)
    storage.files |= {path.replace(STORE, "other", 1): raw for path, raw in other.files.items()}
    storage.files[f"{STORE}/config/delayOffset.json"] = b'{"offsetTable":{"19":1}}'
    convert(Session(), STORE, OUTPUT, rocketmq="5.3.3", settings=GIVEN, storage=storage,
            merge=["other"])  # fmt: skip
    assert due(storage.files, OUTPUT) == due(storage.files, STORE)[1:]  # "other" has the same
    storage = by_turns(1, 1, 1, 2, 2)
    queue = next(path for path in storage.files if f"{delay_levels.SCHEDULE}/18/" in path)
    raw = bytearray(storage.files[queue])
    raw[38] ^= 1  # of the second entry's due time
    storage.files[queue] = bytes(raw)
    assert not run_check(STORE, "5.3.3", GIVEN, storage=storage).sound
    storage = by_turns(*range(1, 20))
    with pytest.raises(SettingError, match=r"1d by the first entry .* 19d by the last"):
        found_in(storage)
    found_in(storage, messageDelayLevel=f"{USUAL} 19d")
    assert found_in(by_turns(*range(1, 18))).older_delays[-1][1][18] == 16 * 86_400_000


def test_a_replica_and_a_dump_have_the_times(tmp_path: Path, capsys) -> None:
    write(tmp_path, files := by_turns(1, 1, 2, 3, 3).files)
    replicate(str(tmp_path / STORE), str(tmp_path / "new"), rocketmq="5.3.3", settings=GIVEN)
    made = {str(path): path.read_bytes() for path in tmp_path.glob("new/*/*/*/*")}
    assert due(made, f"{tmp_path}/new") == (there := due(files, STORE))
    shown: list[int] = []
    for segment in sorted((tmp_path / STORE / "commitlog").iterdir()):
        main(["dump", str(segment), "--json", "--rocketmq", "5.3.3"])
        lines = capsys.readouterr().out.splitlines()
        shown += [each["tagsCode"] for each in map(json.loads, lines) if each["kind"] == "record"]
    assert shown == there


def known_times(store: Path) -> list[int]:
    """When each message of level 19 is due, as the questions say."""
    with open_store(str(store), rocketmq="5.3.3", settings=GIVEN) as opened:
        delays = level_delays(opened._opened, Notes())
        return [m.store_timestamp + int(delays.at(19, np.array([m.physical_offset]))[0])
                for m in opened.messages(delay_levels.SCHEDULE, 18)]  # fmt: skip


def test_levels_of_queues_in_rocksdb_are_found_as_those_of_files(tmp_path: Path) -> None:
    write(tmp_path, files := by_turns(1, 1, 2, 3, 3).files)
    given: dict[str, Any] = {"rocketmq": "5.3.3", "settings": GIVEN}
    store = tmp_path / STORE
    assert known_times(store) == due(files, STORE)
    rebuild(Session(), str(store), str(tmp_path / "set"), queues="rocksdb", **given)
    shutil.rmtree(store / "consumequeue")
    shutil.move(tmp_path / "set/consumequeue", store / "consumequeue")
    older = [delays[18] // 86_400_000 for _, delays in discover(
        store_at(str(store), "5.3.3", GIVEN), REBUILD).older_delays]  # fmt: skip
    assert older == [1, 2]
    assert check(Session(), str(store), **given).sound
    assert known_times(store) == due(files, STORE)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = write(tmp_path, delayed().files) / STORE
    (root / "abort").write_text("1")
    return root


def queue_of(store: Path) -> Path:
    return store / "consumequeue" / delay_levels.SCHEDULE / "18" / f"{0:020d}"


def words(*said: Any) -> list[str]:
    return [*map(str, said), "--rocketmq", "5.3.3"]


def test_recover_rebuild_verify_and_append_keep_the_times(store: Path, tmp_path: Path) -> None:
    before = queue_of(store).read_bytes()
    assert main(words("verify", store)) == 0
    assert main(words("rebuild", store, "--output", tmp_path / "out")) == 0
    assert queue_of(tmp_path / "out").read_bytes() == before
    os.truncate(queue_of(store), 0)
    os.truncate(queue_of(store), len(before))
    queue_of(store).write_bytes(before[:100] + bytes(len(before) - 100))
    with open_writer(str(store), rocketmq="5.3.3"):
        pass
    assert queue_of(store).read_bytes() == before
    (store / "abort").write_text("1")
    queue_of(store).write_bytes(before[:100] + bytes(len(before) - 100))
    assert main(words("recover", store, "--yes")) == 0
    assert queue_of(store).read_bytes() == before


def test_without_a_queue_or_a_file_the_default_is_taken_and_said(store, tmp_path, capsys) -> None:
    queue_of(store).unlink()
    sizes = ["--set", "mappedFileSizeConsumeQueue=200", "--output", tmp_path / "out"]
    main(words("rebuild", store, *sizes))
    assert "messageDelayLevel: RocketMQ's default is taken, as no queue" in capsys.readouterr().out
    main(words("rebuild", store, "--queues", "rocksdb", "--replace", *sizes))
    assert "messageDelayLevel: RocketMQ's default is taken, as no queue" in capsys.readouterr().out
    warnings: list[str] = []
    shutil.copytree(store, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "consumequeue" / delay_levels.SCHEDULE)
    with open_writer(str(tmp_path / "copy"), rocketmq="5.3.3", warnings=warnings):
        assert any("RocketMQ's default is taken, as no queue" in line for line in warnings)
    shutil.rmtree(tmp_path / "copy" / "consumequeue")
    main(words("catch-up", tmp_path / "copy", "--dry-run"))
    assert "messageDelayLevel: RocketMQ's default is taken, as no queue" in capsys.readouterr().out
    (store / "broker.conf").write_text(f"{delay_levels.SETTING}={DAY}\n")
    assert main(words("rebuild", store, "--replace", *sizes)) == 0
    assert "messageDelayLevel: RocketMQ's default" not in capsys.readouterr().out
