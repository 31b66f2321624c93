"""Logs of single queues that RocketMQ wrote, read as stores: by the queue files beside them."""

import json
from pathlib import Path
from typing import Any

import pytest

from reput.jobs import cli
from reput.jobs.comparing.compare import verify_queue_log
from reput.jobs.judging.report import Report
from reput.jobs.opening.questions import open_store
from reput.store_format import layouts
from reput.store_format.discover.store import store_at
from reput.store_format.faults import StoreError
from reput.store_format.files.by_url import storage_for
from reput.store_format.names import tiered_name, tiered_start
from tests.format_pages import FIELD_ROW, HEX_BLOCK, LINE, QUEUE_LOGS, Block, fields, parts, text_of
from tests.store_format.files.queue_log_archive import (
    PLAIN,
    TOPIC,
    compacted_entries,
    compacted_url,
    copy,
    root,
    tiered_entries,
    tiered_url,
    unpack,
)
from tests.trees import flip

__all__ = ["copy", "root"]  # fixtures


def read(url: str) -> list[tuple[int, int, int]]:
    """Where each message is; nothing was skipped on the way."""
    with open_store(url) as store:
        messages = store.messages()
        found = [(each.physical_offset, each.record.size, each.queue_offset) for each in messages]
        assert messages.notes == []
        return found  # fmt: skip


