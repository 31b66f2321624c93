"""The delays of levels, as the schedule topic's queues show them."""

import os
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.cli import main
from reput.jobs.opening.open_writer import open_writer
from reput.store_format.discover.delay_levels import SCHEDULE, SETTING, ShownDelays, delay_text
from reput.store_format.discover.purpose import REBUILD
from reput.store_format.discover.store import Discovered, discover, store_at
from reput.store_format.release.settings import SettingError, Settings
from tests.built import write_log
from tests.in_process import STORE
from tests.memory_storage import MemoryStorage
from tests.store_format.discover.delayed import DAY, GIVEN, USUAL, delayed


def found_in(storage: MemoryStorage, **settings: str) -> Discovered:
    return discover(store_at(STORE, "5.3.3", GIVEN | settings, storage), REBUILD)


@pytest.mark.parametrize("levels", [DAY, "1s 5s 3d", "90s", USUAL])
def test_a_level_is_as_its_queue_shows(levels: str) -> None:
    level = len(levels.split())
    found = found_in(delayed(levels, level))
    delays = Settings(message_delay_level=found.settings[SETTING]).delays
    assert delays[level - 1] == Settings(message_delay_level=levels).delays[-1]
    assert (SETTING in found.found) == (levels != USUAL)
    assert found.delays_known


def test_levels_before_a_shown_one_are_the_usual_ones() -> None:
    assert found_in(delayed()).settings[SETTING] == DAY
    shown = ShownDelays({21: 60_000}, {21: 60_000})
    assert shown.text(Settings().delays) == f"{USUAL} 1s 1s 1m"


@pytest.mark.parametrize("given", [USUAL, f"{USUAL} 2d"])
def test_a_setting_that_the_queue_contradicts_is_refused(given: str) -> None:
    with pytest.raises(SettingError, match=f"level 19 is 1d by its queue, {SCHEDULE}/18; by the"):
        found_in(delayed(), messageDelayLevel=given)
    conf = delayed()
    conf.files[f"{STORE}/broker.conf"] = f"{SETTING}={given}\n".encode()
    with pytest.raises(SettingError, match=r"by store/broker\.conf: "):
        found_in(conf)


@pytest.mark.parametrize("conf", [DAY, f"{USUAL} 24h"])
def test_a_setting_that_says_the_same_counts(conf: str) -> None:
    storage = delayed()
    storage.files[f"{STORE}/broker.conf"] = f"{SETTING}={conf}\n".encode()
    found = found_in(storage)
    assert found.settings[SETTING] == conf


def test_a_level_that_was_changed_is_refused_unless_it_is_given() -> None:
    storage, other = delayed(), delayed(f"{USUAL} 2d")
    queue = next(path for path in storage.files if f"{SCHEDULE}/18/" in path)
    storage.files[queue] = storage.files[queue][:100] + other.files[queue][100:]
    with pytest.raises(SettingError, match=r"1d by the first entry .* 2d by the last"):
        found_in(storage)
    found_in(storage, messageDelayLevel=f"{USUAL} 2d")


def test_a_flipped_bit_shows_nothing() -> None:
    storage = delayed(count=1)
    queue = next(path for path in storage.files if f"{SCHEDULE}/18/" in path)
    for bit in range(64):
        raw = bytearray(storage.files[queue])
        raw[12 + bit // 8] ^= 1 << bit % 8
        changed = MemoryStorage({**storage.files, queue: bytes(raw)})
        assert not found_in(changed).delays_known


@pytest.mark.parametrize(
    ("delay", "text"), [(0, "0d"), (1000, "1s"), (90_000, "90s"), (7_200_000, "2h"), (-1000, "-1s")]
)
def test_a_delay_as_the_setting_has_it(delay: int, text: str) -> None:
    assert delay_text(delay) == text
    assert Settings(message_delay_level=text).delays == (delay,)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    files = {path.removeprefix(f"{STORE}/"): raw for path, raw in delayed().files.items()}
    root = write_log(tmp_path / "store", {})
    for path, raw in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(raw)
    (root / "abort").write_text("1")
    return root


def queue_of(store: Path) -> Path:
    return store / "consumequeue" / SCHEDULE / "18" / f"{0:020d}"


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


def test_without_a_queue_or_a_file_the_default_is_taken_and_said(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queue_of(store).unlink()
    sizes = ["--set", "mappedFileSizeConsumeQueue=200", "--output", tmp_path / "out"]
    main(words("rebuild", store, *sizes))
    assert "messageDelayLevel: RocketMQ's default is taken, as no queue" in capsys.readouterr().out
    (store / "broker.conf").write_text(f"{SETTING}={DAY}\n")
    assert main(words("rebuild", store, "--replace", *sizes)) == 0
    assert "messageDelayLevel: RocketMQ's default" not in capsys.readouterr().out
