"""The examples of docs/formats/dledger.md are bytes of a real store, and its tables the layouts."""

from __future__ import annotations

import re
from pathlib import Path

from reput.store_format import layouts
from tests.format_pages import FIELD_ROW, LINE, fields, text_of
from tests.store_format.log.dledger_stores import unpack

EXAMPLES = re.findall(r"^```dledger (\S+)\n((?:.*\n)*?)```$", text_of("dledger"), re.MULTILINE)


def test_the_examples_are_what_the_store_holds(tmp_path: Path) -> None:
    store, _ = unpack("clean", tmp_path)
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


def test_the_tables_of_fields_are_the_layouts() -> None:
    rows = [FIELD_ROW.fullmatch(line) for line in text_of("dledger").splitlines()]
    found = [(int(row[1]), int(row[2]), row[3]) for row in rows if row]
    wanted = (layouts.DLEDGER_HEAD, layouts.DLEDGER_INDEX_UNIT)
    assert found == [field for layout in wanted for field in fields(layout)]