def said(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> str:
    assert cli.main(list(words)) == code
    out, errors = capsys.readouterr()
    return out if code == 0 else errors


def test_both_are_what_their_queue_files_have(root: Path) -> None:
    wanted = compacted_entries(root)
    names = [path.name for path in (root / f"compaction/compactionLog/{TOPIC}/0").iterdir()]
    assert max(map(int, names)) > len(names) * 4600  # what was compacted away left holes
    assert len(wanted) > 50
    assert read(compacted_url(root)) == wanted
    wanted = tiered_entries(root)
    assert len(list((root / f"tiered/judge/{PLAIN}/0/COMMIT_LOG").iterdir())) > 3
    assert read(tiered_url(root)) == wanted
    for url in (compacted_url(root), tiered_url(root)):
        report = looked(url)
        assert report.same
        assert report.files > 2
    storage: Any = storage_for(compacted_url(root))
    with pytest.raises(StoreError, match="only read"):
        storage.create(f"{compacted_url(root)}/commitlog/x")
    assert tiered_name(0) == "cfcd208400000000000000000000"
    assert tiered_start("cfcd208400000000000000000000") == 0
    assert tiered_start("cfcd208500000000000000000000") is None
    assert tiered_start("00000000000000000000") is None


def test_both_are_asked_and_exported_as_stores(root: Path, tmp_path, capsys) -> None:
    for url, topic, entries in ((compacted_url(root), TOPIC, compacted_entries(root)),
        (tiered_url(root), PLAIN, tiered_entries(root))):  # fmt: skip
        place, _, offset = entries[len(entries) // 2]
        asked = ("query", url, "--topic", topic, "--queue", "0", "--offset", str(offset))
        row = json.loads(said(capsys, 0, *asked, "--limit", "1", "--json"))
        assert (row["physicalOffset"], row["topic"]) == (place, topic)
        to = tmp_path / topic
        said(capsys, 0, "export", url, "--output", str(to), "--as", "jsonl")
        lines = [json.loads(line) for path in sorted(to.glob("data/*.jsonl"))
                 for line in path.read_text().splitlines()]  # fmt: skip
        assert [line["physicalOffset"] for line in lines] == [at for at, _, _ in entries]


def looked(url: str) -> Report:
    return verify_queue_log(store_at(url))


def test_records_that_rocketmq_forgot_while_it_compacted_are_found(root: Path) -> None:
    """Queue 1 has eight records without an entry: no consumer is given them (5.3.3)."""
    (found,) = looked(compacted_url(root, 1)).differences
    assert (found.field, found.there, found.wanted) == ("entry 0 physicalOffset", 176005, 174800)
    entries = compacted_entries(root, 1)
    assert not any((root / f"compaction/compactionLog/{TOPIC}/1/{4600:020d}").read_bytes()[-1500:])
    forgotten = [row for row in read(compacted_url(root, 1)) if row not in entries]
    assert [queue_offset for _, _, queue_offset in forgotten] == list(range(722, 730))


def test_a_changed_entry_is_named_and_a_spoilt_record_breaks_a_tiered_log_off(copy: Path) -> None:
    path = copy / f"compaction/compactionCq/{TOPIC}/0/{0:020d}"
    flip(path, 46 + 35)
    (found,) = looked(compacted_url(copy)).differences
    assert (found.path, found.offset, found.field) == (str(path), 46, "entry 1 baseOffset")
    path.unlink()
    assert [each.field for each in looked(compacted_url(copy)).differences][-1] == (
        "the file is missing"
    )
    path = copy / f"tiered/judge/{PLAIN}/0/CONSUME_QUEUE" / tiered_name(200)
    flip(path, 2 * 20 + 11)
    (found,) = looked(tiered_url(copy)).differences
    assert (found.path, found.offset, found.field) == (str(path), 40, "entry 2 size")
    path = copy / f"tiered/judge/{PLAIN}/0/COMMIT_LOG" / tiered_name(0)
    flip(path, 4)
    report = looked(tiered_url(copy))
    assert any("magic" in each.field and each.path.endswith(f"{0:020d}")
               for each in report.differences)  # fmt: skip
    assert not report.same


def test_a_tiered_segment_that_is_gone_is_a_hole(copy: Path, capsys) -> None:
    folder = copy / f"tiered/judge/{PLAIN}/0/COMMIT_LOG"
    second = sorted(folder.iterdir(), key=lambda path: path.name[8:])[1]
    second.unlink()
    words = ("export", tiered_url(copy), "--output", str(copy.parent / "out"), "--as", "jsonl")
    assert "a hole before it" in said(capsys, 2, *words)


@pytest.mark.parametrize("command", ["rebuild", "repair"])
def test_no_store_is_derived_from_one_queue(root: Path, tmp_path, command: str, capsys) -> None:
    words = (command, compacted_url(root), "--output", str(tmp_path / "out"))
    assert "is one queue's log" in said(capsys, 2, *words, "--rocketmq", "5.3.3")


def test_files_of_both_are_dumped(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiered = root / "tiered/judge"
    for path, kinds in (
        (root / f"compaction/compactionCq/{TOPIC}/0/{4600:020d}", {"entry", "end", "unused"}),
        (root / f"compaction/compactionLog/{TOPIC}/0/{4600:020d}", {"record", "blank"}),
        (tiered / PLAIN / "0/COMMIT_LOG" / tiered_name(0), {"record"}),
        (tiered / PLAIN / "0/CONSUME_QUEUE" / tiered_name(200), {"entry"}),
        (tiered / "rmq_sys_INDEX/0/INDEX" / tiered_name(0), {"header", "entry"}),
    ):
        rows = [
            json.loads(line) for line in said(capsys, 0, "dump", str(path), "--json").splitlines()
        ]
        found = {row["kind"] for row in rows}
        assert found <= kinds | {"zeros", "unused"}, path
        assert next(iter(kinds)) in found or len(kinds) > 1
    assert rows[0]["indexItemCount"] == len(rows) - 1
    positions = [row["slot"] for row in rows[1:]]
    assert positions == sorted(positions)  # slot by slot


# --- The examples of docs/formats/compaction.md and tiered.md are bytes of the archive here.
@pytest.mark.parametrize("page", QUEUE_LOGS)
def test_an_example_is_what_the_store_holds(page: str, tmp_path: Path) -> None:
    root = unpack(tmp_path)
    ((path, body),) = HEX_BLOCK.findall(text_of(page))
    data = (root / path).read_bytes()
    block = Block(page, "", path, body.splitlines())
    for line in block.lines:
        match = LINE.fullmatch(line)
        assert match, line
        raw = bytes.fromhex(match[2])
        assert data[int(match[1], 16) :][: len(raw)] == raw, line
    for part in parts(block):
        assert int.from_bytes(part.raw, "big", signed=True) == part.value, part.name


def test_the_examples_and_tables_show_every_field_where_it_stands() -> None:
    for page, starts in (("compaction", ((layouts.BATCH_QUEUE_ENTRY, 0),)),
        ("tiered", ((layouts.TIERED_INDEX_HEADER, 0), (layouts.TIERED_INDEX_SLOT, 28),
        (layouts.TIERED_INDEX_ITEM, 28 + 7 * 8)))):  # fmt: skip
        ((path, body),) = HEX_BLOCK.findall(text_of(page))
        shown = [(p.offset, p.name) for p in parts(Block(page, "", path, body.splitlines()))]
        wanted = [(start + at, name) for layout, start in starts for at, _, name in fields(layout)]
        assert shown == wanted
    rows = [FIELD_ROW.fullmatch(line) for line in text_of("tiered").splitlines()]
    found = [(int(row[1]), int(row[2]), row[3]) for row in rows if row]
    assert found == [*fields(layouts.TIERED_INDEX_HEADER), *fields(layouts.TIERED_INDEX_SLOT),
        *fields(layouts.TIERED_INDEX_ITEM)]  # fmt: skip
