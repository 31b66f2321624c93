"""Logs of real DLedger groups: what is derived from them is what their brokers derived."""

import re
from pathlib import Path

import pytest

from reput.jobs.opening.plan import make_plan
from reput.jobs.rebuild import REFUSE, TRUNCATE, rebuild
from reput.store_format import layouts
from reput.store_format.discover.committed import committed
from reput.store_format.discover.purpose import LOOK
from reput.store_format.discover.store import discover, store_at
from reput.store_format.faults import DamageFound, StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.layouts import DLEDGER_AT
from reput.store_format.log import groups
from reput.store_format.log.reader import LogReader
from reput.store_format.log.rules import NO_HEADS, record_rules
from reput.store_format.log.segments import find_segments
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import Settings, settings_from
from tests.format_pages import FIELD_ROW, LINE, fields, text_of
from tests.in_process import Session, as_text, run
from tests.memory_storage import MemoryStorage
from tests.rocketmq.judge import difference
from tests.store_format.log import dledger_stores
from tests.store_format.log.epoch_files import file_of

LOCAL = LocalStorage()


@pytest.mark.parametrize("name", dledger_stores.NAMES)
@pytest.mark.parametrize("split_bytes", [None, 5000])
def test_a_rebuild_is_what_its_broker_derived(name: str, split_bytes: int | None, tmp_path) -> None:
    from reput.jobs.pipeline.pipeline import Cut

    store, about = dledger_stores.unpack(name, tmp_path / "store")
    options = {"rocketmq": about["rocketmq"], "settings": as_text(about["sizes"])}
    summary = run(
        str(store), str(tmp_path / "out"), Session(), on_damage=REFUSE, cut=Cut(split_bytes),
        **options,
    )  # fmt: skip
    if name in dledger_stores.AS_DERIVED:
        assert difference(tmp_path / "out", store) is None
        assert [w for w in summary.warnings if "readUnCommitted" not in w] == []
    else:  # a leader gave a message the queueOffset of one that it lacked
        assert difference(tmp_path / "out", store / "expect") is None
        assert any("below the next position" in each for each in summary.in_no_queue)


@pytest.mark.parametrize("name", dledger_stores.NAMES)
def test_every_acknowledged_message_is_read_at_its_offset(name: str, tmp_path: Path) -> None:
    store, about = dledger_stores.unpack(name, tmp_path)
    segments = dledger_stores.segments_of(store, about)
    rules = record_rules(profile("5.3.3"), groups.heads_from(segments))
    agreed = committed(at := Folder(LOCAL, str(store)), segments, at)
    assert agreed is not None
    with LogReader(LOCAL, segments, rules) as log:
        found = {(r.topic, r.queue_id, r.queue_offset, r.physical_offset)
                 for r in log.records(log.start)}  # fmt: skip
        for topic, queue, offset, _, message_id in about["sent"]:
            place = int(message_id[-16:], 16)
            if place >= agreed.end:
                assert name == "killed"  # its group went on without it
                continue
            record = log.record_at(place)
            assert record.physical_offset == place
            if record.topic == topic:  # not a delayed one, which is in another queue
                assert (topic, queue, offset, place) in found


def test_a_switched_store_has_both_shapes_and_its_configuration_says_which_member_is_meant(
    tmp_path,
) -> None:
    store, about = dledger_stores.unpack("mixed", tmp_path)
    segments = dledger_stores.segments_of(store, about)
    assert segments[0].start < groups.heads_from(segments) <= segments[-1].start
    assert [each.has_heads for each in segments] == sorted(each.has_heads for each in segments)
    group = next(store.glob("dledger-*"))
    other = store / "dledger-n7" / "data"
    other.mkdir(parents=True)
    first = min((group / "data").iterdir())
    (other / first.name).write_bytes(first.read_bytes())
    at = store_at(str(store))
    with pytest.raises(StoreError, match="--set dLegerSelfId="):
        discover(at, LOOK)
    own = group.name.removeprefix("dledger-")
    (store / "broker.conf").write_text(f"dLegerSelfId={own}\n")
    found = discover(at, LOOK)
    assert f"{group}/data" in found.log_folders
    assert f"{other}" not in found.log_folders
    plan = make_plan(at, found, LOOK)
    assert [each.path for each in plan.segments][-1].startswith(f"{group}/data/")


