"""docs/formats cannot rot: its examples, numbers, tables and names are those of the stores."""

import re
from itertools import pairwise

import numpy as np
import pytest

from reput.store_format import layouts, names
from reput.store_format.faults import REASONS
from reput.store_format.release import profiles
from reput.store_format.state_table import FILES
from tests import format_pages, golden_stores

PAGES = ("batchconsumequeue", "checkpoint", "commitlog", "consumequeue", "indexfile", "names",
         "state")  # fmt: skip


def test_every_page_of_a_structure_is_decoded_here() -> None:
    about_all = {"README", "remoting", "replication", "repository", "rocksdb", "dledger"}
    about_all |= set(format_pages.QUEUE_LOGS)
    # these too are decoded: tests/remoting, tests/broker/wire/test_replication.py,
    # tests/store_format/rocksdb/test_rows.py, tests/store_format/files/test_queue_logs.py,
    # test_runs.py there, tests/store_format/log/test_groups.py
    assert {path.stem for path in format_pages.FOLDER.glob("*.md")} - about_all == set(PAGES)


def blocks() -> list[format_pages.Block]:
    found = []
    for page in PAGES:
        for info, body in format_pages.HEX_BLOCK.findall(format_pages.text_of(page)):
            store, path = info.split(" ", 1)
            found.append(format_pages.Block(page, store, path, body.splitlines()))
    return found


@pytest.mark.parametrize("block", blocks(), ids=lambda b: f"{b.page}-{b.path}")
def test_an_example_is_what_the_store_holds(block: format_pages.Block) -> None:
    data = (golden_stores.unpack(block.store).root / block.path).read_bytes()
    for line in block.lines:
        match = format_pages.LINE.fullmatch(line)
        assert match, line
        offset, raw = int(match[1], 16), bytes.fromhex(match[2])
        assert data[offset : offset + len(raw)] == raw, line
    end = None
    for part in format_pages.parts(block):
        assert end is None or part.offset >= end, f"{part.name} is out of order"
        end = part.offset + len(part.raw)
        if part.value is not None:
            assert int.from_bytes(part.raw, "big", signed=True) == part.value, part.name


LAYOUTS = {
    "commitlog": [layouts.RECORD_HEAD, layouts.RECORD_MIDDLE, layouts.BLANK],
    "consumequeue": [layouts.QUEUE_ENTRY], "batchconsumequeue": [layouts.BATCH_QUEUE_ENTRY],
    "indexfile": [
        layouts.INDEX_HEADER, np.dtype([("newest", layouts.INDEX_SLOT)]), layouts.INDEX_ENTRY
    ],
    "checkpoint": [layouts.CHECKPOINT], "state": [layouts.TIMER_UNIT, layouts.TIMER_CHECK],
}  # fmt: skip


@pytest.mark.parametrize("page", LAYOUTS)
def test_the_tables_of_fields_are_the_layouts(page: str) -> None:
    rows = [
        format_pages.FIELD_ROW.fullmatch(line) for line in format_pages.text_of(page).splitlines()
    ]
    found = [(int(row[1]), int(row[2]), row[3]) for row in rows if row]
    assert found == [field for layout in LAYOUTS[page] for field in format_pages.fields(layout)]


@pytest.mark.parametrize("page", LAYOUTS)
def test_an_example_shows_every_field_of_its_layouts(page: str) -> None:
    shown = [(part.name, len(part.raw) * 8) for b in blocks() if b.page == page
             for part in format_pages.parts(b)]  # fmt: skip
    for layout in LAYOUTS[page]:
        for _, bits, name in format_pages.fields(layout):
            assert (name, bits) in shown or name == "newest", name


def test_the_examples_fields_stand_where_the_layout_has_them() -> None:
    # the first part of each kind of example is its layout's first field
    starts = {"physicalOffset", "beginTimestamp", "keyHash", "totalSize", "physicMsgTimestamp"}
    by_first = {
        format_pages.fields(layout)[0][2]: layout for some in LAYOUTS.values() for layout in some
    }
    by_page = {
        page: {format_pages.fields(lay)[0][2]: lay for lay in some}
        for page, some in LAYOUTS.items()
    }
    checked = 0
    assert starts <= set(by_first)
    for block in blocks():
        start, layout = 0, None
        for part in format_pages.parts(block):
            if part.name in by_page.get(block.page, {}):
                start, layout = part.offset, by_page[block.page][part.name]
            if layout is not None and layout.fields and part.name in layout.fields:
                assert part.offset - start == layout.fields[part.name][1], (block.path, part.name)
                checked += 1
    assert checked > 40


def test_each_file_of_the_state_table_is_on_its_page() -> None:
    for row in FILES:
        named = [part for part in row.path.split("/") if "<" not in part]
        assert f"{(named or [row.path])[-1].partition('<')[0]}" in format_pages.text_of(row.page), (
            row.path
        )


def test_the_record_is_explained_to_its_last_byte() -> None:
    block = next(b for b in blocks() if b.page == "commitlog")
    found = format_pages.parts(block)
    for before, after in pairwise(found):
        assert before.offset + len(before.raw) == after.offset
    assert found[0].value == found[-1].offset  # totalSize leads to the next record
    text = b"".join(part.raw for part in found if part.name in ("name", "value"))
    assert text.decode().split("\x02")[:3] == ["KEYS\x01BB5 订单12 🚀go46",
        "UNIQ_KEY\x01ZL9HAECFNB5BYSL9W3JDA1T28HXAXEDV", "TAGS\x01x"]  # fmt: skip


def test_the_table_of_faults_is_the_list_of_reasons() -> None:
    rows = re.findall(r"^\| ([A-Z_]+) \| (\S+) \|", format_pages.text_of("commitlog"), re.MULTILINE)
    assert [(name, field.strip("`")) for name, field in rows] == [(fault.name, field) for fault,
        (field, _) in REASONS.items()]  # fmt: skip


def test_examples_of_names() -> None:
    rows = re.findall(r"^\| (\d+) \| `(\d+)` \|$", format_pages.text_of("names"), re.MULTILINE)
    assert len(rows) == 5
    for number, name in rows:
        make = names.index_name if len(name) == 17 else names.segment_name
        assert make(int(number)) == name


@pytest.mark.parametrize("page", PAGES)
def test_every_release_that_changes_something_is_one(page: str) -> None:
    table = format_pages.text_of(page).partition("## Releases")[2]
    named = re.findall(r"^\| (\d+\.\d+\.\d+) \|", table, re.MULTILINE)
    assert named
    assert named == sorted(named)
    assert set(named) <= {release.removesuffix("-incubating") for release in profiles.RELEASES}


def test_every_change_of_a_profile_is_on_some_page() -> None:
    releases = [release.removesuffix("-incubating") for release in profiles.RELEASES]
    named = {
        release for page in (*PAGES, "remoting")
        for release in re.findall(
            r"^\| (\d+\.\d+\.\d+) \|", format_pages.text_of(page), re.MULTILINE)
    }  # fmt: skip
    for rule, values in profiles.differences():
        changed = releases[[value != values[0] for value in values].index(True)]
        assert changed in named, rule


def test_the_index_lists_every_page() -> None:
    listed = set(re.findall(r"\]\((\w+\.md)\)", format_pages.text_of("README")))
    assert listed == {path.name for path in format_pages.FOLDER.glob("*.md")} - {"README.md"}
