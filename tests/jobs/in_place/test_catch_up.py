"""What people are told of a catch-up: what was or would be done, and what stays lost."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.in_place.catch_up import CaughtUp, catch_up_in_place, catch_up_set
from reput.jobs.opening.held import held_store
from reput.jobs.opening.plan import make_plan
from reput.jobs.outputs.output import REBUILT, OutputInUse
from reput.store_format.discover.purpose import CATCH_UP
from reput.store_format.discover.store import discover
from reput.store_format.faults import StoreError
from reput.store_format.notes import Progress
from tests.damaged import damaged, messages
from tests.in_process import OUTPUT, STORE, as_text, storage_of
from tests.jobs.found import found
from tests.memory_storage import MemoryStorage
from tests.store_format.damage.generator import derived_of
from tests.trees import contents


def about(**more: Any) -> CaughtUp:
    given = {"store": "s", "output": "", "rocketmq": "5.3.3", "start": 1000, "log_end": 4_310_016,
             "end_reason": "zeros"}  # fmt: skip
    return CaughtUp(**{**given, **more})


@pytest.mark.parametrize(
    ("more", "head"),
    [
        ({}, "nothing new in s: the derived files hold all up to 4,310,016"),
        ({"done": True}, "nothing new in s: the derived files hold all up to 4,310,016"),
        ({"lacking": ["x"]}, "nothing new in s: but queues have lost what they had"),
        ({"needed": True}, "would catch up s as RocketMQ 5.3.3 would"),
        ({"needed": True, "done": True}, "caught up s as RocketMQ 5.3.3 would"),
        ({"needed": True, "done": True, "output": "o"}, "caught up s -> o as RocketMQ 5.3.3 would"),
        ({"needed": True, "releases": "5.3.0 to 5.3.3"},
         "would catch up s as RocketMQ 5.3.0 to 5.3.3 would"),
    ],
)  # fmt: skip
def test_the_first_line_says_what_was_done(more: dict[str, Any], head: str) -> None:
    assert about(**more).text().splitlines()[0] == head


def test_numbers_are_of_what_is_new() -> None:
    lines = about(entries=3750, queues=1, index_keys=1, seconds=1.25).text().splitlines()
    assert lines[1:] == [
        "  log       1,000 to 4,310,016 (zeros)",
        "  new       3,750 entries in 1 queue, 1 key",
        "  time      1.2 s",
    ]
    assert "  new       0 entries in 0 queues, 0 keys" in about().text()


def test_each_lack_each_left_out_topic_and_each_warning_has_its_line() -> None:
    more: dict[str, Any] = {"resumed": True, "lacking": ["a", "b"], "left_out": ["c"],
                            "warnings": ["d"]}  # fmt: skip
    assert about(**more).text().splitlines()[4:] == [
        "  resumed   an earlier catch-up, which was killed",
        "  lacks     a", "  lacks     b", "  left out  c", "  warning   d",
    ]  # fmt: skip


def test_what_the_store_shows_is_only_for_those_who_ask() -> None:
    found = {"maxIndexNum": {"value": 50, "by": "the index files"}}
    told = about(discovered=found)
    assert "found" not in told.text()
    assert told.details() == ["  found     50 entries: the index files"]


# --- A catch-up into a set: what the store had and what it lacked, as one rebuild of all gives it.
WHOLE = damaged()  # 60 messages, in three queues


@cache
def derived(had: int) -> dict[str, bytes]:
    """The derived files of the first messages."""
    return derived_of(damaged(messages(60)[:had]).log)


def store_of(had: int) -> MemoryStorage:
    """The whole log, and the derived files of its first messages."""
    storage = storage_of(WHOLE.log)
    storage.files |= derived(had)
    return storage


def caught_up(storage: MemoryStorage) -> CaughtUp:
    store = found(WHOLE.log, storage)
    target: Any = store.output(OUTPUT, REBUILT, False, storage)
    return catch_up_set(store.plan, target, Progress())


def by_order(files: dict[str, bytes], root: str) -> dict[str, bytes]:
    """Derived files, the index files by number, as their names are times."""
    derived = {path.removeprefix(f"{root}/"): raw for path, raw in files.items() if root in path}
    index = sorted(path for path in derived if path.startswith("index/"))
    kept = {p: raw for p, raw in derived.items() if p.startswith("consumequeue/")}
    return kept | {f"index/{n}": derived[path] for n, path in enumerate(index)}


@pytest.mark.parametrize("had", [1, 30, 49, 59, 60])
def test_the_set_is_that_of_the_whole_log_and_the_store_stays(had: int) -> None:
    storage = store_of(had)
    before = dict(storage.files)
    about = caught_up(storage)
    assert {path: raw for path, raw in storage.files.items() if OUTPUT not in path} == before
    assert by_order(storage.files, OUTPUT) == by_order(derived(60), STORE)
    assert (about.entries, about.index_keys, about.output) == (60 - had, 60 - had, OUTPUT)
    assert about.log_end == WHOLE.places[59] + WHOLE.size(59)
    assert (about.done, about.lacking) == (True, [])
    assert {f"{OUTPUT}/checkpoint", f"{OUTPUT}/manifest.json"} <= storage.files.keys()


def test_files_that_the_log_contradicts_are_refused_and_nothing_is_left() -> None:
    storage = store_of(30)
    path = f"{STORE}/consumequeue/T/0/{0:020d}"
    raw = bytearray(storage.files[path])
    raw[180 + 7] ^= 1  # of queue 0's tenth entry, its last: the physicalOffset's lowest byte
    storage.files[path] = bytes(raw)
    before = dict(storage.files)
    with pytest.raises(StoreError, match=f"^{STORE}/consumequeue/T/0: .*physicalOffset"):
        caught_up(storage)
    assert storage.files == before


def test_only_what_a_broker_reads_is_taken_over() -> None:
    storage = store_of(30)
    storage.files[f"{STORE}/consumequeue/T/notes/{0:020d}"] = b"mine"
    storage.files[f"{STORE}/config/consumerOffset.json"] = b"{}"
    caught_up(storage)
    assert not [path for path in storage.files if path.startswith(f"{OUTPUT}/") and "notes" in path]
    assert not storage.has_folder(f"{OUTPUT}/config")


def test_an_output_with_something_in_it_is_left_alone() -> None:
    storage = store_of(30)
    storage.files[f"{OUTPUT}/mine"] = b"1"
    before = dict(storage.files)
    with pytest.raises(OutputInUse):
        caught_up(storage)
    assert storage.files == before


# --- A catch-up in place: what is asked, what a dry run says, and the stores that are refused.
QUEUE = "consumequeue/T/0"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The whole log, and the derived files of its first 31 messages: eleven of them in queue 0."""
    return stored(tmp_path, 31)


