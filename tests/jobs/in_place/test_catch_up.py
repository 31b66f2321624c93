"""What people are told of a catch-up: what was or would be done, and what stays lost."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.in_place.catch_up import CaughtUp, catch_up_in_place, catch_up_set
from reput.jobs.opening.held import held_store
from reput.jobs.opening.plan import make_plan
from reput.jobs.outputs.output import REBUILT
from reput.store_format.discover.purpose import CATCH_UP
from reput.store_format.discover.store import discover
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


@pytest.mark.parametrize(("more", "head"), [
    ({}, "nothing new in s: the derived files hold all up to 4,310,016"),
    ({"done": True}, "nothing new in s: the derived files hold all up to 4,310,016"),
    ({"lacking": ["x"]}, "nothing new in s: but queues have lost what they had"),
    ({"needed": True}, "would catch up s as RocketMQ 5.3.3 would"),
    ({"needed": True, "done": True}, "caught up s as RocketMQ 5.3.3 would"),
    ({"needed": True, "done": True, "output": "o"}, "caught up s -> o as RocketMQ 5.3.3 would"),
    ({"needed": True, "releases": "5.3.0 to 5.3.3"},
     "would catch up s as RocketMQ 5.3.0 to 5.3.3 would"),
])  # fmt: skip
def test_the_first_line_says_what_was_done(more: dict[str, Any], head: str) -> None:
    assert about(**more).text().splitlines()[0] == head


def test_numbers_are_of_what_is_new() -> None:
    lines = about(entries=3750, queues=1, index_keys=1, seconds=1.25).text().splitlines()
    assert lines[1:] == [
        "  log       1,000 to 4,310,016 (zeros)", "  new       3,750 entries in 1 queue, 1 key",
        "  time      1.2 s",
    ]  # fmt: skip
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


def test_only_what_a_broker_reads_is_taken_over() -> None:
    storage = store_of(30)
    storage.files[f"{STORE}/consumequeue/T/notes/{0:020d}"] = b"mine"
    storage.files[f"{STORE}/config/consumerOffset.json"] = b"{}"
    caught_up(storage)
    assert not [path for path in storage.files if path.startswith(f"{OUTPUT}/") and "notes" in path]
    assert not storage.has_folder(f"{OUTPUT}/config")


# --- A catch-up in place: what is asked, what a dry run says, and the stores that are refused.


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
