"""Topics that were deleted and made again, while the log still has the messages sent before.

RocketMQ keeps the new queue, also after a crash (#1852, #7264, #316). From the log alone it joins
both lives: the first new message comes after the old ones, and the others have too low offsets.
"""

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput import backup, restore
from reput.jobs.cli import main
from reput.jobs.convert import convert
from reput.jobs.rebuild import SALVAGE
from reput.jobs.verify import verify
from reput.store_format.derived.queue_files import decode_entries
from reput.store_format.files.folder import Folder
from reput.store_format.rocksdb.queues import ENTRIES, RocksDBQueues, behind_queue, queue_key
from tests.built import write_log
from tests.damaged import SETTINGS, START, Damaged, damaged
from tests.in_process import OUTPUT, STORE, Session, as_text, run, storage_of
from tests.jobs.checking import checked
from tests.logs.encoder import Message, properties
from tests.memory_storage import MemoryStorage

OLD, NEW, OTHER = 14, 5, 25
QUEUE = f"consumequeue/T/0/{0:020d}"
GIVEN = {"rocketmq": "5.3.3", "settings": as_text(SETTINGS)}


def log_of_two_lives() -> Damaged:
    """T/0 of 14 messages, deleted and made again, 5 messages; U/0 between them."""
    offsets = [*(("T", n) for n in range(OLD)), *(("U", n) for n in range(OTHER)),
               *(("T", n) for n in range(NEW))]  # fmt: skip
    return damaged([Message(topic, 0, offset, b"body", store_timestamp=START + n,
                            properties=properties(("KEYS", f"k{n}")))
                    for n, (topic, offset) in enumerate(offsets)])  # fmt: skip


def begun(log: Damaged, remade: str = "last") -> MemoryStorage:
    """A store with the derived files that a rebuild of the log makes."""
    storage = storage_of(log.log)
    run(STORE, OUTPUT, remade=remade, storage=storage, **GIVEN)
    for path in [path for path in storage.files if path.startswith(f"{OUTPUT}/")]:
        raw = storage.files.pop(path)
        if not path.endswith("manifest.json"):
            storage.files[path.replace(OUTPUT, STORE, 1)] = raw
    return storage


def places(storage: MemoryStorage, path: str = f"{STORE}/{QUEUE}") -> list[int]:
    folder = path.rpartition("/")[0]
    files = sorted(name for name in storage.files if name.startswith(f"{folder}/"))
    entries = np.concatenate([decode_entries(storage.files[name]) for name in files])
    return [int(each["physicalOffset"]) for each in entries if each["size"] > 0]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("on_damage", ["refuse", SALVAGE])
def test_the_life_that_the_queue_has_is_derived_again(seed: int, on_damage: str) -> None:
    log = log_of_two_lives()
    storage = begun(log)
    assert places(storage) == log.places[-NEW:]
    summary = run(
        STORE, OUTPUT, Session(seed), storage=storage, on_damage=on_damage, **GIVEN)  # fmt: skip
    assert places(storage, f"{OUTPUT}/{QUEUE}") == log.places[-NEW:]
    assert summary.in_no_queue == []
    assert [line for line in summary.warnings if f"{OLD} messages" in line] == [
        f"consumequeue/T/0: {OLD} messages of the log, sent before the topic was deleted and made "
        "again: in no queue"
    ]


def rocksdb_places(storage: MemoryStorage) -> list[int]:
    """Those of all rows of T/0 in a set, also of rows that no broker reads."""
    with closing(RocksDBQueues(OUTPUT, Folder(storage, f"{OUTPUT}/consumequeue"))) as queues:
        rows = queues.database.rows(ENTRIES, queue_key("T", 0), behind_queue(queue_key("T", 0)))
        return [int.from_bytes(value[:8], "big") for _, value in rows]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("on_damage", "remade"), [("refuse", ""), (SALVAGE, ""), ("refuse", "all")]
)
def test_rocksdb_has_the_life_that_the_queue_has(seed: int, on_damage: str, remade: str) -> None:
    log = log_of_two_lives()
    storage = begun(log)
    summary = run(STORE, OUTPUT, Session(seed), storage=storage, on_damage=on_damage, remade=remade,
                  queues="rocksdb", **GIVEN)  # fmt: skip
    # RocketMQ leaves rows past a queue's end, which it does not read
    unread = log.places[NEW:OLD] if remade else []
    assert rocksdb_places(storage) == [*log.places[-NEW:], *unread]
    said = [line for line in summary.warnings if f"{OLD} messages" in line]
    assert (len(said), len(summary.in_no_queue)) == ((0, NEW + 1) if remade else (1, 0))


