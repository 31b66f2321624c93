"""The pages of docs/formats, and fields of layouts."""

import re
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent.parent / "docs" / "formats"
FIELD_ROW = re.compile(r"\| (\d+) \| i(8|16|32|64) \| (\w+) \|.*\|")


def text_of(page: str) -> str:
    return (FOLDER / f"{page}.md").read_text(encoding="utf-8")


def fields(layout: np.dtype[Any]) -> list[tuple[int, int, str]]:
    """(offset, bits, name) of each field."""
    assert layout.fields is not None
    return [(offset, 8 * kind.itemsize, name) for name, (kind, offset, *_) in layout.fields.items()]