def test_a_plain_store_has_no_heads(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020}").write_bytes(bytes(1024))
    # a controller's log is no log of messages: it begins beside the commitlog
    data = tmp_path / "dledger-n0" / "data"
    data.mkdir(parents=True)
    (data / f"{0:020}").write_bytes(bytes(1024))
    assert groups.log_folders(Folder(LOCAL, str(tmp_path)), Settings()) == [f"{tmp_path}/commitlog"]
    assert groups.heads_from(find_segments(LOCAL, [f"{tmp_path}/commitlog"], 1024)) == NO_HEADS


WRONG = {"magic": (DLEDGER_AT.magic, 4, 7), "pos": (DLEDGER_AT.pos, 8, 5),
         "index": (DLEDGER_AT.index, 8, 999), "term": (DLEDGER_AT.term, 8, 0),
         "size/bodyLength": (DLEDGER_AT.bodyLength, 4, 77)}  # fmt: skip


@pytest.mark.parametrize("field", WRONG)
@pytest.mark.parametrize("split_bytes", [None, 2000])
def test_a_wrong_head_is_told_by_file_offset_and_field(field, split_bytes, tmp_path) -> None:
    from reput.jobs.pipeline.pipeline import Cut

    store, about = dledger_stores.unpack("failed_over", tmp_path / "store")
    path, at, _ = dledger_stores.heads(store, about)[45]
    offset, size, value = WRONG[field]
    dledger_stores.change(path, at + offset, value.to_bytes(size, "big"))
    with pytest.raises(DamageFound) as found:
        run(
            str(store), str(tmp_path / "out"), Session(), on_damage=REFUSE, cut=Cut(split_bytes),
            rocketmq="5.3.3", settings=as_text(about["sizes"]),
        )  # fmt: skip
    assert f"{path}: offset {at} " in str(found.value)
    assert field in str(found.value)
    assert not (tmp_path / "out").exists()


def test_truncate_ends_the_log_where_a_head_is_wrong(tmp_path: Path) -> None:
    store, about = dledger_stores.unpack("failed_over", tmp_path / "store")
    path, at, head = dledger_stores.heads(store, about)[45]
    dledger_stores.change(path, at + DLEDGER_AT.index, bytes(8))
    summary = rebuild(
        Session(), str(store), str(tmp_path / "out"), rocketmq="5.3.3", on_damage=TRUNCATE,
        settings=as_text(about["sizes"]),
    )  # fmt: skip
    assert summary.log_end == head["pos"]


@pytest.mark.parametrize("name", ["another group's", "a lower term"])
def test_another_segment_is_told_at_its_first_entry(name: str, tmp_path: Path) -> None:
    """All entries of a segment are another group's: each by itself is sound."""
    store, about = dledger_stores.unpack("failed_over", tmp_path / "store")
    found = dledger_stores.heads(store, about)
    last = found[-1][0]
    for path, at, head in found:
        if path == last:
            field = "index" if name == "another group's" else "term"
            value = int(head["index"]) + 5000 if field == "index" else 0
            dledger_stores.change(path, at + getattr(DLEDGER_AT, field), value.to_bytes(8, "big"))
    with pytest.raises(DamageFound, match=rf"{last}: offset 0 .*: {field} "):
        run(
            str(store), str(tmp_path / "out"), Session(), on_damage=REFUSE, rocketmq="5.3.3",
            settings=as_text(about["sizes"]),
        )  # fmt: skip


def test_folders_of_the_brokers_machine_alone_are_told_with_what_is_here(tmp_path: Path) -> None:
    """Else "no segments: the log is empty", of a store that has eight."""
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(b"x")
    elsewhere = settings_from({"storePathCommitLog": "/nowhere/commitlog,/nowhere/b"})
    with pytest.raises(StoreError, match=r"/nowhere/commitlog: no such folder; .*has 1 segment: "):
        groups.log_folders(Folder(LOCAL, str(tmp_path)), elsewhere)
    (tmp_path / "b").mkdir()  # one of several: a disk that was not used yet
    both = settings_from({"storePathCommitLog": f"/nowhere/commitlog,{tmp_path}/b"})
    found = groups.log_folders(Folder(LOCAL, str(tmp_path)), both)
    assert found == ["/nowhere/commitlog", f"{tmp_path}/b"]


