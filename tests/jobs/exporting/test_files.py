"""What an export says: for people, as JSON, and what its manifest keeps."""

import json
from collections import Counter
from typing import Any

import pytest

from reput.jobs.exporting.files import (
    Chosen,
    ComparedExport,
    Exported,
    chosen_of,
    export_manifest,
    looked_through,
    redaction,
)
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.release.settings import SettingError
from reput.udfs.table.columns import SCHEMA
from reput.udfs.table.export import MessageSums
from reput.udfs.table.redaction import Redaction
from tests.memory_storage import MemoryStorage


def exported(messages: int = 2500, kind: str = "parquet", **more: Any) -> Exported:
    sums = MessageSums(messages, 1, 2, 3)
    return Exported("/store", "/out", kind, "5.3.3", 4096, 123_456, {"bodies": True}, sums, **more)


def files(*lengths: int) -> list[dict[str, Any]]:
    return [{"path": f"{n}", "length": each} for n, each in enumerate(lengths)]


def test_people_are_told_in_four_lines() -> None:
    assert exported(files=files(1000, 234), seconds=1.25).text().splitlines() == [
        "exported /store -> /out", "  log       4,096 to 123,456",
        "  messages  2,500 in 2 files, 1,234 bytes", "  time      1.2 s",
    ]  # fmt: skip
    assert "  messages  1 in 1 file, 5 bytes\n" in exported(1, files=files(5)).text()


def test_the_files_of_a_table_are_not_counted() -> None:
    assert "  messages  2,500\n" in exported(kind="delta", files=files(5)).text()


@pytest.mark.parametrize(("system", "kind", "line"), [
    (0, "parquet", None),
    (1, "parquet", "  system    1 message of system topics left out: --system-topics"),
    (None, "delta", "  system    not counted of system topics left out: --system-topics"),
    (2, "rocketmq", "  system    2 messages of system topics left out: `reput convert` takes them"),
])  # fmt: skip
def test_messages_of_system_topics_that_were_left_out_are_told(system, kind: str, line) -> None:
    said = exported(system=system, kind=kind).text().splitlines()[4:]
    assert said == ([] if line is None else [line])


def test_of_what_was_left_out_twenty_places_are_shown_and_all_warnings() -> None:
    notes = [f"note {n}" for n in range(25)]
    lines = exported(left_out=1234, notes=notes, warnings=["w1", "w2"]).text().splitlines()[4:]
    assert lines[0] == "  left out  at 1,234 places:"
    assert lines[1:21] == [f"    note {n}" for n in range(20)]
    assert lines[21:] == ["  warning   w1", "  warning   w2"]
    assert "left out" not in exported(notes=notes).text()


def test_a_manifest_keeps_nothing_that_differs_from_run_to_run() -> None:
    one = exported(files=files(5), cleaned=["/old"], seconds=1.0).manifest()
    other = exported(files=files(5), seconds=2.0).manifest()
    assert one == other
    assert one["format"].startswith("reput-export-")
    assert not one.keys() & {"seconds", "output", "cleaned"}
    assert (one["log_end"], one["files"], one["sums"]["messages"]) == (123_456, files(5), 2500)


def test_json_has_the_number_of_messages_too() -> None:
    whole = exported(cleaned=["/old"]).as_json()
    assert (whole["messages"], whole["output"], whole["cleaned"]) == (2500, "/out", ["/old"])


def test_a_comparison_is_the_same_only_without_a_difference() -> None:
    same = ComparedExport("/store", "/out", 1, [])
    assert (same.same, same.as_json()["same"]) == (True, True)
    assert same.text() == "/out: 1 message, as the log of /store has them"
    other = ComparedExport("/store", "/out", 1, ["a", "b"])
    assert (other.same, other.as_json()["same"]) == (False, False)
    assert other.text() == "/out: differs from the log of /store\n  a\n  b"


# --- What an export chooses, as its manifest keeps it, and the manifest of an export.
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


@pytest.mark.parametrize(("files", "why"), [
    ({}, "set: is not an export: it has no manifest.json"), ({"set": b""}, "set: is not an export"),
    ({"set/manifest.json": b'{"format": "reput-manifest-1"}'}, "is not a manifest of a set"),
    ({"set/manifest.json": b'{"format": "reput-export-1", "files": ["index/1"]}'},
     "names a file outside the set"),
])  # fmt: skip
def test_another_folder_is_no_export(files: dict[str, bytes], why: str) -> None:
    with pytest.raises(StoreError, match=why):
        export_manifest(Folder(MemoryStorage(files), "set"))