def test_a_store_that_has_the_last_life_is_sound_and_so_is_one_that_has_all() -> None:
    log = log_of_two_lives()
    report = checked(log, 3, begun(log))
    assert (report.sound, report.warnings) == (True, [])
    assert any("deleted and made again" in note for note in report.notes)
    joined = checked(log, 3, begun(log, "all"))
    assert joined.sound
    assert any("comes to position 14" in line for line in joined.warnings)


def test_without_queues_it_is_what_the_log_alone_gives_and_is_said() -> None:
    log = log_of_two_lives()
    storage = storage_of(log.log)
    summary = run(STORE, OUTPUT, storage=storage, **GIVEN)
    assert places(storage, f"{OUTPUT}/{QUEUE}") == [*log.places[:OLD], log.places[-NEW]]
    again, *skipped = summary.in_no_queue
    assert f"offset {log.places[-NEW]} has queueOffset 0 and comes to position {OLD}" in again
    assert "--remade last" in again
    assert len(skipped) == NEW - 1
    for remade in ("all", "last"):  # a set is judged by its own life
        storage = storage_of(log.log)
        run(STORE, OUTPUT, storage=storage, remade=remade, **GIVEN)
        report = verify(Session(), STORE, against=OUTPUT, storage=storage, **GIVEN)
        assert report.same, report.text()


def test_an_entry_that_is_no_beginning_proves_nothing() -> None:
    log = log_of_two_lives()
    storage = begun(log)
    raw = bytearray(storage.files[f"{STORE}/{QUEUE}"])
    raw[:8] = log.places[-NEW + 1].to_bytes(8, "big")
    storage.files[f"{STORE}/{QUEUE}"] = bytes(raw)
    summary = run(STORE, OUTPUT, storage=storage, **GIVEN)
    assert len(summary.in_no_queue) == NEW


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    log = log_of_two_lives()
    root = write_log(tmp_path / "store", {a: bytes(s) for a, s in log.segments.items()})
    for path, raw in begun(log).files.items():
        file = root / path.removeprefix(f"{STORE}/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(raw)
    (root / "abort").touch()
    return root


def command(*words: Any) -> int:
    sizes = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    return main([*map(str, words), "--rocketmq", "5.3.3", *sizes])


def test_a_recovery_keeps_the_living_messages_alone(crashed: Path) -> None:
    root = crashed
    queue = root / QUEUE
    before = queue.read_bytes()
    assert command("recover", root, "--yes") == 0
    assert queue.read_bytes() == before
    queue.unlink()
    (root / "abort").touch()
    assert command("recover", root, "--yes") == 1
    entries = decode_entries(queue.read_bytes())
    assert np.count_nonzero(entries["size"]) == 10  # of a file, of 15
    assert command("recover", root, "--yes", "--remade", "last") == 0
    assert queue.read_bytes() == before


@pytest.mark.parametrize("drop", [(), ("U",)])
@pytest.mark.parametrize("remade", ["", "last"])
def test_a_conversion_leaves_the_earlier_life_out(drop: tuple[str, ...], remade: str) -> None:
    log = log_of_two_lives()
    storage = storage_of(log.log) if remade else begun(log)
    summary = convert(
        Session(), STORE, OUTPUT, storage=storage, drop=drop, remade=remade, **GIVEN)  # fmt: skip
    assert len(places(storage, f"{OUTPUT}/{QUEUE}")) == NEW
    assert summary.messages == NEW + (0 if drop else OTHER)
    assert summary.left_out == []
    assert any("begins at physical offset" in line for line in summary.warnings)


def test_a_conversion_that_nothing_shows_a_life_takes_all_and_says_so() -> None:
    log = log_of_two_lives()
    storage = storage_of(log.log)
    summary = convert(Session(), STORE, OUTPUT, storage=storage, **GIVEN)
    assert len(places(storage, f"{OUTPUT}/{QUEUE}")) == OLD + 1
    assert "--remade last" in summary.left_out[0]


@pytest.mark.parametrize("anew", [{}, {"to_rocketmq": "5.4.0"}])
def test_a_restored_store_has_the_life_that_is_asked_for(anew: dict[str, Any], tmp_path) -> None:
    """A repository has no queue files, which showed it."""
    for path, raw in begun(log_of_two_lives()).files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(raw)
    backup(str(tmp_path / STORE), str(tmp_path / "repo"), **GIVEN)
    for remade in ("", "last"):
        out = tmp_path / f"out{remade}"
        about = restore(Session(), str(tmp_path / "repo"), str(out), remade=remade, **anew)
        assert about.good == bool(remade)
        files = {str(path): path.read_bytes() for path in (out / QUEUE).parent.iterdir()}
        found = places(MemoryStorage(files), f"{out / QUEUE}")
        assert len(found) == (NEW if remade else OLD + 1)