# --- The epoch file as RocketMQ's CheckpointFile writes it, and where a slave cuts by it.
def test_entries_are_epoch_and_start_and_the_backup_is_read_where_the_file_is_not_whole() -> None:
    assert groups.parse_epochs(file_of("1-0", "2-4096", "7-9000")) == (
        groups.Epoch(1, 0), groups.Epoch(2, 4096), groups.Epoch(7, 9000),
    )  # fmt: skip
    storage = MemoryStorage(
        {"s/epochFileCheckpoint": b"1\n", "s/epochFileCheckpoint.bak": file_of("3-5")}
    )
    assert groups.read_epochs(Folder(storage, "s")) == (groups.Epoch(3, 5),)  # type: ignore[arg-type]
    del storage.files["s/epochFileCheckpoint.bak"]
    with pytest.raises(groups.BadEpochs, match="s/epochFileCheckpoint: has 1 lines"):
        groups.read_epochs(Folder(storage, "s"))  # type: ignore[arg-type]
    del storage.files["s/epochFileCheckpoint"]
    storage.files["s/other"] = b""
    assert groups.read_epochs(Folder(storage, "s")) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("raw", "field"), [
    (b"", "lines"), (b"1\n", "lines"), (b"x\n1\n1-0\n", "count"), (b"1\nx\n1-0\n", "CRC-32"),
    (file_of("1-0").replace(b"1-0", b"1-9"), "CRC-32"), (file_of("1-0") + b"2-5\n", "count"),
    (file_of("1:0"), "entry"), (file_of("1-"), "entry"), (file_of("1-\xb2"), "entry"),
])  # fmt: skip
def test_what_is_no_epoch_file_is_refused_by_its_field(raw: bytes, field: str) -> None:
    with pytest.raises(groups.BadEpochs, match=field):
        groups.parse_epochs(raw)


@pytest.mark.parametrize(("ours", "theirs", "point"), [
    (["1-0"], ["1-0"], 800),  # the shorter log's end
    (["1-0", "2-500"], ["1-0"], 500), (["1-0", "2-500"], ["1-0", "2-600"], 500),
    (["1-0", "3-700"], ["1-0", "2-600"], 600), (["4-0"], ["1-0"], -1), ([], ["1-0"], -1),
])  # fmt: skip
def test_a_slave_cuts_where_the_last_common_epoch_ends(ours, theirs, point) -> None:
    both = [groups.parse_epochs(file_of(*entries)) for entries in (ours, theirs)]
    assert groups.consistent_point(both[0], 1000, both[1], 800) == point


# --- The examples of docs/formats/dledger.md are bytes of a real store, and its tables the
# layouts.
EXAMPLES = re.findall(r"^```dledger (\S+)\n((?:.*\n)*?)```$", text_of("dledger"), re.MULTILINE)


def test_the_examples_are_what_the_store_holds_and_the_tables_of_fields_the_layouts(
    tmp_path,
) -> None:
    store, _ = dledger_stores.unpack("clean", tmp_path)
    assert len(EXAMPLES) == 2
    for path, lines in EXAMPLES:
        data = (store / path).read_bytes()
        for line in lines.splitlines():
            match = LINE.fullmatch(line)
            assert match, line
            offset, raw = int(match[1], 16), bytes.fromhex(match[2])
            assert data[offset : offset + len(raw)] == raw, line
            value = re.split(r" {2,}", match[3])[1]
            if value.isdigit():
                assert int.from_bytes(raw, "big", signed=True) == int(value), line
    rows = [FIELD_ROW.fullmatch(line) for line in text_of("dledger").splitlines()]
    found = [(int(row[1]), int(row[2]), row[3]) for row in rows if row]
    wanted = (layouts.DLEDGER_HEAD, layouts.DLEDGER_INDEX_UNIT)
    assert found == [field for layout in wanted for field in fields(layout)]
