"""A catch-up into a set: what the store had and what it lacked, as one rebuild of all gives it."""

from functools import cache
from typing import Any

import pytest

from reput.jobs.in_place.catch_up import CaughtUp, catch_up_set
from reput.jobs.outputs.output import REBUILT, OutputInUse
from reput.store_format.faults import StoreError
from reput.store_format.notes import Progress
from tests.damaged import damaged, messages
from tests.in_process import OUTPUT, STORE, storage_of
from tests.jobs.found import found
from tests.memory_storage import MemoryStorage
from tests.store_format.damage.generator import derived_of

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