def stored(tmp_path: Path, many: int) -> Path:
    files = {f"{STORE}/commitlog/{start:020d}": bytes(r) for start, r in WHOLE.segments.items()}
    files |= derived_of(damaged(messages(60)[:many]).log)
    for path, raw in files.items():
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(raw)
    return tmp_path / STORE


def store_caught_up(
    store: Path, dry_run: bool = False, confirm: Callable[[str], None] = lambda _: None
) -> CaughtUp:
    with held_store(str(store), dry_run) as held:
        at = held.at("5.3.3", as_text(WHOLE.settings))
        return catch_up_in_place(
            held, make_plan(at, discover(at, CATCH_UP), CATCH_UP), Progress(), confirm
        )


def test_it_asks_once_with_the_numbers_and_writes_what_a_rebuild_writes(store: Path) -> None:
    asked: list[str] = []
    about = store_caught_up(store, confirm=asked.append)
    assert asked == [f"write 29 queue entries and 29 keys to {store}, in place"]
    assert (about.done, about.resumed, about.entries, about.queues) == (True, False, 29, 3)
    made = contents(store)
    whole = {p.removeprefix(f"{STORE}/"): raw for p, raw in derived_of(WHOLE.log).items()}
    for path, raw in whole.items():
        if path.startswith("consumequeue/"):
            assert made[path] == raw
    index = [made[path] for path in sorted(made) if path.startswith("index/")]
    assert index == [whole[path] for path in sorted(whole) if path.startswith("index/")]
    assert not {"abort", "reput-catch-up.json"} & made.keys()


def test_no_key_is_put_twice_where_an_older_file_sorts_last(tmp_path: Path) -> None:
    """As a broker leaves it that has moved to the west (IndexService.load sorts by name)."""
    store = stored(tmp_path, 55)
    first, second = sorted((store / "index").iterdir())
    first.rename(first.with_name(str(int(second.name) + 8_00_00_000)))
    about = store_caught_up(store)
    assert (about.done, about.entries, about.index_keys) == (True, 5, 5)
    index = [raw for path, raw in sorted(contents(store).items()) if path.startswith("index/")]
    whole = derived_of(WHOLE.log)
    assert index == [whole[path] for path in sorted(whole) if "/index/" in path]
    assert not store_caught_up(store).needed
    again = store_caught_up(store, confirm=pytest.fail)
    assert (again.needed, again.done) == (False, False)


def test_a_dry_run_says_the_same_and_changes_nothing(store: Path) -> None:
    before = contents(store)
    about = store_caught_up(store, dry_run=True, confirm=pytest.fail)
    assert (about.needed, about.done, about.entries, about.index_keys) == (True, False, 29, 29)
    assert contents(store) == before


def test_who_does_not_agree_has_an_unchanged_store(store: Path) -> None:
    def no(_: str) -> None:
        raise KeyboardInterrupt

    before = contents(store)
    with pytest.raises(KeyboardInterrupt):
        store_caught_up(store, confirm=no)
    assert contents(store) == before


@pytest.mark.parametrize("dry_run", [True, False])
def test_after_a_crash_that_was_none_of_a_catch_up_a_recovery_comes_first(
    dry_run: bool, store: Path
) -> None:
    (store / "abort").touch()
    before = contents(store)
    with pytest.raises(StoreError, match="use `reput recover` first"):
        store_caught_up(store, dry_run)
    assert contents(store) == before


def hard_link(store: Path) -> None:
    os.link(store / QUEUE / f"{200:020d}", store.parent / "second")


def link(store: Path) -> None:
    (store / "index").rename(store.parent / "elsewhere")
    (store / "index").symlink_to(store.parent / "elsewhere")


@pytest.mark.parametrize("spoil", [hard_link, link])
def test_a_file_that_is_another_stores_too_is_not_written_to(
    spoil: Callable[[Path], None], store: Path
) -> None:
    spoil(store)
    before = contents(store)
    with pytest.raises(StoreError):
        store_caught_up(store)
    assert contents(store) == before


def test_an_earlier_file_of_the_queue_may_have_a_second_name(store: Path) -> None:
    """It is full: nothing is written to it."""
    os.link(store / QUEUE / f"{0:020d}", store.parent / "second")
    assert store_caught_up(store).done
