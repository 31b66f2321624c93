"""What an export says: for people, as JSON, and what its manifest keeps."""

import json
from collections import Counter
from typing import Any

import pytest

from reput.jobs.exporting.files import (
    Chosen,
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


def test_people_are_told_in_four_lines_and_what_was_left_out() -> None:
    assert exported(files=files(1000, 234), seconds=1.25).text().splitlines() == [
        "exported /store -> /out", "  log       4,096 to 123,456",
        "  messages  2,500 in 2 files, 1,234 bytes", "  time      1.2 s",
    ]  # fmt: skip
    assert "  messages  1 in 1 file, 5 bytes\n" in exported(1, files=files(5)).text()
    assert "  messages  2,500\n" in exported(kind="delta", files=files(5)).text()  # a table
    uncounted = exported(system=None, kind="delta").text().splitlines()[4:]
    assert uncounted == ["  system    not counted of system topics left out: --system-topics"]
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
    whole = exported(cleaned=["/old"]).as_json()
    assert (whole["messages"], whole["output"], whole["cleaned"]) == (2500, "/out", ["/old"])


# --- What an export chooses, as its manifest keeps it, and the manifest of an export.
ALL = Chosen(("T", "U"), "a || b", "a > 1", 5, 9, False, True, "skip", False, ("body",),
             (("T", 0, 7),))  # fmt: skip


def test_a_manifest_gives_back_what_was_chosen_or_is_refused() -> None:
    for chosen in (Chosen(), ALL, Chosen(redact=("a", "b"))):
        assert Chosen.from_json(json.loads(json.dumps(chosen.as_json()))) == chosen
    assert Chosen(system_topics=False).as_json()["system_topics"] is False
    absent: dict[str, Any] = dict.fromkeys(("tags", "sql", "since", "until"))
    old = {"topics": [], **absent, "bodies": True, "decompress": False, "on_damage": "fail"}
    assert Chosen.from_json(old) == Chosen()  # what older exports lack is told where it chooses
    assert Chosen().as_json() == old
    wrong: list[Any] = [None, 7, {}, {"topics": 7}, {"topics": [], "unknown": 1}, {"topics": None}]
    for said in wrong:
        with pytest.raises(StoreError, match=r"^set/manifest\.json: does not say what was chosen"):
            chosen_of({"chosen": said}, "set")


def test_what_options_choose_topics_of_brokers_times_and_columns() -> None:
    assert Chosen().with_system
    assert not Chosen(system_topics=False).with_system
    assert Chosen(("SCHEDULE_TOPIC_XXXX",), system_topics=False).with_system  # it is named
    choice = Chosen(since=5, until=9).choice
    assert (choice.since, choice.until) == (5, 9)
    assert Chosen().choice.topics is None
    assert (Chosen().choice.until, Chosen(until=0).choice.until) == (None, 0)
    assert Chosen().columns == SCHEMA
    names = Chosen(bodies=False).columns.names  # the bodies' CRCs stay
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


def test_bodies_or_properties_are_taken_out_by_name() -> None:
    assert redaction([]) is None
    for words, body, names in [
        (["body"], "body", set()), (["body", "body"], "body", set()),
        (["body:hash", "property:A"], "body:hash", {"A"}),
        (["property:A", "property:A", "property:b:c", "property: "], None, {"A", "b:c", " "}),
    ]:  # fmt: skip
        made = redaction(words)
        assert made is not None
        assert (made.body, set(made.properties)) == (body, names)
    for words in (["body", "body:hash"], ["body:hash", "body"], ["property:"], ["Body"],
                  ["body:md5"], [""]):  # fmt: skip
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


def test_of_bodies_alone_or_unrepeated_values_nothing_is_said() -> None:
    log, warnings = Log({b"+49 170 123": 1}), list[str]()
    only_body = Redaction("body")
    assert looked_through(only_body, log, {"the options": "x"}, False, warnings) is only_body
    assert (log.looks, warnings) == (0, [])
    warnings: list[str] = []
    texts = {"the options": "x12345678", "topics": ""}  # a part of another word is no repeat
    found = looked_through(PHONE, Log({b"12345678": 1}), texts, False, warnings)
    assert (found.body, found.properties) == (PHONE.body, PHONE.properties)
    assert (list(found.repeats.texts), warnings) == ([b"12345678"], [])


def test_values_of_fewer_than_four_bytes_are_counted_and_not_looked_for() -> None:
    log, warnings = Log({b"123": 7, b"": 1, b"1234": 1}), list[str]()
    found = looked_through(PHONE, log, {}, False, warnings)
    assert found.repeats.texts == {b"1234"}
    assert warnings == ["2 redacted values have fewer than 4 bytes: not looked for"]
    log, warnings = Log({b"123": 7}, {b"topic": 3}), []
    assert not looked_through(PHONE, log, {"the options": "123"}, False, warnings).repeats.texts
    assert (log.looks, len(warnings)) == (1, 1)
