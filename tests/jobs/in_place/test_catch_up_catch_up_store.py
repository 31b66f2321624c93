"""A catch-up in place: what is asked, what a dry run says, and the stores that are refused."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reput.jobs.in_place.catch_up import CaughtUp, catch_up_in_place
from reput.jobs.opening.held import held_store
from reput.jobs.opening.plan import make_plan
from reput.store_format.discover.purpose import CATCH_UP
from reput.store_format.discover.store import discover
from reput.store_format.faults import StoreError
from reput.store_format.notes import Progress
from tests.damaged import damaged, messages
from tests.in_process import STORE, as_text
from tests.store_format.damage.generator import derived_of
from tests.trees import contents

WHOLE = damaged()  # 60 messages, in three queues
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


def caught_up(
    store: Path, dry_run: bool = False, confirm: Callable[[str], None] = lambda _: None
) -> CaughtUp:
    with held_store(str(store), dry_run) as held:
        at = held.at("5.3.3", as_text(WHOLE.settings))
        return catch_up_in_place(
            held, make_plan(at, discover(at, CATCH_UP), CATCH_UP), Progress(), confirm
        )


def test_it_asks_once_with_the_numbers_and_writes_what_a_rebuild_writes(store: Path) -> None:
    asked: list[str] = []
    about = caught_up(store, confirm=asked.append)
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
    about = caught_up(store)
    assert (about.done, about.entries, about.index_keys) == (True, 5, 5)
    index = [raw for path, raw in sorted(contents(store).items()) if path.startswith("index/")]
    whole = derived_of(WHOLE.log)
    assert index == [whole[path] for path in sorted(whole) if "/index/" in path]
    assert not caught_up(store).needed
    again = caught_up(store, confirm=pytest.fail)
    assert (again.needed, again.done) == (False, False)


def test_a_dry_run_says_the_same_and_changes_nothing(store: Path) -> None:
    before = contents(store)
    about = caught_up(store, dry_run=True, confirm=pytest.fail)
    assert (about.needed, about.done, about.entries, about.index_keys) == (True, False, 29, 29)
    assert contents(store) == before


def test_who_does_not_agree_has_an_unchanged_store(store: Path) -> None:
    def no(_: str) -> None:
        raise KeyboardInterrupt

    before = contents(store)
    with pytest.raises(KeyboardInterrupt):
        caught_up(store, confirm=no)
    assert contents(store) == before


@pytest.mark.parametrize("dry_run", [True, False])
def test_after_a_crash_that_was_none_of_a_catch_up_a_recovery_comes_first(
    dry_run: bool, store: Path
) -> None:
    (store / "abort").touch()
    before = contents(store)
    with pytest.raises(StoreError, match="use `reput recover` first"):
        caught_up(store, dry_run)
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
        caught_up(store)
    assert contents(store) == before


def test_an_earlier_file_of_the_queue_may_have_a_second_name(store: Path) -> None:
    """It is full: nothing is written to it."""
    os.link(store / QUEUE / f"{0:020d}", store.parent / "second")
    assert caught_up(store).done
