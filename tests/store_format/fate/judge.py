"""Whether what is reported about a store is what was done in it."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import reput
from reput.jobs.opening.questions import Store


def compare_done(path: Path, done: Mapping[str, Any]) -> None:
    """done: what tests.rocketmq.fates.live gives. Nothing is known of the delay levels."""
    with reput.open_store(str(path)) as store:
        transactions = store.transactions(everything=True)
        assert {row.unique_key: row.state for row in transactions} == done["transactions"]
        assert transactions.notes == []
        rows = store.delayed(everything=True)
        assert {row.unique_key: row.state for row in rows if row.by == "timer"} == done["timers"]
        levels = {(row.unique_key, row.reconsume_times): row.state for row in rows if row.level}
        for attempt in (1, 2):
            assert levels.pop((done["retried"], attempt)) == "delivered"
        assert {key: state for (key, _), state in levels.items()} == done["delays"]
        assert not [note for note in rows.notes if "ms by its queue" not in note]
        for scan in (False, True):
            _compare_lives(store, done, scan)


def _compare_lives(store: Store, done: Mapping[str, Any], scan: bool) -> None:
    def life(key: str) -> list[str]:
        steps = store.trace(key, scan=scan)
        places = [step.physical_offset for step in steps if step.group is None]
        assert places == sorted(places)
        return [step.event for step in steps if step.group is None]

    retry = ["delayed", "retried"]
    assert life(done["retried"]) == ["put", *retry, *retry, "dead-lettered"]
    assert life(done["plain"]) == ["put"]
    wanted = {"committed": ["half", "committed", "op"], "rolled back": ["half", "op"],
        "discarded": ["half", *["checked"] * 3, "discarded"]}  # fmt: skip
    for key, state in done["transactions"].items():
        if state == "pending":
            first, *checks = life(key)
            assert first == "half"
            assert set(checks) <= {"checked"}
        else:
            assert life(key) == wanted[state]
    for key, state in done["delays"].items():
        assert life(key) == ["delayed", "delivered"][: 1 + (state == "delivered")]
    for key, state in done["timers"].items():
        assert life(key) == ["timed", "delivered"][: 1 + (state == "delivered")]


def compare_skipped(path: Path, done: Mapping[str, Any], wanted: Mapping[str, str]) -> None:
    """done: as `skipped` of tests.rocketmq.fates gives it; wanted: the state for each time."""
    with reput.open_store(str(path)) as store:
        reported = {row.unique_key: row.state for row in store.delayed(everything=True)}
        assert reported == {key: wanted[when] for key, when in done["delays"].items()}
        for key, when in done["delays"].items():
            assert next(step.state for step in store.trace(key)) == wanted[when]


def compare_in_rocksdb(path: Path, done: Mapping[str, Mapping[str, str]]) -> None:
    """done: what tests.rocketmq.fates.in_rocksdb gives. Without rocksdbstore/ the log alone tells:
    nothing of what a broker has given up, or how often it asked.
    """
    there = (path / "rocksdbstore").exists()
    reported = {"given up": "abandoned" if there else "pending",
        "checked and committed": "committed", "asked": "pending"}  # fmt: skip
    lives = {"committed": ["half", "committed", "op"], "rolled back": ["half", "op"],
        "pending": ["half"], "abandoned": ["half"]}  # fmt: skip
    with reput.open_store(str(path)) as store:
        rows = store.transactions(everything=True)
        states = {key: reported.get(state, state) for key, state in done["transactions"].items()}
        assert {row.unique_key: row.state for row in rows} == states
        assert all(row.topic and row.topic.startswith("Live") for row in rows)
        assert not rows.notes
        asked = {row.unique_key for row in rows if row.state == "pending" and row.checks}
        wanted = {key for key, state in done["transactions"].items() if state == "asked"}
        assert asked == (wanted if there else set())
        for key, state in states.items():
            for scan in (False, True):
                steps = store.trace(key, scan=scan)
                assert [step.event for step in steps if step.group is None] == lives[state]
                assert steps[0].state == state
        timers = {row.unique_key: row.state for row in store.delayed(everything=True)}
        if there:
            assert timers == done["timers"]


def given_back(path: Path) -> tuple[Counter[str], set[str]]:
    """By UNIQ_KEY how often a timer was delivered, and those that will be delivered again."""
    with reput.open_store(str(path)) as store:
        rows = store.delayed(everything=True)
        times = Counter(step.unique_key or "" for topic in ("Live0", "Live1", "Live2")
            for step in store.messages(topic, scan=True))  # fmt: skip
        again = {row.unique_key or "" for row in rows if row.state == "delivered, will be again"}
        return Counter({row.unique_key or "": times[row.unique_key or ""] for row in rows}), again
