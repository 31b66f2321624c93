"""What an export chooses, as its manifest keeps it, and the manifest of an export."""

import json
from typing import Any

import pytest

from reput.jobs.exporting.files import Chosen, chosen_of, export_manifest
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.udfs.table.columns import SCHEMA
from tests.memory_storage import MemoryStorage

ALL = Chosen(("T", "U"), "a || b", "a > 1", 5, 9, False, True, "skip", False, ("body",),
             (("T", 0, 7),))  # fmt: skip


@pytest.mark.parametrize("chosen", [Chosen(), ALL, Chosen(redact=("a", "b"))])
def test_a_manifest_gives_back_what_was_chosen(chosen: Chosen) -> None:
    said = json.loads(json.dumps(chosen.as_json()))
    assert Chosen.from_json(said) == chosen


def test_options_that_older_exports_lack_are_told_only_where_they_choose() -> None:
    assert Chosen(system_topics=False).as_json()["system_topics"] is False
    absent: dict[str, Any] = dict.fromkeys(("tags", "sql", "since", "until"))
    old = {"topics": [], **absent, "bodies": True, "decompress": False, "on_damage": "fail"}
    assert Chosen.from_json(old) == Chosen()
    assert Chosen().as_json() == old


@pytest.mark.parametrize(
    "chosen", [None, 7, {}, {"topics": 7}, {"topics": [], "unknown": 1}, {"topics": None}]
)
def test_a_manifest_that_does_not_say_it_is_refused(chosen: Any) -> None:
    with pytest.raises(StoreError, match=r"^set/manifest\.json: does not say what was chosen"):
        chosen_of({"chosen": chosen}, "set")


@pytest.mark.parametrize(
    ("chosen", "system"),
    [(Chosen(), True), (Chosen(system_topics=False), False),
     (Chosen(("SCHEDULE_TOPIC_XXXX",), system_topics=False), True)],
)  # fmt: skip
def test_a_broker_s_topic_is_taken_where_it_is_named(chosen: Chosen, system: bool) -> None:
    assert chosen.with_system is system


def test_times_are_from_since_up_to_but_without_until() -> None:
    choice = Chosen(since=5, until=9).choice
    assert (choice.since, choice.until) == (5, 9)
    assert Chosen().choice.topics is None
    assert (Chosen().choice.until, Chosen(until=0).choice.until) == (None, 0)


def test_without_bodies_their_column_is_left_out_and_their_crcs_stay() -> None:
    assert Chosen().columns == SCHEMA
    names = Chosen(bodies=False).columns.names
    assert set(SCHEMA.names) - set(names) == {"body"}
    assert "bodyCRC" in names
    crcs = [Chosen(decompress=True).other_crcs, Chosen(redact=("a",)).other_crcs]
    assert (crcs, Chosen(bodies=False).other_crcs) == ([True, True], False)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "set: is not an export: it has no manifest.json"),
        ({"set": b""}, "set: is not an export"),
        ({"set/manifest.json": b'{"format": "reput-manifest-1"}'}, "is not a manifest of a set"),
        ({"set/manifest.json": b'{"format": "reput-export-1", "files": ["index/1"]}'},
         "names a file outside the set"),
    ],
)  # fmt: skip
def test_another_folder_is_no_export(files: dict[str, bytes], why: str) -> None:
    with pytest.raises(StoreError, match=why):
        export_manifest(Folder(MemoryStorage(files), "set"))
