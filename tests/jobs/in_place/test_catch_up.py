"""What people are told of a catch-up: what was or would be done, and what stays lost."""

from collections.abc import Callable
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
from tests.built import write
from tests.damaged import damaged, messages
from tests.in_process import OUTPUT, STORE, as_text, storage_of
from tests.jobs.found import found
from tests.store_format.damage.generator import derived_of
from tests.trees import contents

# --- A catch-up into a set: what the store had and what it lacked, as one rebuild of all gives it.
WHOLE = damaged()  # 60 messages, in three queues


def test_only_what_a_broker_reads_is_taken_over() -> None:
    storage = storage_of(WHOLE.log)
    storage.files |= derived_of(damaged(messages(30)).log)
    storage.files[f"{STORE}/consumequeue/T/notes/{0:020d}"] = b"mine"
    storage.files[f"{STORE}/config/consumerOffset.json"] = b"{}"
    store = found(WHOLE.log, storage)
    target: Any = store.output(OUTPUT, REBUILT, False, storage)
    catch_up_set(store.plan, target, Progress())
    assert not [path for path in storage.files if path.startswith(f"{OUTPUT}/") and "notes" in path]
    assert not storage.has_folder(f"{OUTPUT}/config")


def caught_up(store: Path, confirm: Callable[[str], None] = lambda _: None) -> CaughtUp:
    with held_store(str(store), dry_run=False) as held:
        at = held.at("5.3.3", as_text(WHOLE.settings))
        plan = make_plan(at, discover(at, CATCH_UP), CATCH_UP)
        return catch_up_in_place(held, plan, Progress(), confirm)


def test_no_key_is_put_twice_where_an_older_file_sorts_last(tmp_path: Path) -> None:
    """As a broker leaves it that has moved to the west (IndexService.load sorts by name)."""
    files = {f"{STORE}/commitlog/{start:020d}": bytes(r) for start, r in WHOLE.segments.items()}
    write(tmp_path, files | derived_of(damaged(messages(60)[:55]).log))
    store = tmp_path / STORE
    first, second = sorted((store / "index").iterdir())
    first.rename(first.with_name(str(int(second.name) + 8_00_00_000)))
    about = caught_up(store)
    assert (about.done, about.entries, about.index_keys) == (True, 5, 5)
    index = [raw for path, raw in sorted(contents(store).items()) if path.startswith("index/")]
    whole = derived_of(WHOLE.log)
    assert index == [whole[path] for path in sorted(whole) if "/index/" in path]
    again = caught_up(store, confirm=pytest.fail)
    assert (again.needed, again.done) == (False, False)
