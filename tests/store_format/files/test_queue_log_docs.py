"""The examples of docs/formats/compaction.md and tiered.md are bytes of the archive here."""

from pathlib import Path

import pytest

from reput.store_format import layouts
from tests.format_pages import FIELD_ROW, HEX_BLOCK, LINE, QUEUE_LOGS, Block, fields, parts, text_of
from tests.store_format.files.queue_log_archive import unpack


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


def test_the_examples_show_every_field_where_it_stands() -> None:
    for page, starts in (
        ("compaction", ((layouts.BATCH_QUEUE_ENTRY, 0),)),
        ("tiered", (
            (layouts.TIERED_INDEX_HEADER, 0), (layouts.TIERED_INDEX_SLOT, 28),
            (layouts.TIERED_INDEX_ITEM, 28 + 7 * 8),
        )),
    ):  # fmt: skip
        ((path, body),) = HEX_BLOCK.findall(text_of(page))
        shown = [(p.offset, p.name) for p in parts(Block(page, "", path, body.splitlines()))]
        wanted = [(start + at, name) for layout, start in starts for at, _, name in fields(layout)]
        assert shown == wanted


def test_the_tables_of_fields_are_the_layouts() -> None:
    rows = [FIELD_ROW.fullmatch(line) for line in text_of("tiered").splitlines()]
    found = [(int(row[1]), int(row[2]), row[3]) for row in rows if row]
    assert found == [
        *fields(layouts.TIERED_INDEX_HEADER), *fields(layouts.TIERED_INDEX_SLOT),
        *fields(layouts.TIERED_INDEX_ITEM),
    ]  # fmt: skip
