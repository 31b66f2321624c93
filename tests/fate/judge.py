"""Whether what is told of a store is what was done in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reput.store_format.derive.rules import record_rules
from reput.store_format.fate.answers import delayed_rows, message_events, transaction_rows
from reput.store_format.log.reader import LogReader
from reput.store_format.log.segments import find_segments
from reput.store_format.release.profiles import RELEASES, profile
from reput.store_format.release.settings import settings_from
from reput.store_format.storage.local import LocalStorage
from tests.fate.asked import Heard


class FolderStore:
    """A store on disk that is asked; nothing is told of its delay levels."""

    def __init__(self, path: Path) -> None:
        self.storage: Any = LocalStorage()
        self.path = str(path)
        self.profile = profile(RELEASES[-1])
        self.settings = settings_from({})
        size = next((path / "commitlog").iterdir()).stat().st_size
        segments = find_segments(self.storage, [f"{path}/commitlog"], size)
        self.log = LogReader(self.storage, segments, record_rules(self.profile))


def compare_done(path: Path, done: Mapping[str, Any]) -> None:
    """done: the fields of tests.rocketmq.fates.Done."""
    store, heard = FolderStore(path), Heard()
    told = {row.unique_key: row.state for row in transaction_rows(store, True, heard)}
    assert told == done["transactions"]
    rows = delayed_rows(store, True, heard)
    assert {row.unique_key: row.state for row in rows if row.by == "timer"} == done["timers"]
    levels = {row.unique_key: row.state for row in rows if row.by == "level"}
    assert levels.pop(done["retried"]) == "delivered"
    assert levels == done["delays"]
    assert not [note for note in heard.notes if "ms by its queue" not in note]
    _compare_lives(store, done)


def _compare_lives(store: FolderStore, done: Mapping[str, Any]) -> None:
    def life(key: str) -> list[str]:
        return [step.event for step in message_events(store, key, "", None, Heard())]

    retry = ["delayed", "retried"]
    assert life(done["retried"]) == ["put", *retry, *retry, "dead-lettered"]
    assert life(done["plain"]) == ["put"]
    wanted = {
        "committed": ["half", "committed", "op"],
        "rolled back": ["half", "op"],
        "discarded": ["half", *["checked"] * 3, "discarded"],
        "pending": ["half"],
    }
    assert {state: life(key) for key, state in done["transactions"].items()} == wanted
    for key, state in done["delays"].items():
        assert life(key) == ["delayed", "delivered"][: 1 + (state == "delivered")]
    for key, state in done["timers"].items():
        assert life(key) == ["timed", "delivered"][: 1 + (state == "delivered")]


def compare_skipped(path: Path, done: Mapping[str, Any], wanted: Mapping[str, str]) -> None:
    """done: as `skipped` of tests.rocketmq.fates gives it; wanted: the state for each time."""
    rows = delayed_rows(FolderStore(path), True, Heard())
    told = {row.unique_key: row.state for row in rows}
    assert told == {key: wanted[when] for key, when in done["delays"].items()}