# --- `--redact`: its words, and what is done where a redacted value stands elsewhere too.
WORDS = "expected body, body:hash or property:NAME"


@pytest.mark.parametrize(("words", "body", "names"), [
    (["body"], "body", set()), (["body", "body"], "body", set()),
    (["body:hash", "property:A"], "body:hash", {"A"}),
    (["property:A", "property:A", "property:b:c", "property: "], None, {"A", "b:c", " "}),
])  # fmt: skip
def test_bodies_or_properties_by_name(words: list[str], body: str | None, names: set[str]) -> None:
    made = redaction(words)
    assert made is not None
    assert (made.body, set(made.properties)) == (body, names)


def test_without_words_nothing_is_taken_out() -> None:
    assert redaction([]) is None


@pytest.mark.parametrize(
    "words", [["body", "body:hash"], ["body:hash", "body"], ["property:"], ["Body"], ["body:md5"],
              [""]],
)  # fmt: skip
def test_other_words_are_refused(words: list[str]) -> None:
    with pytest.raises(SettingError, match=f"^--redact {words[-1]}: {WORDS}$"):
        redaction(words)


class Log:
    """What a log's messages have. values: of redacted properties; left: where else they stand."""

    def __init__(self, values: dict[bytes, int], left: dict[bytes, int] | None = None) -> None:
        self.values, self.left = Counter(values), Counter(left or {})
        self.looks = 0

    def __call__(self, redacted: Redaction) -> Counter[bytes]:
        self.looks += 1
        return self.left if redacted.repeats.texts else self.values


PHONE = Redaction(None, frozenset({"phone"}))


def test_of_bodies_alone_no_value_is_looked_for() -> None:
    log, warnings = Log({b"+49 170 123": 1}), list[str]()
    only_body = Redaction("body")
    assert looked_through(only_body, log, {"the options": "x"}, False, warnings) is only_body
    assert (log.looks, warnings) == (0, [])


def test_values_of_fewer_than_four_bytes_are_counted_and_not_looked_for() -> None:
    log, warnings = Log({b"123": 7, b"": 1, b"1234": 1}), list[str]()
    found = looked_through(PHONE, log, {}, False, warnings)
    assert found.repeats.texts == {b"1234"}
    assert warnings == ["2 redacted values have fewer than 4 bytes: not looked for"]
    log, warnings = Log({b"123": 7}, {b"topic": 3}), []
    assert not looked_through(PHONE, log, {"the options": "123"}, False, warnings).repeats.texts
    assert (log.looks, len(warnings)) == (1, 1)


@pytest.mark.parametrize(("left", "texts", "said"), [
    ({b"topic": 1234}, {}, "topic (1,234 messages) too: --keep-repeats leaves all of it"),
    (
        {b"storeHost": 1, b"body": 2}, {},
        "body (2 messages), storeHost (1 message) too: "
        "--redact body removes bodies, --keep-repeats leaves all of it",
    ),
    (
        {}, {"config/topics.json": "nothing", "the options": "T || 12345678"},
        "the options too: --keep-repeats leaves all of it",
    ),
])  # fmt: skip
def test_a_value_that_cannot_be_taken_out_is_refused_or_kept_with_a_warning(
    left: dict[bytes, int], texts: dict[str, str], said: str
) -> None:
    log, warnings = Log({b"12345678": 1}, left), list[str]()
    with pytest.raises(SettingError) as refused:
        looked_through(PHONE, log, texts, False, warnings)
    assert str(refused.value) == f"--redact: what is redacted stands in {said}"
    assert looked_through(PHONE, log, texts, True, warnings).repeats.texts == {b"12345678"}
    begin = str(refused.value).partition(" too: ")[0]
    assert warnings == [f"{begin} too, and stays"]


def test_where_no_value_is_repeated_nothing_is_said() -> None:
    warnings: list[str] = []
    texts = {"the options": "x12345678", "topics": ""}  # a part of another word is no repeat
    found = looked_through(PHONE, Log({b"12345678": 1}), texts, False, warnings)
    assert (found.body, found.properties) == (PHONE.body, PHONE.properties)
    assert (list(found.repeats.texts), warnings) == ([b"12345678"], [])
