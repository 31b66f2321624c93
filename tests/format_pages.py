"""The pages of docs/formats, and fields of layouts."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FOLDER = Path(__file__).parent.parent / "docs" / "formats"
FIELD_ROW = re.compile(r"\| (\d+) \| i(8|16|32|64) \| (\w+) \|.*\|")
QUEUE_LOGS = ("compaction", "tiered")
HEX_BLOCK = re.compile(r"^```hex (.*)\n((?:.*\n)*?)```$", re.MULTILINE)
LINE = re.compile(r"([0-9a-f]{8})  ((?:[0-9a-f]{2})+)(?: {2,}(\S.*))?")


def text_of(page: str) -> str:
    return (FOLDER / f"{page}.md").read_text(encoding="utf-8")


def fields(layout: np.dtype[Any]) -> list[tuple[int, int, str]]:
    """(offset, bits, name) of each field."""
    assert layout.fields is not None
    return [(offset, 8 * kind.itemsize, name) for name, (kind, offset, *_) in layout.fields.items()]


class Block(NamedTuple):
    page: str
    store: str
    path: str
    lines: list[str]


class Part(NamedTuple):
    """One field of an example: its bytes in the page, and the words beside them."""

    offset: int
    raw: bytes
    name: str
    value: int | None


def parts(block: Block) -> list[Part]:
    found: list[Part] = []
    for line in block.lines:
        match = LINE.fullmatch(line)
        assert match, f"{block.page}: not an offset, bytes and words: {line!r}"
        raw = bytes.fromhex(match[2])
        if match[3] is None:  # goes on with the field before
            found[-1] = found[-1]._replace(raw=found[-1].raw + raw)
            continue
        words = re.split(r" {2,}", match[3])
        is_number = len(words) > 1 and re.fullmatch(r"-?\d+", words[1])
        found.append(Part(int(match[1], 16), raw, words[0], int(words[1]) if is_number else None))
    return found
