"""`reput offsets`: what is asked, what is changed, kept and put back, and what is refused."""

import io
import json
import os
from contextlib import closing, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.cli import main
from reput.jobs.console.voice import safe
from reput.jobs.offsets import offsets
from reput.store_format.discover.config import live_offsets
from reput.store_format.faults import StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.notes import Notes
from reput.store_format.rocksdb.database import copy_changed, open_database
from tests.built import T0, Built
from tests.logs import properties
from tests.store_format.rocksdb.stores import quick, unpack
from tests.trees import unlocked

CONFIG = {
    "dataVersion": {"counter": 3},
    "offsetTable": {"T@g": {"0": 4, "1": 2}, "%RETRY%g@g": {"0": 1}, "T@h": {"0": 9}},
}
JSON = "config/consumerOffset.json"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    built = Built().put("T", 0, count=9).put("T", 1, count=3).derive()
    return built.file(JSON, json.dumps(CONFIG)).write(tmp_path / "store")


def said(*words: object, code: int = 0) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        assert main([str(word) for word in words]) == code
    return out.getvalue()


def there(store: Path) -> dict[tuple[str, str, int], int]:
    rows = map(json.loads, said("offsets", "dump", store).splitlines())
    return {(row["group"], row["topic"], row["queue"]): row["offset"] for row in rows}


START = {("g", "T", 0): 4, ("g", "T", 1): 2, ("g", "%RETRY%g", 0): 1, ("h", "T", 0): 9}
# words -> what changes, and the exit code
CASES: dict[str, tuple[list[str], dict[tuple[str, str, int], int], int]] = {
    "to the end": (["set", "--group", "g", "--to-end"], {("g", "T", 0): 9, ("g", "T", 1): 3}, 0),
    "one queue": (["set", "--group", "g", "--topic", "T", "--queue", "1", "--to-offset", "0"],
                  {("g", "T", 1): 0}, 0),
    "to a time": (["set", "--topic", "T", "--to-time", str(T0 + 5500)],
                  {("g", "T", 0): 6, ("g", "T", 1): 0, ("h", "T", 0): 6, ("h", "T", 1): 0}, 0),
    "after all": (["set", "--group", "g", "--to-time", "now"],
                  {("g", "T", 0): 9, ("g", "T", 1): 3}, 0),
    "past the end": (["set", "--group", "h", "--queue", "1", "--to-offset", "1000"],
                     {("h", "T", 1): 3}, 1),
    "a new group": (["set", "--group", "n", "--topic", "T", "--queue", "0", "--to-offset", "5"],
                    {("n", "T", 0): 5}, 0),
    "a clone": (["clone", "--group", "g", "--to-group", "h"], {("h", "T", 0): 4, ("h", "T", 1): 2},
                0)}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_moved(name: str, store: Path) -> None:
    words, moved, code = CASES[name]
    first, *rest = words
    before, raw = unlocked(store), (store / JSON).read_bytes()
    told = said("offsets", first, store, *rest, "--dry-run", code=1)
    assert told.startswith(f"would move {len(moved)} offset")
    assert unlocked(store) == before
    report = json.loads(said("offsets", first, store, *rest, "--yes", "--json", code=code))
    assert {(m["group"], m["topic"], m["queue"]): m["offset"] for m in report["moves"]} == moved
    assert there(store) == START | moved
    assert (store / f"{JSON}.bak").read_bytes() == raw
    told = said("offsets", first, store, *rest, "--yes")
    assert told.startswith("nothing to move")
    said("offsets", "set", store, "--undo", "--yes")
    assert (store / JSON).read_bytes() == raw
    assert there(store) == START
    told = said("offsets", "set", store, "--undo", "--yes")
    assert "there is nothing to undo" in told
    assert not (store / "reput-offsets").exists()


GIVEN = [word for name, value in Built().given().items() for word in ("--set", f"{name}={value}")]


def test_past_the_end_is_told_where_nothing_moves(store: Path, capsys, monkeypatch) -> None:
    words = ("--group", "h", "--queue", "0", "--to-offset", "1000", "--yes")
    told = said("offsets", "set", store, *words, code=1)
    assert told.startswith("nothing to move")
    assert "1 offset stays at its queue's end" in told
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["offsets", "set", str(store), "--to-offset", "0"]) == 2
    asked = f"would move 4 offsets in config/consumerOffset.json of {store}; nothing was done"
    assert asked in capsys.readouterr().err


def test_a_dump_brings_back_what_it_has(store: Path, tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    dump.write_text(said("offsets", "dump", store, "--group", "g", "--topic", "T"))
    said("offsets", "set", store, "--to-end", "--yes")
    assert there(store)["g", "T", 0] == 9
    said("offsets", "set", store, "--from-dump", dump, "--yes")
    assert there(store) == START | {("h", "T", 1): 3}
    with dump.open("a") as file:  # of another store, in part
        file.write(json.dumps({"group": "g", "topic": "Other", "queue": 0, "offset": 5}) + "\n")
    told = said("offsets", "set", store, "--from-dump", dump, "--yes", code=1)
    assert "g  Other/0  none -> none: the store has no such queue" in told
    dump.write_text(dump.read_text().splitlines()[-1])
    with pytest.raises(StoreError, match="has none of 1 queues: nothing can be set"):
        offsets(str(store), action="set", from_dump=str(dump))


def test_a_map_is_followed_once(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "map"
    rows = [("T", 0, 0, 0), ("T", 0, 2, 1), ("T", 0, 9, 8)]
    names = ("topic", "queue", "old", "new")
    file.write_text("".join(json.dumps(dict(zip(names, r, strict=True))) + "\n" for r in rows))
    told = said("offsets", "map", store, "--map", file, "--yes")
    moved = {("g", "T", 0): 3, ("h", "T", 0): 8}
    assert there(store) == START | moved
    assert json.loads(said("check", store, "--json", *GIVEN))["sound"]
    assert "  stay      2 offsets that the map or the traces do not name" in told
    told = said("offsets", "map", store, "--map", file, "--yes")
    assert "the same change was made before" in told
    assert there(store) == START | moved
    dump = tmp_path / "dump"
    dump.write_text(json.dumps({"group": "n", "topic": "T", "queue": 0, "offset": 2}) + "\n")
    said("offsets", "map", store, "--map", file, "--from-dump", dump, "--yes")
    assert there(store) == START | moved | {("n", "T", 0): 1}


def test_groups_go_on_in_an_export_and_in_a_store_that_was_appended_to(tmp_path: Path) -> None:
    built = Built()
    for number in range(12):
        built.put("T", 0, properties=properties(("TAGS", "B" if number % 4 == 0 else "A")))
    built.derive().file(JSON, json.dumps({"offsetTable": {"T@g": {"0": 7}, "T@h": {"0": 12}}}))
    store, dump, file = built.write(tmp_path / "s"), tmp_path / "dump", tmp_path / "map"
    dump.write_text(said("offsets", "dump", store))
    made, other, release = tmp_path / "made", tmp_path / "other", ("--rocketmq", "5.3.3")
    said("export", store, "--output", made, "--as", "rocketmq", "--tags", "A", *release, *GIVEN)
    said("append", other, "--from-store", store, "--offset-map", file, *release)
    given = ["--from-store", store, "--since", str(T0 + 4000), "--offset-map", f"{file}2", *release]
    said("append", other, *given, "--yes")
    for place, by, offsets_of in (
        (made, made / "reput-offset-map.jsonl", {("g", "T", 0): 5, ("h", "T", 0): 9}),
        (other, file, {("g", "T", 0): 7, ("h", "T", 0): 12}),
        (other, f"{file}2", {("g", "T", 0): 15, ("h", "T", 0): 20}),
    ):
        said("offsets", "map", place, "--map", by, "--from-dump", dump, "--yes")
        assert there(place) == offsets_of
    lines = (made / "reput-offset-map.jsonl").read_text().splitlines()
    assert [(json.loads(line)["old"], json.loads(line)["new"]) for line in lines] == [
        (1, 0), (5, 3), (9, 6), (12, 9)]  # fmt: skip


def context(kind: str, *fields: object) -> bytes:
    return "\x01".join((kind, *map(str, fields))).encode() + b"\x02"


def test_traces_tell_what_was_consumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last success up to a moment: by the context's time, or where it has none the trace's."""
    built = Built()
    for number in range(6):
        built.put("T", number % 2, properties=properties(("UNIQ_KEY", f"M{number}")))

    def consumed(number: int, group: str, success: bool, time: int | None) -> bytes:
        request = f"r{number}{group}"
        before = context("SubBefore", T0, "", group, request, f"M{number}", 0, "k")
        later = () if time is None else (0, time, group)
        ended = str(success).lower()
        return before + context("SubAfter", request, f"M{number}", 3, ended, "k", *later)

    bodies = [consumed(0, "g", True, T0 + 10) + consumed(4, "g", True, T0 + 20_000),
              consumed(2, "g", False, T0 + 30) + consumed(1, "g", True, None),
              b"SubAfter\x01broken\x02" + consumed(3, "h", True, T0 + 40)]  # fmt: skip
    for body in bodies:
        built.put("RMQ_SYS_TRACE_TOPIC", body=body)
    built.derive().file(JSON, json.dumps({"offsetTable": {"T@g": {"0": 0}, "T@h": {"1": 1}}}))
    store = built.write(tmp_path / "store")
    start = {("g", "T", 0): 0, ("h", "T", 1): 1}
    for moment, moved in (
        (T0 + 100, {("g", "T", 0): 1, ("h", "T", 1): 2}),  # M1's trace was stored at T0 + 7000
        (T0 + 7000, {("g", "T", 0): 1, ("g", "T", 1): 1, ("h", "T", 1): 2}),
        (T0 + 20_000, {("g", "T", 0): 3, ("g", "T", 1): 1, ("h", "T", 1): 2}),
    ):
        said("offsets", "set", store, "--as-of-trace", str(moment), "--yes")
        assert there(store) == start | moved, moment
        said("offsets", "set", store, "--undo", "--yes")
    told = said("offsets", "set", store, "--as-of-trace", "0", "--yes")
    assert told.splitlines()[1] == "  stay      4 offsets that the map or the traces do not name"
    assert there(store) == start


def test_an_undo_that_was_killed_and_a_change_that_never_came(store: Path) -> None:
    """What is kept is then what a broker reads, or would have read."""
    said("offsets", "set", store, "--to-end", "--yes")
    files = DiskFiles(str(store))
    files.exchange("reput-offsets/consumerOffset.json", JSON)
    told = said("offsets", "set", store, "--undo", "--yes")
    assert told.startswith("nothing to move")
    assert there(store) == START
    assert not (store / "reput-offsets").exists()


def test_an_undo_tells_that_groups_went_on(store: Path) -> None:
    said("offsets", "set", store, "--to-end", "--yes")
    whole = json.loads((store / JSON).read_text().replace("0:", '"0":').replace("1:", '"1":'))
    whole["offsetTable"]["T@g"]["0"] = 8
    (store / JSON).write_text(json.dumps(whole))
    assert "moved since the change" in said("offsets", "set", store, "--undo", "--dry-run", code=1)


@pytest.mark.parametrize("name", quick("alone_5.5.0", "v2_5.4.0"))
def test_offsets_in_rocksdb(name: str, tmp_path: Path) -> None:
    store, _ = unpack(name, tmp_path)
    before = there(store)
    words = ("--group", "reading", "--topic", "Live0", "--queue", "1", "--to-offset", "3")
    said("offsets", "set", store, *words, "--yes")
    moved = before | {("reading", "Live0", 1): 3}
    assert there(store) == moved
    assert json.loads(said("check", store, "--json"))["sound"]
    said("offsets", "clone", store, "--group", "reading", "--to-group", "b", "--yes")
    assert there(store) == moved | {("b", *key[1:]): at for key, at in moved.items()}
    said("offsets", "set", store, "--undo", "--yes")
    assert there(store) == moved


@pytest.mark.parametrize("name", ["v2_5.4.0", "single_5.5.0"])
def test_an_undo_leaves_what_else_a_rocksdb_has(name: str, tmp_path: Path) -> None:
    """Its topics and groups, that a broker may have made since; a new group's offsets go."""
    store, _ = unpack(name, tmp_path)
    before = there(store)
    said("offsets", "clone", store, "--group", "reading", "--to-group", "b", "--yes")
    files, folder = DiskFiles(str(store)), Folder(LocalStorage(), str(store))
    live = live_offsets(folder, Notes(), {})
    path = f"{store}/config/{live.name}"
    with closing(open_database(Folder(LocalStorage(), path))) as database:
        files.add_folder("config/made")
        copy_changed(database, f"{store}/config/made", {"default": {b"a broker's": b"row"}})
    files.exchange("config/made", f"config/{live.name}")
    said("offsets", "set", store, "--undo", "--yes")
    assert there(store) == before
    with closing(open_database(Folder(LocalStorage(), path))) as database:
        assert dict(database.rows("default"))[b"a broker's"] == b"row"


def test_a_name_that_no_broker_gave_is_kept_and_shown_on_one_line(store: Path) -> None:
    name = "\ud800\n\x1b"
    (store / JSON).write_text(json.dumps({"offsetTable": {f"T@{name}": {"0": 4}}}))
    told = said("offsets", "set", store, "--to-end", "--yes")
    assert told.splitlines()[1] == f"  {safe(name)}  T/0  4 -> 9"
    assert there(store) == {(name, "T", 0): 9, (name, "T", 1): 3}


def test_light_queues_have_a_file_and_a_table_of_their_own(store: Path) -> None:
    light = store / "config/lmqConsumerOffset.json"
    whole = {"lmqOffsetTable": {"%LMQ%a@%LMQ%a": 1}, "offsetTable": {"T@g": {"0": 1}}}
    light.write_text(json.dumps(whole))
    key = ("%LMQ%a", "%LMQ%a", 0)
    assert there(store) == {key: 1, ("g", "T", 0): 1}
    said("offsets", "set", store, "--group", "g", "--to-end", "--yes")
    assert there(store) == {key: 1, ("g", "T", 0): 9, ("g", "T", 1): 3}
    assert (store / JSON).read_text() == json.dumps(CONFIG)
    words = ("--group", "g", "--to-offset", "1", "--set", "enableLmq=false", "--yes")
    said("offsets", "set", store, *words)
    assert there(store)["g", "T", 0] == 9
    light.unlink()
    assert there(store)["g", "T", 0] == 1


def test_the_bak_counts_where_the_file_is_missing(store: Path) -> None:
    (store / JSON).rename(store / f"{JSON}.bak")
    said("offsets", "set", store, "--group", "g", "--to-end", "--yes")
    assert there(store) == START | {("g", "T", 0): 9, ("g", "T", 1): 3}
    said("offsets", "set", store, "--undo", "--yes")
    assert there(store) == START
    for each in (JSON, f"{JSON}.bak"):
        (store / each).unlink()
    said("offsets", "set", store, "--group", "g", "--topic", "T", "--to-end", "--yes")
    assert there(store) == {("g", "T", 0): 9, ("g", "T", 1): 3}


def _link(path: Path) -> None:
    path.rename(path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


def _flipped(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[raw.index(b":")] ^= 1
    path.write_bytes(raw)


# what is done to the store -> what is said
HOSTILE: dict[str, tuple[Any, str]] = {
    "a link": (lambda store: _link(store / JSON), "is a link"),
    "a folder that is a link": (lambda store: _link(store / "config"), "is a link"),
    "flipped JSON": (lambda store: _flipped(store / JSON), "is not JSON"),
    "another kind": (lambda store: (store / JSON).write_text("[1]"), "is not JSON with"),
    "a folder in its place": (lambda store: ((store / JSON).unlink(), (store / JSON).mkdir()),
                              "is not a regular file"),
    "what is kept is a link": (lambda store: (store / "reput-offsets").symlink_to(store / "config"),
                               "is a link"),
    "what is kept is a file": (lambda store: (store / "reput-offsets").write_text("mine"),
                               "is not a folder"), "what is staged is a link": (
    lambda store: (store / ".reput-offsets").symlink_to(store / "config"), "is a link"),
    "a note of another kind": (
    lambda store: ((store / "reput-offsets").mkdir(),
                   (store / "reput-offsets/note.json").write_text('{"name": "../../x"}')),
    "does not name a file or RocksDB of offsets"),
    "a crash": (lambda store: (store / "abort").write_text(""), "use `reput recover` first"),
    "no store": (lambda store: (store / "commitlog").rename(store / "other"), "no"),
    "a bak that is a link": (lambda store: (store / f"{JSON}.bak").symlink_to(store / JSON),
                             "is a link")}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_refused_before_anything_changes(name: str, store: Path) -> None:
    spoil, why = HOSTILE[name]
    spoil(store)
    before = unlocked(store)
    with pytest.raises((StoreError, OSError), match=why):
        offsets(str(store), action="set", groups=["g"], to_end=True)
    assert unlocked(store) == before


def test_a_running_broker_is_left_alone(store: Path) -> None:
    dump = said("offsets", "dump", store)
    release = DiskFiles(str(store)).lock("lock")
    try:
        with pytest.raises(StoreError, match="lock"):
            offsets(str(store), action="set", to_end=True)
        assert said("offsets", "dump", store) == dump
    finally:
        release()


def test_another_answer_than_yes(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = unlocked(store)
    assert main(["offsets", "set", str(store), "--to-end"]) == 2
    assert unlocked(store) == before

    def meanwhile(_: str) -> None:
        (store / JSON).write_text('{"offsetTable": {}}')

    with pytest.raises(StoreError, match="changed meanwhile"):
        offsets(str(store), action="set", to_end=True, confirm=meanwhile)
    assert there(store) == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user: wants root")
def test_files_get_the_owner_of_the_store(store: Path) -> None:
    for path in (store, *store.rglob("*")):
        os.chown(path, 12345, 12345)
    said("offsets", "set", store, "--to-end", "--yes")
    assert {os.stat(path).st_uid for path in store.rglob("*") if path.name != "lock"} == {12345}


WRONG: dict[str, list[str]] = {
    "set takes one of --to-time, --to-offset, --to-end, --from-dump, --as-of-trace": ["set"],
    "set takes one of": ["set", "--to-end", "--to-offset", "3"],
    "clone takes --to-group": ["clone", "--group", "g"],
    "clone takes one --group": ["clone", "--to-group", "g"],
    "clone does not take --to-end": ["clone", "--group", "g", "--to-group", "h", "--to-end"],
    "map takes --map\n": ["map"], "map does not take --to-group": ["map", "--to-group", "x"],
    "dump does not take --to-end": ["dump", "--to-end"],
    "dump does not take --undo": ["dump", "--undo"],
    "undo does not take --to-end": ["set", "--undo", "--to-end"],
    "no group or topic has such a name": ["set", "--to-end", "--group", "a@b"],
    "/nowhere: No such file": ["set", "--from-dump", "/nowhere"],
    "has no such offset: nothing can be set": ["set", "--group", "nobody", "--to-end"]}  # fmt: skip


@pytest.mark.parametrize("why", WRONG)
def test_wrong_words(why: str, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, *rest = WRONG[why]
    assert main(["offsets", first, str(store), *rest, "--yes"]) == 2
    err = capsys.readouterr().err
    assert why in err
    assert err.count("\n") == 1
